"""Objects as bytes, in the one form in which they are stored, cached and sent.

A stored value is compact JSON that begins with `apiVersion`, `kind` and `metadata`, without
`resourceVersion`:

    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a", ... },"data":{ ... }}
    └─────────────────────── head ──────────────────┘└────────────── rest ─────────────┘

The head is the same for all objects of a type. The cache keeps the rest with the revision put
into it, the *tail*: `{"resourceVersion":"42","name":"a", ...`. Every response consists of constants and
tails: head + tail is the object, `{"metadata":` + tail an item of a list, and a watch event is an opening,
head and tail. A read parses and encodes nothing.

That is why `stored_version_decoder` parses each value once, when it is taken from the store, and converts it
if it was stored in another version (`ConvertedObject`). A value that is no object becomes a `DamagedObject`,
which is kept like any other and is sent to nobody.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Mapping
from typing import Any, Final
from weakref import ref

import orjson

from apiserver.load.size_class import LARGE_BYTES, SizeClass, size_class
from apiserver.meta.errors import BadRequest, StorageReadError
from apiserver.meta.vocabulary import Document
from apiserver.registry import json_slices
from apiserver.registry.field_getters import FieldGetter
from apiserver.storage.interface import ENCRYPTED_PREFIX, READ_ENCRYPTED, Stored, UnreadableValue

log = logging.getLogger(__name__)

METADATA: Final = b'"metadata":'
_HEAD: Final = re.compile(rb'\{("apiVersion":"[^"\\]*","kind":"[^"\\]*",)?"metadata":(?=\{)')
_DELETED: Final = b'"deletionTimestamp"'
_LABELS: Final = b'"labels":{'
OWNER_REFERENCES: Final = b'"ownerReferences":['
MANAGED_FIELDS: Final = b'"managedFields":['
# What is looked for in the text of metadata, by the field that it begins.
_LOOKED_FOR: Final = {"labels": _LABELS, "ownerReferences": OWNER_REFERENCES, "managedFields": MANAGED_FIELDS}
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
    """

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

    @property
    def stored_as(self) -> str | None:
        """The apiVersion in which the object is stored; None if that is the one it has here."""
        return None

    @classmethod
    def of(cls, stored: Stored) -> StoredObject:
        """Returns the object in a stored value, or a DamagedObject if the value is invalid."""
        return cls.decoded(stored)[0]

    @classmethod
    def decoded(cls, stored: Stored) -> tuple[StoredObject, Document | None]:
        """Returns the object and its document, which the caller may keep.

        The document is None if the object is huge and has this server's form: decoding it would block the
        event loop for too long.
        """
        value, document = stored.value, None
        found_head = _HEAD.match(value)
        start, is_object = (0, False) if found_head is None else (found_head.end(), True)
        if is_object and b"\n" in value:
            # kube-apiserver ends values with one; an event of a watch is one line.
            value = value.rstrip(b"\n")
            is_object = b"\n" not in value
        has_head = found_head is not None and found_head[1] is not None and is_object
        is_huge = size_class(len(value)) is SizeClass.HUGE
        if not (has_head and is_huge and json_slices.is_value(value) and _can_be_kept_encoded(value, start)):
            try:
                document = orjson.loads(value)
            except orjson.JSONDecodeError as error:
                if isinstance(stored.value, UnreadableValue):
                    cause, is_temporary = stored.value.cause, stored.value.is_temporary
                    found = DamagedObject.undecrypted(stored, cause, is_temporary=is_temporary)
                elif value.startswith(ENCRYPTED_PREFIX):
                    found = DamagedObject.undecrypted(stored, READ_ENCRYPTED)
                else:
                    found = DamagedObject.undecodable(stored, str(error))
                return found, None
            metadata = document.get("metadata") if isinstance(document, dict) else None
            is_kept = has_head and _can_be_kept(metadata, value, start)
            if isinstance(metadata, dict) and not is_kept and (head := _head_in(document)):
                # Another program has written it: kube-apiserver sorts the fields of custom resources.
                try:
                    value, start, is_object = encode(document, head), len(head), True
                except TooDeep as error:
                    return DamagedObject.undecodable(stored, str(error)), None
            if not is_object or not isinstance(metadata, dict):
                return DamagedObject.undecodable(stored, "no object with metadata"), None
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
        return self.head + self.tail

    def stored_form(self) -> bytes:
        """Returns the value in the hub version as it is stored: without its revision. Empty if damaged."""
        tail = self.tail
        end = tail.find(b'"', len(_REVISION_OPENING)) + 1
        return self.head + b"{" + tail[end + (tail[end : end + 1] == b",") :] if self.head else b""

    @property
    def resource_version(self) -> str:
        """The value of metadata.resourceVersion."""
        start = len(_REVISION_OPENING)
        return self.tail[start : self.tail.index(b'"', start)].decode()

    def document(self) -> Document:
        """Returns the object decoded again at each call, so that the caller may change it.

        Raises CorruptObject.
        """
        document: Document = orjson.loads(self.head + self.tail)
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
        if _DELETED not in (self.tail if len(self.tail) <= LARGE_BYTES else self.metadata()):
            return False
        metadata = self.metadata()
        if size_class(len(metadata)) is SizeClass.SMALL:
            return "deletionTimestamp" in orjson.loads(metadata)
        return json_slices.find(metadata, "deletionTimestamp") is not None

    def labels(self) -> Mapping[str, str]:
        labels = self.known_labels
        if labels is None:
            labels = self._decoded_labels() if _LABELS in self.tail else _NO_LABELS
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


