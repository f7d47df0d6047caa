"""Looks at the objects that the garbage collector knows, while other threads run.

A list of these objects refers to tuples that other threads are still making, and `tuple(iterable)` raises
SystemError if something else refers to its tuple by then: https://github.com/python/cpython/issues/59313. So
each list is made, read and freed by one call of C code, in which the interpreter switches to no other thread.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, count, repeat, starmap
from operator import itemgetter
from typing import Any, Final

# How many objects are looked at without a switch of threads.
PART: Final = 10_000
# How often all objects are listed at most. No other thread runs meanwhile: 40 ms for three million.
PARTS_MAX: Final = 16


def tracked_count(generation: int | None = None) -> int:
    """Returns the number of tracked objects, of all generations or of one."""
    return next(map(len, iter(partial(gc.get_objects, generation), None)))


def tracked_sizes(generation: int | None = None) -> Iterator[tuple[type, int]]:
    """Yields the type and the bytes of each tracked object, without those of what it refers to.

    Looks at a part of the objects at a time, so that other threads go on. What is made or freed meanwhile may
    hide some objects, or show them twice. Collections move objects to other generations, so they have to be
    paused.
    """
    length = max(PART, tracked_count(generation) // PARTS_MAX)
    for number in count():
        part = _sizes_of_part(generation, slice(number * length, (number + 1) * length))
        values = iter(part)
        yield from zip(values, values, strict=True)
        if len(part) < 2 * length:
            return


def _sizes_of_part(generation: int | None, part: slice) -> Sequence[Any]:
    """Returns the type and the bytes of each object, alternately: pairs of them would be tracked, too.

    Of the objects `[a, b]`, it lists `chain.from_iterable(zip(map(type, [a, b]), map(getsizeof, [a, b])))`.
    """
    found = map(itemgetter(part), iter(partial(gc.get_objects, generation), None))
    getters: Iterator[Any] = repeat((type, partial(sys.getsizeof, default=0)))
    over: Iterator[Any] = repeat(map)
    # For each list of objects, two maps over it, side by side.
    sizes = map(chain.from_iterable, starmap(zip, map(map, over, getters, map(repeat, found, repeat(2)))))
    was_enabled = gc.isenabled()
    gc.disable()  # A collection would call functions in Python.
    try:
        return next(map(list, sizes))
    finally:
        if was_enabled:
            gc.enable()
