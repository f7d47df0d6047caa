"""An adapter that makes a watch cache a `Storage`, so that the tests of the contract can run on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.interface import (
    MOST_RECENT,
    Consistency,
    Event,
    EventBatch,
    KeyRange,
    Page,
    Read,
    ReadAt,
    Storage,
    Stored,
    Watch,
)
from apiserver.storage.keys import resource_of
from apiserver.storage.watch_cache import (
    EVERYTHING,
    KeyVersion,
    WatchCache,
    WatchCacheOptions,
    Watcher,
    WatchScope,
)
from tests.support.resource_cache import P

PREFIX = "/registry"
# The cache is not compared with the store at intervals.
UNCHECKED: Final = WatchCacheOptions(check_interval_s=0)


class CacheAsStorage:
    """Reads and watches of one resource go to the cache, all else to the store behind it."""

    def __init__(self, store: Storage, options: WatchCacheOptions = UNCHECKED) -> None:
        self.store = store
        self.cache: WatchCache[Stored] = WatchCache(
            store,
            prefix=PREFIX,
            decode=lambda stored: stored,
            size_of=lambda stored: len(stored.value),
            options=options,
        )
        self._run: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._run = asyncio.create_task(self.cache.run())
        await self.cache.wait_until_filled()

    async def close(self) -> None:
        if self._run is not None:
            self._run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._run
        await self.store.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def get(self, key: str, at: ReadAt = MOST_RECENT) -> Read:
        version = await self.cache.get(key, at)
        return Read(version.value if version else None, self._revision(at))

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        listing = await self.cache.list(keys, at, limit=limit)
        if limit and listing.next_key is not None:
            rest = await self.cache.list(
                KeyRange(listing.next_key, keys.end), ReadAt.exactly(listing.revision)
            )
            assert listing.remaining == len(rest.versions)
        items = [version.value for version in listing.versions if version.value is not None]
        return Page(items, listing.revision, more=listing.next_key is not None)

    async def count(self, keys: KeyRange, at: ReadAt = MOST_RECENT) -> int:
        return len((await self.cache.list(keys, at)).versions)

    def watch(self, keys: KeyRange, *, after: int) -> Watch:
        prefix = resource_of(PREFIX, keys.start)
        if prefix is None:
            return self.store.watch(keys, after=after)
        return CacheWatch(self.cache, prefix, keys, after)

    def _revision(self, at: ReadAt) -> int:
        return at.revision if at.consistency is Consistency.EXACT else self.cache.revision


def watched(
    cache: WatchCache[Stored], after: int, on_ready: Callable[[], None] = lambda: None
) -> Watcher[Stored]:
    """Returns a watcher of all keys below `P`. Raises RevisionCompacted."""
    watcher: Watcher[Stored] = Watcher(after=after, on_ready=on_ready)
    cache.watch(P, watcher, EVERYTHING)
    return watcher


class CacheWatch:
    """A watcher as an iterator of batches."""

    def __init__(self, cache: WatchCache[Stored], prefix: str, keys: KeyRange, after: int) -> None:
        self._cache, self._prefix, self._after = cache, prefix, after
        self._scope = WatchScope() if keys.start == prefix else WatchScope(key_prefix=keys.start)
        self._something = asyncio.Event()
        self._watcher: Watcher[Stored] | None = None
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[EventBatch]:
        watcher: Watcher[Stored] = Watcher(after=self._after, on_ready=self._something.set)
        self._cache.watch(self._prefix, watcher, self._scope)
        self._watcher = watcher
        while not (watcher.is_ended or self._is_closed):
            events = [_event(delivery.event.version) for delivery in watcher.take()]
            if events:
                yield EventBatch(events, events[-1].mod_revision)
            if not watcher.is_behind:
                await self._something.wait()
                self._something.clear()
        raise StorageUnavailable("the watcher was ended")

    async def request_progress(self) -> None: ...

    async def close(self) -> None:
        self._is_closed = True
        if self._watcher is not None:
            self._cache.unwatch(self._prefix, self._watcher, self._scope)
            self._watcher.end()


def _event(version: KeyVersion[Stored]) -> Event:
    if version.value is None:
        return Event(version.key, None, 0, version.revision)
    stored = version.value
    return Event(stored.key, stored.value, stored.create_revision, stored.mod_revision, stored.lease)
