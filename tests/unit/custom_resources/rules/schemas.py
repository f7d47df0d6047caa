"""Schemas with rules, and what the rules say of values."""

from __future__ import annotations

from typing import Any, Final

from apiserver.custom_resources.rules.validator import RuleValidator

Schema = dict[str, Any]
INT: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
STRING: Final[Schema] = {"type": "string"}


def ruled(schema: Schema, *rules: str | dict[str, Any]) -> Schema:
    documents = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {**schema, "x-kubernetes-validations": documents}


def object_of(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def array_of(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def map_of(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def by_key(items: Schema) -> Schema:
    """A list of objects that are told apart by their `k`."""
    return array_of(items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})


def errors(schema: Schema, new: Any, old: Any = None) -> list[str]:
    """schema: of `spec`; new, old: its values."""
    rules = RuleValidator(object_of(spec=schema), vendor="kubernetes")
    found = rules.validate({"spec": new}, None if old is None else {"spec": old}, is_bounded=False)
    assert not found.warnings
    return [str(error) for error in found.errors]


def warnings(schema: Schema, new: Any, old: Any) -> list[str]:
    found = RuleValidator(object_of(spec=schema), vendor="kubernetes").validate(
        {"spec": new}, {"spec": old}, is_bounded=False
    )
    assert not found.errors
    return list(found.warnings)
