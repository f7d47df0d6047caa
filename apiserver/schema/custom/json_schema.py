"""What a schema's JSON says, under the names that a deployment gives to the extensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

JSONSchema: TypeAlias = Mapping[str, Any]


class Extensions:
    """The names of the schema extensions, as `x-kubernetes-list-type`."""

    __slots__ = (
        "embedded_resource",
        "int_or_string",
        "list_map_keys",
        "list_type",
        "map_type",
        "preserve_unknown_fields",
        "validations",
    )

    def __init__(self, vendor: str) -> None:
        for name in self.__slots__:
            setattr(self, name, f"x-{vendor}-{name.replace('_', '-')}")

    # Set by name above; declared here for the reader and the type checker.
    embedded_resource: str
    int_or_string: str
    list_map_keys: str
    list_type: str
    map_type: str
    preserve_unknown_fields: str
    validations: str


def below(schema: JSONSchema) -> Iterator[JSONSchema]:
    """The schemas of what is in a value: its fields, its other values, its items."""
    yield from (schema.get("properties") or {}).values()
    for name in ("additionalProperties", "items"):
        if isinstance(child := schema.get(name), Mapping):
            yield child


def everywhere(schema: JSONSchema) -> Iterator[JSONSchema]:
    """A schema and all that is below it."""
    todo = [schema]
    while todo:
        each = todo.pop()
        yield each
        todo.extend(below(each))


def field_schema(schema: JSONSchema, name: str) -> JSONSchema | None:
    """The schema of a field, or of a key of a map; None where nothing is known of it."""
    known = (schema.get("properties") or {}).get(name)
    if known is None and isinstance(other := schema.get("additionalProperties"), Mapping):
        known = other
    return known if isinstance(known, Mapping) else None
