"""Objects, lists and watch events in the form that was asked for, as bytes.

An `Encoder` does it for one resource and one form. In plain JSON nothing is parsed: see
`registry.stored_object`. Lists are slices, made one after another while they are sent. Everything here is
pure; who needs the time passes it in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import orjson

from apiserver.brand import Brand
from apiserver.endpoints.negotiation import JSON, Form
from apiserver.errors import BadRequest, NotAcceptable
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document

# How much of a list is made at a time: large enough that joining is all it costs, small enough that
# nobody waits for it.
SLICE_BYTES: Final = 128 * 1024
BATCH_OBJECTS: Final = 64


class Encoder(Protocol):
    """One resource's objects in one form.

    key: tells forms apart; equal keys make equal bytes of an event.
    """

    media_type: str
    key: object

    def object(self, found: StoredObject) -> bytes:
        """A single object as the body of an answer."""
        ...

    def list(self, found: ObjectList) -> Iterator[bytes]:
        """A collection as the body of an answer. Raises NotAcceptable at once, not with the first slice."""
        ...

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        """A watch event; `tail` is the object's, or the same at another revision (a deletion).

        is_first: no other event was sent on this stream before.
        """
        ...

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes: ...


def encoder_for(
    resource: ServedResource, form: Form, brand: Brand, *, include_object: str, now: Callable[[], float]
) -> Encoder:
    """include_object: what rows of a table carry of their objects: None, Metadata, Object or "".

    Raises BadRequest.
    """
    match form.kind:
        case "Table":
            if include_object not in ("", "None", "Metadata", "Object"):
                raise BadRequest(
                    "Unable to convert to Table as requested: includeObject: Invalid value: "
                    f"\"{include_object}\": must be 'Metadata', 'Object', 'None', or empty"
                )
            return TableEncoder(resource, brand, include_object or "Metadata", now)
        case "PartialObjectMetadata" | "PartialObjectMetadataList":
            return PartialEncoder(resource, brand, form.kind)
        case _:
            return JsonEncoder(resource, brand)


class JsonEncoder:
    """Objects as they are."""

    media_type = JSON

    def __init__(self, resource: ServedResource, brand: Brand) -> None:
        self.key: object = "json"
        self._resource = resource
        self._brand = brand
        self._list_opening = _opening(resource.list_kind, resource.api_version)
        # Items of built-in lists do not repeat their kind, as in Kubernetes (row C09).
        self._item_opening = b'{"metadata":'

    def object(self, found: StoredObject) -> bytes:
        return found.head + found.tail + b"\n"

    def list(self, found: ObjectList) -> Iterator[bytes]:
        yield from _list_slices(
            self._list_opening,
            found,
            self._item_opening,
            [each.tail for each in found.objects],
        )

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        return b'{"type":"%b","object":%b%b}\n' % (kind.encode(), found.head, tail)

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        return _bookmark(
            {"kind": self._resource.kind, "apiVersion": self._resource.api_version},
            revision,
            self._brand if ends_initial_events else None,
        )


class PartialEncoder:
    """Objects reduced to their metadata."""

    media_type = JSON

    def __init__(self, resource: ServedResource, brand: Brand, kind: str) -> None:
        self.key: object = "partial"
        self._resource = resource
        self._brand = brand
        self._kind = kind
        self._opening = b'{"kind":"PartialObjectMetadata","apiVersion":"%b","metadata":' % (
            brand.meta_version.encode()
        )

    def object(self, found: StoredObject) -> bytes:
        if self._kind == "PartialObjectMetadataList":
            raise NotAcceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list "
                f"({self._resource.kind})"
            )
        return self._item(found.document()) + b"\n"

    def list(self, found: ObjectList) -> Iterator[bytes]:
        if self._kind == "PartialObjectMetadata":
            raise NotAcceptable(
                "you requested PartialObjectMetadata, but the requested object is a list "
                f"({self._resource.list_kind})"
            )
        opening = _opening("PartialObjectMetadataList", self._brand.meta_version)
        return _lazy_slices(
            opening + _list_meta(found) + b',"items":[',
            (self._item(each.document()) for each in found.objects),
        )

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        document = orjson.loads(found.head + tail)
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self._item(document))

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        return _bookmark(
            {"kind": "PartialObjectMetadata", "apiVersion": self._brand.meta_version},
            revision,
            self._brand if ends_initial_events else None,
        )

    def _item(self, document: Document) -> bytes:
        return self._opening + orjson.dumps(document["metadata"]) + b"}"


class TableEncoder:
    """Objects as rows."""

    media_type = JSON

    def __init__(
        self, resource: ServedResource, brand: Brand, include_object: str, now: Callable[[], float]
    ) -> None:
        self.key: object = ("table", include_object)
        self._resource = resource
        self._brand = brand
        self._include_object = include_object
        self._now = now
        self._opening = _opening("Table", brand.meta_version)

    def object(self, found: StoredObject) -> bytes:
        document = found.document()
        # The table's version is the object's own. What was not stored (a dry run) has none.
        version = document["metadata"].get("resourceVersion", "")
        return self._table([document], {"resourceVersion": version} if version else {}) + b"\n"

    def list(self, found: ObjectList) -> Iterator[bytes]:
        definitions = orjson.dumps(self._resource.columns.definitions)
        yield from _lazy_slices(
            self._opening + _list_meta(found) + b',"columnDefinitions":' + definitions + b',"rows":[',
            (orjson.dumps(self._row(each.document())) for each in found.objects),
        )

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        document = orjson.loads(found.head + tail)
        metadata = {"resourceVersion": document["metadata"]["resourceVersion"]}
        table = self._table([document], metadata, has_definitions=is_first)
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), table)

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        """A table whose one row holds the bookmark, as kube-apiserver sends it."""
        document = _bookmark_object(
            {"kind": self._resource.kind, "apiVersion": self._resource.api_version},
            revision,
            self._brand if ends_initial_events else None,
        )
        row = {"cells": [None] * len(self._resource.columns.definitions), "object": document}
        table = {
            "kind": "Table",
            "apiVersion": self._brand.meta_version,
            "metadata": {"resourceVersion": str(revision)},
            "columnDefinitions": None,
            "rows": [row],
        }
        return b'{"type":"BOOKMARK","object":%b}\n' % orjson.dumps(table)

    def _table(
        self, documents: Sequence[Document], metadata: Document, *, has_definitions: bool = True
    ) -> bytes:
        return (
            self._opening
            + orjson.dumps(metadata)
            + b',"columnDefinitions":'
            + orjson.dumps(self._resource.columns.definitions if has_definitions else None)
            + b',"rows":'
            + orjson.dumps([self._row(document) for document in documents])
            + b"}"
        )

    def _row(self, document: Document) -> Document:
        cells = self._resource.columns.cells(document, self._now())
        included: Any = None
        if self._include_object == "Object":
            included = document
        elif self._include_object == "Metadata":
            included = {
                "kind": "PartialObjectMetadata",
                "apiVersion": self._brand.meta_version,
                "metadata": document["metadata"],
            }
        return {"cells": cells, "object": included}


# ---- the parts of lists


def _opening(kind: str, api_version: str) -> bytes:
    return b'{"kind":%b,"apiVersion":%b,"metadata":' % (orjson.dumps(kind), orjson.dumps(api_version))


def _list_meta(found: ObjectList) -> bytes:
    metadata: Document = {"resourceVersion": str(found.revision)}
    if found.continue_token:
        metadata["continue"] = found.continue_token
        if found.remaining is not None:
            metadata["remainingItemCount"] = found.remaining
    return orjson.dumps(metadata)


def _list_slices(
    opening: bytes, found: ObjectList, item_opening: bytes, tails: Sequence[bytes]
) -> Iterator[bytes]:
    """A list whose items are an opening and a tail each. Joining is all that is done with them."""
    begun = opening + _list_meta(found) + b',"items":['
    separator = b"," + item_opening
    lead = begun + item_opening
    for batch in _batches(tails):
        batch[0] = lead + batch[0]
        yield separator.join(batch)
        lead = separator
    yield b"]}\n" if tails else begun + b"]}\n"


def _batches(tails: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Runs of tails that are about a slice together, however large each is."""
    start, length = 0, BATCH_OBJECTS
    while start < len(tails):
        batch = list(tails[start : start + length])
        size = sum(map(len, batch))
        if size > 2 * SLICE_BYTES and len(batch) > 1:
            length = len(batch) // 2
            continue
        yield batch
        start += len(batch)
        if size < SLICE_BYTES // 2:
            length *= 2


def _lazy_slices(begun: bytes, items: Iterable[bytes]) -> Iterator[bytes]:
    """A list whose items are made while it is sent."""
    pieces: list[bytes] = [begun]
    size, separator = 0, b""
    for item in items:
        pieces += (separator, item)
        separator = b","
        size += len(item)
        if size >= SLICE_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    pieces.append(b"]}\n")
    yield b"".join(pieces)


def _bookmark_object(type_meta: Document, revision: int, brand: Brand | None) -> Document:
    metadata: Document = {"resourceVersion": str(revision)}
    if brand is not None:
        metadata["annotations"] = {brand.initial_events_end: "true"}
    return {**type_meta, "metadata": metadata}


def _bookmark(type_meta: Document, revision: int, brand: Brand | None) -> bytes:
    return b'{"type":"BOOKMARK","object":%b}\n' % orjson.dumps(_bookmark_object(type_meta, revision, brand))
