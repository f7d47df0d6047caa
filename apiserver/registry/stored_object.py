"""Objects as bytes, in the one form in which they are stored, cached and sent.

A stored value is compact JSON that begins with `apiVersion`, `kind` and `metadata`, without
`resourceVersion`:

    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a", ... },"data":{ ... }}
    └─────────────────────── head ──────────────────┘└────────────── rest ─────────────┘

The head is the same for all objects of a type. The cache keeps the rest with the revision put
into it, the *tail*: `{"resourceVersion":"42","name":"a", ...`. Every response consists of constants and
tails: head + tail is the object, `{"metadata":` + tail an item of a list, and a watch event is an opening,
head and tail. A read parses and encodes nothing.

That is why `object_decoder` parses each value once, when it is taken from the store, and converts it if it
was stored in another version (`ConvertedObject`). A value that is no object becomes a `DamagedObject`, which
is kept like any other and is sent to nobody.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from weakref import ref

import orjson

from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta.errors import BadRequest, StorageReadError
from apiserver.meta.vocabulary import Document
from apiserver.registry import json_slices
from apiserver.registry.field_getters import FieldGetter
from apiserver.storage.interface import ENCRYPTED_PREFIX, READ_ENCRYPTED, Stored, UnreadableValue

log = logging.getLogger(__name__)

METADATA: Final = b'"metadata":'
_DELETED: Final = b'"deletionTimestamp"'
_NO_LABELS: Final[Mapping[str, str]] = {}
# The metadata of nearly all objects end within so many bytes: to find that out takes no longer in large ones.
FIRST_LOOK_BYTES: Final = 32 * 1024
# Decoded, labels take ten times their length in memory. Where an object has many, they are kept of the last
# few objects that were asked for them; others decode them again.
MANY_LABELS: Final = 1_000
MANY_LABELS_KEPT_MAX: Final = 100_000


class CorruptObject(StorageReadError):
    """The stored bytes are not a valid object, or cannot be decrypted.

    cause: the error in them.
    Source of the text: k8s.io/apiserver, pkg/storage/errors.go and pkg/storage/etcd3/corrupt_obj_deleter.go.
    """

    def __init__(self, key: str, cause: str) -> None:
        self.key = key
        self.text = (
            f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: {cause}"
        )
        super().__init__(
            f"Internal error occurred: {self.text}", details={"causes": [{"message": self.text}]}
        )


class TooDeep(BadRequest):
    """A document has more levels of nesting than can be stored."""

    def __init__(self) -> None:
        super().__init__("the object is nested too deeply to be stored")


class StoredObject:
    """One version of one object, ready to be sent. Other data is derived from it on demand, and cached.

    A damaged value, a `DamagedObject`, has an empty head; reading it raises `CorruptObject`.
    metadata_end: the length of the metadata in the tail; 0 if it is not known yet.
    forms: other encodings and versions of it, by keys of their caches, which may evict them at any time.
    known_labels: the labels, once they have been decoded; None before, and after another thread has evicted
        them.
    conforms_to: the number of the schema that it is known to conform to; 0 if it was not checked.
    is_converted: whether it is stored in another version than it has here.
    """

    is_converted: ClassVar[bool] = False

    __slots__ = (
        "__weakref__",
        "_fields",
        "conforms_to",
        "forms",
        "head",
        "key",
        "known_labels",
        "metadata_end",
        "tail",
    )

    def __init__(self, key: str, head: bytes, tail: bytes) -> None:
        self.key = key
        self.head = head
        self.tail = tail
        self.known_labels: Mapping[str, str] | None = None
        self._fields: dict[str, str] | None = None
        self.metadata_end = 0
        self.forms: dict[object, Any] | None = None
        self.conforms_to = 0

    @classmethod
    def of(cls, stored: Stored) -> StoredObject:
        """Returns the object in a stored value, or a DamagedObject if the value is invalid."""
        return cls.decoded(stored)[0]

    @classmethod
    def decoded(cls, stored: Stored) -> tuple[StoredObject, Document | None]:
        """Returns the object and its document, which the caller may keep; None for the document of a huge
        object.

        Decoding a huge one would block the event loop for too long.
        """
        value, document = stored.value, None
        start = value.find(METADATA) + len(METADATA)
        # The first metadata found is the object's own if it is in the outermost braces.
        is_object = value.startswith(b"{") and value[start : start + 1] == b"{"
        is_object = is_object and value.count(b"{", 0, start) == 1
        if size_class(len(value)) is not SizeClass.HUGE or not is_object or not json_slices.is_value(value):
            try:
                document = orjson.loads(value)
            except orjson.JSONDecodeError as error:
                if isinstance(value, UnreadableValue):
                    found = DamagedObject.undecrypted(stored, value.cause, is_temporary=value.is_temporary)
                elif value.startswith(ENCRYPTED_PREFIX):
                    found = DamagedObject.undecrypted(stored, READ_ENCRYPTED)
                else:
                    found = DamagedObject.undecodable(stored, str(error))
                return found, None
            # What was found may be the end of another key that has a quote in it.
            metadata = document.get("metadata") if isinstance(document, dict) else None
            if not is_object or not isinstance(metadata, dict):
                return DamagedObject.undecodable(stored, "no object that begins with its metadata"), None
        return cls(stored.key, value[:start], with_revision(value[start:], stored.mod_revision)), document

    @classmethod
    def written(cls, key: str, head: bytes, value: bytes, revision: int | None) -> StoredObject:
        """Returns the object in a value that begins with `head`.

        revision: None if the object is not stored.
        """
        metadata_on = value[len(head) :]
        return cls(key, head, metadata_on if revision is None else with_revision(metadata_on, revision))

    def copy(self) -> StoredObject:
        """Returns a copy of the object, with the same bytes, for another server in this process."""
        copied = type(self)(self.key, self.head, self.tail)
        copied.metadata_end = self.metadata_end
        return copied

    @property
    def json(self) -> bytes:
        """The object as JSON for clients. Raises CorruptObject."""
        self.require_sound()
        return self.head + self.tail

    @property
    def resource_version(self) -> str:
        """The value of metadata.resourceVersion."""
        start = len(_REVISION_OPENING)
        return self.tail[start : self.tail.index(b'"', start)].decode()

    def document(self) -> Document:
        """Returns the object decoded again at each call, so that the caller may change it.

        Raises CorruptObject.
        """
        document: Document = orjson.loads(self.json)
        return document

    def metadata(self) -> bytes:
        """Returns the decoded metadata. Raises CorruptObject."""
        if not self.metadata_end:
            self.require_sound()
            end = _metadata_end(self.tail)
            if end is None:
                return orjson.dumps(self.document()["metadata"])
            self.metadata_end = end
        return self.tail[: self.metadata_end]

    def is_terminating(self) -> bool:
        """Returns whether its deletion has begun, without decoding more than small metadata.

        For a damaged object this is unknown.
        """
        is_small = size_class(len(self.tail)) is SizeClass.SMALL
        if _DELETED not in (self.tail if is_small else self.metadata()):
            return False
        metadata = self.metadata()
        if size_class(len(metadata)) is SizeClass.SMALL:
            return "deletionTimestamp" in orjson.loads(metadata)
        return json_slices.find(metadata, "deletionTimestamp") is not None

    def labels(self) -> Mapping[str, str]:
        labels = self.known_labels
        if labels is None:
            labels = self._decoded_labels() if b'"labels":{' in self.tail else _NO_LABELS
            self.known_labels = labels
            if len(labels) > MANY_LABELS:
                # Not before: forgotten by another thread meanwhile, they would be kept and not counted.
                _recent_labels.add(self, len(labels))
        return labels

    def _decoded_labels(self) -> Mapping[str, str]:
        metadata = self.metadata()
        if size_class(len(metadata)) is SizeClass.SMALL:
            return _texts(orjson.loads(metadata).get("labels"))
        return _texts(json_slices.find(metadata, "labels"))

    def fields(self, getters: Mapping[str, FieldGetter]) -> Mapping[str, str]:
        """Returns the values of the fields that objects of its type can be selected by."""
        if self._fields is None or not getters.keys() <= self._fields.keys():
            if size_class(len(self.tail)) is SizeClass.SMALL:
                document = self.document()
            else:
                text = self.json
                parts = {part for get in getters.values() for part in get.parts}
                document = {part: json_slices.find(text, part) for part in parts}
            found = {field: get(document) for field, get in getters.items()}
            # Each version of a type may have different fields.
            self._fields = {**(self._fields or {}), **found}
        return self._fields

    def forget_labels(self) -> None:
        """Evict the decoded labels, which are decoded again on demand."""
        self.known_labels = None

    def require_sound(self) -> None:
        """Require that the object is readable. Raises CorruptObject if it is damaged."""

    def at_revision(self, revision: int) -> bytes:
        """Returns the tail with another revision, for a deleted object, which is shown at its deletion's."""
        end = self.tail.index(b'"', len(_REVISION_OPENING)) + 1
        return b'{"resourceVersion":"%d"%b' % (revision, self.tail[end:])


