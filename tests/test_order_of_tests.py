"""Each worker begins with some of the longest tests."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.test_order import longest_first

# The longest, the others, how many workers, and the order: a space stands between the parts of the workers.
ORDERS: Final = {
    "none is long": ("", "abcdef", 2, "abc def"),
    "one worker": ("AB", "cd", 1, "ABcd"),
    "one for each worker": ("AB", "cdef", 2, "Acd Bef"),
    "more than workers": ("ABC", "defghi", 2, "ACde Bfghi"),
    "parts of several sizes": ("AB", "cdefgh", 3, "Ac Bde fgh"),
    "fewer tests than workers": ("A", "b", 3, "Ab"),
    "only long ones": ("ABC", "", 2, "AC B"),
}


@pytest.mark.parametrize(("longest", "others", "workers", "order"), ORDERS.values(), ids=ORDERS)
def test_the_longest_begin_first(longest: str, others: str, workers: int, order: str) -> None:
    assert "".join(longest_first(longest, others, workers)) == order.replace(" ", "")
