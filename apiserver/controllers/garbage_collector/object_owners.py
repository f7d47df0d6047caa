"""Reads the parts of an object that the garbage collector needs: its identity, its owners, its deletion.

Pure.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from apiserver.load.size_class import LARGE_BYTES, SizeClass, size_class
from apiserver.meta.object_meta import FINALIZER_FOREGROUND, FINALIZER_ORPHAN
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import OWNER_REFERENCES, CorruptObject, StoredObject

_IS_DELETED: Final = b'"deletionTimestamp"'
_FINALIZERS: Final = tuple(f'"{name}"'.encode() for name in (FINALIZER_FOREGROUND, FINALIZER_ORPHAN))


class Malformed(Exception):
    """Metadata that no server would have stored, from which owners cannot be read."""


class OwnerReference(NamedTuple):
    """One of an object's ownerReferences.

    blocks: whether the owner must not be removed before the object (blockOwnerDeletion).
    """

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool


class Ownership(NamedTuple):
    """The parts of an object's metadata that the garbage collector needs.

    is_deleted: whether its deletion has begun.
    """

    uid: str
    resource_version: str
    owners: tuple[OwnerReference, ...]
    is_deleted: bool
    finalizers: tuple[str, ...]

    @property
    def waits_for_dependents(self) -> bool:
        """Whether the object is being deleted in the foreground."""
        return self.is_deleted and FINALIZER_FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Whether the object is being deleted, but not its dependents."""
        return self.is_deleted and FINALIZER_ORPHAN in self.finalizers


def may_have_owners(found: StoredObject) -> bool:
    """Returns whether an object may have owners, without decoding it."""
    return OWNER_REFERENCES in _text(found)


def may_be_deleted(found: StoredObject) -> bool:
    """Returns whether the deletion of an object may have begun, without decoding it."""
    return _IS_DELETED in _text(found)


def may_wait_for_collector(found: StoredObject) -> bool:
    """Returns whether an object may have a finalizer of the garbage collector, without decoding it."""
    text = _text(found)
    return _IS_DELETED in text and any(name in text for name in _FINALIZERS)


def may_concern_collector(found: StoredObject) -> bool:
    """Returns whether an object may have owners, or a finalizer of the garbage collector."""
    # It is called for each object: most of them are small, and recognized without a call.
    text = found.tail
    if len(text) > LARGE_BYTES:
        text = _text(found)
    return OWNER_REFERENCES in text or (_IS_DELETED in text and any(name in text for name in _FINALIZERS))


def _text(found: StoredObject) -> bytes:
    """Returns text of an object that contains its metadata; of a large object only that; empty if it is
    damaged.

    Searching 3 MB takes milliseconds, longer than finding the end of the metadata, which is cached.
    """
    if size_class(len(found.tail)) is SizeClass.SMALL:
        return found.tail
    try:
        return found.metadata()
    except CorruptObject:
        return b""


def ownership(found: StoredObject) -> Ownership:
    """Returns the parts of an object that the garbage collector needs. Raises CorruptObject, Malformed."""
    return of_metadata(orjson.loads(found.metadata()))


def of_metadata(meta: Document) -> Ownership:
    """Returns the parts of an object's metadata that the garbage collector needs. Raises Malformed."""
    owners, finalizers = meta.get("ownerReferences") or (), meta.get("finalizers") or ()
    try:
        references = tuple(_reference(each) for each in owners)
    except (TypeError, KeyError, AttributeError) as error:
        raise Malformed(f"the ownerReferences are malformed: {error!r}") from error
    return Ownership(
        str(meta.get("uid", "")),
        str(meta.get("resourceVersion", "")),
        references,
        "deletionTimestamp" in meta,
        tuple(map(str, finalizers)),
    )


def _reference(owner: Any) -> OwnerReference:
    return OwnerReference(
        str(owner["apiVersion"]),
        str(owner["kind"]),
        str(owner["name"]),
        str(owner["uid"]),
        owner.get("blockOwnerDeletion") is True,
    )
