"""Looks at the objects that the garbage collector knows, while other threads run.

A list of these objects refers to tuples that other threads are still making, and `tuple(iterable)` raises
SystemError if something else refers to its tuple by then: https://github.com/python/cpython/issues/59313. So
each function here is one call of C code, in which the interpreter switches to no other thread.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from itertools import repeat


def tracked_count(generation: int | None = None) -> int:
    """Returns the number of tracked objects, of all generations or of one."""
    return next(map(len, iter(partial(gc.get_objects, generation), None)))


def tracked_types(generation: int | None = None) -> Sequence[type]:
    """Returns the type of each tracked object."""
    was_enabled = gc.isenabled()
    gc.disable()  # A collection would call functions in Python.
    try:
        return next(map(list, map(map, repeat(type), iter(partial(gc.get_objects, generation), None))))
    finally:
        if was_enabled:
            gc.enable()
