"""Duplicates in lists of the types `set` and `map`."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from .samples import (
    KEEPS_UNKNOWN,
    LIST_TYPE,
    RESOURCE,
    TEXT,
    WHOLE,
    Problem,
    by_key,
    field,
    items,
    of,
    problems_of,
    values,
)

SET: Final = items(TEXT, **{LIST_TYPE: "set"})
ANY_SET: Final = items(KEEPS_UNKNOWN | {"nullable": True}, **{LIST_TYPE: "set"})
MAP: Final = by_key(of(k=TEXT, v=TEXT), "k")
MAP_OF_TWO: Final = by_key(of(b=WHOLE, a=TEXT), "b", "a")


def twice(at: str, value: str) -> Problem:
    return (at, "Duplicate", f"Duplicate value: {value}")


# Row E15.
LISTS: Final[dict[str, tuple[dict[str, Any], Any, list[Problem]]]] = {
    "a set": (SET, ["a", "b"], []),
    "the same twice": (SET, ["a", "b", "a"], [twice("v[2]", '"a"')]),
    "three times is told once": (SET, ["a", "a", "a"], [twice("v[1]", '"a"')]),
    "1 is neither true nor a text": (ANY_SET, [1, True, "1", None, [1]], []),
    "objects": (ANY_SET, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [twice("v[1]", '{"a":1,"b":2}')]),
    "null": (ANY_SET, [None, None], [twice("v[1]", "null")]),
    "a key": (MAP, [{"k": "1"}, {"k": "2"}, {"k": "1", "v": "x"}], [twice("v[2]", '{"k":"1"}')]),
    "no key": (MAP, [{"v": "x"}, {"v": "y"}], [twice("v[1]", "{}")]),
    "two keys": (MAP_OF_TWO, [{"a": "x", "b": 1}, {"a": "x", "b": 2}], []),
    "two keys, both the same": (
        MAP_OF_TWO,
        [{"a": "x", "b": 1}, {"b": 1, "a": "x"}],
        [twice("v[1]", '{"a":"x","b":1}')],
    ),
    "one of two keys": (MAP_OF_TWO, [{"b": 1}, {"b": 1}], [twice("v[1]", '{"b":1}')]),
    "in maps, whose keys are told as keys": (values(SET), {"k": ["a", "a"]}, [twice("v[k][1]", '"a"')]),
    "in keyed items": (
        by_key(of(k=TEXT, s=SET), "k"),
        [{"k": "1", "s": ["a", "a"]}, {"k": "1"}],
        [twice("v[1]", '{"k":"1"}'), twice("v[0].s[1]", '"a"')],
    ),
    "lists that do not say their type": (items(TEXT), ["a", "a"], []),
}


@pytest.mark.parametrize(("schema", "value", "expected"), LISTS.values(), ids=LISTS)
def test_repeated_items(schema: dict[str, Any], value: Any, expected: list[Problem]) -> None:
    assert problems_of(field(schema).validate({"v": value})) == expected


def test_items_of_a_map_are_objects() -> None:
    assert problems_of(field(MAP).validate_parts({"v": [{"k": "1"}, "x", {"k": "1"}]})) == [
        ("v[1]", "Invalid", 'Invalid value: "x": must be an object for an array of list-type map')
    ]


def test_an_object_that_had_repetitions_may_keep_and_gain_some() -> None:
    custom = field(SET)
    assert custom.validate({"v": ["b", "b"]}, {"v": ["a", "a"]}) == []
    assert [error.field for error in custom.validate({"v": ["b", "b"]}, {"v": ["b"]})] == ["v[1]"]


def test_long_lists_take_no_longer_than_they_are() -> None:
    custom = field(MAP)
    start = time.process_time()
    assert custom.validate({"v": [{"k": str(index)} for index in range(100_000)]}) == []
    assert time.process_time() - start < 5


def test_the_order_of_all() -> None:
    custom = field(of(r=RESOURCE | KEEPS_UNKNOWN, s=SET, n=WHOLE))
    found = problems_of(custom.validate({"v": {"s": ["a", "a"], "r": {"kind": "A"}, "n": "x"}}))
    assert [at for at, _, _ in found] == ["v.n", "v.r.apiVersion", "v.s[1]"]
