"""Values that the servers of a process share."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from apiserver.catalogue.shared_values import SharedValues


def test_threads_that_want_one_value_together_get_the_same() -> None:
    values: SharedValues[str, object] = SharedValues(8)
    together = threading.Barrier(8)

    def get(_: int) -> object:
        together.wait()
        return values.get("a", object)

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(get, range(8)))) == 1


def test_the_first_one_is_dropped_when_there_are_too_many() -> None:
    made: list[int] = []
    values: SharedValues[int, None] = SharedValues(2)

    def get(key: int) -> None:
        values.get(key, lambda: made.append(key))

    for key in (1, 2, 1, 3, 2, 3, 1):
        get(key)
    assert made == [1, 2, 3, 1]


def test_what_cannot_be_made_drops_nothing_and_is_tried_again() -> None:
    def fail() -> int:
        raise ValueError("not now")

    values: SharedValues[str, int] = SharedValues(1)
    assert values.get("a", lambda: 1) == 1
    with pytest.raises(ValueError, match="not now"):
        values.get("b", fail)
    assert values.get("a", fail) == 1
    assert values.get("b", lambda: 2) == 2
