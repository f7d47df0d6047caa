"""Forms in YAML and CBOR: what the same form is in JSON, written another way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import orjson

from apiserver.endpoints.representation.form_cache import FormCaches
from apiserver.endpoints.representation.json_forms import TypeDef
from apiserver.endpoints.representation.lists import slices_of_segments
from apiserver.registry.results import ObjectList
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document
from apiserver.wire import cbor, yaml
from apiserver.wire.media_types import CBOR, CBOR_SEQUENCE, YAML


class SerializationFormat(Protocol):
    media_type: str
    stream_type: str

    def document(self, document: Document) -> bytes: ...

    def item(self, document: Document) -> bytes:
        """A document as it stands in a list."""
        ...

    def list(self, frame: Document, name: str, items: Iterator[bytes], count: int) -> Iterator[bytes]:
        """A list whose items stand in the field `name`."""
        ...


class YamlFormat:
    media_type = YAML
    stream_type = YAML  # never sent: negotiation knows no streams of it

    def document(self, document: Document) -> bytes:
        return yaml.dump(document)

    def item(self, document: Document) -> bytes:
        return yaml.dump([document])

    def list(self, frame: Document, name: str, items: Iterator[bytes], count: int) -> Iterator[bytes]:
        """Fields stand in the order of their names, so that some come before the items and some after."""
        if not count:
            return iter([yaml.dump({**frame, name: []})])
        before = {field: value for field, value in frame.items() if field < name}
        after = {field: value for field, value in frame.items() if field > name}
        return slices_of_segments(
            yaml.dump(before) + b"%b:\n" % name.encode(),
            items,
            yaml.dump(after) if after else b"",
        )


class CborFormat:
    media_type = CBOR
    stream_type = CBOR_SEQUENCE

    def document(self, document: Document) -> bytes:
        return cbor.dump(document)

    def item(self, document: Document) -> bytes:
        return cbor.item(document)

    def list(self, frame: Document, name: str, items: Iterator[bytes], count: int) -> Iterator[bytes]:
        encoded = sorted((cbor.item(field), cbor.item(value)) for field, value in frame.items())
        list_key = cbor.item(name)
        begun = cbor.SELF_DESCRIBED + cbor.map_head(len(frame) + 1)
        begun += b"".join(key + value for key, value in encoded if key < list_key)
        return slices_of_segments(
            begun + list_key + cbor.array_head(count),
            items,
            b"".join(key + value for key, value in encoded if key > list_key),
        )


class TranscodingEncoder:
    """One form, written another way than in JSON. Items that last are kept with their objects.

    key: tells forms of all objects apart.
    """

    def __init__(
        self, shape: TypeDef, writing: SerializationFormat, *, kept: FormCaches, key: object
    ) -> None:
        self.media_type, self.stream_type = writing.media_type, writing.stream_type
        self.key: object = (writing.media_type, shape.key)
        self._shape = shape
        self._writing = writing
        self._kept = kept
        self._item_key = (writing.media_type, key, shape.key)

    def object(self, found: StoredObject) -> bytes:
        return self._transcode(self._shape.object(found))

    def list(self, found: ObjectList) -> Iterator[bytes]:
        frame, name = self._shape.frame(found)
        return self._writing.list(frame, name, self._items(found.objects), len(found.objects))

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        return self._transcode(self._shape.event(kind, found, tail, is_first=is_first))

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes:
        return self._transcode(self._shape.bookmark(revision, ends_initial_events=ends_initial_events))

    def error(self, status: Document) -> bytes:
        return self._transcode(self._shape.error(status))

    def _items(self, objects: Sequence[StoredObject]) -> Iterator[bytes]:
        if not self._shape.has_stable_items:
            return (self._writing.item(orjson.loads(each)) for each in self._shape.items(objects))
        return map(self._item, objects)

    def _item(self, found: StoredObject) -> bytes:
        forms = found.forms
        item: bytes | None = forms.get(self._item_key) if forms is not None else None
        if item is None:
            (encoded,) = self._shape.items([found])
            item = self._writing.item(orjson.loads(encoded))
            self._kept.keep(found, self._item_key, item, len(item))
        return item

    def _transcode(self, encoded: bytes) -> bytes:
        return self._writing.document(orjson.loads(encoded))
