"""Counts of requests and their durations, updated at the end of each request."""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias

from apiserver.meta.vocabulary import (
    CONNECTING_SUBRESOURCES,
    GroupResource,
    GroupVersion,
    Query,
    RequestInfo,
    UserInfo,
)
from apiserver.metrics.client_usage import ClientUsage, SourceValues
from apiserver.metrics.declarations import bounds_of
from apiserver.metrics.histograms import Histogram
from apiserver.metrics.resource_series import (
    OTHER,
    OTHER_RESOURCE,
    OTHER_VERSIONED,
    ResourceSeries,
    ServedNames,
    VersionedResource,
)
from apiserver.metrics.series import Family, family, label_text, labelled
from apiserver.registry.served_resource import ServedResource

_DURATIONS: Final = "apiserver_request_duration_seconds"
_SIZES: Final = "apiserver_response_sizes"
_BODY_SIZES: Final = "apiserver_request_body_size_bytes"
_EVENT_SIZES: Final = "apiserver_watch_events_sizes"
_WATCH_LISTS: Final = "apiserver_watch_list_duration_seconds"
_FIELD_VALIDATION: Final = "field_validation_request_duration_seconds"
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
# Of requests that last as long as the client likes, but for watches.
_CONNECT: Final = "CONNECT"
_COMPONENT: Final = "apiserver"
# Before Python 3.12, looking up a member of HTTPStatus is a call.
_TOO_MANY_REQUESTS: Final = int(HTTPStatus.TOO_MANY_REQUESTS)
_BOUNDS: Final = bounds_of(_DURATIONS)
# Paths that lead to none, and resources that are not served.
_NO_RESOURCE: Final[VersionedResource] = (GroupVersion("", ""), "")
# Whose responses' sizes are counted.
_READS: Final = frozenset({"GET", "LIST"})
_LOG: Final = "log"
_VALIDATED: Final = frozenset({"POST", "PUT", "PATCH", "APPLY"})
_FIELD_VALIDATIONS: Final = ("", "Ignore", "Warn", "Strict", "invalid")
_DRY_RUNS: Final = ("All", "")
# What the sizes of bodies have for some verbs.
_BODY_OPERATIONS: Final = {"deletecollection": "delete_collection"}
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


# By resource, verb, subresource and scope. What is not served is _NO_RESOURCE.
_Subject: TypeAlias = tuple[VersionedResource, str, str, str]


class RequestEnding(enum.Enum):
    """The outcome of a request that was not answered as requested.

    TERMINATED: the server refused it to protect itself, or because it took too long.
    UNAVAILABLE: its extension API server cannot be reached.
    ABORTED: its response had begun, and was cut off.
    """

    TERMINATED = enum.auto()
    UNAVAILABLE = enum.auto()
    ABORTED = enum.auto()


# Which component has ended a request.
_ENDED_BY: Final = {RequestEnding.TERMINATED: _COMPONENT, RequestEnding.UNAVAILABLE: "aggregator"}


class ServedCall(Protocol):
    """A request, with the attributes of `endpoints.api_call.ApiCall`.

    found_resource: None if it is not served, or the request was refused before. known_user: None if
        authentication failed.
    """

    @property
    def info(self) -> RequestInfo: ...
    @property
    def is_apply(self) -> bool: ...
    @property
    def found_resource(self) -> ServedResource | None: ...
    @property
    def known_user(self) -> UserInfo | None: ...
    @property
    def user_agent(self) -> str: ...


class AnsweredCall(ServedCall, Protocol):
    """A request and its response, with the attributes of `endpoints.api_call.ApiCall`."""

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
    def ending(self) -> RequestEnding | None: ...


@dataclass(slots=True)
class RequestCount:
    value: int = 0


@dataclass(frozen=True, slots=True)
class InFlight:
    """The number of requests in flight. Watches with seats count until they have begun."""

    read_only: RequestCount = field(default_factory=RequestCount)
    mutating: RequestCount = field(default_factory=RequestCount)


@dataclass(slots=True)
class _Sizes:
    """The sizes of responses' bodies under one set of labels."""

    labels: str
    histogram: Histogram = field(default_factory=partial(Histogram.of, _SIZES))


