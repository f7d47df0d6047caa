"""Copies of a server's stored state, which other servers in the process can begin with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from apiserver.registry.clock import Clock
from apiserver.registry.stored_object import DamagedObject, StoredObject
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.memory_database import MemoryDatabase
from apiserver.storage.interface import Storage
from apiserver.storage.watch_cache import CacheState, WatchCache


class CannotBeCopied(Exception):
    """The content of a store cannot be copied, because it is not in this process."""

    def __init__(self) -> None:
        super().__init__("only the contents of an embedded store can be copied, not those of etcd")


@dataclass(frozen=True, slots=True)
class StateCopy:
    """The state of a server at one revision, which never changes and any number of servers can begin with.

    cached: the decoded state of the server's cache, whose bytes are shared. None if servers that begin with
        the copy have to list their store, because an object could not be decoded.
    """

    database: MemoryDatabase
    cached: CacheState[StoredObject] | None = field(repr=False)

    def close(self) -> None:
        """Release the copy."""
        self.database.close()


class CopiedState(NamedTuple):
    """A copy of a state that a server begins with: an `InitialState`.

    after: a revision that clients may have seen on another server at the same address: the store continues
        above it, and earlier revisions cannot be read.
    """

    copy: StateCopy
    after: int = 0

    @property
    def revision(self) -> int:
        """The revision at which the store opens; later writes are not part of the copy."""
        return max(self.copy.database.revision, self.after)

    def open_store(self, clock: Clock) -> EmbeddedStore:
        """Returns a store with the objects."""
        database = MemoryDatabase(self.copy.database)
        if self.after:
            database.continue_at(self.after)
        return EmbeddedStore(database, monotonic=clock.monotonic, wall=clock.time)

    def fill(self, cache: WatchCache[StoredObject]) -> None:
        """Fill a cache, unless it has to list the store."""
        if self.copy.cached is not None:
            # The store may have gone on, as leases have expired while a KMS plugin was waited for.
            cache.begin_with(self.copy.cached, self.revision, StoredObject.copy)


async def copy_state(store: Storage, cache: WatchCache[StoredObject]) -> StateCopy:
    """Returns a copy of the state after all answered writes. Raises CannotBeCopied, StorageUnavailable."""
    if not isinstance(store, EmbeddedStore):
        raise CannotBeCopied
    database = await store.copy()
    cached = await cache.state_at(database.revision)
    return StateCopy(database, cached if cached is not None and _is_sound(cached) else None)


def _is_sound(state: CacheState[StoredObject]) -> bool:
    return not any(
        isinstance(each.value, DamagedObject)
        for resource in state.resources.values()
        for each in resource.held
    )
