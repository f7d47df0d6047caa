"""Converts between the hub version of an object and the version that a client uses.

Clients read and write an object in any version that is served. Strategies, admission plugins and allocators
use one of them, the *hub* version. The watch cache holds objects in it: `stored_version_decoder` converts
those that are stored in another version. Three codecs cover all resources:

- `IdentityCodec`: the client's version is the hub. Bytes are copied.
- `builtin_version_codec.BuiltinCodec`: built-in types in another version than the hub, which pure functions
  convert.
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
    """Runs small work on the event loop, and other work in a thread: `offload.Offload`."""

    async def run_begun(
        self, size: SizeClass, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...

    async def run_bounded(self, size: SizeClass, work: Callable[[bool], _T]) -> _T: ...


class VersionCodec(Protocol):
    """Converts objects of one resource from the store to clients of one version, and back.

    stored_head: the bytes that every newly written object begins with.
    stored_group_resource: the resource under which the objects are stored.
    stored_kind: the kind under which they are stored.
    is_immediate: whether stored objects are of the hub version, so that `view_of_hub` makes their view. False
        if a conversion webhook may be needed, or if the view depends on a schema that may have changed since
        the object was stored.
    converts_hub: whether the hub version is not the client's.
    is_identity: whether objects are stored as clients see them, so that there is nothing to convert.
    has_converter: whether a webhook, or a function of an extension, converts between versions.
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
    def is_identity(self) -> bool: ...
    @property
    def has_converter(self) -> bool: ...

    # ---- reading

    def cached_view(self, stored: StoredObject) -> StoredObject | None:
        """Returns a stored object in the client's version, which is the object itself if it is the same.

        Returns None if only `views` can convert it, since a webhook is needed, or the object is large.
        Raises CorruptObject.
        """
        ...

    async def views(self, objects: list[StoredObject], offload: Offloader) -> list[StoredObject]:
        """Returns stored objects in the client's version, letting other tasks run meanwhile.

        offload: converts large ones. Custom resources use their server's, as requests share conversions.
        Raises CorruptObject, and ApiError where a conversion fails.
        """
        ...

    # ---- writing

    async def hub(self, stored: StoredObject) -> StoredObject:
        """Returns a stored object in the hub version. Raises CorruptObject, ApiError."""
        ...

    def from_hub(self, document: Document) -> Document:
        """Converts a document of the hub version, which is taken over, to the client's version."""
        ...

    def to_hub(self, document: Document) -> Document:
        """Converts a document of the client's version, which is taken over, to the hub version."""
        ...

    def convert(self, document: Document, other: VersionCodec) -> Document:
        """Converts a document of the client's version, which is taken over, to that of another codec of the
        type.

        It does no I/O: where a webhook converts, the result differs in the version's name only.
        """
        ...

    async def converted(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Converts documents of another version of a custom resource to the client's version.

        The results share parts with the arguments, and are neither pruned nor have defaults.
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
        """Returns the value to store for a document of the hub version, which is not changed.

        Raises ApiError: TooDeep, or the failure of a conversion.
        """
        ...

    async def encode_new(self, document: Document) -> tuple[bytes, TransactionGuard | None]:
        """Returns the result of `encode`, and the condition under which the object may be created.

        Raises ApiError, too, if the condition does not hold now.
        """
        ...


async def view(codec: VersionCodec, stored: StoredObject, offload: Offloader) -> StoredObject:
    """Returns one stored object in the client's version. Raises CorruptObject, ApiError."""
    cached = codec.cached_view(stored)
    return cached if cached is not None else (await codec.views([stored], offload))[0]


@dataclass(frozen=True, slots=True)
class IdentityCodec:
    """The codec of objects that are stored as clients see them.

    See `VersionCodec` for what each method returns.
    """

    stored_head: bytes
    stored_group_resource: GroupResource
    stored_kind: str
    is_immediate: bool = True
    converts_hub: bool = False
    is_identity: bool = True
    has_converter: bool = False

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
        return encode(document, self.stored_head), None
