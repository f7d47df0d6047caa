"""How many seats a request takes: more for a list of much data, and for a write of which many are told.

Source: k8s.io/apiserver, pkg/util/flowcontrol/request, with the feature SizeBasedListCostEstimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from apiserver.flowcontrol.watch_counts import WatchCounts
from apiserver.meta.vocabulary import Query, RequestInfo

BYTES_PER_SEAT: Final = 100_000
# A list from memory is sent as it is made, whatever its length.
CACHED_LIST_BYTES_MAX: Final = 1_000_000
LIST_SEATS_MAX: Final = 100
WRITE_SEATS_MAX: Final = 10
WATCHES_PER_SEAT: Final = 10
# How long each seat is kept to tell them, after the answer.
EVENT_S: Final = 0.005
# Verbs of requests that change one object, of which watches are told.
WATCHED_VERBS: Final = frozenset({"create", "update", "patch", "delete"})


class WorkEstimate(NamedTuple):
    """The seats that a request takes. final_seats: those kept for `lingers_s` seconds after the answer."""

    seats: int = 1
    final_seats: int = 0
    lingers_s: float = 0.0

    @property
    def seats_max(self) -> int:
        return max(self.seats, self.final_seats)

    def within(self, seats_max: int) -> WorkEstimate:
        """Returns the same work after the answer, done on fewer seats for longer."""
        if self.final_seats <= seats_max or not seats_max:
            return self
        return WorkEstimate(self.seats, seats_max, self.lingers_s * self.final_seats / seats_max)


ONE_SEAT: Final = WorkEstimate()


class ResourceSize(NamedTuple):
    """The objects of a resource: how many there are, and how many bytes one has on average."""

    objects: int
    average_bytes: float


# Returns the size of the resource that a request is about; None if it is not stored here.
SizeOf: TypeAlias = Callable[[RequestInfo], ResourceSize | None]


class ListSize(NamedTuple):
    """What a list is about. is_single: its selector allows only one object."""

    resource: ResourceSize
    is_single: bool


def list_estimate(query: Query, size: ListSize, seats_max: int, *, is_watch: bool) -> WorkEstimate:
    """Returns the estimate for a list, or for a watch that begins with one.

    seats_max: what a request may take of its level; 0 if that does not matter.
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
    """Returns the estimate for a write of which so many watches may have to be told."""
    if watches < WATCHES_PER_SEAT:
        return ONE_SEAT
    estimate = WorkEstimate(1, math.ceil(watches / WATCHES_PER_SEAT), EVENT_S)
    return estimate.within(min(seats_max or WRITE_SEATS_MAX, WRITE_SEATS_MAX))


def interested_watches(target: RequestInfo, watches: WatchCounts) -> int:
    """Returns how many watches a write may have to tell. Tokens are not stored: nobody is told of them."""
    if target.subresource == "token" and target.resource == "serviceaccounts":
        return 0
    return watches.interested_in(target)


def has_initial_state(query: Query) -> bool:
    """Whether a watch begins with the objects that there are."""
    sends_initial_events = query.get("sendInitialEvents", [""])[0].lower() in ("true", "1", "t")
    return sends_initial_events or query.get("resourceVersion", [""])[0] in ("", "0")


def _is_of_the_past(query: Query) -> bool:
    """Whether a list is of a state that may not be in memory any more."""
    if "continue" in query and query["continue"][0]:
        return True
    match query.get("resourceVersionMatch", [""])[0]:
        case "Exact":
            return True
        case "":
            return bool(list_limit(query)) and query.get("resourceVersion", [""])[0] not in ("", "0")
    return False


def list_limit(query: Query) -> int:
    """Returns the limit of a list; 0 without, or if it is none."""
    text = query.get("limit", [""])[0]
    return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else 0