def _can_be_kept(metadata: object, value: bytes, start: int) -> bool:
    """Returns whether decoded metadata, at `start` in a value, needs no new encoding.

    It needs one if it has a stored revision, which would be there twice, or if it is not encoded as this
    server does it: spaces would hide what is looked for in the text. Only other programs write such metadata.
    """
    if not isinstance(metadata, dict) or "resourceVersion" in metadata:
        return False
    try:
        return value.startswith(orjson.dumps(metadata), start)
    except orjson.JSONEncodeError:  # It is deeper than what orjson encodes, though not than what it decodes.
        is_found = (opening in value for name, opening in _LOOKED_FOR.items() if metadata.get(name))
        return value[start + 1] in b'"}' and all(is_found)


def _can_be_kept_encoded(value: bytes, start: int) -> bool:
    """The same of encoded metadata; False if only decoding the whole value can tell."""
    metadata_on = value[start:]
    end = _metadata_end(metadata_on)
    return end is not None and _can_be_kept(orjson.loads(metadata_on[:end]), value, start)


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

    @property
    def json(self) -> bytes:
        raise self.error

    def document(self) -> Document:
        raise self.error

    def labels(self) -> Mapping[str, str]:
        raise self.error


class ConvertedObject(StoredObject):
    """An object that is stored in another version than it has here, which is the hub version."""

    __slots__ = ("_stored_as",)

    def __init__(self, key: str, head: bytes, tail: bytes, stored_as: str) -> None:
        super().__init__(key, head, tail)
        self._stored_as = stored_as

    @property
    def stored_as(self) -> str:
        return self._stored_as

    def copy(self) -> ConvertedObject:
        copied = ConvertedObject(self.key, self.head, self.tail, self._stored_as)
        copied.metadata_end = self.metadata_end
        return copied


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


def _head_in(document: Document) -> bytes:
    """Returns the head of the stored form of a document; empty if it is not an object of the API."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    return head_of(api_version, kind) if isinstance(api_version, str) and isinstance(kind, str) else b""


def encode(document: Document, head: bytes) -> bytes:
    """Returns the stored form of a document below `head`, which holds its apiVersion and kind.

    Raises TooDeep.
    """
    metadata, rest = document["metadata"], document.copy()
    if "resourceVersion" in metadata:
        metadata = metadata.copy()
        del metadata["resourceVersion"]
    for field in _HEAD_FIELDS:
        rest.pop(field, None)
    try:
        encoded = head + orjson.dumps(metadata)
        return encoded + b"," + orjson.dumps(rest)[1:] if rest else encoded + b"}"
    except (orjson.JSONEncodeError, RecursionError):
        raise TooDeep from None


_HEAD_FIELDS: Final = ("apiVersion", "kind", "metadata")
