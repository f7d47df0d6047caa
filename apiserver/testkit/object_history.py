"""The versions of one object that the store still has."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.meta.errors import ApiError
from apiserver.meta.vocabulary import Document
from apiserver.registry import version_codec
from apiserver.registry.served_resource import ServedResource
from apiserver.storage.errors import RevisionCompacted
from apiserver.storage.interface import NO_LEASE, Event, KeyRange, ReadAt, Storage, Stored
from apiserver.storage.keys import after

if TYPE_CHECKING:
    from apiserver.app.core import Core

# More than a test looks at. Of large objects there are fewer.
VERSIONS_MAX: Final = 1_000
BYTES_MAX: Final = 32 * 1024 * 1024


class ObjectVersion(NamedTuple):
    """The state of an object after one write. document: None for a deletion; empty if it cannot be read.

    is_new: whether it did not exist before. may_expire: whether it has a lease, and is deleted when that
        expires.
    """

    revision: int
    document: Document | None
    is_new: bool
    may_expire: bool = False


class ObjectHistory(NamedTuple):
    """The versions of one object, oldest first. key: the object's, in the store.

    is_complete: whether there are none before them in the store.
    """

    key: str
    versions: list[ObjectVersion]
    is_complete: bool


class LastEvents:
    """The last events of an object, within bounds. is_complete: whether none were dropped."""

    def __init__(self, versions_max: int = VERSIONS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._versions_max, self._bytes_max = versions_max, bytes_max
        self.events: deque[Event] = deque()
        self.is_complete = True
        self._bytes = 0

    def add(self, event: Event) -> None:
        self.events.append(event)
        self._bytes += len(event.value or b"")
        while len(self.events) > self._versions_max or self._bytes > self._bytes_max:
            self._bytes -= len(self.events.popleft().value or b"")
            self.is_complete = False


async def read_history(
    core: Core, group_version: tuple[str, str], plural: str, namespace: str, name: str
) -> ObjectHistory:
    """Returns the last versions of an object, as clients of a resource see it.

    Raises StorageError, and KeyError if there is no such resource.
    """
    resource = core.served.current.find(*group_version, plural)
    if resource is None:
        raise KeyError(plural)
    key = core.registry.key(resource, namespace, name)
    last = LastEvents()
    await read_events(core.store, key, last)
    versions = [await _version(core, resource, each) for each in last.events]
    return ObjectHistory(key, versions, last.is_complete)


async def read_events(store: Storage, key: str, last: LastEvents) -> None:
    """Add all events of a key that the store still has. Raises StorageError."""
    try:
        await _add_events(store, key, 0, last)
    except RevisionCompacted as error:
        last.is_complete = False
        found = (await store.get(key, ReadAt.exactly(error.oldest))).stored
        if found is not None:
            last.add(Event(key, found.value, found.create_revision, found.mod_revision, found.lease))
        await _add_events(store, key, error.oldest, last)


async def _add_events(store: Storage, key: str, begins_after: int, last: LastEvents) -> None:
    """Add events of a watch."""
    current = await store.current_revision()
    watch = store.watch(KeyRange(key, after(key)), after=begins_after)
    try:
        async for batch in watch:
            for event in batch.events:
                last.add(event)
            if batch.revision >= current:
                return
    finally:
        await watch.close()


async def _version(core: Core, resource: ServedResource, event: Event) -> ObjectVersion:
    if event.value is None:
        return ObjectVersion(event.mod_revision, None, is_new=False)
    stored = Stored(event.key, event.value, event.create_revision, event.mod_revision)
    document: Document = {}
    with suppress(ApiError):  # It is damaged, or cannot be converted.
        document = (await version_codec.view(resource.codec, core.decode(stored), core.offload)).document()
    return ObjectVersion(event.mod_revision, document, event.is_create, event.lease != NO_LEASE)
