"""Fills the cache with the data that the reflector reads, sorted by resource, and keeps it up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Generic, Protocol, TypeVar

from apiserver.storage.auto_compaction import compaction_key
from apiserver.storage.interface import Event, Stored
from apiserver.storage.keys import resource_of
from apiserver.storage.watch_cache.events import CacheEvent
from apiserver.storage.watch_cache.reflector import ReflectorCallbacks
from apiserver.storage.watch_cache.resources import CachedResources
from apiserver.storage.watch_cache.snapshots import KeyVersion, Snapshots
from apiserver.storage.watch_cache.state import CacheState

T = TypeVar("T")


class NonObjectKeys(Protocol):
    """Receives changes of keys that belong to no object; must not raise."""

    def clear(self) -> None:
        """Forget all keys; the existing ones follow."""
        ...

    def keys(self) -> Sequence[str]:
        """Returns the keys that another cache must know, to begin with the state of this one."""
        ...

    def put(self, key: str) -> None: ...

    def delete(self, key: str) -> None: ...


class ChangeFollower(Protocol[T]):
    """Receives everything that happens to a cache; no method may raise."""

    def filled(self, revision: int) -> None:
        """The cache was filled with the state at a revision: changes up to there may have been missed."""
        ...

    def changed(self, changes: Sequence[CacheEvent[T]], events: Sequence[Event]) -> None:
        """Objects have changed: at one revision or several, sorted by resource; maybe none.

        events: all events of the store at these revisions, in order, which have the notes of the writes.
        """
        ...


@dataclass(slots=True)
class _ListedResource(Generic[T]):
    """The versions of a resource while everything is listed, and the sizes of its values."""

    snapshots: Snapshots[T]
    bytes: int = 0


class CacheUpdater(Generic[T]):
    """Passes data read from the store to the caches of its resources.

    version_of: decodes a stored value for readers. size_of: returns the bytes that it keeps in memory.
    compacted: the store no longer has, or is about to drop, revisions before this one.
    follower: see `WatchCache.follow`.
    """

    def __init__(
        self,
        prefix: str,
        resources: CachedResources[T],
        version_of: Callable[[Stored], KeyVersion[T]],
        size_of: Callable[[T], int],
        others: NonObjectKeys | None,
    ) -> None:
        self._prefix, self._resources = prefix, resources
        self._version_of, self._size_of, self._others = version_of, size_of, others
        self.follower: ChangeFollower[T] | None = None
        self._compaction_key = compaction_key(prefix)
        self.compacted = 0
        self._listed: dict[str, _ListedResource[T]] = {}
        self._on_change: dict[str, list[Callable[[], None]]] = {}  # by resource prefix

    @property
    def callbacks(self) -> ReflectorCallbacks:
        return ReflectorCallbacks(
            on_list=self._begin, on_page=self._add, on_listed=self._fill, on_events=self._apply
        )

    @property
    def other_keys(self) -> Sequence[str]:
        return () if self._others is None else self._others.keys()

    def begin_with(self, state: CacheState[T], revision: int, copy: Callable[[T], T]) -> None:
        """Fill the cache with the state of another one: see `WatchCache.begin_with`."""
        self.compacted = state.compacted
        if self._others is not None:
            for other in state.others:
                self._others.put(other)
        for prefix, resource in state.resources.items():
            snapshots: Snapshots[T] = Snapshots()
            snapshots.add_all(
                [
                    KeyVersion(key, copy(value), revision=changed, create_revision=created)
                    for key, value, changed, created in resource.held
                ]
            )
            self._listed[prefix] = _ListedResource(snapshots, resource.bytes)
        self._fill(revision)

    def note_compaction(self, revision: int) -> None:
        """Note that the store has dropped everything before a revision."""
        self.compacted = max(self.compacted, revision)

    def subscribe(self, prefix: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` when a resource changes: see `WatchCache.on_change`."""
        self._on_change.setdefault(prefix, []).append(changed)
        return partial(self._unsubscribe, prefix, changed)

    def _unsubscribe(self, prefix: str, changed: Callable[[], None]) -> None:
        called = self._on_change[prefix]
        called.remove(changed)
        if not called:  # Resources come and go.
            del self._on_change[prefix]

    # ---- a list

    def _begin(self) -> None:
        self._listed.clear()
        if self._others is not None:
            self._others.clear()

    def _add(self, items: Sequence[Stored]) -> None:
        by_resource: dict[str, list[KeyVersion[T]]] = {}
        for item in items:
            prefix = resource_of(self._prefix, item.key)
            if prefix is not None:
                by_resource.setdefault(prefix, []).append(self._version_of(item))
            else:
                self._note_other(item.key, item.value)
        for prefix, versions in by_resource.items():
            listed = self._listed.get(prefix)
            if listed is None:
                listed = self._listed[prefix] = _ListedResource(Snapshots())
            listed.snapshots.add_all(versions)
            listed.bytes += sum(
                self._size_of(version.value) for version in versions if version.value is not None
            )

    def _fill(self, revision: int) -> None:
        self._resources.floor = revision
        for prefix in self._resources.by_prefix.keys() | self._listed.keys():
            listed = self._listed.get(prefix) or _ListedResource(Snapshots())
            self._resources.of(prefix).fill(listed.snapshots, revision, listed.bytes)
        self._listed.clear()
        if self.follower is not None:
            self.follower.filled(revision)
        for changed in chain.from_iterable(self._on_change.values()):
            changed()

    # ---- a watch

    def _apply(self, events: Sequence[Event]) -> None:
        by_resource: dict[str, list[Event]] = {}
        for event in events:
            prefix = resource_of(self._prefix, event.key)
            if prefix is not None:
                by_resource.setdefault(prefix, []).append(event)
            else:
                self._note_other(event.key, event.value)
        changes: list[CacheEvent[T]] = []
        for prefix, group in by_resource.items():
            changes += self._resources.apply(prefix, group)
            for changed in self._on_change.get(prefix, ()):
                changed()
        if self.follower is not None:
            self.follower.changed(changes, events)

    def _note_other(self, key: str, value: bytes | None) -> None:
        """Note a key that belongs to no object. value: None if it is deleted.

        Revisions that the store has compacted must not be served: replicas must agree (row K32).
        """
        if key == self._compaction_key:
            if value is not None and value.isdigit():
                self.compacted = int(value)
        elif self._others is not None:
            (self._others.delete if value is None else self._others.put)(key)
