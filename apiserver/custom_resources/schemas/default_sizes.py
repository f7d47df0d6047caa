"""Computes how much defaults may add to documents of a schema. Pure.

A document of some bytes may grow to megabytes: `[{},{}]` gets the defaults of each item, and a default gets
those of the objects in it. `prune_and_default` has a bound, but reaching it takes long.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from apiserver.custom_resources.schemas.json_schema import JSONSchema, all_schemas
from apiserver.custom_resources.schemas.prune_and_default import DEFAULTS_BYTES_MAX

# What an object or a list has beside its members: two brackets, and the comma behind it.
_BRACKETS_BYTES: Final = 3
_NO_SCHEMA: Final[JSONSchema] = {}


def default_bytes(schema: JSONSchema) -> int:
    """Returns the maximum number of bytes that defaults add to one object, or one null, in a document.

    Only these values get defaults. Each default is computed once, however often it would be set.
    """
    try:
        return _DefaultSizes().largest(schema)
    except (RecursionError, orjson.JSONEncodeError):
        return DEFAULTS_BYTES_MAX  # It is nested too deeply to compute, and no document gets more.


class _DefaultSizes:
    def __init__(self) -> None:
        # Of the defaults of fields, with what these get, by the ids of their schemas.
        self._known: dict[int, int] = {}

    def largest(self, schema: JSONSchema) -> int:
        return max(
            max(self._of_fields(each, _NO_SCHEMA), self._of_default(each)) for each in all_schemas(schema)
        )

    def _of_fields(self, schema: JSONSchema, value: JSONSchema) -> int:
        """Returns how many bytes an object gets for its absent fields."""
        fields = schema.get("properties") or _NO_SCHEMA
        return sum(
            _bytes(name) + self._of_default(field)
            for name, field in fields.items()
            if name not in value and field.get("default") is not None
        )

    def _of_default(self, schema: JSONSchema) -> int:
        """Returns how many bytes the default of an absent field adds; 0 if it has none."""
        if schema.get("default") is None:
            return 0
        found = self._known.get(id(schema))
        if found is None:
            found = self._known[id(schema)] = self._of_value(schema["default"], schema)
        return found

    def _of_value(self, value: Any, schema: JSONSchema) -> int:
        """Returns the size of a default, or of a value in one, with all nested defaults."""
        if value is None:
            return _bytes(value) + self._of_default(schema)
        if isinstance(value, dict):
            fields = schema.get("properties") or _NO_SCHEMA
            other = schema.get("additionalProperties")
            children = sum(
                _bytes(name) + self._of_value(child, fields.get(name) or _as_schema(other))
                for name, child in value.items()
            )
            return _BRACKETS_BYTES + children + self._of_fields(schema, value)
        if isinstance(value, list):
            items = _as_schema(schema.get("items"))
            return _BRACKETS_BYTES + sum(self._of_value(child, items) for child in value)
        return _bytes(value)


def _bytes(value: Any) -> int:
    """Returns the length of a name or a plain value, with the colon or the comma after it."""
    return len(orjson.dumps(value)) + 1


def _as_schema(schema: Any) -> JSONSchema:
    return schema if isinstance(schema, dict) else _NO_SCHEMA
