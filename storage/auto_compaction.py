"""Periodic compaction of old revisions, of which one of several servers on a store does each.

Every interval each server tries to write one key, on the condition that no other has since it last read the
key. The one that succeeds compacts to the revision that it saw an interval ago, so that the history always
reaches back at least that long. Source of the scheme: k8s.io/apiserver, pkg/storage/etcd3/compact.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from storage.errors import KeyExists, RevisionMismatch, StorageError
from storage.interface import Storage
from storage.keys import INTERNAL_GROUP

log = logging.getLogger(__name__)


def compaction_key(prefix: str) -> str:
    """The key whose value is the revision, in decimal digits, that the store is about to be compacted to."""
    return f"{prefix}/{INTERNAL_GROUP}/compaction/latest"


class AutoCompactor:
    """Compacts a store periodically. sleep: waits for a number of seconds; tests pass their own."""

    def __init__(
        self,
        store: Storage,
        *,
        prefix: str,
        interval_s: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._key = compaction_key(prefix)
        self._interval_s = interval_s
        self._sleep = sleep
        self._seen_key_at = 0  # the mod_revision of the key when it was last read or written
        self._seen_store_at = 0  # the store's revision then: the target of a compaction an interval later

    async def run(self) -> None:
        """Compact every interval until cancelled."""
        while True:
            await self._sleep(self._interval_s)
            try:
                await self.compact_once()
            except StorageError as error:
                log.warning("compaction failed and will be retried: %s", error)

    async def compact_once(self) -> bool:
        """Compact, unless another server has since the last call; True if this one did."""
        value = b"%d" % self._seen_store_at
        try:
            if self._seen_key_at:
                written = await self._store.compare_and_put(self._key, value, expected=self._seen_key_at)
            else:
                written = await self._store.create(self._key, value)
        except (KeyExists, RevisionMismatch):
            read = await self._store.get(self._key)
            self._seen_key_at = read.stored.mod_revision if read.stored else 0
            self._seen_store_at = read.revision
            return False
        target, self._seen_key_at, self._seen_store_at = self._seen_store_at, written, written
        if not target:
            return False  # Only now is the revision of an interval ago known, for the next call.
        await self._store.compact(target)
        log.info("compacted to revision %d", target)
        return True
