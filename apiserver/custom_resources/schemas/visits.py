"""Visits the values of a document whose schemas are selected, and collects their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from apiserver.custom_resources.schemas.json_schema import JSONSchema, all_schemas, subschemas
from apiserver.custom_resources.schemas.paths import MapKey, Path
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import Document

# Returns the errors of one value, which is given with its schema and its path.
ValueCheck: TypeAlias = "Callable[[Any, JSONSchema, Path | None], Iterator[FieldError]]"

# More are not looked for: the response has to end somewhere.
ERRORS_MAX: Final = 1_000


class DocumentCheck:
    """Applies a check to the values of a document whose schemas are selected."""

    __slots__ = ("_check", "_is_selected", "_schema", "_visited")

    def __init__(
        self, schema: JSONSchema, is_selected: Callable[[JSONSchema], bool], check: ValueCheck
    ) -> None:
        self._schema, self._is_selected, self._check = schema, is_selected, check
        self._visited = _visited_schemas(schema, is_selected)

    def check(self, document: Document) -> list[FieldError]:
        """Returns the errors from the outermost value to the innermost, at most ERRORS_MAX."""
        errors: list[FieldError] = []
        todo: list[tuple[Any, JSONSchema, Path | None]] = []
        if self._visited:
            todo.append((document, self._schema, None))
        while todo and len(errors) < ERRORS_MAX:
            value, schema, path = todo.pop()
            if self._is_selected(schema):
                errors += self._check(value, schema, path)
            children = [each for each in _children(value, schema, path) if id(each[1]) in self._visited]
            todo += reversed(children)
        return errors[:ERRORS_MAX]


def _visited_schemas(schema: JSONSchema, is_selected: Callable[[JSONSchema], bool]) -> frozenset[int]:
    """Returns the ids of the selected schemas, and of those on the way to them."""
    visited: set[int] = set()
    for each in reversed(list(all_schemas(schema))):  # the innermost first
        if is_selected(each) or any(id(child) in visited for child in subschemas(each)):
            visited.add(id(each))
    return frozenset(visited)


def _children(
    value: Any, schema: JSONSchema, path: Path | None
) -> Iterator[tuple[Any, JSONSchema, Path | None]]:
    if type(value) is dict:
        properties, other = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, child in value.items():
            if type(child) is not dict and type(child) is not list:
                continue
            if (field := properties.get(name)) is not None:
                yield child, field, (path, name)
            elif isinstance(other, Mapping):
                yield child, other, (path, MapKey(name))
    elif isinstance(items := schema.get("items"), Mapping):
        for index, child in enumerate(value):
            if type(child) is dict or type(child) is list:
                yield child, items, (path, index)
