"""Requests, counted as they happen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric

from apiserver.endpoints.call import Call
from apiserver.endpoints.metrics.durations import Durations, family
from apiserver.registry.served_resource import ServedResource

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
    durations: Durations = field(default_factory=Durations)


class RequestMetrics:
    """watches: that are open now."""

    def __init__(self) -> None:
        self.in_flight = InFlight()
        self.watches = 0
        self._requests: dict[tuple[object, ...], _Requests] = {}
        self._watch_events: dict[ServedResource, int] = {}

    def observe(self, call: Call, seconds: float) -> None:
        """Count a request that has been answered."""
        info, resource = call.info, call.resource
        dry_run = "All" if "dryRun" in call.query else ""
        has_name, has_namespace = bool(info.name), bool(info.namespace)
        key = (info.verb, dry_run, resource, info.subresource, has_name, has_namespace, call.status)
        requests = self._requests.get(key)
        if requests is None:
            requests = self._requests[key] = _Requests(_labels(call, dry_run), str(call.status))
        requests.count += 1
        if info.verb != "watch":
            requests.durations.observe(seconds)

    def count_watch_events(self, resource: ServedResource, count: int) -> None:
        self._watch_events[resource] = self._watch_events.get(resource, 0) + count

    def families(self) -> Iterable[Metric]:
        total = CounterMetricFamily(
            "apiserver_request_total", "Requests by verb, resource and code.", labels=(*_LABELS, "code")
        )
        durations: dict[tuple[str, ...], list[Durations]] = {}
        for requests in self._requests.values():
            total.add_metric((*requests.labels, requests.code), requests.count)
            durations.setdefault(requests.labels, []).append(requests.durations)
        yield total
        yield family(
            "apiserver_request_duration_seconds",
            "How long requests took, watches left out.",
            _LABELS,
            durations,
        )
        events = CounterMetricFamily(
            "apiserver_watch_events_total", "Events sent to watches.", labels=("group", "version", "resource")
        )
        for resource, count in self._watch_events.items():
            events.add_metric((*resource.group_version, resource.resource), count)
        yield events


def _labels(call: Call, dry_run: str) -> tuple[str, ...]:
    info, resource = call.info, call.resource
    verb = _VERBS.get(info.verb, info.verb.upper())
    # What is not served has no labels: strangers could make up any number of them.
    if resource is None:
        return (verb if info.method in _METHODS else "OTHER", dry_run, "", "", "", "", "", "apiserver")
    subresource = info.subresource if info.subresource in resource.subresources else ""
    scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
    group, version = resource.group_version
    return (verb, dry_run, group, version, resource.resource, subresource, scope, "apiserver")
