"""Compares the watch cache with the store, one resource at a time.

Both are read at one revision, a page at a time, and their digests are compared: keys and the revisions of
their last writes, in order. A difference is a bug, in the cache or below it, so the cache is filled again.
Source of the idea: k8s.io/apiserver, pkg/storage/cacher, the ConsistencyChecker of release 1.34.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from apiserver.storage.errors import RevisionCompacted, StorageError
from apiserver.storage.interface import KeyRange, ReadAt, Storage
from apiserver.storage.keys import after as after_key
from apiserver.storage.keys import prefix_range
from apiserver.storage.watch_cache.lists import LIST_BATCH_KEYS, STORE_PAGE_KEYS
from apiserver.storage.watch_cache.progress import Progress
from apiserver.storage.watch_cache.reflector import Reflector
from apiserver.storage.watch_cache.resource import ResourceCache
from apiserver.storage.watch_cache.resources import CachedResources

log = logging.getLogger(__name__)

# What a comparison of the cache with the store has found, by whether they differ.
OUTCOMES: Final[Mapping[bool | None, str]] = {None: "error", True: "failure", False: "success"}


class ConsistencyChecks:
    """Compares the cache with the store, at intervals or on request.

    totals: counts by resource prefix and outcome: success, failure (they differ) or error (nothing was
        compared).
    """

    def __init__(
        self, store: Storage, resources: CachedResources[Any], reflector: Reflector, progress: Progress
    ) -> None:
        self._store, self._resources = store, resources
        self._reflector, self._progress = reflector, progress
        self.totals: Counter[tuple[str, str]] = Counter()

    async def run(self, interval_s: float) -> None:
        """Check all resources at intervals until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            for prefix in list(self._resources.by_prefix):
                await self.check(prefix)

    async def check(self, prefix: str) -> bool:
        """Compare one resource with the store; if they differ, fill the cache again and return False.

        Does not raise: if the store cannot be read, no difference is known.
        A dropped resource is not compared, even if it is dropped meanwhile.
        """
        resource = self._resources.by_prefix.get(prefix)
        if resource is None or not self._reflector.is_filled.is_set():
            return True
        revision, fills = self._progress.revision, self._reflector.fills_total
        try:
            is_different = await self._differs(resource, prefix_range(prefix), revision)
        except RevisionCompacted:
            is_different = None  # The cache or the store no longer has that revision.
        except StorageError as error:
            log.info("cannot compare the watch cache of %s with the store: %s", prefix, error)
            is_different = None
        if self._resources.by_prefix.get(prefix) is not resource:
            return True
        if self._reflector.fills_total != fills:
            is_different = None  # The cache was filled again meanwhile, so this compared nothing.
        self.totals[prefix, OUTCOMES[is_different]] += 1
        if is_different:
            message = "the watch cache of %s differs from the store at revision %d; refilling the cache"
            log.error(message, prefix, revision)
            await self._reflector.relist()
        return not is_different

    def forget(self, prefix: str) -> None:
        for outcome in OUTCOMES.values():
            self.totals.pop((prefix, outcome), None)

    async def _differs(self, resource: ResourceCache[Any], keys: KeyRange, revision: int) -> bool:
        """Whether the cache and the store differ in a resource."""
        cached = await _digest_of_cache(resource, keys, revision)
        return cached != await self._digest_of_store(keys, revision)

    async def _digest_of_store(self, keys: KeyRange, revision: int) -> bytes:
        digest = hashlib.blake2b()
        while True:
            page = await self._store.list(keys, ReadAt.exactly(revision), limit=STORE_PAGE_KEYS)
            digest.update(b"".join([_line(item.key, item.mod_revision) for item in page.items]))
            if not page.more:
                return digest.digest()
            keys = KeyRange(after_key(page.items[-1].key), keys.end)


async def _digest_of_cache(resource: ResourceCache[Any], keys: KeyRange, revision: int) -> bytes:
    digest = hashlib.blake2b()
    while True:
        versions, last_key = resource.scan(keys, revision, count=LIST_BATCH_KEYS)
        digest.update(b"".join([_line(version.key, version.revision) for version in versions]))
        await asyncio.sleep(0)
        if last_key is None:
            return digest.digest()
        keys = KeyRange(after_key(last_key), keys.end)


def _line(key: str, revision: int) -> bytes:
    return b"%b\0%d\n" % (key.encode("utf-8", "surrogateescape"), revision)
