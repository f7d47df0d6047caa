"""Encoders for YAML, CBOR and indented JSON, which transcode the output of the JSON encoders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import orjson

from apiserver import wire
from apiserver.endpoints.representation.form_cache import FormCache
from apiserver.endpoints.representation.json_forms import ItemizedEncoder
from apiserver.endpoints.representation.lists import (
    Envelope,
    ListTotals,
    Slice,
    slices_of_segments,
    work_ahead,
)
from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta.vocabulary import Document
from apiserver.registry.results import ObjectList
from apiserver.registry.stored_object import StoredObject
from apiserver.wire.media_types import CBOR, CBOR_SEQUENCE, JSON, YAML


class SerializationFormat(Protocol):
    """A serialization format other than compact JSON.

    is_cheap: whether encoding an item again costs no more than caching it.
    """

    media_type: str
    stream_type: str
    is_text: bool
    is_cheap: bool

    def document(self, document: Document) -> bytes: ...

    def item(self, document: Document) -> bytes:
        """Returns a document encoded as an item of a list."""
        ...

    def envelope(self, frame: Document, name: str, count: int) -> Envelope:
        """Returns the text around the items of a list, which are encoded by `item`.

        frame: the list without its items. name: the field that holds them. count: how many there are.
        """
        ...


class YamlFormat:
    media_type = YAML
    stream_type = YAML  # unused: negotiation offers no watches in YAML
    is_text = True
    is_cheap = False

    def document(self, document: Document) -> bytes:
        return wire.yaml.dump(document)

    def item(self, document: Document) -> bytes:
        return wire.yaml.dump([document])

    def envelope(self, frame: Document, name: str, count: int) -> Envelope:
        """Returns the text around the items, where fields are sorted by name and so may follow the items."""
        if not count:
            return Envelope(wire.yaml.dump({**frame, name: []}), b"", b"")
        before = {field: value for field, value in frame.items() if field < name}
        after = {field: value for field, value in frame.items() if field > name}
        opening = wire.yaml.dump(before) + b"%b:\n" % name.encode()
        return Envelope(opening, b"", wire.yaml.dump(after) if after else b"")


class CborFormat:
    media_type = CBOR
    stream_type = CBOR_SEQUENCE
    is_text = False
    is_cheap = False

    def document(self, document: Document) -> bytes:
        return wire.cbor.dump(document)

    def item(self, document: Document) -> bytes:
        return wire.cbor.item(document)

    def envelope(self, frame: Document, name: str, count: int) -> Envelope:
        encoded = sorted((wire.cbor.item(field), wire.cbor.item(value)) for field, value in frame.items())
        list_key = wire.cbor.item(name)
        head = wire.cbor.SELF_DESCRIBED + wire.cbor.map_head(len(frame) + 1)
        head += b"".join(key + value for key, value in encoded if key < list_key)
        end = b"".join(key + value for key, value in encoded if key > list_key)
        return Envelope(head + list_key + wire.cbor.array_head(count), b"", end)


class IndentedJsonFormat:
    """Indented JSON for people to read; watches do not have it, as its events would not be lines."""

    media_type = JSON
    stream_type = JSON
    is_text = True
    is_cheap = True

    def document(self, document: Document) -> bytes:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2)

    def item(self, document: Document) -> bytes:
        # Line feeds in strings are escaped: all others begin a line.
        return self.document(document).replace(b"\n", _ITEM_LINE)

    def envelope(self, frame: Document, name: str, count: int) -> Envelope:
        empty = self.document({**frame, name: []})
        if not count:
            return Envelope(empty, b"", b"")
        return Envelope(empty.removesuffix(b"]\n}") + _ITEM_LINE, b"," + _ITEM_LINE, b"\n  ]\n}")


# Items are within a list, which is within an object.
_ITEM_LINE: Final = b"\n    "


class TranscodingEncoder:
    """Transcodes the output of a JSON encoder, and caches items that never change.

    key: identifies the form among those of all resources.
    """

    event_head_bytes = 0
    has_length_ahead = False

    def __init__(
        self, encoder: ItemizedEncoder, format_: SerializationFormat, *, cache: FormCache, key: object
    ) -> None:
        self.media_type, self.stream_type = format_.media_type, format_.stream_type
        self.is_text = format_.is_text
        self.first_event_differs = encoder.first_event_differs
        self.key: object = (format_.media_type, encoder.key)
        self._json = encoder
        self._format = format_
        self._cache = cache
        self._item_key = (format_.media_type, key, encoder.key)

    def work(self, obj: StoredObject) -> SizeClass:
        return size_class(len(obj.tail))

    def object(self, obj: StoredObject) -> bytes:
        return self._transcode(self._json.object(obj))

    def list(self, result: ObjectList) -> Iterator[Slice]:
        envelope = self.envelope(result, ListTotals(len(result.objects)))
        return slices_of_segments(envelope, self.encoded_items(result.objects))

    def envelope(self, result: ObjectList, extent: ListTotals) -> Envelope:
        return self._format.envelope(*self._json.frame(result), extent.objects)

    def event(self, kind: str, obj: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        return self._transcode(self._json.event(kind, obj, tail, is_first=is_first))

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        return self._transcode(self._json.bookmark(revision, ends_initial_events=ends_initial_events))

    def error(self, status: Document) -> bytes:
        return self._transcode(self._json.error(status))

    def encoded_items(self, objects: Sequence[StoredObject]) -> Iterator[Slice]:
        is_kept = self._json.has_stable_items and not self._format.is_cheap
        for obj in objects:
            forms = obj.forms
            item: bytes | None = forms.get(self._item_key) if forms is not None else None
            if item is None:
                yield from work_ahead([obj])
                (encoded,) = self._json.items([obj])
                item = self._format.item(orjson.loads(encoded))
                if is_kept:
                    self._cache.put(obj, self._item_key, item, len(item))
            yield item

    def _transcode(self, encoded: bytes) -> bytes:
        return self._format.document(orjson.loads(encoded))
