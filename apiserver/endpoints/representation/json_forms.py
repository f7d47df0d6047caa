"""Encoders for JSON: full objects, tables, and PartialObjectMetadata."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Final, Protocol

import orjson

from apiserver.endpoints.negotiation import ResponseForm
from apiserver.endpoints.representation.encoder import Encoder
from apiserver.endpoints.representation.form_cache import FormCaches
from apiserver.endpoints.representation.list_segments import cached_segments, segments
from apiserver.endpoints.representation.lists import (
    BATCH_OBJECTS,
    LIST_END,
    Envelope,
    ListTotals,
    Slice,
    batches,
    bookmark_object,
    custom_list_metadata,
    list_metadata,
    list_opening,
    require_list_kind,
    require_object_kind,
    slices_of_segments,
    slices_of_tails,
    work_ahead,
)
from apiserver.endpoints.representation.table_cells import EncodedCells, encode_cells
from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import MANAGED_FIELDS, StoredObject
from apiserver.wire.media_types import JSON

# What clients see of an object: the object itself, or a copy without some of its fields.
Projection = Callable[[StoredObject], StoredObject]


class ItemizedEncoder(Encoder, Protocol):
    """An encoder whose lists can be split into items, so that each item can be transcoded.

    has_stable_items: whether the item of an object never changes.
    """

    has_stable_items: bool

    def frame(self, result: ObjectList) -> tuple[Document, str]:
        """Returns a list without its items, and the name of the field that holds them."""
        ...

    def items(self, objects: Sequence[StoredObject]) -> Iterator[bytes]:
        """Returns the encoded items, one for each object."""
        ...


def unchanged(obj: StoredObject) -> StoredObject:
    return obj


def projection(form: ResponseForm) -> Projection:
    """Returns the function that transforms objects before they are encoded in a form."""
    return without_managed_fields if form.drops_managed_fields else unchanged


def without_managed_fields(obj: StoredObject) -> StoredObject:
    if MANAGED_FIELDS not in obj.tail:
        return obj
    document = obj.document()
    metadata = document.pop("metadata")
    metadata.pop("managedFields", None)
    rest = {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
    encoded = orjson.dumps(metadata)
    tail = encoded + (b"," + orjson.dumps(rest)[1:] if rest else b"}")
    copy = StoredObject(obj.key, obj.head, tail)
    copy.metadata_end = len(encoded)
    return copy


def _metadata(objects: Sequence[StoredObject], project: Projection) -> list[bytes]:
    """Returns the encoded metadata of each object."""
    if project is not unchanged:
        return [project(each).metadata() for each in objects]
    return [each.tail[: each.metadata_end] or each.metadata() for each in objects]


def _event_object(obj: StoredObject, tail: bytes) -> StoredObject:
    return obj if tail is obj.tail else StoredObject(obj.key, obj.head, tail)


def _event(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), encoded)


class _JsonForm:
    media_type = JSON
    stream_type = JSON
    is_text = True
    event_head_bytes = 0
    first_event_differs = False
    has_stable_items = True
    has_length_ahead = False

    def work(self, obj: StoredObject) -> SizeClass:
        return size_class(len(obj.tail))

    def list(self: Encoder, result: ObjectList) -> Iterator[Slice]:
        envelope = self.envelope(result, ListTotals(len(result.objects)))
        return slices_of_segments(envelope, self.encoded_items(result.objects))

    def error(self, status: Document) -> bytes:
        return _event("ERROR", orjson.dumps(status))


class JsonEncoder(_JsonForm):
    """Encodes full objects."""

    def __init__(self, resource: ServedResource, brand: Brand, project: Projection = unchanged) -> None:
        self.key: object = ("json", project)
        self._resource = resource
        self._brand = brand
        self._project = project
        self._list_opening = list_opening(resource.list_kind, resource.api_version)
        # Items of built-in lists do not repeat their kind, as in Kubernetes (row C09); custom ones do.
        self._item_opening = resource.head if resource.is_custom else b'{"metadata":'
        self._list_metadata = custom_list_metadata if resource.is_custom else list_metadata

    def work(self, obj: StoredObject) -> SizeClass:
        return SizeClass.SMALL if self._project is unchanged else super().work(obj)

    def object(self, obj: StoredObject) -> bytes:
        if self._project is not unchanged:
            obj = self._project(obj)
        return obj.head + obj.tail + b"\n"

    def list(self, result: ObjectList) -> Iterator[Slice]:
        if self._project is unchanged:
            tails = [each.tail for each in result.objects]
            envelope = self.envelope(result, ListTotals(len(tails)))
            return slices_of_tails(envelope.opening, self._item_opening, tails)
        return super().list(result)

    def envelope(self, result: ObjectList, extent: ListTotals) -> Envelope:
        head = self._list_opening + orjson.dumps(self._list_metadata(result)) + b',"items":['
        return Envelope(head, b",", LIST_END)

    def encoded_items(self, objects: Sequence[StoredObject]) -> Iterator[Slice]:
        if self._project is unchanged:
            for batch in batches([each.tail for each in objects]):
                yield self._item_opening + (b"," + self._item_opening).join(batch)
            return
        for segment in segments(objects):
            yield from work_ahead(segment)
            yield b",".join(self.items(segment))

    def frame(self, result: ObjectList) -> tuple[Document, str]:
        resource = self._resource
        return {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": self._list_metadata(result),
        }, "items"

    def items(self, objects: Sequence[StoredObject]) -> Iterator[bytes]:
        return (self._item_opening + self._project(each).tail for each in objects)

    def event(self, kind: str, obj: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        if self._project is not unchanged:
            obj = self._project(_event_object(obj, tail))
            tail = obj.tail
        return b'{"type":"%b","object":%b%b}\n' % (kind.encode(), obj.head, tail)

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        type_meta = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        brand = self._brand if ends_initial_events else None
        return _event("BOOKMARK", orjson.dumps(bookmark_object(type_meta, revision, brand)))


class PartialEncoder(_JsonForm):
    """Encodes the metadata of objects as PartialObjectMetadata."""

    def __init__(
        self, resource: ServedResource, brand: Brand, form: ResponseForm, *, caches: FormCaches
    ) -> None:
        project = projection(form)
        self.key: object = ("partial", form.version, project)
        self._caches = caches
        self._resource = resource
        self._brand = brand
        self._project = project
        self._kind = form.kind
        self._api_version = f"{brand.meta_group}/{form.version}"
        self._opening = partial_opening(self._api_version)
        self._segment_key = (resource.cache_key, self._api_version, self.key)

    def object(self, obj: StoredObject) -> bytes:
        require_object_kind(self._kind, self._resource)
        return self._item(obj) + b"\n"

    def envelope(self, result: ObjectList, extent: ListTotals) -> Envelope:
        require_list_kind(self._kind, self._resource)
        head = list_opening("PartialObjectMetadataList", self._api_version)
        return Envelope(head + orjson.dumps(list_metadata(result)) + b',"items":[', b",", LIST_END)

    def encoded_items(self, objects: Sequence[StoredObject]) -> Iterator[Slice]:
        return cached_segments(objects, self._segment, self._caches.segments, self._segment_key)

    def _segment(self, objects: Sequence[StoredObject]) -> tuple[bytes, float]:
        between = b"}," + self._opening
        return b"%b%b}" % (self._opening, between.join(_metadata(objects, self._project))), math.inf

    def frame(self, result: ObjectList) -> tuple[Document, str]:
        require_list_kind(self._kind, self._resource)
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": self._api_version,
            "metadata": list_metadata(result),
        }, "items"

    def items(self, objects: Sequence[StoredObject]) -> Iterator[bytes]:
        return map(self._item, objects)

    def event(self, kind: str, obj: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        return _event(kind, self._item(_event_object(obj, tail)))

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        type_meta = {"kind": "PartialObjectMetadata", "apiVersion": self._api_version}
        brand = self._brand if ends_initial_events else None
        return _event("BOOKMARK", orjson.dumps(bookmark_object(type_meta, revision, brand)))

    def _item(self, obj: StoredObject) -> bytes:
        return self._opening + self._project(obj).metadata() + b"}"


def partial_opening(api_version: str) -> bytes:
    return b'{"kind":"PartialObjectMetadata","apiVersion":"%b","metadata":' % api_version.encode()


_CELLS: Final = "cells"
# The cells of a segment: a few milliseconds' worth. Types have about ten columns.
SEGMENT_CELLS_MAX: Final = 2_000


class TableEncoder(_JsonForm):
    """Encodes objects as the rows of a Table, and caches cells by object and rows by segment."""

    first_event_differs = True  # it has the column definitions
    has_stable_items = False

    def __init__(
        self,
        resource: ServedResource,
        brand: Brand,
        form: ResponseForm,
        *,
        now: Callable[[], float],
        caches: FormCaches,
    ) -> None:
        project, include_object = projection(form), form.include_object or "Metadata"
        self.key: object = ("table", form.version, include_object, project)
        self._resource = resource
        self._brand = brand
        self._include_object = include_object
        self._now = now
        self._caches = caches
        self._project = project
        self._api_version = f"{brand.meta_group}/{form.version}"
        self._opening = list_opening("Table", self._api_version)
        # What separates the cells of a row from its object, and what follows the object.
        self._included_opening, self._row_end = b'],"object":', b"}"
        if include_object == "Metadata":
            self._included_opening += partial_opening(self._api_version)
            self._row_end = b"}}"
        self._cells_key = (resource.cache_key, _CELLS)
        self._segment_key = (resource.cache_key, self._api_version, self.key)

    def object(self, obj: StoredObject) -> bytes:
        return self._table(obj, has_definitions=True) + b"\n"

    def envelope(self, result: ObjectList, extent: ListTotals) -> Envelope:
        definitions = orjson.dumps(self._resource.columns.definitions)
        head = self._opening + orjson.dumps(list_metadata(result))
        return Envelope(head + b',"columnDefinitions":' + definitions + b',"rows":[', b",", LIST_END)

    def encoded_items(self, objects: Sequence[StoredObject]) -> Iterator[Slice]:
        now = self._now()
        encode = partial(self._rows, now)
        objects_max = max(1, min(BATCH_OBJECTS, SEGMENT_CELLS_MAX // len(self._resource.columns.columns)))
        return cached_segments(
            objects, encode, self._caches.segments, self._segment_key, now, objects_max=objects_max
        )

    def frame(self, result: ObjectList) -> tuple[Document, str]:
        return {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": list_metadata(result),
            "columnDefinitions": self._resource.columns.definitions,
        }, "rows"

    def items(self, objects: Sequence[StoredObject]) -> Iterator[bytes]:
        now = self._now()
        return (self._rows(now, [each])[0] for each in objects)

    def event(self, kind: str, obj: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        return _event(kind, self._table(_event_object(obj, tail), has_definitions=is_first))

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        """Returns a table whose one row holds the bookmark, as kube-apiserver sends it."""
        document = bookmark_object(
            {"kind": self._resource.kind, "apiVersion": self._resource.api_version},
            revision,
            self._brand if ends_initial_events else None,
        )
        row = {"cells": [None] * len(self._resource.columns.definitions), "object": document}
        table = {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": {"resourceVersion": str(revision)},
            "columnDefinitions": None,
            "rows": [row],
        }
        return _event("BOOKMARK", orjson.dumps(table))

    def _table(self, obj: StoredObject, *, has_definitions: bool) -> bytes:
        # The table's version is the object's own. What was not stored (a dry run) has none.
        version = orjson.loads(obj.metadata()).get("resourceVersion", "")
        return b'%b%b,"columnDefinitions":%b,"rows":[%b]}' % (
            self._opening,
            orjson.dumps({"resourceVersion": version} if version else {}),
            orjson.dumps(self._resource.columns.definitions if has_definitions else None),
            self._rows(self._now(), [obj])[0],
        )

    def _rows(self, now: float, objects: Sequence[StoredObject]) -> tuple[bytes, float]:
        """Encodes the rows of at least one object; returns also until when they are valid."""
        key, opening, end, until = self._cells_key, self._included_opening, self._row_end, math.inf
        between = end + b',{"cells":['
        pieces = [b'{"cells":[']
        for obj, included in zip(objects, self._included(objects), strict=False):
            forms = obj.forms
            cells: EncodedCells | None = forms.get(key) if forms is not None else None
            if cells is None or not cells.text_since <= now < cells.text_until:
                cells = self._cells_at(now, obj, cells)
            until = min(until, cells.text_until)
            pieces += (cells.text, opening, included, between)
        pieces[-1] = end
        return b"".join(pieces), until

    def _included(self, objects: Sequence[StoredObject]) -> Iterable[bytes]:
        """Returns the part of the objects that rows include."""
        match self._include_object:
            case "Metadata":
                return _metadata(objects, self._project)
            case "Object":
                return [self._project(each).json for each in objects]
        return repeat(b"null")

    def _cells_at(self, now: float, obj: StoredObject, cells: EncodedCells | None) -> EncodedCells:
        """Returns an object's cells as of now. cells: the cached ones, if any."""
        if cells is None or now >= cells.until:
            cells = encode_cells(self._resource.columns.columns, obj.document(), now)
            self._caches.objects.put(obj, self._cells_key, cells, 2 * (len(cells.before) + len(cells.after)))
        cells.at(now)
        return cells
