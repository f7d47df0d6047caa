"""The form in which objects of a type are stored, where it is not the hub version.

A server that emulates a release, or shares a store with an older one, stores objects in a version that the
older release has, too. That is decided at the very border of the store: documents are converted as the last
thing before they are written, and values as the first thing after they are read
(`stored_object.ObjectDecoder`). All that stands between sees the hub version alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from apiserver.registry.stored_object import encode, head_of
from apiserver.vocabulary import Document


@dataclass(frozen=True, slots=True)
class StorageForm:
    """The version in which objects are stored. from_hub: converts a document of the hub version, in place."""

    api_version: str
    kind: str
    from_hub: Callable[[Document], None]

    @property
    def head(self) -> bytes:
        """What all stored objects begin with."""
        return head_of(self.api_version, self.kind)

    def of_hub(self, value: bytes) -> bytes:
        """Returns what is stored for an encoded object of the hub version."""
        document: Document = orjson.loads(value)
        self.from_hub(document)
        return encode(document, self.head)
