"""What the registry answers with, where it is more than an object."""

from __future__ import annotations

from dataclasses import dataclass

from apiserver.registry.stored_object import StoredObject


@dataclass(frozen=True, slots=True)
class ObjectList:
    """The answer to a list. continue_token is empty on the last chunk."""

    objects: list[StoredObject]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a delete did. found: the object as it is now, or was at last if `is_removed`."""

    found: StoredObject
    is_removed: bool
    uid: str
