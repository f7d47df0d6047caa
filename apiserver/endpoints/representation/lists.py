"""The parts of lists, and their slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import orjson

from apiserver.brand import Brand
from apiserver.errors import NotAcceptable
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import Document

# How much of a list is made at a time: large enough that joining is all it costs, small enough that
# nobody waits for it.
SLICE_BYTES: Final = 128 * 1024
BATCH_OBJECTS: Final = 64


def opening(kind: str, api_version: str) -> bytes:
    return b'{"kind":%b,"apiVersion":%b,"metadata":' % (orjson.dumps(kind), orjson.dumps(api_version))


def list_metadata(found: ObjectList) -> Document:
    metadata: Document = {"resourceVersion": str(found.revision)}
    if found.continue_token:
        metadata["continue"] = found.continue_token
        if found.remaining is not None:
            metadata["remainingItemCount"] = found.remaining
    return metadata


def custom_list_metadata(found: ObjectList) -> Document:
    """Lists of custom resources say also that nothing follows."""
    return {"continue": "", **list_metadata(found)}


def slices_of_tails(begun: bytes, item_opening: bytes, tails: Sequence[bytes]) -> Iterator[bytes]:
    """A list whose items are an opening and a tail each. Joining is all that is done with them."""
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


def slices_of_segments(
    begun: bytes, made: Iterable[bytes], end: bytes, *, separator: bytes = b""
) -> Iterator[bytes]:
    """A list whose items are made while it is sent.

    made: one item at a time, or a run's. After each others may have their turn.
    """
    pieces: list[bytes] = [begun]
    size, lead = 0, b""
    for items in made:
        pieces += (lead, items)
        lead = separator
        size += len(items)
        if size >= SLICE_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
        else:
            yield b""
    pieces.append(end)
    yield b"".join(pieces)


def bookmark_object(type_meta: Document, revision: int, brand: Brand | None) -> Document:
    """brand: given if the bookmark ends the initial events, which it is to say."""
    metadata: Document = {"resourceVersion": str(revision)}
    if brand is not None:
        metadata["annotations"] = {brand.initial_events_end: "true"}
    return {**type_meta, "metadata": metadata}


def require_object_kind(kind: str, resource: ServedResource) -> None:
    """Row D16: a single object has no list's form. Raises NotAcceptable."""
    if kind == "PartialObjectMetadataList":
        raise NotAcceptable(
            "you requested PartialObjectMetadataList, but the requested object is not a list "
            f"({resource.kind})"
        )


def require_list_kind(kind: str, resource: ServedResource) -> None:
    """Row D16: a list has no single object's form. Raises NotAcceptable."""
    if kind == "PartialObjectMetadata":
        raise NotAcceptable(
            f"you requested PartialObjectMetadata, but the requested object is a list ({resource.list_kind})"
        )
