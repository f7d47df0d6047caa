"""Forms in JSON: objects as they are, as rows of a table, and their metadata alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Final, Protocol

import orjson

from apiserver.brand import Brand
from apiserver.endpoints.representation.encoder import Encoder
from apiserver.endpoints.representation.form_cache import FormCaches
from apiserver.endpoints.representation.list_segments import cached_segments, runs
from apiserver.endpoints.representation.lists import (
    BATCH_OBJECTS,
    bookmark_object,
    custom_list_metadata,
    list_metadata,
    opening,
    require_list_kind,
    require_object_kind,
    slices_of_segments,
    slices_of_tails,
)
from apiserver.endpoints.representation.table_cells import EncodedCells, cells_of
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document
from apiserver.wire.media_types import JSON

# What is shown of an object: the object itself, or one that lacks something.
Projection = Callable[[StoredObject], StoredObject]


class TypeDef(Encoder, Protocol):
    """A form whose lists can be taken apart, to be written in other ways than JSON.

    is_lasting: an object's item is always the same.
    """

    has_stable_items: bool

    def frame(self, found: ObjectList) -> tuple[Document, str]:
        """A list without its items, and the name of the field that they stand in."""
        ...

    def items(self, objects: Sequence[StoredObject]) -> Iterator[bytes]:
        """The item that each object is."""
        ...


def whole(found: StoredObject) -> StoredObject:
    return found


def without_managed_fields(found: StoredObject) -> StoredObject:
    if b'"managedFields":[' not in found.tail:
        return found
    document = found.document()
    metadata = document.pop("metadata")
    metadata.pop("managedFields", None)
    rest = {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
    encoded = orjson.dumps(metadata)
    tail = encoded + (b"," + orjson.dumps(rest)[1:] if rest else b"}")
    shown = StoredObject(found.key, found.head, tail)
    shown.metadata_end = len(encoded)
    return shown


def _metadata(objects: Sequence[StoredObject], shown: Projection) -> list[bytes]:
    """The metadata of each."""
    if shown is not whole:
        return [shown(each).metadata() for each in objects]
    return [each.tail[: each.metadata_end] or each.metadata() for each in objects]


def _event_object(found: StoredObject, tail: bytes) -> StoredObject:
    return found if tail is found.tail else StoredObject(found.key, found.head, tail)


def _event(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), encoded)


class _JsonForm:
    media_type = JSON
    stream_type = JSON
    has_stable_items = True

    def error(self, status: Document) -> bytes:
        return _event("ERROR", orjson.dumps(status))


class JsonEncoder(_JsonForm):
    """Objects as they are."""

    def __init__(self, resource: ServedResource, brand: Brand, shown: Projection = whole) -> None:
        self.key: object = ("json", shown)
        self._resource = resource
        self._brand = brand
        self._shown = shown
        self._list_opening = opening(resource.list_kind, resource.api_version)
        # Items of built-in lists do not repeat their kind, as in Kubernetes (row C09); custom ones do.
        self._item_opening = b'{"metadata":' if resource.keeping is None else resource.head
        self._list_metadata = list_metadata if resource.keeping is None else custom_list_metadata

    def object(self, found: StoredObject) -> bytes:
        found = self._shown(found)
        return found.head + found.tail + b"\n"

    def list(self, found: ObjectList) -> Iterator[bytes]:
        begun = self._list_opening + orjson.dumps(self._list_metadata(found)) + b',"items":['
        if self._shown is whole:
            return slices_of_tails(begun, self._item_opening, [each.tail for each in found.objects])
        made = (b",".join(self.items(run)) for run in runs(found.objects))
        return slices_of_segments(begun, made, b"]}\n", separator=b",")

    def frame(self, found: ObjectList) -> tuple[Document, str]:
        resource = self._resource
        return {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": self._list_metadata(found),
        }, "items"

    def items(self, objects: Sequence[StoredObject]) -> Iterator[bytes]:
        return (self._item_opening + self._shown(each).tail for each in objects)

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        if self._shown is not whole:
            found = self._shown(_event_object(found, tail))
            tail = found.tail
        return b'{"type":"%b","object":%b%b}\n' % (kind.encode(), found.head, tail)

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        type_meta = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        brand = self._brand if ends_initial_events else None
        return _event("BOOKMARK", orjson.dumps(bookmark_object(type_meta, revision, brand)))


class PartialEncoder(_JsonForm):
    """Objects reduced to their metadata.

    kind: what was asked for; version: of it.
    """

    def __init__(
        self,
        resource: ServedResource,
        brand: Brand,
        kind: str,
        version: str,
        *,
        kept: FormCaches,
        shown: Projection = whole,
    ) -> None:
        self.key: object = ("partial", version, shown)
        self._kept = kept
        self._resource = resource
        self._brand = brand
        self._shown = shown
        self._kind = kind
        self._api_version = f"{brand.meta_group}/{version}"
        self._opening = partial_opening(self._api_version)
        self._segment_key = (resource.token, self._api_version, self.key)

    def object(self, found: StoredObject) -> bytes:
        require_object_kind(self._kind, self._resource)
        return self._item(found) + b"\n"

    def list(self, found: ObjectList) -> Iterator[bytes]:
        require_list_kind(self._kind, self._resource)
        begun = opening("PartialObjectMetadataList", self._api_version) + orjson.dumps(list_metadata(found))
        made = cached_segments(found.objects, self._run, self._kept.runs, self._segment_key)
        return slices_of_segments(begun + b',"items":[', made, b"]}\n", separator=b",")

    def _run(self, objects: Sequence[StoredObject]) -> tuple[bytes, float]:
        between = b"}," + self._opening
        return b"%b%b}" % (self._opening, between.join(_metadata(objects, self._shown))), math.inf

    def frame(self, found: ObjectList) -> tuple[Document, str]:
        require_list_kind(self._kind, self._resource)
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": self._api_version,
            "metadata": list_metadata(found),
        }, "items"

    def items(self, objects: Sequence[StoredObject]) -> Iterator[bytes]:
        return map(self._item, objects)

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        return _event(kind, self._item(_event_object(found, tail)))

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        type_meta = {"kind": "PartialObjectMetadata", "apiVersion": self._api_version}
        brand = self._brand if ends_initial_events else None
        return _event("BOOKMARK", orjson.dumps(bookmark_object(type_meta, revision, brand)))

    def _item(self, found: StoredObject) -> bytes:
        return self._opening + self._shown(found).metadata() + b"}"


def partial_opening(api_version: str) -> bytes:
    return b'{"kind":"PartialObjectMetadata","apiVersion":"%b","metadata":' % api_version.encode()


_CELLS: Final = "cells"
# As many as a run of rows may have: a few milliseconds' worth. Types have about ten columns.
SEGMENT_CELLS_MAX: Final = 2_000


class TableEncoder(_JsonForm):
    """Objects as rows. Cells are kept with their objects, rows in runs.

    include_object: what rows carry of their objects: None, Metadata or Object.
    """

    has_stable_items = False

    def __init__(
        self,
        resource: ServedResource,
        brand: Brand,
        version: str,
        include_object: str,
        *,
        now: Callable[[], float],
        kept: FormCaches,
        shown: Projection = whole,
    ) -> None:
        self.key: object = ("table", version, include_object, shown)
        self._resource = resource
        self._brand = brand
        self._include_object = include_object
        self._now = now
        self._kept = kept
        self._shown = shown
        self._api_version = f"{brand.meta_group}/{version}"
        self._opening = opening("Table", self._api_version)
        # What stands between the cells of a row and what of its object follows, and what after that.
        self._included_opening, self._row_end = b'],"object":', b"}"
        if include_object == "Metadata":
            self._included_opening += partial_opening(self._api_version)
            self._row_end = b"}}"
        self._cells_key = (resource.token, _CELLS)
        self._segment_key = (resource.token, self._api_version, self.key)

    def object(self, found: StoredObject) -> bytes:
        return self._table(found, has_definitions=True) + b"\n"

    def list(self, found: ObjectList) -> Iterator[bytes]:
        definitions = orjson.dumps(self._resource.columns.definitions)
        begun = self._opening + orjson.dumps(list_metadata(found))
        begun += b',"columnDefinitions":' + definitions + b',"rows":['
        now = self._now()
        make = partial(self._run, now)
        objects_max = max(1, min(BATCH_OBJECTS, SEGMENT_CELLS_MAX // len(self._resource.columns.columns)))
        made = cached_segments(
            found.objects, make, self._kept.runs, self._segment_key, now, objects_max=objects_max
        )
        return slices_of_segments(begun, made, b"]}\n", separator=b",")

    def frame(self, found: ObjectList) -> tuple[Document, str]:
        return {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": list_metadata(found),
            "columnDefinitions": self._resource.columns.definitions,
        }, "rows"

    def items(self, objects: Sequence[StoredObject]) -> Iterator[bytes]:
        now = self._now()
        return (self._run(now, [each])[0] for each in objects)

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        return _event(kind, self._table(_event_object(found, tail), has_definitions=is_first))

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        """A table whose one row holds the bookmark, as kube-apiserver sends it."""
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

    def _table(self, found: StoredObject, *, has_definitions: bool) -> bytes:
        # The table's version is the object's own. What was not stored (a dry run) has none.
        version = orjson.loads(found.metadata()).get("resourceVersion", "")
        return b'%b%b,"columnDefinitions":%b,"rows":[%b]}' % (
            self._opening,
            orjson.dumps({"resourceVersion": version} if version else {}),
            orjson.dumps(self._resource.columns.definitions if has_definitions else None),
            self._run(self._now(), [found])[0],
        )

    def _run(self, now: float, objects: Sequence[StoredObject]) -> tuple[bytes, float]:
        """The rows of one object or more, and until when they are so."""
        key, opening, end, until = self._cells_key, self._included_opening, self._row_end, math.inf
        between = end + b',{"cells":['
        pieces = [b'{"cells":[']
        for found, included in zip(objects, self._included(objects), strict=False):
            forms = found.forms
            cells: EncodedCells | None = forms.get(key) if forms is not None else None
            if cells is None or not cells.text_since <= now < cells.text_until:
                cells = self._cells_at(now, found, cells)
            until = min(until, cells.text_until)
            pieces += (cells.text, opening, included, between)
        pieces[-1] = end
        return b"".join(pieces), until

    def _included(self, objects: Sequence[StoredObject]) -> Iterable[bytes]:
        """What rows carry of their objects."""
        match self._include_object:
            case "Metadata":
                return _metadata(objects, self._shown)
            case "Object":
                return [self._shown(each).json for each in objects]
        return repeat(b"null")

    def _cells_at(self, now: float, found: StoredObject, cells: EncodedCells | None) -> EncodedCells:
        """cells: those that are kept, if any."""
        if cells is None or now >= cells.until:
            cells = cells_of(self._resource.columns.columns, found.document(), now)
            self._kept.keep(found, self._cells_key, cells, 2 * (len(cells.before) + len(cells.after)))
        cells.at(now)
        return cells
