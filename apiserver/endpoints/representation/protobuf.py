"""Forms in protobuf: objects, and their metadata alone. There are no tables (row D14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

from apiserver.brand import Brand
from apiserver.endpoints.representation import discovery_schema
from apiserver.endpoints.representation.form_cache import FormCaches
from apiserver.endpoints.representation.json_forms import Projection, whole
from apiserver.endpoints.representation.list_segments import runs
from apiserver.endpoints.representation.lists import (
    bookmark_object,
    list_metadata,
    require_list_kind,
    require_object_kind,
    slices_of_segments,
)
from apiserver.errors import NotAcceptable
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Document
from apiserver.wire.protobuf import MessageEncoder, NotEncodable, event_frame, seal
from apiserver.wire.protobuf.envelope import ENVELOPE_END, envelope_start
from apiserver.wire.protobuf.wire_format import BYTES, delimited, key, undelimited

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_FIRST: Final = key(1, BYTES)
_SECOND: Final = key(2, BYTES)
# The length of a list comes before its items. Up to here they are held while that is found out; those of
# longer lists are made twice.
BUFFERED_BYTES_MAX: Final = 16 * 1024 * 1024


class MetaV1Encoders:
    """The messages that are the same for all kinds, and those of documents that are no resources.

    They are compiled when the first one is asked for. schemas: by the name of the definition.
    """

    def __init__(self, schemas: Callable[[str], Schema]) -> None:
        self._schemas = schemas
        self._encoders: dict[str, MessageEncoder] = {}

    @cached_property
    def object_meta(self) -> MessageEncoder:
        return MessageEncoder(self._schemas(f"{_META}ObjectMeta"))

    @cached_property
    def list_meta(self) -> MessageEncoder:
        return MessageEncoder(self._schemas(f"{_META}ListMeta"))

    def partial(self, document: Document) -> bytes:
        """PartialObjectMetadata."""
        return delimited(_FIRST, self.object_meta(document["metadata"]))

    def sealing(self, kind: str) -> Callable[[Document], bytes]:
        """What puts documents of a kind in their envelopes: a Status, or what discovery answers."""
        encode = self._encoders.get(kind)
        if encode is None:
            is_aggregated = kind == discovery_schema.KIND
            schema = (
                discovery_schema.schema(self._schemas) if is_aggregated else self._schemas(f"{_META}{kind}")
            )
            encode = self._encoders[kind] = MessageEncoder(schema)
        # Of documents as old as Kubernetes some have no version.
        return lambda document: seal(document.get("apiVersion", ""), kind, encode(document))


class ProtobufEncoder:
    """Objects as messages. Items of lists are kept with their objects.

    kind, version: what was asked for instead of the object itself, or empty.
    """

    def __init__(
        self,
        resource: ServedResource,
        brand: Brand,
        kind: str,
        version: str,
        *,
        meta: MetaV1Encoders,
        kept: FormCaches,
        shown: Projection = whole,
    ) -> None:
        """Raises LookupError for kinds without a form in protobuf."""
        self.media_type = brand.protobuf_media_type
        self.stream_type = f"{brand.protobuf_media_type};stream=watch"
        self.key: object = ("protobuf", bool(kind), version, shown)
        self._resource = resource
        self._brand = brand
        self._requested_kind = kind
        self._meta = meta
        self._kept = kept
        self._shown = shown
        self._item_key = (resource.token, "protobuf", bool(kind), shown)
        if kind:
            self._encode: Callable[[Document], bytes] = meta.partial
            self._kind, self._list_kind = "PartialObjectMetadata", "PartialObjectMetadataList"
            self._api_version = f"{brand.meta_group}/{version}"
        else:
            self._encode = resource.to_protobuf
            self._kind, self._list_kind = resource.kind, resource.list_kind
            self._api_version = resource.api_version

    def object(self, found: StoredObject) -> bytes:
        require_object_kind(self._requested_kind, self._resource)
        return self._enveloped(found)

    def list(self, found: ObjectList) -> Iterator[bytes]:
        require_list_kind(self._requested_kind, self._resource)
        return self._slices(found)

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        if tail is not found.tail:
            return event_frame(kind, self._enveloped(StoredObject(found.key, found.head, tail)))
        # As an item of a list it is kept: whoever lists or watches next will want it, too.
        raw = undelimited(self._item(found))
        return event_frame(kind, seal(self._api_version, self._kind, raw))

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        document = bookmark_object({}, revision, self._brand if ends_initial_events else None)
        return event_frame("BOOKMARK", seal(self._api_version, self._kind, self._encode(document)))

    def error(self, status: Document) -> bytes:
        return event_frame("ERROR", self._meta.sealing("Status")(status))

    def _enveloped(self, found: StoredObject) -> bytes:
        return seal(self._api_version, self._kind, self._message(found))

    def _message(self, found: StoredObject) -> bytes:
        try:
            return self._encode(self._shown(found).document())
        except NotEncodable as error:
            raise NotAcceptable(f"{error}; ask for another media type") from None

    def _slices(self, found: ObjectList) -> Iterator[bytes]:
        held: list[bytes] | None = []  # the items of each run
        metadata = delimited(_FIRST, self._meta.list_meta(list_metadata(found)))
        size = len(metadata)
        for items in self._made(found):
            size += len(items)
            if held is not None:
                held.append(items)
                if size > BUFFERED_BYTES_MAX:
                    held = None
            yield b""
        begun = envelope_start(self._api_version, self._list_kind, size) + metadata
        yield from slices_of_segments(begun, self._made(found) if held is None else held, ENVELOPE_END)

    def _made(self, found: ObjectList) -> Iterator[bytes]:
        return (b"".join([self._item(each) for each in run]) for run in runs(found.objects))

    def _item(self, found: StoredObject) -> bytes:
        """An object as an item of a list."""
        forms = found.forms
        item: bytes | None = forms.get(self._item_key) if forms is not None else None
        if item is None:
            item = delimited(_SECOND, self._message(found))
            self._kept.keep(found, self._item_key, item, len(item))
        return item
