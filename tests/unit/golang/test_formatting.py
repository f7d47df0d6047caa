"""Decoded JSON values and their types, as Go's messages print them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.golang.formatting import TEXT_DEPTH_MAX, TEXT_LENGTH_MAX, go_text, json_type, number_text


@pytest.mark.parametrize(
    ("value", "name"),
    [({}, "object"), ([], "array"), ("", "string"), (1, "number"), (1.5, "number"), (True, "bool")],
    ids=["an object", "a list", "a text", "an integer", "a fraction", "a boolean"],
)
def test_json_types(value: object, name: str) -> None:
    assert json_type(value) == name


TEXTS: Final[dict[str, tuple[Any, str]]] = {
    "an object with its keys sorted": ({"name": "c2", "image": "z"}, "map[image:z name:c2]"),
    "a list": (["a", 1, 1.5, 3.0, 1e21], "[a 1 1.5 3 1e+21]"),
    "null": (None, "<nil>"),
    "booleans": ([True, False], "[true false]"),
    "empty collections": ([{}, []], "[map[] []]"),
}


@pytest.mark.parametrize(("value", "text"), TEXTS.values(), ids=TEXTS)
def test_texts_of_values(value: Any, text: str) -> None:
    assert go_text(value) == text


def test_long_and_deep_values_are_truncated() -> None:
    assert len(go_text("x" * 2 * TEXT_LENGTH_MAX)) == TEXT_LENGTH_MAX + len("...")
    value: Any = "x"
    for _ in range(TEXT_DEPTH_MAX + 1):
        value = [value]
    assert go_text(value) == "[" * TEXT_DEPTH_MAX + "..." + "]" * TEXT_DEPTH_MAX


# Go's strconv, format g, shortest.
SHOWN: Final[dict[float, str]] = {
    5.0: "5",
    -0.0: "-0",
    0.5: "0.5",
    100_000.0: "100000",
    1_000_000.0: "1e+06",
    123_456.789: "123456.789",
    1_234_567.0: "1.234567e+06",
    0.0001: "0.0001",
    -0.00001: "-1e-05",
    1.5e300: "1.5e+300",
    1 << 62: "4611686018427387904",
}


@pytest.mark.parametrize(("number", "text"), [(5, "5"), *SHOWN.items()])
def test_numbers_are_formatted_as_go_does(number: float, text: str) -> None:
    assert number_text(number) == text
