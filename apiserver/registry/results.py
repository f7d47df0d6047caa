"""Result types of the registry that hold more than an object."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from apiserver.registry.stored_object import StoredObject


class _NoRevision(int):
    """A revision that clients see as an empty text."""

    def __str__(self) -> str:
        return ""


NO_REVISION: Final = _NoRevision()


class ObjectList(NamedTuple):
    """The result of a list, or of one chunk of it; the last chunk has no `continue_token`.

    revision: `NO_REVISION` for objects that are not stored.
    """

    objects: list[StoredObject]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class PagedList:
    """A list that is too large to be held in memory.

    head: the list without its objects. count: how many these are. pages: reads them, from the first one at
    each call; raises as `Registry.list` does.
    """

    head: ObjectList
    count: int
    pages: Callable[[], AsyncIterator[Sequence[StoredObject]]]


class DeletionResult(NamedTuple):
    """The result of a deletion, with the warnings for its client.

    found: the object after the deletion, or before it if `is_removed`.
    """

    found: StoredObject
    is_removed: bool
    uid: str
    warnings: Sequence[str] = ()


class WriteResult(NamedTuple):
    """The written object as clients of the resource see it, with the warnings for its client.

    is_noop: whether nothing was written, since nothing would change.
    """

    found: StoredObject
    warnings: Sequence[str] = ()
    is_noop: bool = False
