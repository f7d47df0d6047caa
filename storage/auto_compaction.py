"""Forgetting old revisions now and then, by several servers on one store without getting in each other's way.

One key holds who compacted last: every interval each server tries to write it, on the condition that
nobody has since it looked last. Who succeeds compacts to the revision it saw an interval ago, so that
history always reaches back at least that long. Source of the scheme: k8s.io/apiserver,
pkg/storage/etcd3/compact.go.
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
    """Its value is the revision, in decimal digits, that the store is about to be compacted to."""
    return f"{prefix}/{INTERNAL_GROUP}/compaction/latest"


class AutoCompactor:
    """sleep: waits the seconds it is given; tests bring their own."""

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
        self._seen_key_at = 0  # the mod_revision of the key when we looked last
        self._seen_store_at = 0  # the store's revision then: what may be forgotten after an interval

    async def run(self) -> None:
        """Compact every interval until cancelled."""
        while True:
            await self._sleep(self._interval_s)
            try:
                await self.compact_once()
            except StorageError as error:
                log.warning("compaction failed and is tried again later: %s", error)

    async def compact_once(self) -> bool:
        """Compact, unless somebody else has since the last call; True if it was us."""
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
            return False  # Only now do we know how far the store had come.
        await self._store.compact(target)
        log.info("compacted to revision %d", target)
        return True
