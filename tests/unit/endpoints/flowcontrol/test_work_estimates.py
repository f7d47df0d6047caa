"""How many seats a request takes. Source of the rules: k8s.io/apiserver, pkg/util/flowcontrol/request."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

import pytest

from apiserver.endpoints.flowcontrol.priority_levels import RETRY_AFTER_MAX_S, RetryAfter
from apiserver.endpoints.flowcontrol.watch_counts import WatchCounts
from apiserver.endpoints.flowcontrol.work_estimates import (
    ONE_SEAT,
    ListSize,
    ResourceSize,
    WorkEstimate,
    has_initial_state,
    list_estimate,
    write_estimate,
)
from tests.unit.endpoints.flowcontrol.support import target

LARGE: Final = ListSize(ResourceSize(10_000, 2_000), False)
# Query, size, the most of the level, seats.
LISTS: Final = {
    "from memory it is sent as it is made": ("", LARGE, 0, 10),
    "whatever is cached": ("resourceVersion=0&limit=500", LARGE, 0, 10),
    "little": ("", ListSize(ResourceSize(10, 100), False), 0, 1),
    "nothing": ("", ListSize(ResourceSize(0, 0), False), 0, 1),
    "a page": ("limit=100", LARGE, 0, 2),
    "a page of the past": ("limit=1000&continue=x", LARGE, 0, 20),
    "all of the past": ("resourceVersionMatch=Exact&resourceVersion=7", LARGE, 0, 100),
    "a selector looks at more than it finds": ("limit=10&continue=x&labelSelector=a", LARGE, 0, 100),
    "a single object": ("fieldSelector=metadata.name=x", LARGE._replace(is_single=True), 0, 1),
    "no more than the level allows": ("", LARGE, 8, 8),
    "a limit that is none": ("limit=much", LARGE, 0, 10),
}


@pytest.mark.parametrize(("query", "size", "seats_max", "seats"), LISTS.values(), ids=LISTS)
def test_lists(query: str, size: ListSize, seats_max: int, seats: int) -> None:
    assert list_estimate(parse_qs(query), size, seats_max, is_watch=False).seats == seats


INITIAL: Final = {"": True, "resourceVersion=0": True, "resourceVersion=7": False}
INITIAL["resourceVersion=7&sendInitialEvents=true"] = True


@pytest.mark.parametrize(("query", "has_state"), INITIAL.items())
def test_which_watches_begin_with_a_list(query: str, has_state: bool) -> None:
    assert has_initial_state(parse_qs(query)) is has_state


WRITES: Final = {
    "few watches": (9, 0, ONE_SEAT),
    "some": (25, 0, WorkEstimate(1, 3, 0.005)),
    "many take longer, not more": (1_000, 0, WorkEstimate(1, 10, 0.05)),
    "within the level": (1_000, 5, WorkEstimate(1, 5, 0.1)),
}


@pytest.mark.parametrize(("watches", "seats_max", "estimate"), WRITES.values(), ids=WRITES)
def test_writes(watches: int, seats_max: int, estimate: WorkEstimate) -> None:
    assert write_estimate(watches, seats_max) == pytest.approx(estimate)


def test_which_watches_a_write_has_to_tell() -> None:
    counts = WatchCounts()
    everything = target("GET", "/api/v1/pods", is_watch=True)
    there = target("GET", "/api/v1/namespaces/a/pods", is_watch=True)
    for watch, name in ((everything, ""), (there, ""), (there, "p")):
        counts.add(watch, name)
    paths = {
        "/api/v1/namespaces/a/pods/p": 3,
        "/api/v1/namespaces/a/pods/q": 2,
        "/api/v1/namespaces/b/pods/p": 1,
        "/api/v1/namespaces/a/secrets/p": 0,
    }
    for path, count in paths.items():
        assert counts.interested_in(target("PUT", path)) == count, path
    for watch, name in ((everything, ""), (there, ""), (there, "p")):
        counts.discard(watch, name)
    assert counts.interested_in(target("PUT", "/api/v1/namespaces/a/pods/p")) == 0


def test_nobody_is_told_of_tokens() -> None:
    counts = WatchCounts()
    counts.add(target("GET", "/api/v1/serviceaccounts", is_watch=True), "")
    path = "/api/v1/namespaces/a/serviceaccounts/s"
    assert counts.interested_in(target("PUT", path)) == 1
    assert counts.interested_in(target("POST", f"{path}/token")) == 0


def test_who_is_refused_is_kept_away_longer_while_many_are() -> None:
    retry_after = RetryAfter()
    told = [retry_after.refused(second) for second in range(120) for _ in range(10)]
    assert told == sorted(told)
    assert (told[0], told[-1]) == (1, RETRY_AFTER_MAX_S)
    later = [retry_after.refused(1_000 + 100 * number) for number in range(40)]
    assert later[-1] == 1
