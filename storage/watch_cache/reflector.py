"""Feeds the watch cache from the store: lists everything, watches, and resumes the watch when it breaks."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Final, NamedTuple

from apiserver.storage.errors import RevisionCompacted, StorageError
from apiserver.storage.interface import MOST_RECENT, Event, KeyRange, ReadAt, Storage, Stored, Watch
from apiserver.storage.keys import after as after_key
from apiserver.storage.watch_cache.progress import Progress

log = logging.getLogger(__name__)

# etcd reports progress every 10 minutes unasked; a consistent read cannot wait that long.
PROGRESS_INTERVAL_S: Final = 0.1
# Keys listed at a time: so much is in memory twice while the cache fills.
PAGE_KEYS: Final = 1_000
BACKOFF_FIRST_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0
# How long events may be applied, in total, before other tasks run.
YIELD_INTERVAL_S: Final = 0.002
# So much of a page is decoded before the time is looked at: a few milliseconds' worth.
PART_BYTES: Final = 256 * 1024
# Events that are applied before the clock is looked at. With thousands of watchers one takes a millisecond.
EVENTS_AT_ONCE: Final = 8


class ReflectorCallbacks(NamedTuple):
    """The callbacks of a reflector for the data that it reads.

    on_list: called before a list, which is done first and whenever the watch cannot be resumed. Pages of an
        earlier list that was not finished are void.
    on_page: called with one part of a page after another, all of one revision.
    on_listed: called with that revision after the last page: the pages replace what was there.
    on_events: called with each batch of events after that.
    """

    on_list: Callable[[], None]
    on_page: Callable[[Sequence[Stored]], None]
    on_listed: Callable[[int], None]
    on_events: Callable[[Sequence[Event]], None]


class Reflector:
    """Lists and watches a range of keys, as client-go's Reflector does."""

    def __init__(
        self, store: Storage, keys: KeyRange, progress: Progress, callbacks: ReflectorCallbacks
    ) -> None:
        self._store = store
        self._keys = keys
        self._progress = progress
        self._callbacks = callbacks
        self._watch: Watch | None = None
        self._needs_list = True
        self._has_watched = False  # since the last failure
        self.is_filled = asyncio.Event()
        self.fills_total = 0
        self.breaks_total = 0  # lists and watches that failed
        # Why the last list or watch failed; None while the store can be watched.
        self.failure: StorageError | None = None

    async def run(self) -> None:
        """List and watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._request_progress(), name="watch-cache-progress")
            tasks.create_task(self._list_and_watch(), name="watch-cache-reflector")

    def begin_at(self, revision: int) -> None:
        """Begin with a watch instead of a list, as everything up to a revision is known already."""
        self._needs_list = False
        self._note_fill(revision)

    async def relist(self) -> None:
        """List everything again, because the content of the cache is wrong."""
        self._needs_list = True
        if self._watch is not None:
            await self._watch.close()

    async def _list_and_watch(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while True:
            self._has_watched = False
            try:
                while self._needs_list:
                    await self._list()
                await self._run_watch()
            except RevisionCompacted as error:
                # The store was compacted faster than the cache read it.
                log.warning("the watch cache cannot resume its watch; listing everything again: %s", error)
                self._needs_list = True
            except StorageError as error:
                self.breaks_total += 1
                self.failure = error
                log.warning("the watch cache cannot watch the store, retrying: %s", error)
            if self._has_watched:
                backoff_s = BACKOFF_FIRST_S
            await asyncio.sleep(backoff_s * (0.5 + secrets.randbelow(1000) / 2000))
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    async def _list(self) -> None:
        # Before anything is read: a concurrent request for a list may concern what has been read already.
        self._needs_list = False
        try:
            await self._read_all()
        except BaseException:
            self._needs_list = True
            raise

    async def _read_all(self) -> None:
        keys, at = self._keys, MOST_RECENT
        yields_at = monotonic() + YIELD_INTERVAL_S
        self._callbacks.on_list()
        while True:
            page = await self._store.list(keys, at, limit=PAGE_KEYS)
            for part in _parts(page.items):
                self._callbacks.on_page(part)
                if monotonic() > yields_at:
                    await asyncio.sleep(0)
                    yields_at = monotonic() + YIELD_INTERVAL_S
            if not page.more:
                break
            keys, at = KeyRange(after_key(page.items[-1].key), keys.end), ReadAt.exactly(page.revision)
        self._callbacks.on_listed(page.revision)
        self._note_fill(page.revision)

    def _note_fill(self, revision: int) -> None:
        self._progress.restart(revision)
        self.fills_total += 1
        self.failure = None
        self.is_filled.set()

    async def _run_watch(self) -> None:
        self._watch = watch = self._store.watch(self._keys, after=self._progress.revision)
        on_events, progress = self._callbacks.on_events, self._progress
        is_established = False
        busy_s = 0.0
        try:
            async for batch in watch:
                if not is_established:
                    is_established = self._has_watched = True
                    await self._require_not_restored()
                self.failure = None
                for events in _by_revision(batch.events):
                    began = monotonic()
                    on_events(events)
                    busy_s += monotonic() - began
                    # With many events there may be no wait at all: let watchers write in between.
                    if busy_s > YIELD_INTERVAL_S:
                        progress.advance(events[-1].mod_revision)
                        await asyncio.sleep(0)
                        busy_s = 0.0
                progress.advance(batch.revision)
        finally:
            self._watch = None
            await watch.close()

    async def _require_not_restored(self) -> None:
        """Require that the store is not behind the cache.

        As the read is consistent, a store that is behind was restored from a snapshot. A watch would wait for
        revisions that are used a second time, for other events.
        """
        reached = self._progress.revision
        current = await self._store.current_revision()
        if current < reached:
            raise RevisionCompacted(requested=reached, oldest=current)

    async def _request_progress(self) -> None:
        """Request progress while reads wait for a revision, again and again, as a store may drop a
        request.
        """
        while True:
            await self._progress.wait_for_waiters()
            await asyncio.sleep(PROGRESS_INTERVAL_S)
            if self._watch is not None and self._progress.has_waiters:
                try:
                    await self._watch.request_progress()
                except StorageError as error:
                    log.debug("cannot request progress of the watch: %s", error)


def _by_revision(events: Sequence[Event]) -> Iterable[Sequence[Event]]:
    """Returns the events in parts, with all events of a revision in one, so that transactions are atomic."""
    if len(events) <= EVENTS_AT_ONCE:
        return (events,) if events else ()
    parts: list[Sequence[Event]] = []
    start = 0
    while start < len(events):
        end = min(start + EVENTS_AT_ONCE, len(events))
        while end < len(events) and events[end].mod_revision == events[end - 1].mod_revision:
            end += 1
        parts.append(events[start:end])
        start = end
    return parts


def _parts(items: Sequence[Stored]) -> Iterator[Sequence[Stored]]:
    """Splits a page into parts of about PART_BYTES."""
    start = size = 0
    for end, item in enumerate(items, 1):
        size += len(item.value)
        if size >= PART_BYTES:
            yield items[start:end]
            start, size = end, 0
    if start < len(items):
        yield items[start:]
