"""The codec of built-in types that are stored in another of their versions.

Events of the group `events.k8s.io`, for example, are stored as those of the core group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apiserver.registry.guard import Guard
from apiserver.registry.stored_object import StoredObject, encode, head_of, with_revision
from apiserver.registry.version_codec import VersionCodec
from apiserver.vocabulary import Document, GroupResource
from storage.turns import Turn


@dataclass(frozen=True, slots=True)
class StorageVersion:
    """The version in which objects of a built-in type are stored, if it is not the one that clients use.

    to_stored, from_stored: convert a document's content, in place.
    """

    group_resource: GroupResource
    api_version: str
    kind: str
    to_stored: Callable[[Document], None]
    from_stored: Callable[[Document], None]


class ConversionCodec:
    """Objects of a built-in type are stored in another of its versions, and converted by pure functions.

    See `VersionCodec` for what each method returns.
    """

    def __init__(self, api_version: str, kind: str, storage: StorageVersion) -> None:
        """api_version, kind: of documents that clients see."""
        self._api_version = api_version
        self._kind = kind
        self._storage = storage
        self._head = head_of(api_version, kind)
        self.stored_head = head_of(storage.api_version, storage.kind)
        self.stored_group_resource = storage.group_resource
        self.stored_kind = storage.kind
        self.is_immediate = True
        self.converts_hub = True

    def cached_view(self, stored: StoredObject) -> StoredObject:
        if not stored.head:
            return stored  # It is damaged, and whoever sends it finds out.
        document = stored.document()
        revision = document["metadata"].get("resourceVersion")  # What was not stored (a dry run) has none.
        rest = encode(self.from_hub(document), self._head)[len(self._head) :]
        return StoredObject(stored.key, self._head, with_revision(rest, int(revision)) if revision else rest)

    async def views(self, objects: list[StoredObject]) -> list[StoredObject]:
        views: list[StoredObject] = []
        turn = Turn()
        for each in objects:
            if turn.is_over():
                await turn.next()
            views.append(self.cached_view(each))
        return views

    async def hub(self, stored: StoredObject) -> StoredObject:
        return stored

    def from_hub(self, document: Document) -> Document:
        self._storage.from_stored(document)
        document["apiVersion"], document["kind"] = self._api_version, self._kind
        return document

    def to_hub(self, document: Document) -> Document:
        self._storage.to_stored(document)
        document["apiVersion"], document["kind"] = self._storage.api_version, self._storage.kind
        return document

    def convert(self, document: Document, other: VersionCodec) -> Document:
        return other.from_hub(self.to_hub(document))

    def view_of_hub(self, hub: StoredObject) -> StoredObject:
        return self.cached_view(hub)

    def is_up_to_date(self, stored: StoredObject, hub: StoredObject) -> bool:
        return True

    async def encode(self, document: Document) -> bytes:
        return encode(document, self.stored_head)

    async def create_guard(self, name: str) -> Guard | None:
        return None
