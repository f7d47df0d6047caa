"""Values in messages as Go's `%v` prints them: `map[image:z name:c2]`, `[a b]`, `<nil>`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

# Messages go into logs and terminals; what is longer or deeper is cut.
SHOWN_LENGTH_MAX: Final = 8_192
SHOWN_DEPTH_MAX: Final = 50


def go_text(value: Any) -> str:
    """A decoded JSON value."""
    text, length = [], 0
    for piece in _pieces(value, SHOWN_DEPTH_MAX):
        text.append(piece)
        length += len(piece)
        if length > SHOWN_LENGTH_MAX:
            return "".join(text)[:SHOWN_LENGTH_MAX] + "..."
    return "".join(text)


def go_type(value: Any) -> str:
    """The Go type of a decoded JSON value."""
    match value:
        case None:
            return "%!s(<nil>)"
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
        case _:
            yield f"{value}"
