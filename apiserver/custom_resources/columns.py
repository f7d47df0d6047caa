"""`additionalPrinterColumns`: what a table shows of custom resources. Rows D08, D10.

Source: k8s.io/apiextensions-apiserver, pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import orjson

from apiserver.custom_resources.json_path import InvalidPath, compile_path
from apiserver.meta import table, timestamps
from apiserver.meta.table import Column, Columns
from apiserver.schema.custom import numbers
from apiserver.vocabulary import Document

_INVALID_DATE: Final = "<invalid>"
_UNKNOWN_DATE: Final = "<unknown>"
# Go reads them as the time that is none.
_NO_DATES: Final = frozenset({"", "null", "0001-01-01T00:00:00Z"})


# Of more, the paths are read before the first of them is needed, aside: that takes long.
COMPILED_INLINE_MAX: Final = 200


def columns_of(described: Sequence[Document]) -> Columns:
    """Columns as a version describes them; the two that all types have if it describes none."""
    return table.columns(*map(_column, described)) if described else table.DEFAULT


def _column(described: Document) -> Column:
    path = described["jsonPath"]
    return Column(
        described["name"],
        _Cell(path, described["type"]),
        type=described["type"],
        format=described.get("format", ""),
        description=described.get("description")
        or f"Custom resource definition column (in JSONPath format): {path}",
        priority=described.get("priority", 0),
    )


class _Cell:
    """Shows what is at a path, which is read when it is first needed: nobody may ever ask for a table."""

    __slots__ = ("_find", "_kind", "_path")

    def __init__(self, path: str, kind: str) -> None:
        self._path = path
        self._kind = kind
        self._find: Callable[[Document], Iterator[Any]] | None = None

    def __call__(self, document: Document, now: float) -> Any:
        # Only the first of what is found is shown.
        find = self._find or self.read()
        return next((_shown(value, self._kind, now) for value in find(document)), None)

    def read(self) -> Callable[[Document], Iterator[Any]]:
        try:
            self._find = compile_path(self._path)
        except InvalidPath:
            # Validation has let it in all the same: nothing is found there.
            self._find = _nothing
        return self._find


def _nothing(document: Document) -> Iterator[Any]:
    return iter(())


class ColumnPreparation:
    """The paths of very many columns. As `registry.served_resource.Preparation`."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.is_due = True

    def prepare(self) -> None:
        for column in self._columns.columns:
            if isinstance(column.cell, _Cell):
                column.cell.read()
        self.is_due = False


def _shown(value: Any, kind: str, now: float) -> Any:
    """A value as a cell of a type; None where it is not of that type."""
    value = numbers.as_go(value)
    match kind, value:
        case "string", _:
            return as_text(value)
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


def as_text(value: Any) -> str:
    """A value as Go prints it; objects and lists as JSON."""
    match value:
        case str():
            return value
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return numbers.shown(value)
    return _html_escaped(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())


def _html_escaped(text: str) -> str:
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
