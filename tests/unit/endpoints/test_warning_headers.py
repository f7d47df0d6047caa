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


def test_what_is_not_told_takes_no_room() -> None:
    long = "x" * WARNINGS_LENGTH_MAX
    assert len([*warning_values([f"{long}\n", long])]) == 1
    cut = [*warning_values(["a", long])]
    assert cut[1] == b'299 - "%b"' % (b"x" * WARNING_CUT_LENGTH)
