"""Errors have a bound: paths end there, and of many errors the first are told."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.golang.quoting import go_quote
from apiserver.meta.field_errors import (
    ERRORS_LENGTH_MAX,
    PATH_LENGTH_MAX,
    VALUE_LENGTH_MAX,
    FieldError,
    field_below,
    item_below,
    key_below,
    quote,
    reported,
    truncated,
)

LONG: Final = "k" * (PATH_LENGTH_MAX + 1)
ENDED: Final = f"{LONG[:PATH_LENGTH_MAX]}..."
PATHS: Final = {
    "a field of the root": (field_below("", "a"), "a"),
    "a field": (field_below("a", "b"), "a.b"),
    "an item": (item_below("a", 3), "a[3]"),
    "a key": (key_below("a", "b.c"), "a[b.c]"),
    "a long name": (field_below("", LONG), ENDED),
    "the longest path": (field_below("a", LONG[: PATH_LENGTH_MAX - 2]), f"a.{LONG[: PATH_LENGTH_MAX - 2]}"),
    "one that is longer": (field_below("a", LONG), f"a.{LONG[: PATH_LENGTH_MAX - 2]}..."),
    "a field below a long path": (field_below(ENDED, "a"), ENDED),
    "an item below a long path": (item_below(ENDED, 1), ENDED),
    "a key below a long path": (key_below(ENDED, "a"), ENDED),
}


@pytest.mark.parametrize(("found", "expected"), PATHS.values(), ids=PATHS)
def test_paths(found: str, expected: str) -> None:
    assert found == expected


LONG_ERROR: Final = FieldError("a", "FieldValueInvalid", "x" * (ERRORS_LENGTH_MAX // 3))
TOLD: Final = {
    "none": ([], 0),
    "as many as there is room for": ([LONG_ERROR] * 9, 2),
    "the first, however long it is": (
        [FieldError("a", "FieldValueInvalid", "x" * ERRORS_LENGTH_MAX * 2)] * 2,
        1,
    ),
}


@pytest.mark.parametrize(("errors", "count"), TOLD.values(), ids=TOLD)
def test_how_many_errors_are_told(errors: list[FieldError], count: int) -> None:
    assert reported(errors) == errors[:count]


@pytest.mark.parametrize("character", ["a", '"', "\n", "\u200b", "\U0001f600"])
@pytest.mark.parametrize("beyond", [-9, -1, 0, 1, 9, 100_000])
def test_long_texts_are_cut_as_if_they_were_quoted_whole(character: str, beyond: int) -> None:
    text = character * (VALUE_LENGTH_MAX + beyond)
    assert quote(text) == truncated(go_quote(text))
