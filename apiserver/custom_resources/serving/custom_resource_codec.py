"""Converts custom resources between their stored form and the versions that clients see.

A stored object may be older than the schema: it may have removed fields, lack fields that now have defaults,
or be of a version that is no longer stored. So each codec examines an object once and caches the outcome:
most objects conform, and reads copy their bytes as for built-in types. Otherwise the object's view is cached
beside it as long as the cache has room.

The order is Kubernetes': a stored object is pruned and defaulted by the schema of its version, converted,
and pruned by that of the client's version, without its defaults. A written object has the defaults of the
version that it was sent in; it is converted, and pruned by the schema of the storage version.
Source: k8s.io/apiextensions-apiserver, pkg/apiserver/customresource_handler.go.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import orjson

from apiserver.load.offload import Offload
from apiserver.load.size_class import (
    LARGE_BYTES,
    SizeClass,
    size_class,
    size_class_of_defaults,
    size_class_of_document,
)
from apiserver.meta.errors import Forbidden, NoSuchEndpoint, ServiceUnavailable
from apiserver.meta.vocabulary import Document, GroupResource, GroupVersion
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.stored_object import StoredObject, TooDeep, encode, head_of, with_revision
from apiserver.registry.version_codec import Offloader, VersionCodec, view
from apiserver.schema.compile import TypeMismatch
from apiserver.storage.event_loop_turns import Turn
from apiserver.storage.interface import Condition
from apiserver.storage.watch_cache import KeyVersion
from apiserver.tracing.request_trace import traced

# Of a request, in its trace.
_CONVERSION: Final = "conversion"
# How many objects of a list are decoded and converted together: as many as one request to a webhook may have.
CONVERTED_AT_ONCE: Final = 500
_codec_ids: Final = itertools.count(1)
_Out = TypeVar("_Out")


# Changes a document in place. Returns whether it has changed. Raises TypeMismatch.
Change: TypeAlias = Callable[[Document], bool]


class VersionChanges(Protocol):
    """Changes documents by the schema of one version when they are read or stored: a `VersionSchema`.

    prune: removes unknown fields, and null where it is not allowed. complete: also sets defaults.
        prune_unknown: keeps null.
    """

    def prune(self, document: Document, /) -> bool: ...

    def complete(self, document: Document, /) -> bool: ...

    def prune_unknown(self, document: Document, /) -> bool: ...

    def default_bytes(self) -> int:
        """Returns the maximum number of bytes that defaults add: see `registry.strategy.Strategy`."""
        ...


class ViewCache(Protocol):
    """Caches the views of objects, stored on the objects, as long as there is room."""

    def put(self, obj: StoredObject, key: object, form: Any, size: int) -> None: ...


class Converter(Protocol):
    """Converts documents to the API version `desired`. Raises ApiError."""

    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]: ...


class DefinitionReader(Protocol):
    """Reads a definition by its key: `get_cached` from the watch cache, `get` from the store."""

    def get_cached(self, key: str) -> KeyVersion[StoredObject] | None: ...

    async def get(self, key: str) -> KeyVersion[StoredObject] | None: ...


class CreationGuards(NamedTuple):
    """Guards of creations: custom resources are created only while their definition exists and is not being
    deleted.

    group_resource: that of the custom resources. key: that of the definition.
    """

    group_resource: GroupResource
    key: str
    definitions: DefinitionReader

    async def create(self, name: str) -> TransactionGuard:
        """Returns the guard for an object of this name.

        Raises Forbidden while the definition is being deleted, NoSuchEndpoint if it is gone.
        """

        async def look() -> Condition:
            return self._condition(await self.definitions.get(self.key), name)

        cached = self.definitions.get_cached(self.key)
        return TransactionGuard(self._condition(cached, name) if cached is not None else await look(), look)

    def _condition(self, seen: KeyVersion[StoredObject] | None, name: str) -> Condition:
        if seen is None or seen.value is None:
            raise NoSuchEndpoint
        definition = seen.value
        if definition.is_terminating():
            raise Forbidden.to_resource(
                self.group_resource,
                name,
                "create not allowed while custom resource definition is terminating",
            )
        return Condition(seen.key, seen.revision)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DefinitionVersions:
    """All versions of one definition, while its spec is unchanged.

    schemas: those of each version, by its name.
    storage_version: the name of the current one.
    converter: a webhook or the functions of an extension; None if the versions differ only in `apiVersion`.
    offload: decides where large objects are pruned, defaulted and converted.
    api_versions: by version, as `example.com/v1`. heads: the bytes that encoded objects of each version begin
        with.
    """

    group_resource: GroupResource
    kind: str
    schemas: Mapping[str, VersionChanges]
    storage_version: str
    converter: Converter | None
    view_cache: ViewCache
    offload: Offload
    guards: CreationGuards
    api_versions: Mapping[str, str] = field(init=False)
    heads: Mapping[str, bytes] = field(init=False)
    _by_head: Mapping[bytes, str] = field(init=False)

    def __post_init__(self) -> None:
        group = self.group_resource.group
        api_versions = {version: str(GroupVersion(group, version)) for version in self.schemas}
        heads = {version: head_of(text, self.kind) for version, text in api_versions.items()}
        object.__setattr__(self, "api_versions", api_versions)
        object.__setattr__(self, "heads", heads)
        object.__setattr__(self, "_by_head", {head: version for version, head in heads.items()})

    def version_of(self, head: bytes) -> str | None:
        """Returns the version of an encoded object; None if the definition no longer has it."""
        return self._by_head.get(head)

    def complete(self, version: str, document: Document) -> bool:
        """Prune a document and set its defaults, by a version's schema; returns whether it has changed."""
        return _changed(self.schemas[version].complete, document)

    def prune(self, version: str, document: Document) -> bool:
        """Prune a document by a version's schema; returns whether it has changed."""
        return _changed(self.schemas[version].prune, document)

    def with_type(self, version: str, document: Document) -> Document:
        """Returns a shallow copy of a document with the apiVersion and kind of a version."""
        return {**document, "apiVersion": self.api_versions[version], "kind": self.kind}


