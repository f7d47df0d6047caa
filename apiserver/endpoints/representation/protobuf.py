"""Encoders for protobuf: full objects and PartialObjectMetadata, but no tables (row D14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

from apiserver.endpoints.negotiation import ResponseForm
from apiserver.endpoints.representation import discovery_schema
from apiserver.endpoints.representation.form_cache import FormCache
from apiserver.endpoints.representation.json_forms import projection
from apiserver.endpoints.representation.list_segments import segments
from apiserver.endpoints.representation.lists import (
    Envelope,
    ListTotals,
    Slice,
    WorkAhead,
    bookmark_object,
    list_metadata,
    require_list_kind,
    require_object_kind,
    slices_of_segments,
    work_ahead,
)
from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta.brand import Brand
from apiserver.meta.errors import NotAcceptable
from apiserver.meta.vocabulary import Document
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.structural import Schema
from apiserver.wire.protobuf import MessageEncoder, NotEncodable, event_frame, seal
from apiserver.wire.protobuf.envelope import ENVELOPE_END, EVENT_LENGTH_BYTES, envelope_start
from apiserver.wire.protobuf.wire_format import BYTES, delimited, key, undelimited

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_FIRST: Final = key(1, BYTES)
_SECOND: Final = key(2, BYTES)
# The length of a list comes before its items. Lists up to this size are buffered to find it out; the items
# of longer ones are encoded twice.
BUFFERED_BYTES_MAX: Final = 16 * 1024 * 1024


class MetaV1Encoders:
    """Encodes the messages that all kinds share, and documents that are not resources (a Status, discovery).

    Encoders are compiled on first use. schemas: by the name of the definition.
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

    def partial_object_metadata(self, document: Document) -> bytes:
        """Returns an object's metadata as PartialObjectMetadata."""
        return delimited(_FIRST, self.object_meta(document["metadata"]))

    def document_encoder(self, kind: str) -> Callable[[Document], bytes]:
        """Returns a function that encodes documents of a kind, in their envelopes.

        kind: Status, or a kind of discovery.
        """
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
    """Encodes objects as protobuf messages, and caches the items of lists by object."""

    has_length_ahead = True

    def __init__(
        self,
        resource: ServedResource,
        brand: Brand,
        form: ResponseForm,
        *,
        meta: MetaV1Encoders,
        cache: FormCache,
    ) -> None:
        """Raises LookupError for kinds that have no form in protobuf."""
        kind, version, project = form.kind, form.version, projection(form)
        self.media_type = brand.protobuf_media_type
        self.stream_type = f"{brand.protobuf_media_type};stream=watch"
        self.is_text = False
        self.event_head_bytes = EVENT_LENGTH_BYTES
        self.first_event_differs = False
        self.key: object = ("protobuf", bool(kind), version, project)
        self._resource = resource
        self._brand = brand
        self._requested_kind = kind
        self._meta = meta
        self._cache = cache
        self._project = project
        self._item_key = (resource.cache_key, "protobuf", bool(kind), project)
        if kind:
            self._encode: Callable[[Document], bytes] = meta.partial_object_metadata
            self._kind, self._list_kind = "PartialObjectMetadata", "PartialObjectMetadataList"
            self._api_version = f"{brand.meta_group}/{version}"
        else:
            self._encode = resource.to_protobuf
            self._kind, self._list_kind = resource.kind, resource.list_kind
            self._api_version = resource.api_version

    def work(self, obj: StoredObject) -> SizeClass:
        forms = obj.forms
        return SizeClass.SMALL if forms is not None and self._item_key in forms else size_class(len(obj.tail))

    def object(self, obj: StoredObject) -> bytes:
        require_object_kind(self._requested_kind, self._resource)
        if size_class(len(obj.tail)) is SizeClass.SMALL:
            return self._enveloped(obj)  # To encode it again takes no longer than to keep it.
        return seal(self._api_version, self._kind, undelimited(self._item(obj)))

    def list(self, result: ObjectList) -> Iterator[Slice]:
        require_list_kind(self._requested_kind, self._resource)
        return self._slices(result)

    def event(self, kind: str, obj: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        if tail is not obj.tail:
            return event_frame(kind, self._enveloped(StoredObject(obj.key, obj.head, tail)))
        # Cached as an item of a list, for the next list or watch.
        raw = undelimited(self._item(obj))
        return event_frame(kind, seal(self._api_version, self._kind, raw))

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        document = bookmark_object({}, revision, self._brand if ends_initial_events else None)
        return event_frame("BOOKMARK", seal(self._api_version, self._kind, self._encode(document)))

    def error(self, status: Document) -> bytes:
        return event_frame("ERROR", self._meta.document_encoder("Status")(status))

    def _enveloped(self, obj: StoredObject) -> bytes:
        return seal(self._api_version, self._kind, self._message(obj))

    def _message(self, obj: StoredObject) -> bytes:
        try:
            return self._encode(self._project(obj).document())
        except NotEncodable as error:
            raise NotAcceptable(f"{error}; request another media type") from None

    def envelope(self, result: ObjectList, extent: ListTotals) -> Envelope:
        require_list_kind(self._requested_kind, self._resource)
        metadata = delimited(_FIRST, self._meta.list_meta(list_metadata(result)))
        size = len(metadata) + extent.items_bytes
        return Envelope(
            envelope_start(self._api_version, self._list_kind, size) + metadata, b"", ENVELOPE_END
        )

    def _slices(self, result: ObjectList) -> Iterator[Slice]:
        buffered: list[bytes] | None = []  # the items of each segment
        size = 0
        for items in self.encoded_items(result.objects):
            if isinstance(items, WorkAhead):
                yield items
                continue
            size += len(items)
            if buffered is not None:
                buffered.append(items)
                if size > BUFFERED_BYTES_MAX:
                    buffered = None
            yield b""
        envelope = self.envelope(result, ListTotals(len(result.objects), size))
        yield from slices_of_segments(
            envelope, self.encoded_items(result.objects) if buffered is None else buffered
        )

    def encoded_items(self, objects: Sequence[StoredObject]) -> Iterator[Slice]:
        for segment in segments(objects):
            yield from work_ahead([each for each in segment if self.work(each)])
            yield b"".join([self._item(each) for each in segment])

    def _item(self, obj: StoredObject) -> bytes:
        """Returns an object as an item of a list."""
        forms = obj.forms
        item: bytes | None = forms.get(self._item_key) if forms is not None else None
        if item is None:
            item = delimited(_SECOND, self._message(obj))
            self._cache.put(obj, self._item_key, item, len(item))
        return item
