"""Compares the watch cache with the store, one resource at a time.

Both are read at one revision, a page at a time, and their digests are compared: keys and the revisions of
their last writes, in order. A difference is a bug, in the cache or below it, so the caller fills the cache
again. Source of the idea: k8s.io/apiserver, pkg/storage/cacher, the ConsistencyChecker of release 1.34.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from storage.errors import RevisionCompacted
from storage.interface import KeyRange, ReadAt, Storage
from storage.keys import after as after_key

PAGE_KEYS: Final = 500

# From a range and a revision to its keys and the revisions of their last writes, in order, by pages.
ReadCache = Callable[[KeyRange, int], AsyncIterator[Iterable[tuple[str, int]]]]


async def differs(store: Storage, read_cache: ReadCache, keys: KeyRange, *, revision: int) -> bool | None:
    """Whether cache and store differ in the state of a range at a revision.

    None: unknown, as one of them no longer has that revision. Raises what the store raises.
    """
    try:
        cached, stored = hashlib.blake2b(), hashlib.blake2b()
        async for entries in read_cache(keys, revision):
            cached.update(b"".join([_line(key, written_at) for key, written_at in entries]))
        while True:
            page = await store.list(keys, ReadAt.exactly(revision), limit=PAGE_KEYS)
            stored.update(b"".join([_line(item.key, item.mod_revision) for item in page.items]))
            if not page.more:
                return stored.digest() != cached.digest()
            keys = KeyRange(after_key(page.items[-1].key), keys.end)
    except RevisionCompacted:
        return None


def _line(key: str, revision: int) -> bytes:
    return b"%b\0%d\n" % (key.encode("utf-8", "surrogateescape"), revision)
