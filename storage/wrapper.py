"""The base of stores in front of another one, which pass on all calls that they do not change."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from apiserver.storage.interface import MOST_RECENT, KeyRange, Page, Read, ReadAt, Storage, Watch


class StorageWrapper:
    """Passes calls on to another `Storage`; subclasses define writes, and may override other methods."""

    def __init__(self, store: Storage) -> None:
        self._store = store
        # These are about no values. A consistent read pays for no coroutine more than the store's own.
        self.current_revision, self.count = store.current_revision, store.count
        self.compact, self.size_bytes, self.check_health = store.compact, store.size_bytes, store.check_health
        self.grant_lease, self.renew_lease = store.grant_lease, store.renew_lease
        self.revoke_lease = store.revoke_lease

    def get(self, key: str, at: ReadAt = MOST_RECENT) -> Coroutine[Any, Any, Read]:
        return self._store.get(key, at)

    def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Coroutine[Any, Any, Page]:
        return self._store.list(keys, at, limit=limit)

    def compare_and_delete(self, key: str, *, expected: int) -> Coroutine[Any, Any, int]:
        return self._store.compare_and_delete(key, expected=expected)

    def watch(self, keys: KeyRange, *, after: int) -> Watch:
        return self._store.watch(keys, after=after)

    async def close(self) -> None:
        await self._store.close()
