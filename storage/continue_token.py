"""The token with which a client asks for the next chunk of a list.

It holds the revision of the first chunk and the key to continue from, relative to the list's prefix: a token
cannot lead out of the list it is used on, whatever a client writes into it. It is opaque to clients; its form
and the texts of its errors are those of k8s.io/apiserver, pkg/storage/continue.go, so that a client may
change between this server and kube-apiserver.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson

from apiserver.storage.resource_version import REVISION_MAX

# No key is longer, so a longer token was not made here.
TOKEN_LENGTH_MAX: Final = 4_096


class InvalidToken(ValueError):
    """The text is not a valid continue token; the message is the one that clients get."""


class ContinueToken(NamedTuple):
    """The position at which a list continues.

    revision: that of the first chunk; 0 to continue in the most recent state.
    """

    revision: int
    start: str  # the first key of the next chunk, without the list's prefix

    def encode(self, version: str) -> str:
        """Returns the text that clients send back. version: the name of the form, as `meta.k8s.io/v1`."""
        document = {"v": version, "rv": self.revision or -1, "start": self.start}
        return base64.urlsafe_b64encode(orjson.dumps(document)).rstrip(b"=").decode()


def decode_token(text: str, version: str, load: Callable[[bytes], Any] = orjson.loads) -> ContinueToken:
    """Reads a token that a client has sent. version: the accepted form. Raises InvalidToken.

    load: parses JSON; raises ValueError, whose message clients get.
    """
    try:
        if len(text) > TOKEN_LENGTH_MAX:
            raise InvalidToken(f"more than {TOKEN_LENGTH_MAX} characters")
        raw = _decode_base64(text)
        try:
            document = load(raw)
        except ValueError:
            # What is too large for a float is too large for a revision.
            if (written := _written_revision(raw)) and math.isinf(float(written)):
                raise _mismatch(f"number {written}", "rv") from None
            raise
        form, revision, start = _fields(document, raw)
        if form != version:
            raise InvalidToken(f"server does not recognize this encoded version {form}")
        if not revision:
            raise InvalidToken(f"incorrect encoded start resourceVersion (version {version})")
        if not start:
            raise InvalidToken(f"encoded start key empty (version {version})")
        if {"", ".", ".."}.intersection(start.removeprefix("/").split("/")):
            raise InvalidToken(start)
    except ValueError as error:
        raise InvalidToken(f"continue key is not valid: {error}") from None
    return ContinueToken(max(revision, 0), start)  # any revision below zero asks for the most recent state


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _written_revision(raw: bytes) -> str:
    """Returns the revision in a decoded token as written, for Go's quotation; empty if it is not a number."""
    try:
        document = json.loads(raw, parse_int=_Number, parse_float=_Number)
    except (ValueError, RecursionError):
        return ""
    found = document.get("rv") if isinstance(document, dict) else None
    return found if isinstance(found, _Number) else ""


def _mismatch(kind: str, field: str) -> InvalidToken:
    """Returns the error for a field that has a value of another type."""
    go_type = _GO_TYPES[field][1]
    return InvalidToken(
        f"json: cannot unmarshal {kind} into Go struct field continueToken.{field} of type {go_type}"
    )


_GO_TYPES: Final = {"v": (str, "string", ""), "rv": (int, "int64", 0), "start": (str, "string", "")}
_JSON_TYPES: Final = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}


def _fields(document: Any, raw: bytes) -> tuple[Any, ...]:
    """Returns the form, the revision and the key in a decoded token. raw: its text. Raises InvalidToken."""
    if not isinstance(document, dict | None):
        kind = _JSON_TYPES[type(document)]
        raise InvalidToken(f"json: cannot unmarshal {kind} into Go value of type storage.continueToken")
    found = []
    for field, (python_type, _, absent) in _GO_TYPES.items():
        value = (document or {}).get(field)
        is_too_large = type(value) is int and not -REVISION_MAX - 1 <= value <= REVISION_MAX
        if value is not None and (type(value) is not python_type or is_too_large):
            kind = _JSON_TYPES.get(type(value), "object")
            if kind == "number" and python_type is int:
                kind += f" {_written_revision(raw)}"
            raise _mismatch(kind, field)
        found.append(absent if value is None else value)
    return tuple(found)


def _decode_base64(text: str) -> bytes:
    """Decode URL-safe base64 without padding, strictly as Go does."""
    for index, character in enumerate(text):
        if not (character.isascii() and (character.isalnum() or character in "-_")):
            raise InvalidToken(f"illegal base64 data at input byte {index}")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise InvalidToken(f"illegal base64 data at input byte {len(text) // 4 * 4}") from None
