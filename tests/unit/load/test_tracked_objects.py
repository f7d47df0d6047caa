"""Objects are counted while other threads make tuples, and these threads do not notice."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from apiserver.load.collection_pause import CollectionPause
from apiserver.load.tracked_objects import PART, tracked_count, tracked_sizes

THREADS: Final = 3
ITEMS: Final = 300  # so that a tuple grows while it is made


@contextmanager
def tuples_made() -> Iterator[list[SystemError]]:
    """Makes tuples in threads, which take turns as often as they can. Yields their errors."""
    failed: list[SystemError] = []
    is_over, before_s = threading.Event(), sys.getswitchinterval()

    def make() -> None:
        while not is_over.is_set():
            try:
                tuple(number for number in range(ITEMS))
            except SystemError as error:
                failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(THREADS)]
    sys.setswitchinterval(1e-6)
    for each in threads:
        each.start()
    try:
        yield failed
    finally:
        is_over.set()
        for each in threads:
            each.join()
        sys.setswitchinterval(before_s)


def all_sizes() -> None:
    deque(tracked_sizes(), maxlen=0)


@pytest.mark.parametrize(("count", "times"), [(tracked_count, 30), (all_sizes, 10)])
def test_threads_that_make_tuples_do_not_fail(count: Callable[[], object], times: int) -> None:
    with tuples_made() as failed:
        for _ in range(times):
            count()
    assert failed == []


@pytest.mark.parametrize("generation", [None, 0, 1, 2])
def test_the_objects_of_generations(generation: int | None) -> None:
    gc.collect()
    gc.disable()
    try:
        before = tracked_count(generation)
        made: list[list[int]] = [[number] for number in range(1_000)]
        grown = tracked_count(generation) - before
    finally:
        gc.enable()
    assert (900 < grown < 1_200) == (generation in (None, 0)), len(made)


def test_the_types_and_sizes_of_objects() -> None:
    class Own:
        pass

    made = [Own() for _ in range(5)]
    found = [(kind, size) for kind, size in tracked_sizes() if kind is Own]
    assert found == [(Own, sys.getsizeof(each)) for each in made]


def test_young_objects_among_many_old_ones_are_counted_once() -> None:
    class Young:
        pass

    old = [[number] for number in range(12 * PART)]
    gc.collect()
    made = [Young() for _ in range(3 * PART)]
    with CollectionPause()():
        found = Counter(kind for generation in range(3) for kind, _ in tracked_sizes(generation))
    assert found[Young] == len(made), len(old)
