"""Cells of custom resources. Row D10; source: apiextensions-apiserver, customresource/tableconvertor."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.custom_resources.serving.columns import columns_of
from apiserver.meta import table, timestamps

NOW: Final = 1_700_000_000.0

CELLS = {
    "text": ("string", "x", "x"),
    "a whole number as text": ("string", 5, "5"),
    "a fraction as text": ("string", 0.5, "0.5"),
    "a large number as text": ("string", 1e21, "1e+21"),
    "a fraction as text, with an exponent from a million on": ("string", 1234567.5, "1.2345675e+06"),
    "an integer of more than 64 bits as text": ("string", 1 << 63, "9.223372036854776e+18"),
    "a whole float as text": ("string", 3.0, "3"),
    "truth as text": ("string", True, "true"),
    "null as text": ("string", None, "<no value>"),
    "an object as text": ("string", {"b": "<x>", "a": [1]}, '{"a":[1],"b":"\\u003cx\\u003e"}'),
    "a number": ("integer", 5, 5),
    "a fraction as a whole number": ("integer", 5.9, 5),
    "the greatest whole number": ("integer", (1 << 63) - 1, (1 << 63) - 1),
    "an integer of more than 64 bits is no whole number": ("integer", 1 << 63, None),
    "nor is a fraction that large": ("integer", 1e30, None),
    "an integer of more than 64 bits as a number": ("number", 1 << 64, 2.0**64),
    "text is no number": ("integer", "5", None),
    "truth is no number": ("integer", True, None),
    "a fraction": ("number", 0.5, 0.5),
    "a whole number as a fraction": ("number", 5, 5),
    "truth": ("boolean", False, False),
    "text is no truth": ("boolean", "true", None),
    "a date": ("date", timestamps.to_text(NOW - 300), "5m"),
    "a date to come": ("date", timestamps.to_text(NOW + 300), "<invalid>"),
    "no date": ("date", "yesterday", "<invalid>"),
    "a date that was not given": ("date", "", "<unknown>"),
    "Go's zero time": ("date", "0001-01-01T00:00:00Z", "<unknown>"),
    "a number is no date": ("date", 5, None),
}


@pytest.mark.parametrize(("kind", "value", "cell"), CELLS.values(), ids=CELLS)
def test_a_cell(kind: str, value: Any, cell: Any) -> None:
    shown = columns_of([{"name": "C", "type": kind, "jsonPath": ".spec.v"}])
    document = {"metadata": {"name": "a"}, "spec": {"v": value}}
    assert shown.cells(document, NOW) == ["a", cell]
    assert shown.cells({"metadata": {"name": "a"}}, NOW) == ["a", None]


def test_only_the_first_value_at_a_path_is_shown() -> None:
    shown = columns_of([{"name": "C", "type": "string", "jsonPath": ".l[*]"}])
    assert shown.cells({"metadata": {}, "l": ["p", "q"]}, NOW)[1] == "p"


def test_definitions_of_columns() -> None:
    shown = columns_of(
        [
            {"name": "A", "type": "string", "jsonPath": ".a"},
            {
                "name": "B",
                "type": "integer",
                "format": "int32",
                "jsonPath": ".b",
                "priority": 1,
                "description": "d",
            },
        ]
    )
    path = "Custom resource definition column (in JSONPath format): .a"
    assert shown.definitions[1:] == [
        {"name": "A", "type": "string", "format": "", "description": path, "priority": 0},
        {"name": "B", "type": "integer", "format": "int32", "description": "d", "priority": 1},
    ]


def test_a_version_without_columns_has_name_and_age() -> None:
    assert columns_of([]) is table.DEFAULT
