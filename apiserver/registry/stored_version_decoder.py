"""Decodes stored values, and converts those stored in another version of their type.

The watch cache calls `StoredVersionDecoder` for each value that it takes from the store, as do direct reads.
It parses the value, checks that it is an object of the kind that its key names, and converts it to the hub
version if another release stored it in another one; nothing above the store sees that version. Any other
value becomes a `DamagedObject`. Values that this server has written itself (`transactions.OwnWrites`), and
those of its history, are not parsed again.

From the hub version, `builtin_version_codec` converts to the version that a client requests, and for custom
resources `custom_resources.serving.custom_resource_codec`; `storage_form` converts to the stored version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import (
    METADATA,
    ConvertedObject,
    DamagedObject,
    StoredObject,
    encode,
    with_revision,
)
from apiserver.storage.interface import Stored
from apiserver.storage.keys import resource_of

log = logging.getLogger(__name__)

# So many damaged values are logged each for itself.
DAMAGED_LOGGED_MAX: Final = 100
# A server has some hundred built-in types.
HEADS_MAX: Final = 4_096


class KnownValues(Protocol):
    """Values of which it is known that they are objects of the kind that their key names."""

    def take(self, key: str, value: bytes) -> bool:
        """Returns whether a value under a key is one of them, and may forget it."""
        ...


class OtherStorageVersion(NamedTuple):
    """A version other than the hub version in which objects may be stored.

    hub_head: the bytes that objects of the hub version begin with. to_hub: converts a document to that
    version, in place; it may raise any error for an invalid document.
    api_version: that of the stored objects.
    """

    hub_head: bytes
    to_hub: Callable[[Document], None]
    api_version: str


class StoredKind(NamedTuple):
    """A built-in kind whose objects are stored in its hub version.

    folder: the folder of its objects' keys after the prefix of all keys, as `/core/configmaps/`.
    problem: returns the type error in a document; empty if there is none.
    """

    folder: str
    problem: Callable[[Document], str]


class StoredKinds:
    """Knows the kinds whose objects are stored; this default knows none."""

    def other_version(self, head: bytes) -> OtherStorageVersion | None:
        """Returns how objects with a head are converted; None if they are in the hub version."""
        return None

    def kind(self, head: bytes) -> StoredKind | None:
        """Returns the kind of the objects with a head; None if it is not built in."""
        return None

    def is_builtin(self, folder: str) -> bool:
        """Whether a folder belongs to a built-in kind."""
        return False


class _Known(NamedTuple):
    """The properties of a head. head: of the same bytes. other: None for objects of the hub version."""

    head: bytes
    other: OtherStorageVersion | None
    kind: StoredKind | None


class StoredVersionDecoder:
    """Decodes stored values, as the watch cache does; objects with the same head share one bytes object.

    known: values that need no check.
    kinds: called once for each head, of which the latest `HEADS_MAX` are kept, as custom types come and go.
    prefix: of all keys.
    count_error: called with the key of each invalid value, but not if it cannot be decrypted. Damaged values
    are logged here.
    """

    def __init__(
        self,
        known: KnownValues,
        kinds: StoredKinds | None = None,
        count_error: Callable[[str], None] | None = None,
        *,
        prefix: str = "/registry",
    ) -> None:
        self._known_values = known
        self._kinds = kinds or StoredKinds()
        self._prefix = prefix
        self._count_error = count_error
        self._damaged = 0
        self._heads: dict[bytes, _Known] = {}

    def __call__(self, stored: Stored) -> StoredObject:
        if self._known_values.take(stored.key, stored.value):
            head_bytes = stored.value.find(METADATA) + len(METADATA)
            known = self._known(stored.value[:head_bytes])
            found = StoredObject.written(stored.key, known.head, stored.value, stored.mod_revision)
            if known.other is not None:
                return self._converted(stored, found, known.other, None)
        else:
            found, document = StoredObject.decoded(stored)
            if isinstance(found, DamagedObject):
                self._report(found)
                return found
            known = self._known(found.head)
            if self._is_misplaced(stored.key, known):
                begin = known.head.decode("utf-8", "replace")
                return self._damaged_by(stored, f"an object of another kind: {begin}")
            if known.other is not None:
                return self._converted(stored, found, known.other, known.kind)
            if known.kind is not None and document is not None and (problem := known.kind.problem(document)):
                return self._damaged_by(stored, problem)
            found.head = known.head
        return found

    def _known(self, head: bytes) -> _Known:
        known = self._heads.get(head)
        if known is None:
            if len(self._heads) >= HEADS_MAX:
                self._heads.clear()
            other = self._kinds.other_version(head)
            known = self._heads[head] = _Known(head, other, self._kinds.kind(head))
        return known

    def _is_misplaced(self, key: str, known: _Known) -> bool:
        """Whether a value is of another kind than its key implies."""
        prefix, kind = self._prefix, known.kind
        if kind is not None:
            return not key.startswith(kind.folder, len(prefix))
        # An unreadable version of a built-in type has a separate error.
        return known.other is None and self._kinds.is_builtin((resource_of(prefix, key) or "")[len(prefix) :])

    def _converted(
        self, stored: Stored, found: StoredObject, version: OtherStorageVersion, kind: StoredKind | None
    ) -> StoredObject:
        """Returns a converted object."""
        try:
            document = found.document()
            version.to_hub(document)
            head = version.hub_head
            tail = with_revision(encode(document, head)[len(head) :], stored.mod_revision)
        except Exception as error:  # Whatever wrote it, the type's own conversion cannot read it.
            return self._damaged_by(stored, f"{type(error).__name__}: {error}")
        if kind is not None and (problem := kind.problem(document)):
            return self._damaged_by(stored, problem)
        return ConvertedObject(stored.key, head, tail, version.api_version)

    def _damaged_by(self, stored: Stored, cause: str) -> DamagedObject:
        damaged = DamagedObject.undecodable(stored, cause)
        self._report(damaged)
        return damaged

    def _report(self, found: DamagedObject) -> None:
        """Log a damaged value; if there are many, as when a key is lost, only one in so many, with the
        count.
        """
        if found.is_decrypted and self._count_error is not None:
            self._count_error(found.key)
        self._damaged += 1
        if self._damaged <= DAMAGED_LOGGED_MAX or not self._damaged % DAMAGED_LOGGED_MAX:
            message = "the value of %s at revision %d is damaged: %s (%d so far)"
            log.error(message, found.key, found.revision, found.cause, self._damaged)
