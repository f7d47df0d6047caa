"""Paths to fields in a schema, as in rules and selectable fields: `.spec.color`, `.spec['a.b'].c`.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel/validation.go, ValidFieldPath.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from apiserver.meta.vocabulary import Document

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


class InvalidSchemaPath(ValueError):
    """The path is malformed or leads nowhere; the message is for the client."""


class FoundField(NamedTuple):
    """A field that a path leads to.

    steps: those of the path, without quotes and escapes. schema: the field's; None if it has none.
    """

    steps: tuple[str, ...]
    schema: Document | None


def find_field(path: str, schema: Document, *, allows_brackets: bool = True) -> FoundField:
    """Returns the field that a path leads to in a schema. Raises InvalidSchemaPath."""
    steps: list[str] = []
    at: Document | None = schema
    parts = iter(_parts(path))
    for part in parts:
        if part == "[":
            if not allows_brackets:
                raise InvalidSchemaPath("array notation is not allowed")
            name = _unquoted(_next(parts))
            is_named, at = _step(at, name)
            if (closing := _next(parts)) != "]":
                raise InvalidSchemaPath(f"expected ] but got {closing}")
        elif part == ".":
            name = _next(parts)
            is_named, at = _step(at, name)
        else:
            raise InvalidSchemaPath(f"expected [ or . but got: {part}")
        steps.append(name if is_named else f"[{name}]")
    return FoundField(tuple(steps), at)


def _next(parts: Iterator[str]) -> str:
    part = next(parts, None)
    if part is None:
        raise InvalidSchemaPath("unexpected end of JSON path")
    return part


def _step(schema: Document | None, name: str) -> tuple[bool, Document | None]:
    """Returns whether `name` is a field and not a key of a map, and the schema of its value."""
    if schema is None:
        raise InvalidSchemaPath(_NO_FIELD)
    if properties := schema.get("properties"):
        if name not in properties:
            raise InvalidSchemaPath(_NO_FIELD)
        return True, properties[name]
    additional = schema.get("additionalProperties")
    if additional is None:
        raise InvalidSchemaPath(_NO_FIELD)
    return False, additional if isinstance(additional, dict) else None


def _unquoted(part: str) -> str:
    if len(part) < 2 or part[0] != "'" or part[-1] != "'":
        raise InvalidSchemaPath(f"expected single quoted string but got {part}")
    return _ESCAPED.sub(_unescaped, part[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    try:
        return _ESCAPES[match[0]]
    except KeyError:
        raise InvalidSchemaPath(f"invalid string literal: invalid escape char {match[0]}") from None
