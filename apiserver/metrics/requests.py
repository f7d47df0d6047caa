"""Requests, counted as they happen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from apiserver.endpoints.api_call import Call
from apiserver.metrics.duration_histograms import DurationHistogram, family
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import GroupVersion

_LABELS: Final = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")
_VERBS: Final = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


# What is served may be served otherwise later on, under the same labels.
_ResourceName: TypeAlias = tuple[GroupVersion, str]
# verb, dry_run, resource, subresource, scope, code
_Key: TypeAlias = tuple[str, str, _ResourceName | None, str, str, int]


@dataclass(slots=True)
class InFlight:
    """Requests that are being answered now. Watches do not count."""

    read_only: int = 0
    mutating: int = 0


@dataclass(slots=True)
class _Requests:
    """Those of the same labels and code."""

    labels: tuple[str, ...]
    code: str
    count: int = 0
    durations: DurationHistogram = field(default_factory=DurationHistogram)


class RequestMetrics:
    """watches: that are open now."""

    def __init__(self) -> None:
        self.in_flight = InFlight()
        self.watches = 0
        self._requests: dict[_Key, _Requests] = {}
        self._watch_events: dict[_ResourceName, int] = {}
        # Row S07: by resource and subresource, when it will be gone.
        self._removed_in: dict[tuple[_ResourceName, str], str] = {}

    def observe(self, call: Call, seconds: float) -> None:
        """Count a request that has been answered."""
        info, resource = call.info, call.resource
        dry_run = "All" if "dryRun" in call.query else ""
        verb = _VERBS.get(info.verb) or (info.method if info.method in _METHODS else "OTHER")
        # What is not served has no labels: strangers could make up any number of them.
        scope = subresource = ""
        if resource is not None:
            scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
            if info.subresource in resource.subresources:
                subresource = info.subresource
        name = (resource.group_version, resource.resource) if resource is not None else None
        key = (verb, dry_run, name, subresource, scope, call.status)
        requests = self._requests.get(key)
        if requests is None:
            (group, version), plural = name or (GroupVersion("", ""), "")
            if name is not None and resource is not None and resource.deprecation is not None:
                self._removed_in[name, subresource] = resource.deprecation.removed_in
            labels = (verb, dry_run, group, version, plural, subresource, scope, "apiserver")
            requests = self._requests[key] = _Requests(labels, str(call.status))
        requests.count += 1
        if info.verb != "watch":
            requests.durations.observe(seconds)

    def count_watch_events(self, resource: ServedResource, count: int) -> None:
        name = (resource.group_version, resource.resource)
        self._watch_events[name] = self._watch_events.get(name, 0) + count

    def families(self) -> Iterable[Metric]:
        total = CounterMetricFamily(
            "apiserver_request_total", "Requests by verb, resource and code.", labels=(*_LABELS, "code")
        )
        durations: dict[tuple[str, ...], list[DurationHistogram]] = {}
        for requests in self._requests.values():
            total.add_metric((*requests.labels, requests.code), requests.count)
            if requests.labels[0] != "WATCH":
                durations.setdefault(requests.labels, []).append(requests.durations)
        yield total
        yield family(
            "apiserver_request_duration_seconds",
            "How long requests took, watches left out.",
            _LABELS,
            durations,
        )
        yield self._deprecated()
        events = CounterMetricFamily(
            "apiserver_watch_events_total", "Events sent to watches.", labels=("group", "version", "resource")
        )
        for (group_version, plural), count in self._watch_events.items():
            events.add_metric((*group_version, plural), count)
        yield events

    def _deprecated(self) -> Metric:
        """Row S07: each deprecated API that was asked for; joins with the requests by its labels."""
        asked = {
            (*group_version, plural, subresource, removed_in)
            for ((group_version, plural), subresource), removed_in in self._removed_in.items()
        }
        metric = GaugeMetricFamily(
            "apiserver_requested_deprecated_apis",
            "Deprecated APIs that have been asked for.",
            labels=("group", "version", "resource", "subresource", "removed_release"),
        )
        for labels in sorted(asked):
            metric.add_metric(labels, 1)
        return metric
