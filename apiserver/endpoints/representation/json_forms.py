"""Forms in JSON: objects as they are, as rows of a table, and their metadata alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import orjson

from apiserver.brand import Brand
from apiserver.endpoints.representation.ages import Cells, cells_of
from apiserver.endpoints.representation.encoder import Encoder
from apiserver.endpoints.representation.kept import KeptForms
from apiserver.endpoints.representation.lists import (
    bookmark_object,
    joined_slices,
    list_metadata,
    made_slices,
    opening,
    require_list_kind,
    require_object_kind,
)
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document
from apiserver.wire.forms import JSON

# What is shown of an object: the object itself, or one that lacks something.
Shown = Callable[[StoredObject], StoredObject]


class Shape(Encoder, Protocol):
    """A form whose lists can be taken apart, to be written in other ways than JSON."""

    def frame(self, found: ObjectList) -> tuple[Document, str]:
        """A list without its items, and the name of the field that they stand in."""
        ...

    def items(self, found: ObjectList) -> Iterator[bytes]:
        """Each item."""
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
    tail = orjson.dumps(metadata) + (b"," + orjson.dumps(rest)[1:] if rest else b"}")
    return StoredObject(found.key, found.head, tail)


def _event_object(found: StoredObject, tail: bytes) -> StoredObject:
    return found if tail is found.tail else StoredObject(found.key, found.head, tail)


def _event(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), encoded)


class _JsonForm:
    media_type = JSON
    stream_type = JSON

    def error(self, status: Document) -> bytes:
        return _event("ERROR", orjson.dumps(status))


class JsonEncoder(_JsonForm):
    """Objects as they are."""

    def __init__(self, resource: ServedResource, brand: Brand, shown: Shown = whole) -> None:
        self.key: object = ("json", shown)
        self._resource = resource
        self._brand = brand
        self._shown = shown
        self._list_opening = opening(resource.list_kind, resource.api_version)
        # Items of built-in lists do not repeat their kind, as in Kubernetes (row C09).
        self._item_opening = b'{"metadata":'

    def object(self, found: StoredObject) -> bytes:
        found = self._shown(found)
        return found.head + found.tail + b"\n"

    def list(self, found: ObjectList) -> Iterator[bytes]:
        begun = self._list_opening + orjson.dumps(list_metadata(found)) + b',"items":['
        if self._shown is whole:
            return joined_slices(begun, self._item_opening, [each.tail for each in found.objects])
        return made_slices(begun, self.items(found), b"]}\n", separator=b",")

    def frame(self, found: ObjectList) -> tuple[Document, str]:
        resource = self._resource
        return {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": list_metadata(found),
        }, "items"

    def items(self, found: ObjectList) -> Iterator[bytes]:
        return (self._item_opening + self._shown(each).tail for each in found.objects)

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
        self, resource: ServedResource, brand: Brand, kind: str, version: str, shown: Shown = whole
    ) -> None:
        self.key: object = ("partial", version, shown)
        self._resource = resource
        self._brand = brand
        self._shown = shown
        self._kind = kind
        self._api_version = f"{brand.meta_group}/{version}"
        self._opening = partial_opening(self._api_version)

    def object(self, found: StoredObject) -> bytes:
        require_object_kind(self._kind, self._resource)
        return self._item(found) + b"\n"

    def list(self, found: ObjectList) -> Iterator[bytes]:
        require_list_kind(self._kind, self._resource)
        begun = opening("PartialObjectMetadataList", self._api_version) + orjson.dumps(list_metadata(found))
        return made_slices(begun + b',"items":[', self.items(found), b"]}\n", separator=b",")

    def frame(self, found: ObjectList) -> tuple[Document, str]:
        require_list_kind(self._kind, self._resource)
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": self._api_version,
            "metadata": list_metadata(found),
        }, "items"

    def items(self, found: ObjectList) -> Iterator[bytes]:
        return (self._item(each) for each in found.objects)

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


class TableEncoder(_JsonForm):
    """Objects as rows. Cells are kept with their objects.

    include_object: what rows carry of their objects: None, Metadata or Object.
    """

    def __init__(
        self,
        resource: ServedResource,
        brand: Brand,
        version: str,
        include_object: str,
        *,
        now: Callable[[], float],
        kept: KeptForms,
        shown: Shown = whole,
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
        self._partial_opening = partial_opening(self._api_version)
        self._cells_key = (resource, _CELLS)

    def object(self, found: StoredObject) -> bytes:
        return self._table(found, has_definitions=True) + b"\n"

    def list(self, found: ObjectList) -> Iterator[bytes]:
        definitions = orjson.dumps(self._resource.columns.definitions)
        begun = self._opening + orjson.dumps(list_metadata(found))
        begun += b',"columnDefinitions":' + definitions + b',"rows":['
        return made_slices(begun, self.items(found), b"]}\n", separator=b",")

    def frame(self, found: ObjectList) -> tuple[Document, str]:
        return {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": list_metadata(found),
            "columnDefinitions": self._resource.columns.definitions,
        }, "rows"

    def items(self, found: ObjectList) -> Iterator[bytes]:
        now = self._now()
        return (self._row(each, now) for each in found.objects)

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
            self._row(found, self._now()),
        )

    def _row(self, found: StoredObject, now: float) -> bytes:
        forms = found.forms
        cells: Cells | None = forms.get(self._cells_key) if forms is not None else None
        if cells is None or now >= cells.until:
            cells = cells_of(self._resource.columns.columns, found.document(), now)
            self._kept.keep(found, self._cells_key, cells, len(cells.before) + len(cells.after))
        if self._include_object == "Metadata":
            metadata = self._shown(found).metadata()
            return b'{"cells":[%b],"object":%b%b}}' % (cells.at(now), self._partial_opening, metadata)
        included = self._shown(found).json if self._include_object == "Object" else b"null"
        return b'{"cells":[%b],"object":%b}' % (cells.at(now), included)
