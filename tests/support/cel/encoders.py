"""Encodes bytes as text: `base64.…`. Source: cel-go ext/encoders.go."""

from __future__ import annotations

import base64
import binascii
import re
from types import MappingProxyType
from typing import Final

from apiserver.cel.functions import Library, Overload
from apiserver.cel.types import BYTES, STRING
from apiserver.cel.values import EvaluationError

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_FOUR: Final = 4


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    """Decodes text whose padding may be left out, and which may have line ends anywhere."""
    found = text.replace("\r", "").replace("\n", "")
    if not _BASE64.fullmatch(found):
        at = re.match(r"[A-Za-z0-9+/\r\n]*", text)
        raise _invalid(at.end() if at else 0)
    missing = -len(found) % _FOUR
    if missing and found.endswith("="):
        raise _invalid(len(text))
    try:
        return base64.b64decode(found + "=" * missing, validate=True)
    except binascii.Error:
        raise _invalid(len(text)) from None


def _invalid(at: int) -> EvaluationError:
    return EvaluationError(f"illegal base64 data at input byte {at}")


ENCODERS: Final = Library(
    "cel.lib.ext.encoders",
    MappingProxyType(
        {
            "base64.encode": (Overload("base64_encode_bytes", (BYTES,), STRING, _encode),),
            "base64.decode": (Overload("base64_decode_string", (STRING,), BYTES, _decode),),
        }
    ),
)
