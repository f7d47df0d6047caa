"""Compacts old revisions periodically; of several servers on a store, one does each compaction.

Every interval each server tries to write one key, on the condition that no other has since it last read the
key. The one that succeeds compacts to the revision that it saw an interval ago, so that the history always
reaches back at least that long. Source of the scheme: k8s.io/apiserver, pkg/storage/etcd3/compact.go.

Unlike there, an idle store is left alone: no server writes the key once only that key has been written since
the last compaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic

from apiserver.storage.errors import KeyExists, RevisionMismatch, StorageError
from apiserver.storage.interface import Storage
from apiserver.storage.keys import INTERNAL_GROUP

log = logging.getLogger(__name__)


async def _sleep(seconds: float) -> None:
    """Wait by the monotonic clock, as a test may advance that of the event loop."""
    ends_at = monotonic() + seconds
    while (left_s := ends_at - monotonic()) > 0:  # noqa: ASYNC110  there is nothing but time to wait for
        await asyncio.sleep(left_s)


def compaction_key(prefix: str) -> str:
    """Returns the key whose value is the revision, in decimal digits, that the store will be compacted to."""
    return f"{prefix}/{INTERNAL_GROUP}/compaction/latest"


class AutoCompactor:
    """Compacts a store periodically. sleep: waits for a number of seconds; tests pass their own."""

    def __init__(
        self,
        store: Storage,
        *,
        prefix: str,
        interval_s: float,
        sleep: Callable[[float], Awaitable[None]] = _sleep,
    ) -> None:
        self._store = store
        self._key = compaction_key(prefix)
        self._interval_s = interval_s
        self._sleep = sleep
        self._seen_key_at = 0  # the mod_revision of the key when it was last read or written
        self._seen_store_at = 0  # the store's revision then: the target of a compaction an interval later
        self._compacted_to = 0  # as the key says, or as this server has done

    async def run(self) -> None:
        """Compact every interval until cancelled."""
        while True:
            await self._sleep(self._interval_s)
            try:
                await self.compact_once()
            except StorageError as error:
                log.warning("compaction failed, retrying: %s", error)

    async def _is_quiet(self) -> bool:
        """Whether nothing was written since the last compaction."""
        return await self._store.current_revision() == self._seen_store_at

    async def compact_once(self) -> bool:
        """Compact, unless another server has since the last call, or the store is idle; True if this one
        did.
        """
        if self._compacted_to and self._seen_store_at == self._compacted_to + 1 and await self._is_quiet():
            return False
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
            self._compacted_to = int(read.stored.value) if read.stored else 0
            return False
        target, self._seen_key_at, self._seen_store_at = self._seen_store_at, written, written
        if not target:
            return False  # Only now is the revision of an interval ago known, for the next call.
        await self._store.compact(target)
        self._compacted_to = target
        log.info("compacted to revision %d", target)
        return True
