"""The state at each kept revision: for each key its newest version, linked to the older ones."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from sortedcontainers import SortedDict

from apiserver.storage.interface import KeyRange

T = TypeVar("T")


class KeyVersion(Generic[T]):
    """The value that one key held from `revision` until its next version; a deletion has no value."""

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
        self.previous = previous  # None also after `Snapshots.forget_before`

    def at(self, revision: int) -> KeyVersion[T] | None:
        """Returns the version of the same key as of `revision`, if it had a value then."""
        version: KeyVersion[T] | None = self
        while version is not None and version.revision > revision:
            version = version.previous
        return version if version is not None and version.value is not None else None

    def __repr__(self) -> str:
        state = "deleted" if self.value is None else "value"
        return f"<{self.key} {state} @{self.revision}{' <- ' + repr(self.previous) if self.previous else ''}>"


# Never written.
_NOTHING: Final[SortedDict[str, Any]] = SortedDict()


class Snapshots(Generic[T]):
    """The versions of all keys of one resource.

    Every key is in exactly one of two ordered maps: `live` if its newest version has a value, `_deleted` if
    that is a deletion and older reads can still see earlier versions. So the newest state can be listed,
    counted and paged without passing over deleted keys.

    live: the newest versions that have a value, by key; to be read only.
    """

    def __init__(self) -> None:
        # Made when they are needed: most resources have no objects, of most others nothing is deleted, and an
        # empty map is twenty objects.
        self.live: SortedDict[str, KeyVersion[T]] = _NOTHING
        self._deleted: SortedDict[str, KeyVersion[T]] | None = None

    def __len__(self) -> int:
        """Returns the number of keys that have a value."""
        return len(self.live)

    def add_all(self, versions: Iterable[KeyVersion[T]]) -> None:
        """Add the only known versions of some keys, which are sorted together once."""
        if self.live is _NOTHING:
            self.live = SortedDict()
        self.live.update({version.key: version for version in versions})

    def newest(self, key: str) -> KeyVersion[T] | None:
        """Returns the newest version of `key`, if it has a value."""
        return self.live.get(key)

    def get(self, key: str, revision: int) -> KeyVersion[T] | None:
        version = self.live.get(key)
        if version is None and self._deleted is not None:
            version = self._deleted.get(key)
        return version.at(revision) if version is not None else None

    def put(self, key: str, value: T, *, revision: int, create_revision: int) -> KeyVersion[T]:
        previous = self.live.get(key)
        if previous is None and self._deleted is not None:
            previous = self._deleted.pop(key, None)
        version = KeyVersion(
            key, value, revision=revision, create_revision=create_revision, previous=previous
        )
        if self.live is _NOTHING:
            self.live = SortedDict()
        self.live[key] = version
        return version

    def delete(self, key: str, *, revision: int) -> KeyVersion[T] | None:
        """Records a deletion of `key`, and returns its version, or None if the key has no value."""
        previous = self.live.pop(key, None)
        if previous is None:
            return None
        version = KeyVersion(key, None, revision=revision, create_revision=0, previous=previous)
        if self._deleted is None:
            self._deleted = SortedDict()
        self._deleted[key] = version
        return version

    def forget_before(self, version: KeyVersion[T]) -> None:
        """Drop the versions before `version`, which no read will need again."""
        version.previous = None
        deleted = self._deleted
        if version.value is None and deleted is not None and deleted.get(version.key) is version:
            del deleted[version.key]

    def newest_in(self, keys: KeyRange, count: int) -> list[KeyVersion[T]]:
        """Returns the newest versions of the first `count` keys in the range that have a value, in key
        order.
        """
        live = self.live.irange(keys.start, keys.end, (True, False))
        return [self.live[key] for key in islice(live, count)]

    def all_in(self, keys: KeyRange, count: int) -> list[KeyVersion[T]]:
        """Returns the newest versions of the first `count` keys in the range, with deletions, in key order.

        `KeyVersion.at` finds the version that an older read sees.
        """
        if self._deleted is None:
            return self.newest_in(keys, count)
        deleted = self._deleted.irange(keys.start, keys.end, (True, False))
        live = self.live.irange(keys.start, keys.end, (True, False))
        return [self.live.get(key) or self._deleted[key] for key in islice(heapq.merge(live, deleted), count)]

    def sample(self, count: int) -> list[KeyVersion[T]]:
        """Returns the newest versions of some keys that have a value, evenly spread over all of them."""
        total = len(self.live)
        if total <= count:
            return list(self.live.values())
        return [self.live.peekitem(number * total // count)[1] for number in range(count)]

    def count_newest(self, keys: KeyRange) -> int:
        """Returns the number of keys of the range that have a value, at the same cost for any number of
        keys.
        """
        return self.live.bisect_left(keys.end) - self.live.bisect_left(keys.start)
