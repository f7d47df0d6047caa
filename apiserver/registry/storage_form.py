"""The form in which objects of a type are stored, if it is not the hub version.

A server that emulates a release, or shares a store with an older one, stores objects in a version that the
older release has, too. The conversion happens next to the store: documents are converted last, before they
are written, and values first, after they are read (`stored_version_decoder.StoredVersionDecoder`). Everything
in between sees only the hub version.

The form of a type depends on the release (`ServedResource.storage_form`), except while servers of an older
release share the store: then `StorageForms` has other forms, until they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import orjson

from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.stored_object import encode, head_of


class StorageForm(NamedTuple):
    """The version in which objects are stored. from_hub: converts a document of the hub version, in place."""

    api_version: str
    kind: str
    from_hub: Callable[[Document], None]

    @property
    def head(self) -> bytes:
        """The bytes that all stored objects begin with."""
        return head_of(self.api_version, self.kind)

    def of_hub(self, value: bytes) -> bytes:
        """Returns the stored form of an encoded object of the hub version."""
        document: Document = orjson.loads(value)
        self.from_hub(document)
        return encode(document, self.head)


class StorageForms:
    """The forms of types while servers of an older release share the store. It is replaced as a whole.

    shared: forms by the types' hubs; None if objects are stored in the hub version. Empty if no server is
    older: then the release decides.
    """

    def __init__(self) -> None:
        self.shared: Mapping[GroupResource, StorageForm | None] = MappingProxyType({})
