"""The parts that a list is put together from, and the slices in which it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import orjson

from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta.brand import Brand
from apiserver.meta.errors import NotAcceptable
from apiserver.meta.vocabulary import Document
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject

# How much of a list is encoded at a time: large enough that joining is all it costs, small enough that
# other requests do not wait for it.
SLICE_BYTES: Final = 128 * 1024
BATCH_OBJECTS: Final = 64
LIST_END: Final = b"]}\n"


class Envelope(NamedTuple):
    """The text around the items of a list: before, between and after them."""

    opening: bytes
    separator: bytes
    closing: bytes


class ListTotals(NamedTuple):
    """The totals of a list: the number of its objects and the length of its items.

    items_bytes: the length of all encoded items; 0 where it is not needed.
    """

    objects: int
    items_bytes: int = 0


class WorkAhead(NamedTuple):
    """Announces the work of the next slice; it precedes each slice that is not small."""

    size: SizeClass


# A part of a body that is made while it is sent. An empty one sends nothing: others may have their turn.
Slice: TypeAlias = bytes | WorkAhead


def data_and_work_ahead(made: Slice) -> tuple[bytes, SizeClass]:
    """Returns the data of a slice, and the work of the next slice."""
    return (b"", made.size) if isinstance(made, WorkAhead) else (made, SizeClass.SMALL)


def work_ahead(objects: Sequence[StoredObject]) -> Iterator[WorkAhead]:
    """Announces the work of encoding the next objects, if they are not small."""
    size = size_class(max([len(each.tail) for each in objects], default=0))
    if size is not SizeClass.SMALL:
        yield WorkAhead(size)


def list_opening(kind: str, api_version: str) -> bytes:
    return b'{"kind":%b,"apiVersion":%b,"metadata":' % (orjson.dumps(kind), orjson.dumps(api_version))


def list_metadata(result: ObjectList) -> Document:
    metadata: Document = {"resourceVersion": str(result.revision)}
    if result.continue_token:
        metadata["continue"] = result.continue_token
        if result.remaining is not None:
            metadata["remainingItemCount"] = result.remaining
    return metadata


def custom_list_metadata(result: ObjectList) -> Document:
    """Returns the metadata of a list of custom resources, whose empty `continue` built-in ones omit."""
    return {"continue": "", **list_metadata(result)}


def slices_of_tails(head: bytes, item_opening: bytes, tails: Sequence[bytes]) -> Iterator[bytes]:
    """Returns a JSON list by joining `item_opening` and a tail for each item."""
    separator = b"," + item_opening
    lead, remaining = head + item_opening, len(tails)
    for batch in batches(tails):
        batch[0] = lead + batch[0]
        remaining -= len(batch)
        if not remaining:
            batch[-1] += LIST_END  # A separate slice would be one more to send.
        yield separator.join(batch)
        lead = separator
    if not tails:
        yield head + LIST_END


def batches(tails: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Splits the tails into batches of about a slice each, however large the tails are."""
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


class Slicer:
    """Joins the segments of a list into slices."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._pieces = [envelope.opening]
        self._size = 0
        self._lead = b""

    def add(self, segment: bytes) -> bytes:
        """Adds a segment, and returns the next slice, which is empty while there is too little for one."""
        if not segment:
            return segment
        self._pieces += (self._lead, segment)
        self._lead = self._envelope.separator
        self._size += len(segment)
        return self._joined() if self._size >= SLICE_BYTES else b""

    def end(self) -> bytes:
        """Returns the last slice."""
        self._pieces.append(self._envelope.closing)
        return self._joined()

    def _joined(self) -> bytes:
        pieces, self._pieces, self._size = self._pieces, [], 0
        return b"".join(pieces)


def slices_of_segments(envelope: Envelope, segments: Iterable[Slice]) -> Iterator[Slice]:
    """Yields the slices of a list that is encoded while it is sent.

    segments: the items, one or several at a time. Other tasks may run after each.
    """
    slicer = Slicer(envelope)
    for segment in segments:
        yield segment if isinstance(segment, WorkAhead) else slicer.add(segment)
    yield slicer.end()


def bookmark_object(type_meta: Document, revision: int, brand: Brand | None) -> Document:
    """Returns the object of a bookmark. brand: given if the bookmark ends the initial events, for the
    annotation that says so.
    """
    metadata: Document = {"resourceVersion": str(revision)}
    if brand is not None:
        metadata["annotations"] = {brand.initial_events_end: "true"}
    return {**type_meta, "metadata": metadata}


def require_object_kind(kind: str, resource: ServedResource) -> None:
    """Require a form that single objects have, which a list is not (row D16). Raises NotAcceptable."""
    if kind == "PartialObjectMetadataList":
        raise NotAcceptable(
            "you requested PartialObjectMetadataList, but the requested object is not a list "
            f"({resource.kind})"
        )


def require_list_kind(kind: str, resource: ServedResource) -> None:
    """Require a form that lists have, which a single object is not (row D16). Raises NotAcceptable."""
    if kind == "PartialObjectMetadata":
        raise NotAcceptable(
            f"you requested PartialObjectMetadata, but the requested object is a list ({resource.list_kind})"
        )
