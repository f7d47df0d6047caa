"""Functions on lists, sets, numbers and values that may be missing. Rows R06, R07, R19.

Sources: cel-go ext; k8s.io/apiserver pkg/cel/library/lists.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cel.library.value_set import ValueSet
from apiserver.cel.syntax import InvalidExpression
from apiserver.cel.values import UInt, equal
from tests.unit.cel.library_support import assert_fails, assert_true, evaluate

TRUE = {
    # k8s.io/apiserver pkg/cel/library/lists.go
    "an empty list is sorted": "[].isSorted()",
    "texts are sorted by code points": "['B', 'a', 'é'].isSorted()",
    "what falls is not sorted": "![1, 3, 2].isSorted()",
    "durations are summed": "[duration('1h'), duration('30m')].sum() == duration('90m')",
    "the sum of uints is a uint": "type([1u, 2u].sum()) == uint",
    "the least of times": "[timestamp('2020-01-02T00:00:00Z'), timestamp('2020-01-01T00:00:00Z')].min() "
    "== timestamp('2020-01-01T00:00:00Z')",
    "the greatest of bools": "[true, false].max()",
    "the first index": "[1, 2, 2].indexOf(2) == 1",
    "the last index": "[1, 2, 2].lastIndexOf(2) == 2",
    "no index": "['a'].indexOf('b') == -1 && [].lastIndexOf(1) == -1",
    "lists in lists are found": "[[1], [2]].indexOf([2]) == 1",
    # cel-go ext/lists.go
    "a slice": "[1, 2, 3, 4].slice(1, 3) == [2, 3]",
    "an empty slice": "[1].slice(1, 1) == []",
    "flat by one level": "[[1], [2, 3], []].flatten() == [1, 2, 3]",
    "flat by two levels": "[[[1]], [[2]]].flatten(2) == [1, 2]",
    "flat by no level": "[[1]].flatten(0) == [[1]]",
    "sorted": "[3, 1, 2].sort() == [1, 2, 3]",
    "sorted by a key": "['bb', 'a', 'ccc'].sortBy(x, -size(x)) == ['ccc', 'bb', 'a']",
    "sorting is stable": "['b', 'a', 'cc'].sortBy(x, size(x)) == ['b', 'a', 'cc']",
    "a range": "lists.range(3) == [0, 1, 2]",
    "an empty range": "lists.range(-1) == []",
    "reversed": "[1, 2].reverse() == [2, 1]",
    "distinct": "[1, 2, 1].distinct() == [1, 2]",
    "distinct lists": "[[1], [1], [2]].distinct() == [[1], [2]]",
    # cel-go ext/sets.go
    "a set has the empty one": "sets.contains([1], []) && sets.contains([], [])",
    "sets are equal whatever is twice": "sets.equivalent([1, 2, 2], [2, 1])",
    "numbers are equal across types": "sets.contains([dyn(1), dyn(2.0)], [dyn(1.0), dyn(2u)])",
    "a bool is no number": "!sets.contains([dyn(1)], [dyn(true)])",
    "sets of lists": "sets.intersects([[1], [2, 3]], [[1, 2], [2, 3]])",
    "nothing meets the empty set": "!sets.intersects([1], [])",
    # cel-go cel/library.go, OptionalTypes
    "the first item": "[1, 2].first().value() == 1 && ![].first().hasValue()",
    "the last item": "[1, 2].last() == optional.of(2)",
    "those with a value": "[optional.of(1), optional.none()].unwrapOpt() == [1]",
    "those with a value, by a function": "optional.unwrap([optional.none(), optional.of(1)]) == [1]",
    "an empty map is zero": "!optional.ofNonZeroValue({}).hasValue()",
    "a quantity is not zero": "optional.ofNonZeroValue(quantity('0')).hasValue()",
    "no duration is zero": "!optional.ofNonZeroValue(duration('0s')).hasValue()",
}


@pytest.mark.parametrize("expression", TRUE.values(), ids=TRUE)
def test_values(expression: str) -> None:
    assert_true(expression)


FAILURES = {
    "[].min()": "min called on empty list",
    "[].max()": "max called on empty list",
    "[9223372036854775807, 1, -1].sum()": "integer overflow",
    "[18446744073709551615u, 1u].sum()": "unsigned integer overflow",
    "[1, 2].slice(0, 3)": "cannot slice(0, 3), list is length 2",
    "[1, 2].slice(-1, 1)": "cannot slice(-1, 1), negative indexes not supported",
    "[1, 2].slice(2, 1)": "cannot slice(2, 1), start index must be less than or equal to end index",
    "[[1]].flatten(-1)": "level must be non-negative",
    "dyn([dyn(1), dyn('a')]).sort()": "list elements must have the same type",
    "optional.none().value()": "optional.none() dereference",
}


@pytest.mark.parametrize(("expression", "message"), FAILURES.items(), ids=FAILURES)
def test_errors(expression: str, message: str) -> None:
    assert_fails(expression, message)


REFUSED = {"[1].sortBy(x.y, 1)": "argument is not an identifier"}


@pytest.mark.parametrize(("expression", "message"), REFUSED.items(), ids=REFUSED)
def test_errors_before_evaluation(expression: str, message: str) -> None:
    with pytest.raises(InvalidExpression, match=message.replace("(", r"\(").replace(")", r"\)")):
        evaluate(expression)


# k8s.io/apiserver pkg/cel/library/cost.go; cel-go ext/lists.go, ext/sets.go. Lists of constants cost nothing.
COSTS = {
    "[1, 2, 3].sum()": 3,
    "['0123456789', '01234567890'].isSorted()": 2,
    "[1, 2].slice(0, 1)": 12,
    "[1, 2].distinct()": 19,
    "['a', 'b'].sort()": 19,
    "lists.range(5)": 16,
    "sets.contains([1, 2], [1])": 3,
    "sets.equivalent([1, 2], [1])": 5,
    "optional.of(1).hasValue()": 2,
}


@pytest.mark.parametrize(("expression", "cost"), COSTS.items(), ids=COSTS)
def test_costs(expression: str, cost: int) -> None:
    assert evaluate(expression).cost == cost


_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.integers(0, 3).map(UInt),
        st.sampled_from([0.0, 1.0, 1.5, float("nan")]),
        st.sampled_from(["", "a", "1"]),
        st.sampled_from([b"", b"a"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.lists(_VALUES, max_size=8), _VALUES)
def test_value_sets_compare_by_equality(items: list[Any], item: Any) -> None:
    assert (item in ValueSet(items)) == any(equal(item, other) for other in items)
