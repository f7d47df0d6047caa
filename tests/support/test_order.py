"""The order in which tests are begun, so that none of the longest is waited for at the end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TypeVar

Test = TypeVar("Test")


def longest_first(longest: Sequence[Test], others: Sequence[Test], workers: int) -> list[Test]:
    """Returns all tests in an order in which each worker begins with its share of the longest ones.

    The scheduler `worksteal` of pytest-xdist gives each worker as many tests as the others, which follow one
    another, and those at the end of its part to whoever has none left.
    """
    ordered: list[Test] = []
    rest, left = iter(others), len(longest) + len(others)
    for number in range(workers):
        size = left // (workers - number)
        left -= size
        share = longest[number::workers]
        ordered += [*share, *islice(rest, max(0, size - len(share)))]
    return [*ordered, *rest]
