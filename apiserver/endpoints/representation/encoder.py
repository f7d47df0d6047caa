"""The interface of all encoders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from apiserver.endpoints.representation.lists import Envelope, ListTotals, Slice
from apiserver.load.size_class import SizeClass
from apiserver.meta.vocabulary import Document
from apiserver.registry.results import ObjectList
from apiserver.registry.stored_object import StoredObject


class Encoder(Protocol):
    """Encodes the objects of one resource in one form.

    media_type: of objects and lists. stream_type: of watches.
    is_text: whether the encoded form is text.
    event_head_bytes: how many bytes frame an event in a stream, before its content.
    first_event_differs: whether the first event of a stream has additional content.
    key: identifies the form; encoders with equal keys encode an event to equal bytes.
    has_length_ahead: whether the length of all items has to be known before the first is sent.
    """

    media_type: str
    stream_type: str
    is_text: bool
    event_head_bytes: int
    first_event_differs: bool
    key: object
    has_length_ahead: bool

    def work(self, obj: StoredObject) -> SizeClass:
        """Returns the work of encoding an object, or an event with it; SMALL if bytes are only copied."""
        ...

    def object(self, obj: StoredObject) -> bytes:
        """Returns the body of a response that holds a single object. Raises NotAcceptable."""
        ...

    def list(self, result: ObjectList) -> Iterator[Slice]:
        """Returns the body of a response that holds a list, in slices, some of which may be empty.

        Raises NotAcceptable, before the first non-empty slice.
        """
        ...

    def envelope(self, result: ObjectList, extent: ListTotals) -> Envelope:
        """Returns the text around the items of a list whose objects are never all in memory.

        Raises NotAcceptable.
        """
        ...

    def encoded_items(self, objects: Sequence[StoredObject]) -> Iterator[Slice]:
        """Returns the encoded items of some objects of a list, several in one piece.

        Items in one piece are separated. No slice is empty.
        """
        ...

    def event(self, kind: str, obj: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        """Returns an encoded watch event.

        tail: the object's own, or, for a deletion, the same at another revision.

        is_first: whether it is the first event on its stream.
        """
        ...

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes: ...

    def error(self, status: Document) -> bytes:
        """Returns the error event that ends a watch."""
        ...
