"""Traverses JSON schemas as the definitions of custom resources have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

JSONSchema: TypeAlias = Mapping[str, Any]


def subschemas(schema: JSONSchema) -> Iterator[JSONSchema]:
    """Yields the schemas directly in a schema: of its fields, its additional properties and its items."""
    yield from (schema.get("properties") or {}).values()
    for name in ("additionalProperties", "items"):
        if isinstance(child := schema.get(name), Mapping):
            yield child


def all_schemas(schema: JSONSchema) -> Iterator[JSONSchema]:
    """Yields a schema and all schemas in it, at all levels."""
    todo = [schema]
    while todo:
        each = todo.pop()
        yield each
        todo.extend(subschemas(each))


def field_schema(schema: JSONSchema, name: str) -> JSONSchema | None:
    """Returns the schema of a field or of a map's value; None if there is none."""
    known = (schema.get("properties") or {}).get(name)
    if known is None and isinstance(other := schema.get("additionalProperties"), Mapping):
        known = other
    return known if isinstance(known, Mapping) else None
