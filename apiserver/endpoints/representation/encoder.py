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
    is_text: whether what it encodes is text.
    event_head_bytes: how many bytes at the head of an event mark it off from others in a stream.
    first_event_differs: whether the first event of a stream has more in it than it would have later.
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
        """Returns how much work it is to encode an object, or an event with it: SMALL if bytes are copied."""
        ...

    def object(self, obj: StoredObject) -> bytes:
        """Returns the body of a response that holds a single object. Raises NotAcceptable."""
        ...

    def list(self, result: ObjectList) -> Iterator[Slice]:
        """Returns the body of a response that holds a list, in slices (the package says what empty ones are).

        Raises NotAcceptable, before the first slice that is not empty.
        """
        ...

    def envelope(self, result: ObjectList, extent: ListTotals) -> Envelope:
        """Returns what is around the items of a list whose objects are not all there at a time.

        Raises NotAcceptable.
        """
        ...

    def encoded_items(self, objects: Sequence[StoredObject]) -> Iterator[Slice]:
        """Returns the items of some objects of such a list, several at a time.

        They are separated where they are in one piece. No slice is empty.
        """
        ...

    def event(self, kind: str, obj: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        """Returns a watch event. tail: the object's own, or the same at another revision (for a deletion).

        is_first: no other event was sent on this stream before.
        """
        ...

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes: ...

    def error(self, status: Document) -> bytes:
        """Returns the event that ends a watch which cannot go on."""
        ...
