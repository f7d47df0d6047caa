"""List, then watch, then begin again where it broke off: for as long as the cache lives."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from storage.errors import RevisionCompacted, StorageError
from storage.interface import MOST_RECENT, Event, KeyRange, ReadAt, Storage, Stored, Watch
from storage.keys import after as after_key
from storage.watch_cache.progress import Progress

log = logging.getLogger(__name__)

# etcd reports progress every 10 minutes unasked; a consistent read cannot wait that long.
PROGRESS_INTERVAL_S: Final = 0.1
# So much is in memory twice while the cache fills.
PAGE_KEYS: Final = 1_000
BACKOFF_FIRST_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0
# How long the loop may be kept by events that are there already.
TURN_S: Final = 0.002


class Reflector:
    """Feeds a cache from a store.

    begin: called before a list, at first and whenever the place was lost. One that broke off is forgotten.
    add: called with one page after another of everything at one revision.
    fill: called with that revision after the last page: what was added replaces what was there.
    apply: called with each batch of changes after that.
    """

    def __init__(
        self,
        store: Storage,
        keys: KeyRange,
        progress: Progress,
        *,
        begin: Callable[[], None],
        add: Callable[[Sequence[Stored]], None],
        fill: Callable[[int], None],
        apply: Callable[[Sequence[Event]], None],
    ) -> None:
        self._store = store
        self._keys = keys
        self._progress = progress
        self._begin, self._add, self._fill, self._apply = begin, add, fill, apply
        self._watch: Watch | None = None
        self._needs_list = True
        self._has_watched = False  # since the last failure
        self.is_filled = asyncio.Event()
        self.fills_total = 0
        self.breaks_total = 0  # upstream watches that ended without being asked to
        # Why the store cannot be followed, since when it cannot; None while it is followed.
        self.failure: StorageError | None = None

    async def run(self) -> None:
        """Follow the store until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._request_progress(), name="watch-cache-progress")
            await self._follow()

    async def relist(self) -> None:
        """List everything once more: what there is cannot be trusted."""
        self._needs_list = True
        if self._watch is not None:
            await self._watch.close()

    async def _follow(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while True:
            self._has_watched = False
            try:
                if self._needs_list:
                    await self._list()
                    self._needs_list = False
                await self._run_watch()
            except RevisionCompacted as error:
                # Whoever compacts faster than we read leaves us no other way.
                log.warning("the watch cache lost its place and lists again: %s", error)
                self._needs_list = True
            except StorageError as error:
                self.breaks_total += 1
                self.failure = error
                log.warning("the watch cache cannot follow the store: %s", error)
            if self._has_watched:
                backoff_s = BACKOFF_FIRST_S
            await asyncio.sleep(backoff_s * (0.5 + secrets.randbelow(1000) / 2000))
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    async def _list(self) -> None:
        keys, at = self._keys, MOST_RECENT
        self._begin()
        while True:
            page = await self._store.list(keys, at, limit=PAGE_KEYS)
            self._add(page.items)
            if not page.more:
                break
            keys, at = KeyRange(after_key(page.items[-1].key), keys.end), ReadAt.exactly(page.revision)
        self._fill(page.revision)
        self._progress.restart(page.revision)
        self.fills_total += 1
        self.failure = None
        self.is_filled.set()

    async def _run_watch(self) -> None:
        self._watch = watch = self._store.watch(self._keys, after=self._progress.revision)
        is_established = False
        turn_ends = monotonic() + TURN_S
        try:
            async for batch in watch:
                if not is_established:
                    is_established = self._has_watched = True
                    await self._require_not_restored()
                self.failure = None
                self._apply(batch.events)
                self._progress.advance(batch.revision)
                # A store that has much to tell may not wait once: watchers must get their turn to write.
                if monotonic() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = monotonic() + TURN_S
        finally:
            self._watch = None
            await watch.close()

    async def _require_not_restored(self) -> None:
        """Raises RevisionCompacted if the store is behind the cache.

        That is no store that lags, as the read is a consistent one, but one that was restored from a
        snapshot: a watch would wait for revisions that come a second time, with other events.
        """
        reached = self._progress.revision
        current = await self._store.current_revision()
        if current < reached:
            raise RevisionCompacted(requested=reached, oldest=current)

    async def _request_progress(self) -> None:
        """While somebody waits for a revision, ask again and again: a store may drop a request."""
        while True:
            await self._progress.wait_for_waiters()
            await asyncio.sleep(PROGRESS_INTERVAL_S)
            if self._watch is not None and self._progress.is_wanted:
                try:
                    await self._watch.request_progress()
                except StorageError as error:
                    log.debug("progress could not be asked for: %s", error)
