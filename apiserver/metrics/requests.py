"""Requests and their durations, counted as they are answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from apiserver.metrics.histograms import Histogram, histogram_family
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import GroupVersion, Query

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
# Whose responses' sizes are counted.
_READS: Final = frozenset({"GET", "LIST"})
# As in kube-apiserver: from a kilobyte to a gigabyte.
_SIZE_BUCKETS: Final = tuple(10.0**power for power in range(3, 10))
_WATCH_LIST_BUCKETS: Final = (
    *(0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60),  # seconds
)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


# A resource by its name, not the ServedResource: that is replaced when a definition changes.
_ResourceName: TypeAlias = tuple[GroupVersion, str]
# verb, dry_run, resource, subresource, scope, code
_Key: TypeAlias = tuple[str, str, _ResourceName | None, str, str, int]


class RequestTarget(Protocol):
    """What a request is about, as `endpoints.request_info.RequestInfo` says it."""

    @property
    def method(self) -> str: ...
    @property
    def verb(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def subresource(self) -> str: ...


class AnsweredCall(Protocol):
    """A request and its answer, as `endpoints.api_call.ApiCall` has them."""

    @property
    def info(self) -> RequestTarget: ...
    @property
    def query(self) -> Query: ...
    @property
    def resource(self) -> ServedResource | None: ...
    @property
    def status(self) -> int: ...
    @property
    def body_bytes(self) -> int: ...


@dataclass(slots=True)
class Count:
    value: int = 0


@dataclass(frozen=True, slots=True)
class InFlight:
    """How many requests are being answered now. Watches do not count."""

    read_only: Count = field(default_factory=Count)
    mutating: Count = field(default_factory=Count)


@dataclass(slots=True)
class _Requests:
    """The requests of one set of labels and one status code."""

    labels: tuple[str, ...]
    code: str
    count: int = 0
    durations: Histogram = field(default_factory=Histogram)
    # Of the responses' bodies, as they were sent; None where they are not counted.
    sizes: Histogram | None = None


def _scope(info: RequestTarget) -> str:
    """Returns the scope of a request for a resource, as k8s.io/apiserver's CleanScope does."""
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"


class RequestMetrics:
    """Counts requests and the events of watches. watches: how many are open now."""

    def __init__(self) -> None:
        self.in_flight = InFlight()
        self.watches = 0
        self._requests: dict[_Key, _Requests] = {}
        self._watch_events: dict[_ResourceName, int] = {}
        # By the labels group, version, resource and scope.
        self._watch_lists: dict[tuple[str, ...], Histogram] = {}
        # Row S07: the release that will remove a resource or subresource, of those asked for.
        self._removed_in: dict[tuple[_ResourceName, str], str] = {}

    def observe(self, call: AnsweredCall, seconds: float) -> None:
        """Count a request that has been answered and took `seconds`."""
        info, resource = call.info, call.resource
        dry_run = "All" if "dryRun" in call.query else ""
        verb = _VERBS.get(info.verb) or (info.method if info.method in _METHODS else "OTHER")
        # What is not served has no labels: strangers could make up any number of them.
        scope = subresource = ""
        if resource is not None:
            scope = _scope(info)
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
            if verb in _READS:
                requests.sizes = Histogram(_SIZE_BUCKETS)
        requests.count += 1
        if info.verb != "watch":
            requests.durations.observe(seconds)
        if requests.sizes is not None:
            requests.sizes.observe(call.body_bytes)

    def observe_watch_list(self, call: AnsweredCall, seconds: float) -> None:
        """Count a watch whose initial events have been sent, `seconds` after the request came."""
        assert call.resource is not None
        resource = call.resource
        labels = (*resource.group_version, resource.resource, _scope(call.info))
        durations = self._watch_lists.get(labels)
        if durations is None:
            durations = self._watch_lists[labels] = Histogram(_WATCH_LIST_BUCKETS)
        durations.observe(seconds)

    def count_watch_events(self, resource: ServedResource, count: int) -> None:
        name = (resource.group_version, resource.resource)
        self._watch_events[name] = self._watch_events.get(name, 0) + count

    def families(self) -> Iterable[Metric]:
        total = CounterMetricFamily(
            "apiserver_request_total", "Requests by verb, resource and code.", labels=(*_LABELS, "code")
        )
        durations: dict[tuple[str, ...], list[Histogram]] = {}
        sizes: dict[tuple[str, ...], list[Histogram]] = {}
        for requests in self._requests.values():
            total.add_metric((*requests.labels, requests.code), requests.count)
            if requests.labels[0] != "WATCH":
                durations.setdefault(requests.labels, []).append(requests.durations)
            if requests.sizes is not None:
                verb, _, *rest = requests.labels  # without dry_run
                sizes.setdefault((verb, *rest), []).append(requests.sizes)
        yield total
        yield histogram_family(
            "apiserver_request_duration_seconds",
            "How long requests took, without watches.",
            _LABELS,
            durations,
        )
        yield histogram_family(
            "apiserver_response_sizes",
            "Bytes of the responses' bodies to reads, as they were sent.",
            tuple(label for label in _LABELS if label != "dry_run"),
            sizes,
        )
        yield histogram_family(
            "apiserver_watch_list_duration_seconds",
            "How long it took until all initial events of a watch were sent.",
            ("group", "version", "resource", "scope"),
            {labels: [durations] for labels, durations in self._watch_lists.items()},
        )
        yield self._deprecated()
        events = CounterMetricFamily(
            "apiserver_watch_events_total", "Events sent to watches.", labels=("group", "version", "resource")
        )
        for (group_version, plural), count in self._watch_events.items():
            events.add_metric((*group_version, plural), count)
        yield events

    def _deprecated(self) -> Metric:
        """Row S07: each deprecated API that was asked for is 1; its labels join with the requests'."""
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