def _metadata_end(tail: bytes) -> int | None:
    """Returns the length of the metadata that a tail begins with; None if all of it must be decoded."""
    if len(tail) > FIRST_LOOK_BYTES:
        # Cut before a quote, so that no character is cut in two.
        end = json_slices.value_end(tail[: tail.rfind(b'"', 0, FIRST_LOOK_BYTES)])
        if end is not None:
            return end
    return json_slices.value_end(tail)


def _texts(labels: object) -> Mapping[str, str]:
    """Returns labels with all values as strings, since selectors compare strings whatever is in the store."""
    if not isinstance(labels, dict) or not labels:
        return _NO_LABELS
    if set(map(type, labels.values())) == {str}:
        return labels
    return {key: value for key, value in labels.items() if isinstance(value, str)}


class _RecentLabels:
    """The most recently used labels of objects with many labels, which are kept decoded.

    They are shared by all servers of a process and all their threads. So every step is one operation of the
    deque: threads that evict at the same time may evict more than needed.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[ref[StoredObject], int]] = deque()

    def add(self, found: StoredObject, count: int) -> None:
        """Keeps the labels of an object, and forgets the oldest if there are too many.

        count: how many labels the object has.
        """
        self._kept.append((ref(found), count))
        while self._has_too_many():
            try:
                oldest, _ = self._kept.popleft()
            except IndexError:  # Other threads were faster.
                return
            if (forgotten := oldest()) is not None:
                forgotten.forget_labels()

    def _has_too_many(self) -> bool:
        """Returns whether too many labels are kept, by adding up some hundred numbers at most."""
        kept = list(self._kept)
        return len(kept) > 1 and sum([count for _, count in kept]) > MANY_LABELS_KEPT_MAX


_recent_labels: Final = _RecentLabels()


class DamagedObject(StoredObject):
    """A stored value that is not a valid object.

    cause: the error in it. is_decrypted: whether it could be decrypted, or was not encrypted.
    is_temporary: whether it could not be decrypted, but may be later.
    """

    __slots__ = ("cause", "is_decrypted", "is_temporary", "revision")

    def __init__(
        self, stored: Stored, cause: str, *, is_decrypted: bool = True, is_temporary: bool = False
    ) -> None:
        super().__init__(stored.key, b"", b"")
        self.revision = stored.mod_revision
        self.cause = cause
        self.is_decrypted = is_decrypted
        self.is_temporary = is_temporary

    @classmethod
    def undecodable(cls, stored: Stored, cause: str) -> DamagedObject:
        return cls(stored, f"object not decodable revision={stored.mod_revision}: {cause}")

    @classmethod
    def undecrypted(cls, stored: Stored, cause: str, *, is_temporary: bool = False) -> DamagedObject:
        text = f"data from the storage is not transformable revision=0: {cause}"
        return cls(stored, text, is_decrypted=False, is_temporary=is_temporary)

    @property
    def error(self) -> CorruptObject:
        return CorruptObject(self.key, self.cause)

    def require_sound(self) -> None:
        raise self.error

    def labels(self) -> Mapping[str, str]:
        raise self.error


class ConvertedObject(StoredObject):
    """An object that is stored in another version than this server uses, until it is written again."""

    is_converted = True

    __slots__ = ()


_REVISION_OPENING: Final = b'{"resourceVersion":"'


def with_revision(metadata_on: bytes, revision: int) -> bytes:
    """Returns the rest of a stored value, with the revision as the first field of its metadata."""
    comma = b"" if metadata_on[1:2] == b"}" else b","
    return b'{"resourceVersion":"%d"%b%b' % (revision, comma, metadata_on[1:])


def with_version(metadata_on: bytes, version: str) -> bytes:
    """Returns the rest of an unstored object, with the resourceVersion that its client has sent.

    See `with_revision` for stored objects.
    """
    comma = b"" if metadata_on[1:2] == b"}" else b","
    return b'{"resourceVersion":%b%b%b' % (orjson.dumps(version), comma, metadata_on[1:])


def document_of_tail(tail: bytes) -> Document:
    """Returns a decoded object without its apiVersion and kind. tail: see `StoredObject`."""
    document: Document = orjson.loads(b'{"metadata":%b' % tail)
    return document


def head_of(api_version: str, kind: str) -> bytes:
    """Returns the bytes that all values of a type begin with."""
    return b'{"apiVersion":%b,"kind":%b,"metadata":' % (orjson.dumps(api_version), orjson.dumps(kind))


def encode(document: Document, head: bytes) -> bytes:
    """Returns the stored form of a document below `head`, which holds its apiVersion and kind.

    Raises TooDeep.
    """
    metadata = {key: value for key, value in document["metadata"].items() if key != "resourceVersion"}
    rest = {key: value for key, value in document.items() if key not in _HEAD_FIELDS}
    try:
        encoded = head + orjson.dumps(metadata)
        return encoded + b"," + orjson.dumps(rest)[1:] if rest else encoded + b"}"
    except (orjson.JSONEncodeError, RecursionError):
        raise TooDeep from None


_HEAD_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