def _changed(change: Change, document: Document) -> bool:
    try:
        return change(document)
    except TypeMismatch:
        # It was stored when metadata was checked less strictly, and is left as it is.
        return False


class CustomResourceCodec:
    """The codec of one version of a definition; see `registry.version_codec.VersionCodec` for each method.

    The hub version is the client's: rules, defaults and selectable fields are those of the version in use.
    """

    def __init__(self, versions: DefinitionVersions, version: str) -> None:
        self._versions = versions
        self._version = version
        self._head = versions.heads[version]
        self.stored_head = versions.heads[versions.storage_version]
        self.stored_group_resource = versions.group_resource
        self.stored_kind = versions.kind
        self.is_immediate, self.has_converter = False, versions.converter is not None
        self.converts_hub = self.is_identity = False
        # Marks objects that have been found to conform to this codec's schema.
        self._id = next(_codec_ids)
        # Of views in the cache. An object, since a view may outlive the definition.
        self._cache_key = object()
        # The conversions that are under way, by each of their objects.
        self._conversions: dict[StoredObject, asyncio.Task[Mapping[StoredObject, StoredObject]]] = {}

    # ---- reading

    def cached_view(self, stored: StoredObject) -> StoredObject | None:
        if stored.conforms_to == self._id:
            return stored
        if stored.forms is not None and (cached := stored.forms.get(self._cache_key)) is not None:
            view: StoredObject = cached
            return view
        if self._needs_converter(stored) or self._size(stored) is not SizeClass.SMALL:
            return None
        return self._view(stored)

    def _size(self, stored: StoredObject) -> SizeClass:
        """Returns the size of an object, including defaults that it may lack."""
        size_bytes = len(stored.tail)
        if size_bytes > LARGE_BYTES:
            return size_class(size_bytes)
        version = self._versions.version_of(stored.head)
        default_bytes = 0 if version is None else self._versions.schemas[version].default_bytes()
        return size_class_of_defaults(stored.tail, default_bytes) if default_bytes else SizeClass.SMALL

    def _needs_converter(self, stored: StoredObject) -> bool:
        return self._versions.converter is not None and stored.head != self._head

    def _view(self, stored: StoredObject) -> StoredObject:
        """Returns the view of an object that needs no converter."""
        if stored.head == self._head:
            return self._view_of_same_version(stored)
        document = self._versions.with_type(self._version, self._decode(stored))
        self._versions.prune(self._version, document)
        return self._cache(stored, document, encode(document, self._head))

    async def views(self, objects: list[StoredObject], offload: Offloader) -> list[StoredObject]:
        codec_id = self._id
        # Long lists are mostly all like that, and a list here is twice as fast as a generator.
        if all([each.conforms_to == codec_id for each in objects]):  # noqa: C419
            return objects
        cached = await _in_turns(self.cached_view, objects)
        missing = [stored for stored, view in zip(objects, cached, strict=True) if view is None]
        if not missing:
            return [view for view in cached if view is not None]
        work = self._converted(missing)
        converts = self._versions.converter is not None and any(map(self._needs_converter, missing))
        converted = await (traced(_CONVERSION, work) if converts else work)
        return [
            view if view is not None else converted[stored]
            for stored, view in zip(objects, cached, strict=True)
        ]

    def _view_of_same_version(self, stored: StoredObject) -> StoredObject:
        """Returns the view of an object stored in this version: the object itself, if it conforms."""
        document = stored.document()
        if not self._versions.complete(self._version, document):
            stored.conforms_to = self._id
            return stored
        return self._cache(stored, document, encode(document, self._head))

    def _decode(self, stored: StoredObject) -> Document:
        """Returns the document in its stored version, pruned and defaulted by that version's schema."""
        document = stored.document()
        version = self._versions.version_of(stored.head)
        if version is not None:
            self._versions.complete(version, document)
        return document

    def _view_of_converted(self, stored: StoredObject, document: Document, encoded: bytes) -> StoredObject:
        """Returns the view of `stored`, given its document in this version, also encoded."""
        is_pruned = self._versions.prune(self._version, document)
        return self._cache(stored, document, encode(document, self._head) if is_pruned else encoded)

    def _cache(self, stored: StoredObject, document: Document, encoded: bytes) -> StoredObject:
        """Put the view of an object in the cache. document, encoded: the view."""
        revision = document["metadata"].get("resourceVersion")  # What was not stored (a dry run) has none.
        rest = encoded[len(self._head) :]
        view = StoredObject(stored.key, self._head, with_revision(rest, int(revision)) if revision else rest)
        view.conforms_to = self._id
        self._versions.view_cache.put(stored, self._cache_key, view, len(view.tail))
        return view

    # ---- by the converter, or in a thread

    async def _converted(self, objects: Sequence[StoredObject]) -> Mapping[StoredObject, StoredObject]:
        """Returns the views of objects; concurrent requests for the same object share a conversion."""
        new = [each for each in dict.fromkeys(objects) if each not in self._conversions]
        if new:
            # It is a separate task, since the request that started it may be cancelled.
            task = asyncio.create_task(self._convert(new))
            task.add_done_callback(lambda done: self._forget(new, done))
            self._conversions |= dict.fromkeys(new, task)
        views: dict[StoredObject, StoredObject] = {}
        for each in dict.fromkeys(self._conversions[stored] for stored in objects):
            views |= await asyncio.shield(each)
        return views

    def _forget(self, objects: Sequence[StoredObject], done: asyncio.Task[Any]) -> None:
        for each in objects:
            self._conversions.pop(each, None)
        if not done.cancelled():
            done.exception()  # Retrieved, in case no request waits for it any more.

    async def _convert(self, objects: Sequence[StoredObject]) -> Mapping[StoredObject, StoredObject]:
        offload = self._versions.offload
        views: dict[StoredObject, StoredObject] = {}
        # In most lists, they are all of one kind.
        head, has_converter = self._head, self._versions.converter is not None
        others = [each for each in objects if each.head != head] if has_converter else []
        if len(others) < len(objects):
            for stored in objects:
                if not self._needs_converter(stored):
                    views[stored] = await offload.run_begun(self._size(stored), self._view, stored)
        for begin in range(0, len(others), CONVERTED_AT_ONCE):
            views |= await self._convert_others(others[begin : begin + CONVERTED_AT_ONCE])
        return views

    async def _convert_others(self, objects: Sequence[StoredObject]) -> dict[StoredObject, StoredObject]:
        assert self._versions.converter is not None
        offload = self._versions.offload
        documents = await _in_turns(self._decode, objects, offload, self._size)
        converted = await self._versions.converter.convert(
            documents, self._versions.api_versions[self._version]
        )
        views: dict[StoredObject, StoredObject] = {}
        turn = Turn()
        try:
            for stored, document in zip(objects, converted, strict=True):
                if turn.is_over():
                    await turn.next()
                # Most are not pruned, and stay as they are encoded here.
                encoded = encode(document, self._head)
                if len(encoded) <= LARGE_BYTES:
                    views[stored] = self._view_of_converted(stored, document, encoded)
                else:
                    work = partial(self._view_of_converted, stored, document, encoded)
                    views[stored] = await offload.run_begun(size_class(len(encoded)), work)
        except TooDeep:
            raise ServiceUnavailable(
                f"the conversion of {self._versions.kind} returned an object that is nested too deeply"
            ) from None
        return views

    # ---- writing

    async def hub(self, stored: StoredObject) -> StoredObject:
        return await view(self, stored, self._versions.offload)

    def from_hub(self, document: Document) -> Document:
        return document

    def to_hub(self, document: Document) -> Document:
        return document

    def convert(self, document: Document, other: VersionCodec) -> Document:
        assert isinstance(other, CustomResourceCodec)  # Versions of one definition have codecs of one class.
        document = self._versions.with_type(other._version, document)
        _changed(self._versions.schemas[other._version].prune_unknown, document)
        return document

    async def converted(self, documents: Sequence[Document]) -> Sequence[Document]:
        versions = self._versions
        if versions.converter is None:
            return [versions.with_type(self._version, document) for document in documents]
        desired = versions.api_versions[self._version]
        return await traced(_CONVERSION, versions.converter.convert(documents, desired))

    def view_of_hub(self, hub: StoredObject) -> StoredObject:
        return hub

    def is_up_to_date(self, stored: StoredObject, hub: StoredObject) -> bool:
        """Returns False if the schema or the storage version has changed, so that writing would change the
        stored form.
        """
        return stored.head == self.stored_head and (hub is stored or hub.head != stored.head)

    async def encode(self, document: Document) -> bytes:
        return encode(await self._to_storage_version(document), self.stored_head)

    async def _to_storage_version(self, document: Document) -> Document:
        """Returns a document in the storage version; a copy if it has another. Raises ApiError."""
        versions = self._versions
        if self._version == versions.storage_version:
            return document
        # Conversion works on a copy: the document given is also the answer to the client.
        try:
            text = orjson.dumps(document)
        except orjson.JSONEncodeError:
            raise TooDeep from None
        size = size_class(len(text))
        stored: Document = await versions.offload.run_begun(size, orjson.loads, text)
        if versions.converter is None:
            stored = versions.with_type(versions.storage_version, stored)
        else:
            desired = versions.api_versions[versions.storage_version]
            [stored] = await traced(_CONVERSION, versions.converter.convert([stored], desired))
            size = size_class_of_document(stored)
        await versions.offload.run_begun(size, versions.prune, versions.storage_version, stored)
        return stored

    async def encode_new(self, document: Document) -> tuple[bytes, TransactionGuard]:
        guard = await self._versions.guards.create(document["metadata"]["name"])
        return await self.encode(document), guard


async def _in_turns(
    work: Callable[[StoredObject], _Out],
    objects: Sequence[StoredObject],
    offload: Offload | None = None,
    size: Callable[[StoredObject], SizeClass] | None = None,
) -> list[_Out]:
    """Returns the result of `work` for each object, letting other tasks run meanwhile.

    offload, size: run the work with large objects, and measure objects; None if no work depends on size.
    """
    results: list[_Out] = []
    turn = Turn()
    for each in objects:
        if turn.is_over():
            await turn.next()
        if offload is None or size is None or (its_size := size(each)) is SizeClass.SMALL:
            results.append(work(each))
        else:
            results.append(await offload.run_begun(its_size, work, each))
    return results
