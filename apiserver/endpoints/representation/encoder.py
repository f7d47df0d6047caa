"""What all forms have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from apiserver.registry.results import ObjectList
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document


class Encoder(Protocol):
    """One resource's objects in one form.

    media_type: of objects and lists. stream_type: of watches.
    key: tells forms apart; equal keys make equal bytes of an event.
    """

    media_type: str
    stream_type: str
    key: object

    def object(self, found: StoredObject) -> bytes:
        """A single object as the body of an answer. Raises NotAcceptable."""
        ...

    def list(self, found: ObjectList) -> Iterator[bytes]:
        """A collection as the body of an answer; see the package on empty slices.

        Raises NotAcceptable, before the first slice that is not empty.
        """
        ...

    def event(self, kind: str, found: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        """A watch event; `tail` is the object's, or the same at another revision (a deletion).

        is_first: no other event was sent on this stream before.
        """
        ...

    def bookmark(self, revision: int, *, ends_initial_events: bool) -> bytes: ...

    def error(self, status: Document) -> bytes:
        """The event that ends a watch which cannot go on."""
        ...
