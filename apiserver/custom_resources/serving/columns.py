"""Makes the columns of tables from `additionalPrinterColumns` (rows D08, D10).

Source: k8s.io/apiextensions-apiserver, pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import orjson

from apiserver.custom_resources.schemas import numbers
from apiserver.custom_resources.serving.json_path import InvalidJsonPath, compile_path
from apiserver.golang.formatting import HTML_ESCAPES, number_text
from apiserver.meta import table, timestamps
from apiserver.meta.table import Column, Columns
from apiserver.meta.vocabulary import Document

_INVALID_DATE: Final = "<invalid>"
_UNKNOWN_DATE: Final = "<unknown>"
# Go reads these as the zero time.
_NO_DATES: Final = frozenset({"", "null", "0001-01-01T00:00:00Z"})
# The paths of so many columns are compiled in the event loop, when the first table is made. Of more columns
# they are compiled before, in a thread, as that takes long.
COMPILED_INLINE_MAX: Final = 200


def columns_of(described: Sequence[Document]) -> Columns:
    """Returns the columns that a version describes; the name and the age if it describes none."""
    return table.columns(*map(_column, described)) if described else table.DEFAULT


def _column(described: Document) -> Column:
    path = described["jsonPath"]
    return Column(
        described["name"],
        _Cell(path, described["type"]),
        described.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        type=described["type"],
        format=described.get("format", ""),
        priority=described.get("priority", 0),
    )


class _Cell:
    """Makes the cells of one column, whose path is compiled on first use, as tables may never be
    requested.
    """

    __slots__ = ("_path", "_type", "_values")

    def __init__(self, path: str, type_: str) -> None:
        self._path = path
        self._type = type_
        self._values: Callable[[Document], Iterator[Any]] | None = None

    def __call__(self, document: Document, now: float) -> Any:
        # Of several values at the path only the first is shown.
        values = self._values or self.compile()
        return next((_cell_value(value, self._type, now) for value in values(document)), None)

    def compile(self) -> Callable[[Document], Iterator[Any]]:
        try:
            self._values = compile_path(self._path)
        except InvalidJsonPath:
            # Validation accepts some paths that cannot be compiled; their cells are empty.
            self._values = _no_values
        return self._values


def _no_values(document: Document) -> Iterator[Any]:
    return iter(())


class ColumnPreparation:
    """Compiles the paths of very many columns, as a `registry.served_resource.ResourcePreparation`."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.is_due = True

    def prepare(self) -> None:
        for column in self._columns.columns:
            if isinstance(column.cell, _Cell):
                column.cell.compile()
        self.is_due = False


def _cell_value(value: Any, type_: str, now: float) -> Any:
    """Returns a value as a cell of a type; None if it has another type."""
    value = numbers.as_go(value)
    match type_, value:
        case "string", _:
            return _as_text(value)
        case "integer", bool():
            return None
        case "integer", int() | float():
            # Beyond 64 bits Go's processors do not agree.
            return int(value) if numbers.INT64_MIN <= value <= numbers.INT64_MAX else None
        case "number", bool():
            return None
        case "number", int() | float():
            return value
        case "boolean", bool():
            return value
        case "date", str():
            if value in _NO_DATES:
                return _UNKNOWN_DATE
            then = timestamps.from_text(value)
            return _INVALID_DATE if then is None else table.duration(now - then)
    return None


def _as_text(value: Any) -> str:
    """Returns a value as Go prints it; objects and lists as JSON."""
    match value:
        case str():
            return value
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number_text(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode().translate(HTML_ESCAPES)
