"""Lists versions from memory, or from the store where memory does not have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from apiserver.storage.event_loop_turns import Turn
from apiserver.storage.interface import KeyRange, ReadAt, Storage, Stored
from apiserver.storage.keys import after as after_key
from apiserver.storage.watch_cache.events import Predicate
from apiserver.storage.watch_cache.resource import ResourceCache
from apiserver.storage.watch_cache.snapshots import KeyVersion

T = TypeVar("T")

# Keys that a list looks at before it yields to the event loop: less than a millisecond.
LIST_BATCH_KEYS: Final = 1_000
# Objects tested before the clock is looked at, if those before took little time. A test of one that is large,
# and not decoded yet, takes some milliseconds.
TESTS_AT_ONCE: Final = 16
# Keys read from the store at a time when a selective list has to go there.
STORE_PAGE_KEYS: Final = 500


class Listing(NamedTuple, Generic[T]):
    """The result of `WatchCache.list`."""

    versions: Sequence[KeyVersion[T]]
    revision: int
    next_key: str | None  # where the next page starts; None when this was the last one
    remaining: int | None  # how many come after this page; None for the last, or when only some are selected


class PageOptions(NamedTuple, Generic[T]):
    """The limit and the predicate of a list: see `WatchCache.list`."""

    limit: int
    predicate: Predicate[T] | None
    counts_rest: bool

    def keys_at_once(self, most: int) -> int:
        """Returns how many keys to look at: one more than the limit, to know whether there are more.

        With a predicate the necessary number is unknown.
        """
        return min(self.limit + 1, most) if self.limit and self.predicate is None else most


async def list_memory(
    resource: ResourceCache[T], keys: KeyRange, revision: int, page: PageOptions[T]
) -> Listing[T]:
    """Lists a range from memory.

    Raises RevisionCompacted when the history does not reach back to `revision`, or no longer does.
    """
    resource.lists_total += 1
    found: list[KeyVersion[T]] = []
    batch_keys = page.keys_at_once(LIST_BATCH_KEYS)
    rest, turn = keys, Turn()
    while True:
        # Also before the first: many that waited for one revision go on in one round.
        if turn.is_over():
            await turn.next()
        versions, last_key = resource.scan(rest, revision, count=batch_keys)
        resource.scanned_total += len(versions)
        if page.predicate is None:
            found += versions
        else:
            await _add_selected(found, versions, page.predicate, turn)
        if page.limit and len(found) > page.limit:
            break
        if last_key is None:
            resource.listed_total += len(found)
            return Listing(found, revision, None, None)
        rest = KeyRange(after_key(last_key), keys.end)
    del found[page.limit :]
    resource.listed_total += len(found)
    next_key = after_key(found[-1].key)
    remaining = resource.count(KeyRange(next_key, keys.end), revision) if page.counts_rest else None
    return Listing(found, revision, next_key, remaining)


class StoreReader(Generic[T]):
    """Reads data from the store that is not in memory."""

    def __init__(self, store: Storage, decode: Callable[[Stored], T]) -> None:
        self._store, self._decode = store, decode

    def version(self, stored: Stored) -> KeyVersion[T]:
        return KeyVersion(
            stored.key,
            self._decode(stored),
            revision=stored.mod_revision,
            create_revision=stored.create_revision,
        )

    async def get(self, key: str, at: ReadAt) -> KeyVersion[T] | None:
        stored = (await self._store.get(key, at)).stored
        return self.version(stored) if stored is not None else None

    async def list(self, keys: KeyRange, at: ReadAt, page: PageOptions[T]) -> tuple[Listing[T], int]:
        """Lists a range from the store; also returns how many versions were tested for it."""
        limit, predicate, counts_rest = page
        versions: list[KeyVersion[T]] = []
        tested = 0
        turn = Turn()
        page_keys = page.keys_at_once(STORE_PAGE_KEYS)
        while True:
            read = await self._store.list(keys, at, limit=page_keys)
            at = ReadAt.exactly(read.revision)
            decoded = await self._decoded(read.items)
            tested += len(decoded)
            if predicate is None:
                versions += decoded
            else:
                await _add_selected(versions, decoded, predicate, turn)
            if not read.more or (limit and len(versions) > limit):
                break
            keys = KeyRange(after_key(read.items[-1].key), keys.end)
        if not limit or len(versions) <= limit:
            return Listing(versions, read.revision, None, None), tested
        del versions[limit:]
        next_key = after_key(versions[-1].key)
        remaining = await self._store.count(KeyRange(next_key, keys.end), at) if counts_rest else None
        return Listing(versions, read.revision, next_key, remaining), tested

    async def _decoded(self, items: Sequence[Stored]) -> Sequence[KeyVersion[T]]:
        """Returns the versions in a page, letting other tasks run meanwhile."""
        versions = []
        turn = Turn()
        for item in items:
            if turn.is_over():
                await turn.next()
            versions.append(self.version(item))
        return versions


async def _add_selected(
    found: list[KeyVersion[T]], versions: Sequence[KeyVersion[T]], predicate: Predicate[T], turn: Turn
) -> None:
    """Add the versions that a predicate selects, letting other tasks run meanwhile."""
    start, count = 0, 1
    while start < len(versions):
        if turn.is_over():
            await turn.next()
            count = 1
        found += [
            version
            for version in versions[start : start + count]
            if version.value is not None and predicate(version.value)
        ]
        start += count
        count = min(2 * count, TESTS_AT_ONCE)
