"""Finds out what has written the keys of a prefix: this kind of server, a kube-apiserver, or a copy.

Both use `/registry` by default, and have the same keys for custom resources, definitions and APIServices. A
kube-apiserver has all built-in types elsewhere: Pods below `{prefix}/pods/`, not `{prefix}/core/pods/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from apiserver.storage.interface import MOST_RECENT, KeyRange, Page, ReadAt
from apiserver.storage.keys import INTERNAL_GROUP, prefix_range

# What every kube-apiserver writes at its start: its own record, namespaces and allocations.
_FOLDERS: Final = ("masterleases/", "namespaces/", "ranges/")


class Listed(Protocol):
    """The part of `storage.interface.Storage` that is needed here."""

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page: ...


async def own_key(store: Listed, prefix: str) -> str | None:
    """Returns a key that only a server of this program writes; None if there is none. Raises StorageError."""
    return await _first(store, prefix, (f"{INTERNAL_GROUP}/identity", "core/"))


async def kube_apiserver_key(store: Listed, prefix: str) -> str | None:
    """Returns a key that only a kube-apiserver writes; None if there is none. Raises StorageError."""
    return await _first(store, prefix, _FOLDERS)


def marker_key(prefix: str) -> str:
    """Returns the key that a store has while a copy to it is not complete."""
    return f"{prefix}/{INTERNAL_GROUP}/copy"


async def _first(store: Listed, prefix: str, starts: Iterable[str]) -> str | None:
    for start in starts:
        if items := (await store.list(prefix_range(f"{prefix}/{start}"), limit=1)).items:
            return items[0].key
    return None
