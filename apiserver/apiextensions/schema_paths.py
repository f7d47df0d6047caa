"""Paths into a schema, as rules and selectable fields name fields: `.spec.color`, `.spec['a.b'].c`.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel/validation.go, ValidFieldPath.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from apiserver.vocabulary import Document

_parts = re.compile(r"'.*?(?<!\\)'|'.*|[.\[\]]|[^.\[\]]+", re.DOTALL).findall
_ESCAPED: Final = re.compile(r"\\.")
_ESCAPES: Final = {
    r"\a": "\a",
    r"\b": "\b",
    r"\f": "\f",
    r"\n": "\n",
    r"\r": "\r",
    r"\t": "\t",
    r"\v": "\v",
    r"\'": "'",
    r"\\": "\\",
}
_NO_FIELD: Final = "does not refer to a valid field"


class InvalidPath(ValueError):
    """The path is malformed or leads nowhere; the message is the client's."""


class FoundField(NamedTuple):
    """steps: of the path, without quotes and escapes. schema: None where it says nothing of the field."""

    steps: tuple[str, ...]
    schema: Document | None


def find_field(path: str, schema: Document, *, allows_brackets: bool = True) -> FoundField:
    """What a path leads to, in a schema. Raises InvalidPath."""
    steps: list[str] = []
    at: Document | None = schema
    parts = iter(_parts(path))
    for part in parts:
        if part == "[":
            if not allows_brackets:
                raise InvalidPath("array notation is not allowed")
            name = _unquoted(_next(parts))
            is_named, at = _step(at, name)
            if (closing := _next(parts)) != "]":
                raise InvalidPath(f"expected ] but got {closing}")
        elif part == ".":
            name = _next(parts)
            is_named, at = _step(at, name)
        else:
            raise InvalidPath(f"expected [ or . but got: {part}")
        steps.append(name if is_named else f"[{name}]")
    return FoundField(tuple(steps), at)


def _next(parts: Iterator[str]) -> str:
    part = next(parts, None)
    if part is None:
        raise InvalidPath("unexpected end of JSON path")
    return part


def _step(schema: Document | None, name: str) -> tuple[bool, Document | None]:
    """Whether `name` is of a field, not a key of a map; and the schema of what it leads to."""
    if schema is None:
        raise InvalidPath(_NO_FIELD)
    if properties := schema.get("properties"):
        if name not in properties:
            raise InvalidPath(_NO_FIELD)
        return True, properties[name]
    additional = schema.get("additionalProperties")
    if additional is None:
        raise InvalidPath(_NO_FIELD)
    return False, additional if isinstance(additional, dict) else None


def _unquoted(part: str) -> str:
    if len(part) < 2 or part[0] != "'" or part[-1] != "'":
        raise InvalidPath(f"expected single quoted string but got {part}")
    return _ESCAPED.sub(_unescaped, part[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    try:
        return _ESCAPES[match[0]]
    except KeyError:
        raise InvalidPath(f"invalid string literal: invalid escape char {match[0]}") from None
