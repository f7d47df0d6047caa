"""State by revision: for each key the newest version, and behind it the older ones still kept."""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Generic, TypeVar

from sortedcontainers import SortedDict

from storage.interface import KeyRange

T = TypeVar("T")


class KeyVersion(Generic[T]):
    """One state of one key, from `revision` until the next version of the key."""

    __slots__ = ("create_revision", "key", "previous", "revision", "value")

    def __init__(
        self,
        key: str,
        value: T | None,
        *,
        revision: int,
        create_revision: int,
        previous: KeyVersion[T] | None = None,
    ) -> None:
        self.key = key
        self.value = value  # None: deleted
        self.revision = revision
        self.create_revision = create_revision
        self.previous = previous  # None also once history has let go of it

    def at(self, revision: int) -> KeyVersion[T] | None:
        """The version of this key as of `revision`, if it had a value then."""
        version: KeyVersion[T] | None = self
        while version is not None and version.revision > revision:
            version = version.previous
        return version if version is not None and version.value is not None else None

    def __repr__(self) -> str:
        state = "deleted" if self.value is None else "value"
        return f"<{self.key} {state} @{self.revision}{' <- ' + repr(self.previous) if self.previous else ''}>"


class Snapshots(Generic[T]):
    """The versions of all keys of one resource.

    Every key is in exactly one of two ordered maps: `_live` if its newest version has a value, `_dead` if
    it is a deletion that older reads can still see behind. So the newest state can be listed, counted and
    paged without meeting what was deleted.
    """

    def __init__(self) -> None:
        self._live: SortedDict[str, KeyVersion[T]] = SortedDict()
        self._dead: SortedDict[str, KeyVersion[T]] = SortedDict()

    def __len__(self) -> int:
        """How many keys have a value."""
        return len(self._live)

    def add(self, version: KeyVersion[T]) -> None:
        """Take the only known version of a key."""
        self._live[version.key] = version

    def newest(self, key: str) -> KeyVersion[T] | None:
        """The newest version of `key`, if it has a value."""
        return self._live.get(key)

    def get(self, key: str, revision: int) -> KeyVersion[T] | None:
        version = self._live.get(key) or self._dead.get(key)
        return version.at(revision) if version is not None else None

    def put(self, key: str, value: T, *, revision: int, create_revision: int) -> KeyVersion[T]:
        previous = self._live.get(key)
        if previous is None:
            previous = self._dead.pop(key, None)
        version = KeyVersion(
            key, value, revision=revision, create_revision=create_revision, previous=previous
        )
        self._live[key] = version
        return version

    def delete(self, key: str, *, revision: int) -> KeyVersion[T] | None:
        """The deletion of `key` as a version, or None if it has no value."""
        previous = self._live.pop(key, None)
        if previous is None:
            return None
        version = KeyVersion(key, None, revision=revision, create_revision=0, previous=previous)
        self._dead[key] = version
        return version

    def forget_before(self, version: KeyVersion[T]) -> None:
        """No read will ask for a revision before `version`'s again."""
        version.previous = None
        if version.value is None and self._dead.get(version.key) is version:
            del self._dead[version.key]

    def newest_in(self, keys: KeyRange, count: int) -> list[KeyVersion[T]]:
        """The first `count` keys in the range that have a value: their newest versions, in key order."""
        found = self._live.irange(keys.start, keys.end, (True, False))
        return [self._live[key] for key in islice(found, count)]

    def all_in(self, keys: KeyRange, count: int) -> list[KeyVersion[T]]:
        """The first `count` keys in the range: their newest versions, deletions too, in key order.

        `KeyVersion.at` finds from there what an older read sees.
        """
        dead = self._dead.irange(keys.start, keys.end, (True, False))
        live = self._live.irange(keys.start, keys.end, (True, False))
        return [self._live.get(key) or self._dead[key] for key in islice(heapq.merge(live, dead), count)]

    def count_newest(self, keys: KeyRange) -> int:
        """How many keys of the range have a value; costs the same for any number of keys."""
        return self._live.bisect_left(keys.end) - self._live.bisect_left(keys.start)
