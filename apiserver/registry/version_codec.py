"""Between the bytes that are stored and the documents that clients of one version work with.

An object is stored in one version, its *storage version*; clients read and write it in any version that is
served. Between the two stands the *hub* version: the one that strategies, admission plugins and allocators
work on. Three codecs cover all resources:

- `IdentityCodec`: the storage version is the client's, and so is the hub. Bytes are copied.
- `builtin_codec.BuiltinCodec`: built-in types are stored in another version, which is the hub, and
  pure functions convert.
- `custom_resources.serving.custom_resource_codec.CustomResourceCodec`: custom resources are pruned, completed
  and converted, perhaps by a webhook. The hub is the client's version, whichever is stored.

Source of the division: k8s.io/apimachinery, pkg/runtime/serializer/versioning; hub as in controller-runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

from apiserver.load.size_class import SizeClass
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.stored_object import StoredObject, encode

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Offloader(Protocol):
    """Runs work on the event loop if it is small, else beside it: `offload.Offload`."""

    async def run_begun(
        self, size: SizeClass, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...

    async def run_bounded(self, size: SizeClass, work: Callable[[bool], _T]) -> _T: ...


class VersionCodec(Protocol):
    """How objects of one resource get from the store to clients of one version, and back.

    stored_head: what every object begins with that is written now.
    stored_group_resource: the resource under which the objects are stored.
    stored_kind: the kind under which they are stored.
    is_immediate: what is stored is of the hub version: `view_of_hub` makes the view of it. False where a
        conversion webhook may have to be asked, and where what a client sees depends on a schema that may
        have changed since the object was stored.
    converts_hub: the hub version is not the client's.
    asks_webhook: a webhook converts between versions.
    """

    @property
    def stored_head(self) -> bytes: ...
    @property
    def stored_group_resource(self) -> GroupResource: ...
    @property
    def stored_kind(self) -> str: ...
    @property
    def is_immediate(self) -> bool: ...
    @property
    def converts_hub(self) -> bool: ...
    @property
    def asks_webhook(self) -> bool: ...

    # ---- reading

    def cached_view(self, stored: StoredObject) -> StoredObject | None:
        """Returns a stored object in the client's version; itself where that is the same.

        None if only `views` can tell, since a webhook has to be asked, or the object is large.
        Raises CorruptObject.
        """
        ...

    async def views(self, objects: list[StoredObject], offload: Offloader) -> list[StoredObject]:
        """Returns stored objects in the client's version; other requests have their turns meanwhile.

        offload: converts large ones. Custom resources have their server's, as requests share conversions.
        Raises CorruptObject, and ApiError where a conversion fails.
        """
        ...

    # ---- writing

    async def hub(self, stored: StoredObject) -> StoredObject:
        """Returns a stored object in the hub version. Raises CorruptObject, ApiError."""
        ...

    def from_hub(self, document: Document) -> Document:
        """Returns a document of the hub version, which is taken over, in the client's version."""
        ...

    def to_hub(self, document: Document) -> Document:
        """Returns a document of the client's version, which is taken over, in the hub version."""
        ...

    def convert(self, document: Document, other: VersionCodec) -> Document:
        """Returns a document of the client's version, which is taken over, in another codec's of the type.

        As far as that can be told without I/O: where a webhook converts, versions differ in their name alone.
        """
        ...

    async def converted(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Returns documents of another version of a custom resource in the client's version.

        They share parts with the arguments, and are as they were converted: neither pruned nor with defaults.
        Raises ApiError.
        """
        ...

    def view_of_hub(self, hub: StoredObject) -> StoredObject:
        """Returns an object of the hub version in the client's version, however long that takes."""
        ...

    def is_up_to_date(self, stored: StoredObject, hub: StoredObject) -> bool:
        """Whether writing the object back unchanged would store the bytes that are stored already."""
        ...

    async def encode(self, document: Document) -> bytes:
        """Returns the value that is stored for a document of the hub version, which is not changed.

        Raises ApiError: TooDeep, and where a conversion fails.
        """
        ...

    async def encode_new(self, document: Document) -> tuple[bytes, TransactionGuard | None]:
        """Returns what `encode` returns, and what must still hold when the object is created.

        Raises ApiError, too, if that does not hold now.
        """
        ...


async def view(codec: VersionCodec, stored: StoredObject, offload: Offloader) -> StoredObject:
    """Returns one stored object in the client's version. Raises CorruptObject, ApiError."""
    cached = codec.cached_view(stored)
    return cached if cached is not None else (await codec.views([stored], offload))[0]


@dataclass(frozen=True, slots=True)
class IdentityCodec:
    """Objects are stored as clients see them. See `VersionCodec` for what each method returns."""

    stored_head: bytes
    stored_group_resource: GroupResource
    stored_kind: str
    is_immediate: bool = True
    converts_hub: bool = False
    asks_webhook: bool = False

    def cached_view(self, stored: StoredObject) -> StoredObject:
        return stored

    async def views(self, objects: list[StoredObject], offload: Offloader) -> list[StoredObject]:
        return objects

    async def hub(self, stored: StoredObject) -> StoredObject:
        return stored

    def from_hub(self, document: Document) -> Document:
        return document

    def to_hub(self, document: Document) -> Document:
        return document

    def convert(self, document: Document, other: VersionCodec) -> Document:
        return other.from_hub(self.to_hub(document))

    async def converted(self, documents: Sequence[Document]) -> Sequence[Document]:
        return documents

    def view_of_hub(self, hub: StoredObject) -> StoredObject:
        return hub

    def is_up_to_date(self, stored: StoredObject, hub: StoredObject) -> bool:
        return True

    async def encode(self, document: Document) -> bytes:
        return encode(document, self.stored_head)

    async def encode_new(self, document: Document) -> tuple[bytes, TransactionGuard | None]:
        return await self.encode(document), None
