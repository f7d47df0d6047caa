"""The state of a cache at one revision, which another cache in the process can begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class CachedValue(NamedTuple, Generic[T]):
    """The value of a key, and the revision since which it holds."""

    key: str
    value: T
    revision: int
    create_revision: int


class ResourceState(NamedTuple, Generic[T]):
    """The objects of one resource, in key order, and the total size of their values."""

    held: Sequence[CachedValue[T]]
    bytes: int


@dataclass(frozen=True, slots=True)
class CacheState(Generic[T]):
    """The immutable state of a cache at one revision.

    resources: those that have objects, by the prefix of their keys.
    compacted: revisions before this one cannot be read.
    others: keys that belong to no object, as far as the cache follows them; they may be some revisions newer.
    """

    resources: Mapping[str, ResourceState[T]]
    compacted: int
    others: Sequence[str] = ()
