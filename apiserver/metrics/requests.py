"""Requests and their durations, counted as they are answered."""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias

from apiserver.metrics.histograms import BUCKETS, Histogram
from apiserver.metrics.resource_series import (
    OTHER,
    OTHER_RESOURCE,
    OTHER_VERSIONED,
    ResourceSeries,
    ServedNames,
    VersionedResource,
)
from apiserver.metrics.series import Family, counts, histogram_family, histograms, label_text, values
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import CONNECTING_SUBRESOURCES, GroupResource, GroupVersion, Query

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
_RESOURCE_LABELS: Final = ("group", "version", "resource")
_KIND_LABELS: Final = tuple(label for label in _LABELS if label != "dry_run")
_COMPONENT: Final = "apiserver"
# Paths that lead to none, and resources that are not served.
_NO_RESOURCE: Final[VersionedResource] = (GroupVersion("", ""), "")
# Of the time that requests take by themselves. Each is one of BUCKETS, too. Seconds, as in kube-apiserver.
_SLI_BUCKETS: Final = BUCKETS[2:]
# Whose responses' sizes are counted.
_READS: Final = frozenset({"GET", "LIST"})
_LOG: Final = "log"
# As in kube-apiserver: from a kilobyte to a gigabyte.
_SIZE_BUCKETS: Final = tuple(10.0**power for power in range(3, 10))
_WATCH_LIST_BUCKETS: Final = (
    *(0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60),  # seconds
)
# Of watches' events, in bytes.
_EVENT_BUCKETS: Final = tuple(1024 << power for power in range(8))
# The bodies of requests, in bytes, and the time of writes by their field validation, in seconds.
_BODY_BUCKETS: Final = tuple(50_000.0 + 100_000 * step for step in range(31))
_FIELD_VALIDATION_BUCKETS: Final = (
    *(0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
_VALIDATED: Final = frozenset({"POST", "PUT", "PATCH", "APPLY"})
_FIELD_VALIDATIONS: Final = ("", "Ignore", "Warn", "Strict", "invalid")
_DRY_RUNS: Final = ("All", "")
_DELETE_COLLECTION: Final = "delete_collection"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


# By resource, verb, subresource and scope. What is not served is _NO_RESOURCE.
_Subject: TypeAlias = tuple[VersionedResource, str, str, str]


class Ending(enum.Enum):
    """How a request has ended that was not answered as it wanted to be.

    TERMINATED: the server refused it to protect itself, or because it took too long.
    UNAVAILABLE: the extension server that has what it asks for cannot be asked.
    ABORTED: its answer had begun, and was cut off.
    """

    TERMINATED = enum.auto()
    UNAVAILABLE = enum.auto()
    ABORTED = enum.auto()


# Which component has ended a request.
_ENDED_BY: Final = {Ending.TERMINATED: _COMPONENT, Ending.UNAVAILABLE: "aggregator"}


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


class ServedCall(Protocol):
    """A request, as `endpoints.api_call.ApiCall` has it. resource: None if what it asks for is not served."""

    @property
    def info(self) -> RequestTarget: ...
    @property
    def is_apply(self) -> bool: ...
    @property
    def resource(self) -> ServedResource | None: ...


class AnsweredCall(ServedCall, Protocol):
    """A request and its answer, as `endpoints.api_call.ApiCall` has them."""

    @property
    def query(self) -> Query: ...
    @property
    def status(self) -> int: ...
    @property
    def request_bytes(self) -> int: ...
    @property
    def body_bytes(self) -> int: ...
    @property
    def waited_s(self) -> float: ...
    @property
    def ending(self) -> Ending | None: ...


@dataclass(slots=True)
class Count:
    value: int = 0


@dataclass(frozen=True, slots=True)
class InFlight:
    """How many requests are being answered now. Watches count until they have begun, if they need seats."""

    read_only: Count = field(default_factory=Count)
    mutating: Count = field(default_factory=Count)


@dataclass(slots=True)
class _Sizes:
    """The sizes of the responses' bodies, as they were sent, under one set of labels."""

    labels: str
    histogram: Histogram = field(default_factory=partial(Histogram, _SIZE_BUCKETS))


@dataclass(slots=True)
class _Kind:
    """The requests of one set of labels, whether they are dry runs or not.

    terminated: how many the server has ended, by component and status code.
    aborted: how many answers were cut off.
    long_running: how many run long that have not ended; None if none ever was one.
    """

    labels: str
    terminated: dict[tuple[str, int], int] = field(default_factory=dict)
    aborted: int = 0
    long_running: Count | None = None

    def ended(self, ending: Ending, status: int) -> None:
        if ending is Ending.ABORTED:
            self.aborted += 1
        else:
            key = (_ENDED_BY[ending], status)
            self.terminated[key] = self.terminated.get(key, 0) + 1


class _Waits:
    """What requests have waited for others. moved: how many they are more in each of BUCKETS without it."""

    __slots__ = ("moved", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.moved = [0] * (len(BUCKETS) + 1)

    def add(self, seconds: float, waited_s: float) -> None:
        """seconds: all of the time that a request has taken."""
        waited_s = min(waited_s, seconds)
        self.seconds += waited_s
        self.moved[bisect_left(BUCKETS, seconds)] -= 1
        self.moved[bisect_left(BUCKETS, seconds - waited_s)] += 1


@dataclass(slots=True)
class _Requests:
    """The requests of one set of labels.

    kind: them and those with another dry_run. sizes: None where they are not counted.
    has_own_durations: whether it is told how long they take by themselves.
    counts: by status code. waits: None until one has waited for others.
    """

    labels: str
    is_watch: bool
    has_own_durations: bool
    kind: _Kind
    sizes: _Sizes | None
    counts: dict[int, int] = field(default_factory=dict)
    durations: Histogram = field(default_factory=Histogram)
    waits: _Waits | None = None

    def own_durations(self) -> Histogram:
        """Returns how long the requests have taken by themselves.

        It is made of what is counted anyhow: most requests wait for nobody.
        """
        found = Histogram(_SLI_BUCKETS)
        found.sum, buckets = self.durations.sum, self.durations.buckets
        if self.waits is not None:
            found.sum -= self.waits.seconds
            buckets = [sum(pair) for pair in zip(buckets, self.waits.moved, strict=True)]
        first = len(BUCKETS) - len(_SLI_BUCKETS)
        found.buckets = [sum(buckets[: first + 1]), *buckets[first + 1 :]]
        return found


def _subject(call: ServedCall) -> _Subject:
    """Returns what a request is about, as the labels tell it."""
    info, resource = call.info, call.resource
    verb = _VERBS.get(info.verb) or (info.method if info.method in _METHODS else OTHER)
    if resource is None:
        # What is not served has no labels: strangers could make up any number of them.
        return _NO_RESOURCE, verb, "", ""
    if verb == "PATCH" and call.is_apply:
        verb = "APPLY"
    subresource = ""
    if info.subresource in resource.subresources:
        subresource = info.subresource
        if subresource in CONNECTING_SUBRESOURCES:
            verb = "CONNECT"
    return (resource.group_version, resource.resource), verb, subresource, _scope(info)


def _scope(info: RequestTarget) -> str:
    """Returns the scope of a request for a resource, as k8s.io/apiserver's CleanScope does."""
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"


class RequestMetrics:
    """Counts requests and the events of watches."""

    def __init__(self, names: ServedNames | None = None) -> None:
        self.in_flight = InFlight()
        names = names or ServedNames()
        series = partial(ResourceSeries, names, names.of_version, OTHER_VERSIONED)
        # By resource, verb, dry_run, subresource and scope. What is not served is _NO_RESOURCE.
        self._requests: ResourceSeries[VersionedResource, _Requests] = series(self._new_requests)
        # Without dry_run.
        self._kinds: ResourceSeries[VersionedResource, _Kind] = series(_new_kind)
        self._sizes: ResourceSeries[VersionedResource, _Sizes] = series(_new_sizes)
        # By resource alone.
        self._event_sizes: ResourceSeries[VersionedResource, Histogram] = series(
            lambda _resource: Histogram(_EVENT_BUCKETS)
        )
        # The events that were last sent to a watch, and to how many others after it.
        self._last_events: list[bytes] = []
        self._last_sizes = Histogram(_EVENT_BUCKETS)
        self._repeats = 0
        # By resource and scope.
        self._watch_lists: ResourceSeries[VersionedResource, Histogram] = series(
            lambda _resource, _scope: Histogram(_WATCH_LIST_BUCKETS)
        )
        # By resource, whichever version it is, and verb.
        self._bodies: ResourceSeries[GroupResource, Histogram] = ResourceSeries(
            names, names.of_resource, OTHER_RESOURCE, lambda _resource, _verb: Histogram(_BODY_BUCKETS)
        )
        self._field_validations = {each: Histogram(_FIELD_VALIDATION_BUCKETS) for each in _FIELD_VALIDATIONS}
        # Row S07: the release that will remove a resource or subresource, of those asked for.
        self._removed_in: dict[tuple[VersionedResource, str], str] = {}

    def observe(self, call: AnsweredCall, seconds: float) -> None:
        """Count a request that has been answered and took `seconds`."""
        resource = call.resource
        name, verb, subresource, scope = _subject(call)
        dry_run = _dry_run(call.query) if "dryRun" in call.query else ""
        requests = self._requests.by_key.get((name, verb, dry_run, subresource, scope))
        if requests is None:
            requests = self._requests.begin(name, verb, dry_run, subresource, scope)
            deprecation = None if resource is None else resource.deprecation_of(subresource)
            if deprecation is not None:
                self._removed_in[name, subresource] = deprecation.removed_in
        status = call.status
        requests.counts[status] = requests.counts.get(status, 0) + 1
        # As in kube-apiserver what is refused at the door has taken no time: overload would look like speed.
        is_refused = status == HTTPStatus.TOO_MANY_REQUESTS and call.ending is Ending.TERMINATED
        if not (requests.is_watch or is_refused):
            requests.durations.observe(seconds)
            if call.waited_s and requests.has_own_durations:
                if requests.waits is None:
                    requests.waits = _Waits()
                requests.waits.add(seconds, call.waited_s)
        if call.ending is not None:
            requests.kind.ended(call.ending, status)
        if requests.sizes is not None:
            requests.sizes.histogram.observe(call.body_bytes)
        if resource is not None:
            if verb in _VALIDATED:
                self._field_validations[_field_validation(call.query)].observe(seconds)
            if call.request_bytes:
                self._observe_body(resource.group_resource, call.info.verb, call.request_bytes)

    def _observe_body(self, resource: GroupResource, verb: str, size: int) -> None:
        if verb == "deletecollection":
            verb = _DELETE_COLLECTION
        bodies = self._bodies.by_key.get((resource, verb)) or self._bodies.begin(resource, verb)
        bodies.observe(size)

    @contextmanager
    def long_running(self, call: ServedCall) -> Iterator[None]:
        """Count a request that lasts as long as its client likes: a watch, or a relayed connection."""
        subject = _subject(call)
        kind = self._kinds.by_key.get(subject) or self._kinds.begin(*subject)
        if kind.long_running is None:
            kind.long_running = Count()
        open_ones = kind.long_running
        open_ones.value += 1
        try:
            yield
        finally:
            open_ones.value -= 1

    def observe_watch_list(self, call: AnsweredCall, seconds: float) -> None:
        """Count a watch whose initial events have been sent, `seconds` after the request came."""
        assert call.resource is not None
        name = (call.resource.group_version, call.resource.resource)
        scope = _scope(call.info)
        durations = self._watch_lists.by_key.get((name, scope)) or self._watch_lists.begin(name, scope)
        durations.observe(seconds)

    def event_sizes(self, resource: ServedResource) -> Histogram:
        """Returns what counts the events that are sent to watches of a resource, by their bytes."""
        name = (resource.group_version, resource.resource)
        return self._event_sizes.by_key.get((name,)) or self._event_sizes.begin(name)

    def count_events(self, sizes: Histogram, events: list[bytes]) -> None:
        """Count events that are sent to a watch. sizes: of its resource. events: never changed again.

        Thousands of watches are sent the same, one watch after the other: then sizes are looked at once. For
        each watch that would take 0.1 µs for an event, of the 6 µs in which it is sent.
        """
        if events == self._last_events and sizes is self._last_sizes:
            self._repeats += 1
            return
        self._count_repeats()
        self._last_events, self._last_sizes = events, sizes
        sizes.observe_all(map(len, events))

    def _count_repeats(self) -> None:
        if self._repeats:
            self._last_sizes.observe_all(map(len, self._last_events), self._repeats)
            self._repeats = 0

    def forget(self, name: VersionedResource) -> None:
        """Drop the series of a custom resource that is served no more."""
        for series in (self._requests, self._kinds, self._sizes, self._event_sizes, self._watch_lists):
            series.forget(name)
        self._bodies.forget(GroupResource(name[0].group, name[1]))
        for known in [each for each in self._removed_in if each[0] == name]:
            del self._removed_in[known]

    def families(self) -> Iterable[Family]:
        in_flight = self.in_flight
        yield values(
            "apiserver_current_inflight_requests",
            "gauge",
            "Requests that are being answered now, without open watches and forwarded ones.",
            ("request_kind",),
            [(("mutating",), in_flight.mutating.value), (("readOnly",), in_flight.read_only.value)],
        )
        kinds = list(self._kinds.by_key.items())
        long_running = "apiserver_longrunning_requests"
        yield Family(
            long_running,
            "gauge",
            "Watches that are open, and connections that are relayed, by verb and resource.",
            # Few ever have one. The others have an empty piece, as in `counts`.
            (
                ""
                if (open_ones := each.long_running) is None
                else f"{long_running}{{{each.labels}}} {open_ones.value}\n"
                for _, each in kinds
            ),
        )
        requests = list(self._requests.by_key.values())
        total = "apiserver_request_total"
        yield Family(
            total,
            "counter",
            "Requests by verb, resource and code.",
            (
                f'{total}{{{each.labels},code="{code}"}} {count}\n'
                for each in requests
                for code, count in list(each.counts.items())
            ),
        )
        yield histograms(
            "apiserver_request_duration_seconds",
            "How long requests took, without watches.",
            ((each.labels, None if each.is_watch else each.durations) for each in requests),
        )
        yield histograms(
            "apiserver_request_sli_duration_seconds",
            "How long requests took without what they waited for webhooks and for their turn; no watches, no "
            "dry runs.",
            (
                (each.kind.labels, each.own_durations() if each.has_own_durations else None)
                for each in requests
            ),
        )
        yield _terminations(kinds)
        yield counts(
            "apiserver_request_aborts_total",
            "Requests whose answers were cut off after they had begun.",
            (*_RESOURCE_LABELS, "verb", "subresource", "scope"),
            (
                ((*group_version, plural, *rest), each.aborted)
                for ((group_version, plural), *rest), each in kinds
            ),
        )
        yield histograms(
            "apiserver_response_sizes",
            "Bytes of the responses' bodies to reads, as they were sent.",
            ((each.labels, each.histogram) for each in list(self._sizes.by_key.values())),
        )
        yield histogram_family(
            "apiserver_request_body_size_bytes",
            "Bytes of the requests' bodies.",
            ("group", "resource", "verb"),
            (((*resource, verb), bodies) for (resource, verb), bodies in list(self._bodies.by_key.items())),
        )
        yield histogram_family(
            "field_validation_request_duration_seconds",
            "How long writes took, by their field validation.",
            ("field_validation",),
            [((each,), durations) for each, durations in self._field_validations.items()],
        )
        yield histogram_family(
            "apiserver_watch_list_duration_seconds",
            "How long it took until all initial events of a watch were sent.",
            (*_RESOURCE_LABELS, "scope"),
            (
                ((*group_version, plural, scope), durations)
                for ((group_version, plural), scope), durations in list(self._watch_lists.by_key.items())
            ),
        )
        yield self._deprecated()
        self._count_repeats()
        event_sizes = [
            ((*group_version, plural), sizes)
            for ((group_version, plural),), sizes in list(self._event_sizes.by_key.items())
        ]
        yield values(
            "apiserver_watch_events_total",
            "counter",
            "Events sent to watches.",
            _RESOURCE_LABELS,
            ((labels, sizes.count) for labels, sizes in event_sizes),
        )
        yield histogram_family(
            "apiserver_watch_events_sizes",
            "Bytes of the events sent to watches, as they were sent.",
            _RESOURCE_LABELS,
            event_sizes,
        )

    def _new_requests(
        self, name: VersionedResource, verb: str, dry_run: str, subresource: str, scope: str
    ) -> _Requests:
        group_version, plural = name
        labels = (verb, dry_run, *group_version, plural, subresource, scope, _COMPONENT)
        sizes = None
        rest = (verb, subresource, scope)
        if verb in _READS or subresource == _LOG:
            sizes = self._sizes.by_key.get((name, *rest)) or self._sizes.begin(name, *rest)
        kind = self._kinds.by_key.get((name, *rest)) or self._kinds.begin(name, *rest)
        is_watch = verb == _VERBS["watch"]
        # Of dry runs kube-apiserver has not told it since 1.35.
        return _Requests(label_text(_LABELS, labels), is_watch, not (is_watch or dry_run), kind, sizes)

    def _deprecated(self) -> Family:
        """Row S07: each deprecated API that was asked for is 1; its labels join with the requests'."""
        asked = {
            (*group_version, plural, subresource, removed_in)
            for ((group_version, plural), subresource), removed_in in self._removed_in.items()
        }
        return values(
            "apiserver_requested_deprecated_apis",
            "gauge",
            "Deprecated APIs that have been asked for.",
            (*_RESOURCE_LABELS, "subresource", "removed_release"),
            [(labels, 1) for labels in sorted(asked)],
        )


def _terminations(kinds: Iterable[tuple[tuple[Any, ...], _Kind]]) -> Family:
    name, names = "apiserver_request_terminations_total", (*_KIND_LABELS, "code")

    def lines(key: tuple[Any, ...], kind: _Kind) -> Iterator[str]:
        (group_version, plural), verb, subresource, scope = key
        for (component, code), count in list(kind.terminated.items()):
            labels = (verb, *group_version, plural, subresource, scope, component, str(code))
            yield f"{name}{{{label_text(names, labels)}}} {count}\n"

    return Family(
        name,
        "counter",
        "Requests that the server has ended: too many, too slow, or for an extension server that is not "
        "available.",
        # Most have none, and an empty piece instead, as in `counts`.
        ("".join(lines(key, kind)) if kind.terminated else "" for key, kind in kinds),
    )


def _dry_run(query: Query) -> str:
    """Returns the label of what has a `dryRun`, as cleanDryRun of k8s.io/apiserver does.

    One without a value is one (row J08).
    """
    return "All" if all(each in _DRY_RUNS for each in query["dryRun"]) else "invalid"


def _field_validation(query: Query) -> str:
    """Returns the label of a write's field validation, as cleanFieldValidation of k8s.io/apiserver does."""
    given = query.get("fieldValidation")
    if given is None:
        return ""
    return given[0] if len(given) == 1 and given[0] in _FIELD_VALIDATIONS else "invalid"


def _new_sizes(name: VersionedResource, verb: str, subresource: str, scope: str) -> _Sizes:
    return _Sizes(_kind_text(name, verb, subresource, scope))


def _new_kind(name: VersionedResource, verb: str, subresource: str, scope: str) -> _Kind:
    return _Kind(_kind_text(name, verb, subresource, scope))


def _kind_text(name: VersionedResource, verb: str, subresource: str, scope: str) -> str:
    group_version, plural = name
    labels = (verb, *group_version, plural, subresource, scope, _COMPONENT)
    return label_text(_KIND_LABELS, labels)
