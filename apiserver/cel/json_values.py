"""Converts values of expressions to JSON documents, of which patches consist.

Source: k8s.io/apiserver pkg/cel/mutation/dynamic/objects.go; cel-go, common/types (ConvertToNative).
"""

from __future__ import annotations

import base64
import math
from typing import Any, Final

from apiserver.cel.library.timestamps import SECOND, format_timestamp
from apiserver.cel.values import LIST_CLASSES, Duration, Message, OptionalValue, Timestamp, UInt, type_name

# What a value counts beside its text. It may be in a document many times, though it was made once.
_VALUE_BYTES: Final = 8
# Larger whole numbers that are doubles stay doubles.
_EXACT_MAX: Final = float(1 << 53)


class NotJson(Exception):
    """A value without a form in JSON. The message is for the client."""


class TooLarge(Exception):
    """A document that would exceed the limit of bytes."""


class JsonValues:
    """Makes documents from values, with a limit for their total bytes. Callers may change the documents."""

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max

    def of(self, value: Any) -> Any:
        """Returns a document for a value. Raises NotJson, TooLarge.

        An object whose type names its place, as `Object.spec{…}`, must have all parts in that place.
        """
        try:
            made = self._of(value, "")
        except RecursionError:
            raise NotJson("values are nested too deeply") from None
        if self._left < 0:
            raise TooLarge
        return made

    def _of(self, value: Any, path: str) -> Any:
        """Returns a document for a value. path: the type that objects must have here; empty: any."""
        self._left -= _VALUE_BYTES
        if self._left < 0:
            raise TooLarge
        kind = type(value)
        if kind is str:
            self._left -= len(value)
            return value
        if value is None or kind is bool or kind is int:
            return value
        if kind is dict:
            return {self._key(key): self._of(each, path) for key, each in value.items()}
        if isinstance(value, LIST_CLASSES):
            return [self._of(each, path) for each in value]
        if kind is Message:
            return self._message(value, path)
        if kind is OptionalValue:
            return self._of(value.value, path) if value.has_value else None
        return _scalar(value)

    def _message(self, value: Message, path: str) -> Any:
        name = value.type.name
        path = path or name
        if name != path:
            raise NotJson(
                f'type mismatch: unexpected type name "{name}", expected "{path}", which matches field name '
                "path from root Object type"
            )
        return {self._key(key): self._of(each, f"{path}.{key}") for key, each in value.fields.items()}

    def _key(self, key: Any) -> str:
        if type(key) is not str:
            raise NotJson(f"map key {key} is of type {type_name(key)}, not string")
        self._left -= len(key)
        return key


def _scalar(value: Any) -> Any:
    if type(value) is UInt:
        return int(value)
    if type(value) is float:
        if math.isnan(value) or math.isinf(value):
            raise NotJson(f"the number {value} has no form in JSON")
        return int(value) if value.is_integer() and abs(value) <= _EXACT_MAX else value
    if type(value) is Timestamp:
        return format_timestamp(value)
    if type(value) is Duration:
        whole, rest = divmod(abs(value), SECOND)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{'-' * (value < 0)}{whole}{fraction}s"
    if type(value) is bytes:
        return base64.b64encode(value).decode()
    raise NotJson(f"a value of type {type_name(value)} has no form in JSON")
