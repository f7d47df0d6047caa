"""The codec of built-in types whose hub version is another than the client's.

Events of the group `events.k8s.io`, for example, are processed as those of the core group. The version in
which they are stored is independent of that: see `storage_form`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta.errors import Invalid
from apiserver.meta.field_errors import Errors
from apiserver.meta.vocabulary import Document, GroupKind, GroupResource
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.stored_object import StoredObject, encode, head_of, with_revision
from apiserver.registry.version_codec import Offloader, VersionCodec
from apiserver.storage.event_loop_turns import Turn


class HubVersion(NamedTuple):
    """The version that strategies and plugins use for a built-in type that clients see in another one.

    to_hub, from_hub: convert a document's content, in place.
    validate: returns the errors in a client's document, beyond those that its strategy finds in the hub
        version.
    """

    group_resource: GroupResource
    api_version: str
    kind: str
    to_hub: Callable[[Document], None]
    from_hub: Callable[[Document], None]
    validate: Callable[[Document], Errors] | None = None


class BuiltinCodec:
    """Converts objects of a built-in type between a version and its hub by pure functions.

    See `VersionCodec` for what each method returns.
    """

    def __init__(self, api_version: str, kind: str, hub: HubVersion) -> None:
        """api_version, kind: those of documents that clients see."""
        self._api_version = api_version
        self._kind = kind
        self._hub = hub
        self._head = head_of(api_version, kind)
        self.stored_head = head_of(hub.api_version, hub.kind)
        self.stored_group_resource = hub.group_resource
        self.stored_kind = hub.kind
        self.is_immediate, self.has_converter = True, False
        self.converts_hub, self.is_identity = True, False

    def cached_view(self, stored: StoredObject) -> StoredObject | None:
        is_small = size_class(len(stored.tail)) is SizeClass.SMALL
        return self.view_of_hub(stored) if is_small else None

    async def views(self, objects: list[StoredObject], offload: Offloader) -> list[StoredObject]:
        views: list[StoredObject] = []
        turn = Turn()
        for each in objects:
            if turn.is_over():
                await turn.next()
            views.append(await offload.run_begun(size_class(len(each.tail)), self.view_of_hub, each))
        return views

    async def hub(self, stored: StoredObject) -> StoredObject:
        return stored

    def from_hub(self, document: Document) -> Document:
        self._hub.from_hub(document)
        document["apiVersion"], document["kind"] = self._api_version, self._kind
        return document

    def to_hub(self, document: Document) -> Document:
        if self._hub.validate is not None and (errors := self._hub.validate(document)):
            group = GroupKind(self._hub.group_resource.group, self._hub.kind)
            raise Invalid(group, document["metadata"].get("name", ""), errors)
        self._hub.to_hub(document)
        document["apiVersion"], document["kind"] = self._hub.api_version, self._hub.kind
        return document

    def convert(self, document: Document, other: VersionCodec) -> Document:
        return other.from_hub(self.to_hub(document))

    async def converted(self, documents: Sequence[Document]) -> Sequence[Document]:
        return documents  # Documents of built-in types are converted by way of their hub version.

    def view_of_hub(self, hub: StoredObject) -> StoredObject:
        if not hub.head:
            return hub  # It is damaged, and its sender gets the error.
        document = hub.document()
        revision = document["metadata"].get("resourceVersion")  # What was not stored (a dry run) has none.
        rest = encode(self.from_hub(document), self._head)[len(self._head) :]
        return StoredObject(hub.key, self._head, with_revision(rest, int(revision)) if revision else rest)

    def is_up_to_date(self, stored: StoredObject, hub: StoredObject) -> bool:
        return True

    async def encode(self, document: Document) -> bytes:
        return encode(document, self.stored_head)

    async def encode_new(self, document: Document) -> tuple[bytes, TransactionGuard | None]:
        return await self.encode(document), None
