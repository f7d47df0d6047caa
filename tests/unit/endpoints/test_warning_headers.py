"""Which warnings become headers, and how. Source: k8s.io/apiserver, pkg/endpoints/filters/warning.go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from apiserver.endpoints.responses import WARNING_CUT_LENGTH, WARNINGS_LENGTH_MAX, warning_values

# The texts, and those of the headers, as kube-apiserver 1.36 sends them.
TEXTS: Final[dict[str, tuple[Sequence[str], Sequence[str]]]] = {
    "none": ([], []),
    "texts in their order": (["b", "a"], ["b", "a"]),
    "one text twice": (["a", "a"], ["a"]),
    "an empty text": (["a", "", "b"], ["a", "b"]),
    "blanks that are control characters": (["\t", "\n", "\r\n", "\x0b"], []),
    "a line end in a text": (["a\nb", "c"], ["c"]),
    "a tab in a text": (["a\tb"], []),
    "other control characters": (["a\x00b", "a\x1bb", "a\x7fb", "a\x85b", "a\x9fb"], []),
    "what is not UTF-8": (["a\ud800b"], []),
    "blanks": (["  "], ["  "]),
    "blanks around a text": ([" a "], [" a "]),
    "other characters": (
        ["\u00a0", "\u2028", "\u200b", "\u3000", "\u00e4"],
        ["\u00a0", "\u2028", "\u200b", "\u3000", "\u00e4"],
    ),
    "quotation marks and backslashes": (['a\\"b'], ['a\\\\\\"b']),
}


@pytest.mark.parametrize(("texts", "told"), TEXTS.values(), ids=TEXTS)
def test_which_warnings_are_told(texts: Sequence[str], told: Sequence[str]) -> None:
    assert [*warning_values(texts)] == [f'299 - "{each}"'.encode() for each in told]


X: Final = "x" * 3000
Y: Final = "y" * 3000
CUT: Final = WARNING_CUT_LENGTH
LONG: Final[dict[str, tuple[Sequence[str], Sequence[str]]]] = {
    "one that just fits": (["x" * WARNINGS_LENGTH_MAX], ["x" * WARNINGS_LENGTH_MAX]),
    "two of which each would fit": ([X, Y], [X[:CUT], Y[:CUT]]),
    "one is not told, and takes no room": ([f"{X}\n", Y], [Y]),
    "it is told where only what is left of it counts": ([f"{X}\n", X, Y], [X[:CUT], X[:CUT], Y[:CUT]]),
    "short ones stay as they are": (["a", X, Y, "b"], ["a", X[:CUT], Y[:CUT], "b"]),
    "those after the last for which there is room": (
        [f"{number:02}{X}" for number in range(20)],
        [f"{number:02}{X}"[:CUT] for number in range(16)],
    ),
}


@pytest.mark.parametrize(("texts", "told"), LONG.values(), ids=LONG)
def test_if_warnings_do_not_fit_all_are_cut(texts: Sequence[str], told: Sequence[str]) -> None:
    assert [*warning_values(texts)] == [f'299 - "{each}"'.encode() for each in told]
