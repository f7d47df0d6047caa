"""Lists that were made by adding lists."""

from __future__ import annotations

import tracemalloc
from functools import reduce
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cel.concatenation import CHUNK_ITEMS_MAX, AnyList, ConcatenatedList, concatenated
from apiserver.cel.json_values import JsonValues
from apiserver.cel.values import CostExceeded, MapList, SetList, UInt, equal, extent, identity, type_name
from tests.unit.cel.library_support import evaluate

# From no items to more than some chunks have.
LENGTHS: Final = st.lists(st.integers(0, 3 * CHUNK_ITEMS_MAX), min_size=1, max_size=12)
LONG: Final = list(range(CHUNK_ITEMS_MAX + 32))


def lists_of(lengths: list[int]) -> list[list[int]]:
    """Returns lists of these lengths, whose items are numbered throughout."""
    ends = [sum(lengths[: place + 1]) for place in range(len(lengths))]
    return [list(range(end - length, end)) for end, length in zip(ends, lengths, strict=True)]


@given(lengths=LENGTHS, is_left_first=st.booleans(), data=st.data())
def test_a_concatenated_list_has_the_items_of_all(
    lengths: list[int], is_left_first: bool, data: st.DataObject
) -> None:
    lists: list[AnyList] = [*lists_of(lengths)]
    if is_left_first:
        made = reduce(concatenated, lists)
    else:
        made = reduce(lambda rest, each: concatenated(each, rest), reversed(lists))
    items = list(range(sum(lengths)))
    assert list(made) == items
    assert len(made) == len(items)
    assert equal(made, items)
    assert equal(items, made)
    at = data.draw(st.integers(-len(items) - 2, len(items) + 2))
    if -len(items) <= at < len(items):
        assert made[at] == items[at]
    else:
        with pytest.raises(IndexError):
            made[at]
    start, stop = data.draw(st.integers(-2, len(items) + 2)), data.draw(st.integers(-2, len(items) + 2))
    step = data.draw(st.sampled_from([None, 1, -1, 2, -3]))
    assert made[start:stop:step] == items[start:stop:step]
    assert made[::-1] == items[::-1]
    below = -len(items) - 1
    for step in (-3, -1, 2):
        assert made[below::step] == items[below::step]
        assert made[:below:step] == items[:below:step]
    assert (at in made) is (at in items)


@given(lengths=LENGTHS)
def test_two_chunks_beside_each_other_have_more_items_than_a_chunk_may_copy(lengths: list[int]) -> None:
    lists: list[AnyList] = [*lists_of(lengths)]
    made = reduce(concatenated, lists)
    if isinstance(made, ConcatenatedList):
        sizes = [len(chunk) for chunk in made.chunks]
        assert all(a + b > CHUNK_ITEMS_MAX for a, b in pairwise(sizes))
        assert 0 not in sizes
    else:
        assert len(made) <= CHUNK_ITEMS_MAX or len(lengths) == 1


EXPRESSIONS: Final[dict[str, Any]] = {
    "a + a == b": True,
    "b == a + a": True,
    "a + a != b + [1]": True,
    "size(a + a)": 2 * len(LONG),
    "(a + a)[200]": LONG[200 - len(LONG)],
    "(a + a)[?1000].hasValue()": False,
    "(a + a).first().value()": 0,
    "(a + a).last().value()": LONG[-1],
    "(a + a).all(x, x in b)": True,
    "7 in (a + a)": True,
    "[1] in (a + a)": False,
    "a in [a + [], b + []]": True,
    "(a + a).map(x, x).size()": 2 * len(LONG),
    "(a + a).exists_one(i, x, i == 160 && x == 0)": True,
    "(a + a).slice(150, 170) == a.slice(150, 160) + a.slice(0, 10)": True,
    "(a + a).reverse()[0]": LONG[-1],
    "(a + a).distinct() == a": True,
    "(a + a).sort()[2]": 1,
    "(a + a).sortBy(x, -x)[2]": LONG[-2],
    "[a + a, a].flatten() == b + a": True,
    "(a + a).isSorted()": False,
    "(a + a).sum()": 2 * sum(LONG),
    "(a + a).min() + (a + a).max()": LONG[-1],
    "(a + a).indexOf(3)": 3,
    "(a + a).lastIndexOf(3)": len(LONG) + 3,
    "sets.contains(a + a, a) && sets.equivalent(a + a, b) && sets.intersects(b, a + a)": True,
    "(a.map(x, 'x') + a.map(x, 'y')).join('')": "x" * len(LONG) + "y" * len(LONG),
    "'%s'.format([a + a]) == '%s'.format([b])": True,
    "type(a + a) == list": True,
    "optional.ofNonZeroValue(a + a).hasValue()": True,
    "(a.map(x, optional.of(x)) + a.map(x, optional.none())).unwrapOpt() == a": True,
    "dyn(a + a) == dyn(b)": True,
    "dyn(a + a) + dyn(a) == dyn(b + a)": True,
}


@pytest.mark.parametrize(("expression", "value"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_functions_take_a_concatenated_list_as_any_list(expression: str, value: Any) -> None:
    assert equal(evaluate(expression, {"a": LONG, "b": [*LONG, *LONG]}).value, value)


def test_a_concatenated_list_is_a_value_like_any_list() -> None:
    made, items = concatenated(LONG, LONG), [*LONG, *LONG]
    assert type_name(made) == "list"
    assert identity(made) == identity(items)
    assert extent([made]) == extent([items])
    assert JsonValues(1 << 20).of({"a": made}) == {"a": items}
    assert equal(SetList(items[::-1]), made)
    assert not equal(made, [*items[:-1], UInt(1)])


def test_a_list_keeps_the_rules_of_its_schema_when_a_concatenated_one_is_added() -> None:
    variables = {"s": SetList([1, -1]), "m": MapList([{"k": 1}], ("k",)), "a": LONG}
    added = evaluate("s + (a + a)", variables).value
    assert type(added) is SetList
    assert added == [1, -1, *(item for item in [*LONG, *LONG] if item not in (1, -1))]
    joined = evaluate("m + (a + a).map(x, {'k': x})", variables).value
    assert type(joined) is MapList
    assert len(joined) == 1 + 2 * len(LONG) - 2


# A hundred kilobytes of the same, as far as the memory of what it makes is concerned.
LITERAL: Final = ",".join(["0"] * 30_000)
ENTRIES: Final = ",".join(f"'{number}': 0" for number in range(8_000))
HUNGRY: Final = {
    "a list added to a long one, again and again": "lists.range(30000).map(x, a + [x]).size()",
    "a list added to a short one, again and again": "lists.range(60000).map(x, s + [x]).size()",
    "lists of a schema, added again and again": "lists.range(30000).map(x, m + m).size()",
    "a literal of many constants": f"lists.range(30000).map(x, [x, {LITERAL}]).size()",
    "a map of many constants": f"lists.range(30000).map(x, {{'x': x, {ENTRIES}}}).size()",
}
MEMORY_MAX: Final = 64 << 20


@pytest.mark.parametrize("expression", HUNGRY.values(), ids=HUNGRY)
def test_the_cost_limit_bounds_the_memory_of_an_expression(expression: str) -> None:
    variables = {
        "a": list(range(60_000)),
        "s": [0] * 100,
        "m": MapList([{"k": item} for item in range(5_000)], ("k",)),
    }
    tracemalloc.start()
    try:
        with pytest.raises(CostExceeded):
            evaluate(expression, variables)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX
    finally:
        tracemalloc.stop()
