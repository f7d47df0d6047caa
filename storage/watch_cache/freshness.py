"""Decides how fresh a read has to be, and waits until the cache is that fresh."""

from __future__ import annotations

import time

from apiserver.storage.errors import RevisionTooLarge
from apiserver.storage.interface import Consistency, ReadAt, Storage
from apiserver.storage.watch_cache.options import WatchCacheOptions
from apiserver.storage.watch_cache.progress import Progress


class Freshness:
    """Lets reads wait until the cache can answer them."""

    def __init__(self, store: Storage, progress: Progress, options: WatchCacheOptions) -> None:
        self._store, self._progress, self._options = store, progress, options

    async def wait(self, at: ReadAt, key: str = "") -> bool:
        """Wait until the cache can answer a read; False if the store should answer, because that takes too
        long.

        key: the key of the read, or the start of its range; empty for reads that are not counted.
        Raises RevisionTooLarge, StorageUnavailable.
        """
        match at.consistency:
            case Consistency.ANY:
                return True
            case Consistency.MOST_RECENT:
                current = await self._store.current_revision()
                # Most reads need not wait, and are not to pay for two more coroutines.
                return current <= self._progress.revision or await self._wait_for(
                    current, self._options.catch_up_wait_s, key
                )
            case Consistency.NOT_OLDER_THAN | Consistency.EXACT if at.revision <= self._progress.revision:
                return True  # So is a list at the revision that has been settled for it.
            case Consistency.NOT_OLDER_THAN:
                exists = at.revision <= await self._store.current_revision()
                wait_s = self._options.future_revision_wait_s
                if not await self._wait_for(at.revision, wait_s, key, exists=exists):
                    raise RevisionTooLarge(requested=at.revision, current=self._progress.revision)
                return True
            case Consistency.EXACT:
                current = await self._store.current_revision()
                if at.revision > current:
                    raise RevisionTooLarge(requested=at.revision, current=current)
                return await self._wait_for(at.revision, self._options.catch_up_wait_s, key)

    async def has_reached(self, revision: int) -> bool:
        """Wait until the cache has reached a revision of the store; returns False if that takes too long."""
        return await self._progress.wait_for(revision, self._options.catch_up_wait_s)

    async def _wait_for(self, revision: int, timeout_s: float, key: str, *, exists: bool = True) -> bool:
        """Wait as `Progress.wait_for` does, and report how long it took if the revision was not there at
        once.
        """
        on_wait = self._options.on_wait
        if on_wait is None or not key or revision <= self._progress.revision:
            return await self._progress.wait_for(revision, timeout_s, exists=exists)
        began = time.perf_counter()
        try:
            return await self._progress.wait_for(revision, timeout_s, exists=exists)
        finally:
            on_wait(key, time.perf_counter() - began)
