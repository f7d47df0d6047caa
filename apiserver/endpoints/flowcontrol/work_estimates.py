"""Estimates of the seats of a request: more for large lists, and for writes with many watches.

Source: k8s.io/apiserver, pkg/util/flowcontrol/request, with the feature SizeBasedListCostEstimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from apiserver.meta.vocabulary import Query, RequestInfo

BYTES_PER_SEAT: Final = 100_000
# A list from memory is sent as it is made, whatever its length.
CACHED_LIST_BYTES_MAX: Final = 1_000_000
LIST_SEATS_MAX: Final = 100
WRITE_SEATS_MAX: Final = 10
WATCHES_PER_SEAT: Final = 10
# The time for which each seat is kept for sending events, after the response.
EVENT_S: Final = 0.005
# Verbs of requests that change one object, and so cause events of watches.
WATCHED_VERBS: Final = frozenset({"create", "update", "patch", "delete"})


class WorkEstimate(NamedTuple):
    """The seats that a request takes. final_seats: those kept for `lingers_s` seconds after the response."""

    seats: int = 1
    final_seats: int = 0
    lingers_s: float = 0.0

    @property
    def seats_max(self) -> int:
        return max(self.seats, self.final_seats)

    def within(self, seats_max: int) -> WorkEstimate:
        """Returns an estimate with the same work after the response, on fewer seats for longer."""
        if self.final_seats <= seats_max or not seats_max:
            return self
        return WorkEstimate(self.seats, seats_max, self.lingers_s * self.final_seats / seats_max)


ONE_SEAT: Final = WorkEstimate()


class ResourceSize(NamedTuple):
    """The objects of a resource: their number, and their average size in bytes."""

    objects: int
    average_bytes: float


# Returns the values of the `ResourceSize` of a request's resource; None if that is not stored here.
SizeOf: TypeAlias = Callable[[RequestInfo], tuple[int, float] | None]


class ListSize(NamedTuple):
    """The target of a list. is_single: whether its selector allows only one object."""

    resource: ResourceSize
    is_single: bool


def list_estimate(query: Query, size: ListSize, seats_max: int, *, is_watch: bool) -> WorkEstimate:
    """Returns the estimate for a list, or for a watch that begins with one.

    seats_max: the limit of a request's seats; 0 for none.
    """
    resource = size.resource
    is_from_memory = is_watch or not _is_of_the_past(query)
    limit = list_limit(query)
    objects = min(resource.objects, limit) if limit else resource.objects
    if size.is_single:
        objects = min(objects, 1)
    elif not is_from_memory and ("fieldSelector" in query or "labelSelector" in query):
        objects = max(objects, resource.objects // 2)  # It has to look at more than it finds.
    data = objects * resource.average_bytes
    if is_from_memory:
        data = min(data, CACHED_LIST_BYTES_MAX)
    seats = min(math.ceil(data / BYTES_PER_SEAT), seats_max or LIST_SEATS_MAX, LIST_SEATS_MAX)
    return WorkEstimate(seats) if seats > 1 else ONE_SEAT


def write_estimate(watches: int, seats_max: int) -> WorkEstimate:
    """Returns the estimate for a write. watches: the number of watches that it concerns."""
    if watches < WATCHES_PER_SEAT:
        return ONE_SEAT
    estimate = WorkEstimate(1, math.ceil(watches / WATCHES_PER_SEAT), EVENT_S)
    return estimate.within(min(seats_max or WRITE_SEATS_MAX, WRITE_SEATS_MAX))


def has_initial_state(query: Query) -> bool:
    """Whether a watch begins with the existing objects."""
    sends_initial_events = query.get("sendInitialEvents", [""])[0].lower() in ("true", "1", "t")
    return sends_initial_events or query.get("resourceVersion", [""])[0] in ("", "0")


def _is_of_the_past(query: Query) -> bool:
    """Whether a list is of a past state, which may not be in memory any more."""
    if "continue" in query and query["continue"][0]:
        return True
    match query.get("resourceVersionMatch", [""])[0]:
        case "Exact":
            return True
        case "":
            return bool(list_limit(query)) and query.get("resourceVersion", [""])[0] not in ("", "0")
    return False


def list_limit(query: Query) -> int:
    """Returns the limit of a list; 0 if it has none, or an invalid one."""
    text = query.get("limit", [""])[0]
    return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else 0
