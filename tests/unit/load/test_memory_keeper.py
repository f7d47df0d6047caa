"""Memory is given back after it has grown, again and again until nothing more comes."""

from __future__ import annotations

import asyncio
import sys
import threading

from apiserver.load.memory_keeper import (
    FIRST_PAUSE_S,
    FULL_COLLECTION_AGAIN_S,
    FULL_COLLECTION_S_MAX,
    FULL_COLLECTION_VERSIONS_MAX,
    GROWTH_BYTES,
    LAST_PAUSE_S,
    FullCollections,
    ReclaimSchedule,
    forget_attribute_names,
)
from apiserver.load.switch_interval import SHORT_SWITCH_INTERVAL, compute_in_thread
from tests.support.eventually import WITHIN_S

MIB = 1024 * 1024


def tries(reclaiming: ReclaimSchedule, resident: int, until_s: float, from_s: float = 0.0) -> list[float]:
    """When it is due while the process has so much, looked at each second."""
    found = []
    now = from_s
    while now <= until_s:
        if reclaiming.is_due(resident, now):
            found.append(now)
            reclaiming.done(resident, now)
        now += 1.0
    return found


def test_a_server_that_rests_is_left_alone_after_its_start() -> None:
    assert tries(ReclaimSchedule(), 100 * MIB, 1_000) == [FIRST_PAUSE_S]


def test_tries_become_rare_and_end() -> None:
    assert FIRST_PAUSE_S == 1.0
    reclaiming = ReclaimSchedule()
    tries(reclaiming, 100 * MIB, 99)
    found = tries(reclaiming, 120 * MIB, 1_000, from_s=100)
    assert found == [100, 101, 103, 107, 115, 131, 163]
    assert LAST_PAUSE_S == 64.0


def test_growth_begins_them_anew() -> None:
    reclaiming = ReclaimSchedule()
    tries(reclaiming, 100 * MIB, 1_000)
    assert tries(reclaiming, 100 * MIB + GROWTH_BYTES, 2_000, 1_001) == []  # that is little
    assert tries(reclaiming, 120 * MIB, 2_010, 2_001)[:3] == [2_001, 2_002, 2_004]


def test_while_it_grows_there_is_one_try_a_second() -> None:
    reclaiming = ReclaimSchedule()
    due = []
    for quarter in range(40):
        now, resident = quarter / 4, 100 * MIB + quarter * 20 * MIB
        if reclaiming.is_due(resident, now):
            due.append(now)
            reclaiming.done(resident, now)
    assert len(due) <= 11


def test_full_collections_visit_only_so_much() -> None:
    collections = FullCollections()
    # The server is starting, and visits everything once it is ready.
    assert not collections.may_begin(0, 0.0, is_computing=False)
    collections.begin()
    assert collections.may_begin(FULL_COLLECTION_VERSIONS_MAX, 0.0, is_computing=False)
    collections.done(FULL_COLLECTION_S_MAX, 0.0)
    assert collections.may_begin(FULL_COLLECTION_VERSIONS_MAX, 1.0, is_computing=False)
    assert not collections.may_begin(FULL_COLLECTION_VERSIONS_MAX + 1, 1.0, is_computing=False)


def test_after_a_long_one_full_collections_visit_less_for_a_while() -> None:
    collections = FullCollections()
    collections.begin()
    collections.done(2 * FULL_COLLECTION_S_MAX, 5.0)
    assert not collections.may_begin(FULL_COLLECTION_VERSIONS_MAX, 6.0, is_computing=False)
    assert collections.may_begin(FULL_COLLECTION_VERSIONS_MAX // 2, 6.0, is_computing=False)
    again = 5.0 + FULL_COLLECTION_AGAIN_S
    assert collections.may_begin(FULL_COLLECTION_VERSIONS_MAX, again, is_computing=False)


async def test_what_a_thread_works_on_is_not_visited() -> None:
    """It may be a million objects. Forty of 44,000 keys in YAML held up the event loop for 75 ms and more."""
    collections = FullCollections()
    collections.begin()
    begun, ends = threading.Event(), threading.Event()

    def compute() -> None:
        begun.set()
        assert ends.wait(WITHIN_S)

    computing = asyncio.create_task(compute_in_thread(compute))
    assert await asyncio.to_thread(begun.wait, WITHIN_S)
    assert not collections.may_begin(0, 0.0, is_computing=SHORT_SWITCH_INTERVAL.is_entered)
    ends.set()
    await computing
    assert collections.may_begin(0, 0.0, is_computing=SHORT_SWITCH_INTERVAL.is_entered)


def test_names_of_attributes_are_forgotten() -> None:
    class Document:
        kind = "ConfigMap"

    # As functions written in C ask: by a name that is made for it.
    names, others = ["".join(["ki", "nd"])], ["".join(["oth", "er"])]
    assert getattr(Document(), names[0]) == "ConfigMap"
    forget_attribute_names()
    assert sys.getrefcount(names[0]) == sys.getrefcount(others[0])
