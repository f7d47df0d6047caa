"""Whole numbers that are written as decimals."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.golang.whole_numbers import has_whole, make_whole

# A value, and what becomes of it.
VALUES: Final[dict[str, tuple[Any, Any]]] = {
    "integers stay": ([1, -2], [1, -2]),
    "fractions stay": ([1.5, 1e-7], [1.5, 1e-7]),
    "whole numbers": ([3.0, 1e2, -4.0], [3, 100, -4]),
    "zero has no sign": ([-0.0], [0]),
    "truth is no number": ([True], [True]),
    "the largest integers": ([-(2.0**63), 2.0**62], [-(2**63), 2**62]),
    "beyond the largest integer": ([2.0**63, 1e300], [2.0**63, 1e300]),
    "at every depth": ({"a": [{"b": 1.0}, [2.0]]}, {"a": [{"b": 1}, [2]]}),
}


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES)
def test_whole_numbers_become_integers(value: Any, expected: Any) -> None:
    assert has_whole(value) == (repr(value) != repr(expected))
    make_whole(value)
    assert repr(value) == repr(expected)
