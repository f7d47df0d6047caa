"""What a cache holds at one revision, for another cache in the process to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class CachedValue(NamedTuple, Generic[T]):
    """What a key holds, and since when."""

    key: str
    value: T
    revision: int
    create_revision: int


class ResourceState(NamedTuple, Generic[T]):
    """The objects of one resource, in key order, and the sizes of their values together."""

    held: Sequence[CachedValue[T]]
    bytes: int


@dataclass(frozen=True, slots=True)
class CacheState(Generic[T]):
    """All that is stored at one revision, as a cache has it. Nothing changes it.

    resources: by the prefix of their keys; those that have objects.
    compacted: what was before this revision cannot be read.
    others: keys that are of no object, as far as the cache tells of them; they may be some revisions newer.
    """

    resources: Mapping[str, ResourceState[T]]
    compacted: int
    others: Sequence[str] = ()
