"""Keeps the memory of the process small: reports it to the budget, and returns free memory to the system.

Memory is returned after the process has grown, and while the event loop has time for it:

1. Caches that can be filled again are emptied: the pages of the embedded store, and those of single strings.
   These keep a few hundred kilobytes. But CPython gets memory for small objects in arenas of 1 MiB, and
   returns one when nothing in it is in use. A parsed large document fills many; objects made while it is
   processed lie between its values, and one string of 50 bytes that remains keeps a mebibyte.
2. The garbage collector frees cycles, and Python's free lists.
3. The C library's allocator returns free memory of its heaps.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable
from typing import Final, Protocol

from apiserver.load.memory_budget import MemoryBudget, Pressure
from apiserver.load.process_memory import Allocator, ResidentMemory
from apiserver.load.switch_interval import SHORT_SWITCH_INTERVAL
from apiserver.load.tracked_objects import tracked_count
from apiserver.meta.text_caches import empty_text_caches

log = logging.getLogger(__name__)

# Reading it takes a few microseconds. The bounds of bodies and answers keep it from growing faster than that.
SAMPLE_S: Final = 0.25
# The loop has time for it: it used no more of a processor than this.
_CALM_SHARE: Final = 0.3
# So much more than what was left the last time is worth another try at once.
GROWTH_SHARE: Final = 0.1
GROWTH_BYTES: Final = 8 * 1024 * 1024
# Tries after the last growth, each after twice the time: clients go, and caches expire, later than the load.
FIRST_PAUSE_S: Final = 1.0
LAST_PAUSE_S: Final = 64.0
# A full collection also frees what Python keeps for reuse, but visits every object that was made since the
# server was ready: 50,000 take 3 to 25 ms, 600,000 80 to 160. To count them takes a quarter of that, too much
# where there are many. Most belong to the versions of objects in the watch cache, some three to each, and to
# open watches, each of which counts like some versions. So they are counted only if there are not more
# versions than this, or fewer for a while after a full collection took longer than that (what made it long
# may have been garbage, which it has freed). If it is not done only the young objects are visited.
FULL_COLLECTION_VERSIONS_MAX: Final = 10_000
VERSIONS_PER_WATCH: Final = 20
FULL_COLLECTION_OBJECTS_MAX: Final = 100_000
FULL_COLLECTION_S_MAX: Final = 0.01
FULL_COLLECTION_AGAIN_S: Final = 60.0


class ReclaimSchedule:
    """Decides when memory is returned: once after the start, and after it has grown.

    A try has a cost even if nothing can be returned: caches have to be filled again.
    """

    def __init__(self) -> None:
        self._floor: int | None = None
        self._pause_s = LAST_PAUSE_S
        self._next_at = 0.0

    def is_due(self, resident_bytes: int, now: float) -> bool:
        if self._floor is None:
            self._floor = resident_bytes
            self._next_at = now + FIRST_PAUSE_S
        grown = resident_bytes - self._floor
        if grown > max(GROWTH_SHARE * self._floor, GROWTH_BYTES):
            self._floor = resident_bytes
            self.begin(now)
        return self._pause_s <= LAST_PAUSE_S and now >= self._next_at

    def begin(self, now: float) -> None:
        """Try soon, because memory has become free that may be returned."""
        self._pause_s = FIRST_PAUSE_S
        self._next_at = min(self._next_at, now + FIRST_PAUSE_S)

    def done(self, resident_bytes: int, now: float) -> None:
        """Note the memory of the process after a try."""
        self._floor = resident_bytes
        self._next_at = now + self._pause_s
        self._pause_s *= 2


class FullCollections:
    """Decides whether a full collection would hold up requests; all times are of one clock, in seconds."""

    def __init__(self) -> None:
        self._is_ready = False
        self._versions_max = FULL_COLLECTION_VERSIONS_MAX
        self._again_at = 0.0

    def begin(self) -> None:
        """Allow full collections, because the server is ready and its present objects are never visited
        again.
        """
        self._is_ready = True

    def may_begin(self, versions: int, now: float, *, is_computing: bool) -> bool:
        """Returns whether a full collection may begin now. versions: the number of object versions in the
        watch cache.

        is_computing: whether a thread processes documents, which may be a million objects that a full
        collection would visit.
        """
        if now >= self._again_at:
            self._versions_max = FULL_COLLECTION_VERSIONS_MAX
        return self._is_ready and not is_computing and versions <= self._versions_max

    def done(self, took_s: float, now: float) -> None:
        if took_s > FULL_COLLECTION_S_MAX:
            self._versions_max //= 2
            self._again_at = now + FULL_COLLECTION_AGAIN_S


def forget_attribute_names() -> None:
    """Clear the interpreter's cache of the attribute names that were looked up last.

    It has 4,096 entries, by the addresses of names; functions written in C make a new name for each look-up.
    """
    # The first name is that of Python 3.13, the second the one before; other interpreters have neither.
    for name in ("_clear_internal_caches", "_clear_type_cache"):
        if hasattr(sys, name):
            getattr(sys, name)()
            return


class CachedVersions(Protocol):
    """The watch cache, as far as it is needed here."""

    @property
    def version_count(self) -> int:
        """The number of versions of objects."""
        ...

    @property
    def expired_bytes(self) -> int:
        """The total size of old versions that were dropped because of their age, in bytes."""
        ...


class MemoryKeeper:
    """Runs beside the requests of one server, and returns memory when that is worthwhile.

    open_watches: returns the number of open watches.
    release_store: makes the store release memory that it can read again.
    """

    def __init__(
        self,
        budget: MemoryBudget,
        allocator: Allocator,
        resident: ResidentMemory,
        *,
        cache: CachedVersions,
        open_watches: Callable[[], int],
        release_store: Callable[[], None],
    ) -> None:
        self._budget, self._allocator, self._resident = budget, allocator, resident
        self._cache, self._open_watches, self._release_store = cache, open_watches, release_store
        self._expired_bytes = 0  # of the cache, when it was last looked at
        self._reclaiming = ReclaimSchedule()
        self._full_collections = FullCollections()

    def freeze(self) -> None:
        """Exclude the present objects, the parts of a ready server, from garbage collection.

        Collecting first would delay the start by 40 to 80 ms, and find nothing: a start leaves no cycles.
        """
        gc.freeze()
        self._full_collections.begin()

    async def run(self) -> None:
        """Check the memory at intervals until cancelled; returns at once where the system does not report
        it.
        """
        used_s = time.thread_time()
        while (resident := self._resident.bytes()) is not None:
            if self._budget.observe(resident):
                self._log_pressure(resident)
            before_s, used_s = used_s, time.thread_time()
            is_calm = used_s - before_s < _CALM_SHARE * SAMPLE_S
            now = time.monotonic()
            if self._cache.expired_bytes > self._expired_bytes + GROWTH_BYTES:
                self._expired_bytes = self._cache.expired_bytes
                self._reclaiming.begin(now)
            if (is_calm or self._budget.pressure) and self._reclaiming.is_due(resident, now):
                await self._reclaim()
                self._reclaiming.done(self._resident.bytes() or 0, now)
            await asyncio.sleep(SAMPLE_S)

    async def _reclaim(self) -> None:
        self._release_store()
        empty_text_caches()
        forget_attribute_names()
        self._collect()
        await asyncio.to_thread(self._allocator.trim)

    def _collect(self) -> None:
        is_computing = SHORT_SWITCH_INTERVAL.is_entered
        versions = self._cache.version_count + VERSIONS_PER_WATCH * self._open_watches()
        now = time.monotonic()
        if (
            self._full_collections.may_begin(versions, now, is_computing=is_computing)
            # A few definitions may have as many objects as ten thousand others.
            and tracked_count(generation=2) <= FULL_COLLECTION_OBJECTS_MAX
        ):
            began = time.thread_time()
            gc.collect()
            self._full_collections.done(time.thread_time() - began, now)
        else:
            gc.collect(0)

    def _log_pressure(self, resident: int) -> None:
        level = logging.WARNING if self._budget.pressure is not Pressure.NONE else logging.INFO
        log.log(
            level,
            "memory pressure is %s: the process uses %d of %d MiB",
            self._budget.pressure.name.lower(),
            resident >> 20,
            self._budget.limit_bytes >> 20,
        )