@dataclass(slots=True)
class _Kind:
    """The requests of one set of labels, dry runs included.

    terminated: the number that the server ended, by component and status code.
    aborted: the number of responses that were cut off.
    long_running: the number of long-running ones that have not ended; None if there never was one.
    """

    labels: str
    terminated: dict[tuple[str, int], int] = field(default_factory=dict)
    aborted: int = 0
    long_running: RequestCount | None = None

    def ended(self, ending: RequestEnding, status: int) -> None:
        if ending is RequestEnding.ABORTED:
            self.aborted += 1
        else:
            key = (_ENDED_BY[ending], status)
            self.terminated[key] = self.terminated.get(key, 0) + 1


class _Waits:
    """The time that requests waited for others. moved: for each bucket, the additional requests without
    waits.
    """

    __slots__ = ("moved", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.moved = [0] * (len(_BOUNDS) + 1)

    def add(self, seconds: float, waited_s: float) -> None:
        """Adds the wait of one request. seconds: the whole duration of the request."""
        waited_s = min(waited_s, seconds)
        self.seconds += waited_s
        self.moved[bisect_left(_BOUNDS, seconds)] -= 1
        self.moved[bisect_left(_BOUNDS, seconds - waited_s)] += 1


@dataclass(slots=True)
class _Requests:
    """The requests of one set of labels.

    kind: these requests, and those with another dry_run. sizes: None where they are not counted.
    has_own_durations: whether the durations without waits are served.
    counts: by status code. waits: None until a request has waited for others.
    """

    labels: str
    is_watch: bool
    has_own_durations: bool
    kind: _Kind
    sizes: _Sizes | None
    counts: dict[int, int] = field(default_factory=dict)
    durations: Histogram = field(default_factory=partial(Histogram, _BOUNDS))
    waits: _Waits | None = None

    def own_durations(self) -> Histogram | None:
        """Returns the durations of the requests without waits for others, if these are served.

        They are derived from the other counts: most requests do not wait.
        """
        if not self.has_own_durations:
            return None
        if self.waits is None:
            return self.durations
        found = Histogram(_BOUNDS)
        found.sum = self.durations.sum - self.waits.seconds
        found.buckets = [sum(pair) for pair in zip(self.durations.buckets, self.waits.moved, strict=True)]
        return found


def _subject(call: ServedCall, resource: ServedResource | None) -> _Subject:
    """Returns the target of a request as the labels name it."""
    info = call.info
    verb = _VERBS.get(info.verb) or (info.method if info.method in _METHODS else OTHER)
    if resource is None:
        if info.is_long_running and not info.is_resource:
            verb = _CONNECT  # Its duration says nothing of how long a GET takes.
        # What is not served has no labels: anybody could make up any number of them.
        return _NO_RESOURCE, verb, "", ""
    if verb == "PATCH" and call.is_apply:
        verb = "APPLY"
    subresource = ""
    if info.subresource in resource.subresources:
        subresource = info.subresource
        if subresource in CONNECTING_SUBRESOURCES:
            verb = _CONNECT
    # As k8s.io/apiserver's CleanScope does.
    scope = "namespace" if info.namespace else "cluster"
    if info.name or info.verb == "create":
        scope = "resource"
    return (resource.group_version, resource.resource), verb, subresource, scope


def source_of(call: ServedCall, status: int = HTTPStatus.OK) -> SourceValues:
    """Returns the values of the `Source` that a request is counted under."""
    info, user = call.info, call.known_user
    if user is None:
        return "", call.user_agent, OTHER, "", "", ""
    if info.is_resource and info.verb in _VERBS:
        # As the client names it: what is refused is not looked up.
        return user.name, call.user_agent, info.verb, info.group, info.resource, info.subresource
    verb = info.method.lower() if info.method in _METHODS else OTHER
    # Most of the paths that lead to nothing are asked for only once.
    is_known = status < HTTPStatus.BAD_REQUEST
    segment = f"/{info.path.lstrip('/').partition('/')[0]}" if is_known else ""
    return user.name, call.user_agent, verb, "", segment, ""


class RequestMetrics:
    """Counts requests and the events of watches. clients: also counts the requests, by client."""

    def __init__(self, names: ServedNames | None = None, clients: ClientUsage | None = None) -> None:
        self.in_flight, self._clients = InFlight(), clients
        names = names or ServedNames()
        series = partial(ResourceSeries, names, names.of_version, OTHER_VERSIONED)
        # By resource, verb, dry_run, subresource and scope. What is not served is _NO_RESOURCE.
        self._requests: ResourceSeries[VersionedResource, _Requests] = series(self._new_requests)
        # Without dry_run.
        self._kinds: ResourceSeries[VersionedResource, _Kind] = series(_new_kind)
        self._sizes: ResourceSeries[VersionedResource, _Sizes] = series(_new_sizes)
        # By resource alone.
        self._event_sizes: ResourceSeries[VersionedResource, Histogram] = series(
            lambda _: Histogram.of(_EVENT_SIZES)
        )
        # The events that were last sent to a watch, and to how many others after it.
        self._last_events: list[bytes] = []
        self._last_sizes = Histogram.of(_EVENT_SIZES)
        self._repeats = 0
        # By resource and scope.
        self._watch_lists: ResourceSeries[VersionedResource, Histogram] = series(
            lambda *_: Histogram.of(_WATCH_LISTS)
        )
        # By resource, whichever version it is, and verb.
        self._bodies: ResourceSeries[GroupResource, Histogram] = ResourceSeries(
            names, names.of_resource, OTHER_RESOURCE, lambda *_: Histogram.of(_BODY_SIZES)
        )
        self._field_validations = {each: Histogram.of(_FIELD_VALIDATION) for each in _FIELD_VALIDATIONS}
        # Row S07: the release that will remove a resource or subresource, of those asked for.
        self._removed_in: dict[tuple[VersionedResource, str], str] = {}

    def observe(self, call: AnsweredCall, seconds: float) -> None:
        """Count a request that has ended and took `seconds`."""
        resource = call.found_resource
        name, verb, subresource, scope = _subject(call, resource)
        dry_run = _dry_run(call.query) if "dryRun" in call.query else ""
        is_validated = resource is not None and verb in _VALIDATED
        validation = self._field_validations[_field_validation(call.query)] if is_validated else None
        status = call.status
        source = None if self._clients is None else source_of(call, status)
        key = (name, verb, dry_run, subresource, scope)
        requests = self._requests.get(key)
        if requests is None:
            requests = self._requests[key]
            deprecation = None if resource is None else resource.deprecation_of(subresource)
            if deprecation is not None:
                self._removed_in[name, subresource] = deprecation.removed_in
        requests.counts[status] = requests.counts.get(status, 0) + 1
        # As in kube-apiserver what is refused at the door has taken no time: overload would look like speed.
        is_refused = status == _TOO_MANY_REQUESTS and call.ending is RequestEnding.TERMINATED
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
        if validation is not None:
            validation.observe(seconds)
        if resource is not None and call.request_bytes:
            operation = _BODY_OPERATIONS.get(call.info.verb, call.info.verb)
            self._bodies[resource.group_resource, operation].observe(call.request_bytes)
        if self._clients is not None and source is not None:
            taken_s = 0.0 if call.info.is_long_running else seconds
            self._clients.count(source, taken_s, call.body_bytes, status)

    @contextmanager
    def long_running(self, call: ServedCall) -> Iterator[None]:
        """Count a request that lasts as long as its client likes: a watch, or an upgraded connection."""
        kind = self._kinds[_subject(call, call.found_resource)]
        if kind.long_running is None:
            kind.long_running = RequestCount()
        open_ones = kind.long_running
        open_ones.value += 1
        try:
            yield
        finally:
            open_ones.value -= 1

    def observe_watch_list(self, call: AnsweredCall, seconds: float) -> None:
        """Count a watch whose initial events have been sent, `seconds` after the request arrived."""
        name, _, _, scope = _subject(call, call.found_resource)
        self._watch_lists[name, scope].observe(seconds)

    def event_sizes(self, resource: ServedResource) -> Histogram:
        """Returns the counter for the sizes of events that are sent to watches of a resource."""
        name = (resource.group_version, resource.resource)
        return self._event_sizes[name,]

    def count_events(self, sizes: Histogram, events: list[bytes]) -> None:
        """Count events that are sent to a watch. sizes: the counter of its resource. events: must not change
        afterwards.

        Thousands of watches are sent the same events, one watch after the other: then the sizes are added up
        once. For each watch that would take 0.1 µs per event, of the 6 µs for sending it.
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
        """Drop the series of a custom resource that is no longer served."""
        for series in (self._requests, self._kinds, self._sizes, self._event_sizes, self._watch_lists):
            series.forget(name)
        self._bodies.forget(GroupResource(name[0].group, name[1]))
        for known in [each for each in self._removed_in if each[0] == name]:
            del self._removed_in[known]

    def families(self) -> Iterable[Family]:
        in_flight = (("mutating", self.in_flight.mutating), ("readOnly", self.in_flight.read_only))
        yield family("apiserver_current_inflight_requests", [((of,), each.value) for of, each in in_flight])
        # Few kinds ever have long-running requests, terminations or aborts.
        kinds = list(self._kinds.items())
        yield labelled(
            "apiserver_longrunning_requests",
            ((each.labels, each.long_running.value if each.long_running else None) for _, each in kinds),
        )
        requests = list(self._requests.values())
        yield labelled(
            "apiserver_request_total",
            (
                (f'{each.labels},code="{code}"', count)
                for each in requests
                for code, count in list(each.counts.items())
            ),
        )
        yield labelled(
            _DURATIONS, ((each.labels, None if each.is_watch else each.durations) for each in requests)
        )
        yield labelled(
            "apiserver_request_sli_duration_seconds",
            ((each.kind.labels, each.own_durations()) for each in requests),
        )
        yield family("apiserver_request_terminations_total", _terminations(kinds))
        yield family(
            "apiserver_request_aborts_total",
            (((*version, name, *rest), each.aborted or None) for ((version, name), *rest), each in kinds),
        )
        sizes = list(self._sizes.values())
        yield labelled(_SIZES, ((each.labels, each.histogram) for each in sizes))
        bodies = list(self._bodies.items())
        yield family(_BODY_SIZES, (((*resource, verb), each) for (resource, verb), each in bodies))
        writes = self._field_validations.items()
        yield family(_FIELD_VALIDATION, [((validation,), each) for validation, each in writes])
        watch_lists = list(self._watch_lists.items())
        yield family(
            _WATCH_LISTS, (((*version, name, scope), each) for ((version, name), scope), each in watch_lists)
        )
        # Row S07: each deprecated API that was asked for is 1; its labels join with the requests'.
        asked = {
            (*version, name, subresource, release)
            for ((version, name), subresource), release in self._removed_in.items()
        }
        yield family("apiserver_requested_deprecated_apis", [(labels, 1) for labels in sorted(asked)])
        self._count_repeats()
        events = list(self._event_sizes.items())
        event_sizes = [((*version, name), each) for ((version, name),), each in events]
        yield family("apiserver_watch_events_total", ((labels, each.count) for labels, each in event_sizes))
        yield family(_EVENT_SIZES, event_sizes)

    def _new_requests(
        self, name: VersionedResource, verb: str, dry_run: str, subresource: str, scope: str
    ) -> _Requests:
        group_version, plural = name
        labels = (verb, dry_run, *group_version, plural, subresource, scope, _COMPONENT)
        sizes = None
        rest = (verb, subresource, scope)
        if verb in _READS or subresource == _LOG:
            sizes = self._sizes[name, *rest]
        kind = self._kinds[name, *rest]
        is_watch = verb == _VERBS["watch"]
        # kube-apiserver does not count dry runs here since 1.35.
        return _Requests(label_text(_DURATIONS, labels), is_watch, not (is_watch or dry_run), kind, sizes)


def _terminations(
    kinds: Iterable[tuple[tuple[Any, ...], _Kind]],
) -> Iterator[tuple[tuple[str, ...], int | None]]:
    for ((group_version, plural), verb, subresource, scope), kind in kinds:
        if not kind.terminated:
            yield (), None
        for (component, code), count in list(kind.terminated.items()):
            yield (verb, *group_version, plural, subresource, scope, component, str(code)), count


def _dry_run(query: Query) -> str:
    """Returns the label for a `dryRun` parameter, as cleanDryRun of k8s.io/apiserver does.

    A parameter without a value is a dry run (row J08).
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
    return label_text(_SIZES, labels)
