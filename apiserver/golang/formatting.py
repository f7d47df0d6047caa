"""Decoded JSON values and their types, as Go's packages fmt and encoding/json print them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import orjson

# Longer or deeper values are truncated, since messages go into logs and terminals.
TEXT_LENGTH_MAX: Final = 8_192
TEXT_DEPTH_MAX: Final = 50


def go_text(value: Any) -> str:
    """Returns a decoded JSON value as `%v` prints it: `map[image:z name:c2]`, `[a b]`, `<nil>`."""
    text, length = [], 0
    for piece in _pieces(value, TEXT_DEPTH_MAX):
        text.append(piece)
        length += len(piece)
        if length > TEXT_LENGTH_MAX:
            return "".join(text)[:TEXT_LENGTH_MAX] + "..."
    return "".join(text)


def go_type(value: Any) -> str:
    """Returns the Go type of a decoded JSON value as `%T` prints it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"


# Go's JSON is safe to be put into HTML.
HTML_ESCAPES: Final = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
)


def go_json(value: Any) -> str:
    """Returns a value as JSON, as Go's encoder writes it. The order of fields is the caller's."""
    return orjson.dumps(value).decode().translate(HTML_ESCAPES)


def go_struct_fields(value: Any) -> Any:
    """Returns the text of a struct without JSON names, as Kubernetes prints it."""
    if isinstance(value, dict):
        return {key[:1].upper() + key[1:]: go_struct_fields(child) for key, child in value.items()}
    return [go_struct_fields(child) for child in value] if isinstance(value, list) else value


def json_type(value: object) -> str:
    """Returns the JSON type of a decoded value, as messages of Go's decoder call it."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _pieces(value: Any, depth_left: int) -> Iterator[str]:
    match value:
        case dict() | list() if not depth_left:
            yield "..."
        case dict():
            yield "map["
            for number, key in enumerate(sorted(value)):
                yield f" {key}:" if number else f"{key}:"
                yield from _pieces(value[key], depth_left - 1)
            yield "]"
        case list():
            yield "["
            for number, item in enumerate(value):
                if number:
                    yield " "
                yield from _pieces(item, depth_left - 1)
            yield "]"
        case None:
            yield "<nil>"
        case bool():
            yield "true" if value else "false"
        case float():
            yield number_text(value)
        case _:
            yield f"{value}"


def number_text(value: float) -> str:
    """Returns the number as Go's %v prints it: floats from a million on have an exponent, as `1e+06`."""
    if isinstance(value, int):
        return str(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)  # JSON has neither infinities nor NaN
    text = "".join(map(str, digits)).lstrip("0")
    power = len(text) + exponent - 1
    text = text.rstrip("0") or "0"
    minus = "-" if sign else ""
    if text == "0":
        return f"{minus}0"
    if -4 <= power < 6:
        return f"{value:.0f}" if value == int(value) else repr(value)
    fraction = f".{text[1:]}" if text[1:] else ""
    return f"{minus}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
