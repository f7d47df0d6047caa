"""What evaluating costs, to the unit. Rows R32-R36.

The figures are those of cel-go's own tests (interpreter/runtimecost_test.go), unless a comment counts them.
Kubernetes sets two things otherwise (k8s.io/apiserver pkg/cel/environment/base.go): `has()` costs its
operand; what is constant is made before, and costs nothing (cel-go interpreter/decorators.go, decOptimize).
"""

from __future__ import annotations

import time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cel import types
from apiserver.cel.compiler import Program
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cel.environment import Environment
from apiserver.cel.library.comprehensions import BINDINGS, TWO_VARIABLES
from apiserver.cel.library.optionals import OPTIONALS
from apiserver.cel.library.standard import STANDARD
from apiserver.cel.types import Field
from apiserver.cel.values import CostExceeded, EvaluationError, SetList

OBJECT: Final = types.object_of("Object", {"f": Field("f", types.INT), "m": Field("m", types.MAP_DYN)})
VARIABLES: Final = {
    "a": types.BOOL,
    "b": types.BOOL,
    "x": types.INT,
    "s": types.STRING,
    "t": types.STRING,
    "data": types.BYTES,
    "l": types.list_of(types.INT),
    "k": types.list_of(types.list_of(types.INT)),
    "m": types.map_of(types.STRING, types.STRING),
    "o": OBJECT,
    "objects": types.map_of(types.STRING, OBJECT),
    "d": types.DYN,
    "when": types.TIMESTAMP,
}
ENVIRONMENT: Final = Environment(
    VARIABLES, [STANDARD, OPTIONALS, TWO_VARIABLES, BINDINGS], messages={"Object": OBJECT}
)


def program(text: str) -> Program:
    return ENVIRONMENT.program(ENVIRONMENT.check(text))


def cost(text: str, values: dict[str, Any]) -> int:
    return program(text)(values).cost


# sentence: expression, values, cost
COSTS: Final[dict[str, tuple[str, dict[str, Any], int]]] = {
    "a constant": ("'Hello World!'", {}, 0),
    "a variable": ("l", {"l": [1, 2]}, 1),
    "a type's name is a constant": ("type(x) == int", {"x": 1}, 3),
    "a key": ("m['key']", {"m": {"key": "v"}}, 2),
    "an index": ("l[0]", {"l": [1]}, 2),
    "a field": ("o.f", {"o": {"f": 1}}, 2),
    "a key that is computed": ("m['ke' + 'y']", {"m": {"key": "v"}}, 3),
    "an index that is computed": ("l[3-3]", {"l": [1]}, 3),
    # cel-go resolves it as part of the selection: only the selections count, and where they begin.
    "an index that is a variable": ("l[x]", {"l": [1], "x": 0}, 2),
    "an index that is a field": ("l[o.f]", {"l": [1], "o": {"f": 0}}, 3),
    "of what is no name a selection is one more": ("{'a': {'b': x}}.a.b", {"x": 1}, 30 + 30 + 1 + 1 + 1 + 1),
    "a presence": ("has(o.f)", {"o": {"f": 1}}, 1),
    "a presence below another field": ("has(o.m.x)", {"o": {"m": {"x": "0"}}}, 2),
    "a list": ("[x, 2, 3]", {"x": 1}, 1 + 10),
    "a map": ("{'a': x, 'b': 2, 'c': 3}", {"x": 1}, 1 + 30),
    "a message": ("Object{f: 1}", {}, 40),
    "all of nothing": ("l.all(x, true)", {"l": []}, 2),
    "all within all, of nothing": ("k.all(x, x.all(y, true))", {"k": []}, 2),
    "all of a literal": ("[x, 2, 3].all(y, true)", {"x": 1}, 1 + 20),
    # A turn: 2 for the test, 1 for the accumulator, 2 for the condition; 2 for the test that ends it.
    "all that ends early": ("l.all(x, x < 1)", {"l": [1, 2, 3]}, 1 + 5 + 2 + 1),
    "all that ends with the last": ("l.all(x, x < 1)", {"l": [1]}, 1 + 5 + 1),
    # A turn: 3 for the test.
    "exists": ("l.exists(x, x < 1)", {"l": [1, 2]}, 1 + 2 * 6 + 1),
    "exists that ends early": ("l.exists(x, x > 0)", {"l": [1, 2]}, 1 + 6 + 3 + 1),
    # 2 for counting one, 2 for comparing the count.
    "exists_one": ("l.exists_one(x, x > 1)", {"l": [1, 2]}, 1 + 2 * 2 + 2 + 2),
    # 12 for adding one, of which 10 are for the list that it is added as. That they begin with is constant.
    "map": ("l.map(x, x + 1)", {"l": [1, 2]}, 1 + 2 * (12 + 2) + 1),
    "map to a constant": ("l.map(x, 1)", {"l": [1, 2]}, 1 + 2 * 2 + 1),
    "map with a condition": ("l.map(x, x > 1, x)", {"l": [1, 2]}, 1 + 2 * 2 + 12 + 1 + 1),
    "filter": ("l.filter(x, x > 1)", {"l": [1, 2]}, 1 + 2 * 2 + 13 + 1),
    "transformMap": ("l.transformMap(i, v, v)", {"l": [1, 2]}, 1 + 2 * (3 + 1) + 1),
    "a binding is a loop over an empty list": ("cel.bind(y, x, 1)", {"x": 1}, 0),
    "a binding that is used twice is evaluated once": ("cel.bind(y, x + 1, y + y)", {"x": 1}, 2 + 3),
    "a pattern": ("s.matches('[0-9]')", {"s": "a" * 500}, 103),
    "a pattern for a constant": ("'123'.matches('[0-9]')", {}, 2),
    "a longer pattern": (r"s.matches('\\d+a\\d+b')", {"s": "a" * 500}, 103),
    "or": ("false || false", {}, 0),
    "or that ends early": ("true || x > 1", {}, 0),
    "or of variables": ("a || b || a || b", {"a": False, "b": False}, 4),
    "and": ("true && false", {}, 0),
    "and of variables": ("a && b && a && b", {"a": True, "b": True}, 4),
    "and that ends early": ("a && b && a && b", {"a": True, "b": False}, 2),
    "not": ("!a", {"a": True}, 2),
    "less": ("1 < 2", {}, 1),
    "equal": ("1 == 2", {}, 1),
    "in a list": ("2 in [x, 2, 3]", {"x": 1}, 1 + 13),
    "in a map": ("'a' in m", {"m": {"a": "b"}}, 2),
    "arithmetic": ("1 + 1 - 1 * 1 / 1 % 1", {}, 5),
    "a choice": ("true ? 1 : 2", {}, 0),
    "the other branch": ("true ? false : 1 > 3", {}, 0),
    "the branch that is taken": ("false ? false : 1 > 3", {}, 1),
    "a branch that is a name costs nothing": ("(x > 2 ? l : l).all(y, true)", {"x": 1, "l": [1]}, 6),
    "a branch that is a field costs the field": ("a ? o.f : 1", {"a": True, "o": {"f": 1}}, 2),
    "a choice as an operand": ("(1 > 2 ? 5 : 3) > 1", {}, 2),
    "truth as an operand": ("(1 > 2 || 2 > 1) == true", {}, 3),
    "a size": ("size('123')", {}, 1),
    "a size as a method": ("s.size()", {"s": "500"}, 2),
    "texts by the shorter": ("'12345678901234567890' == '123456789012345678901234567890'", {}, 2),
    "an empty text": ("s == 'abc'", {"s": ""}, 1),
    "lists by the shorter": ("l == [1]", {"l": list(range(50))}, 1 + 1),
    "bytes to text": ("string(data)", {"data": b"a" * 500}, 51),
    "text to bytes": ("bytes(s)", {"s": "a" * 500}, 51),
    "a number to text": ("string(x)", {"x": 1}, 2),
    "contains": ("s.contains(t)", {"s": "a" * 500, "t": "b" * 500}, 2502),
    "startsWith": ("s.startsWith(t)", {"s": "idc", "t": "a" * 500}, 3),
    "endsWith": ("s.endsWith(t)", {"s": "idc", "t": "a" * 500}, 3),
    "a part of a time": ("when.getFullYear()", {"when": 0}, 2),
    "values of a map": ("objects.all(k, objects[k].f > 3)", {"objects": {"val": {"f": 0}}}, 9),
    "lists that are added": ("(l + l).all(x, true)", {"l": []}, 4),
    "texts that are added": ("'abcdefg'.contains(s + t)", {"s": "val1", "t": "val2222222"}, 6),
    "maps in a list": ("[{'k1': 1}, {'k2': x}].all(x, true)", {"x": 2}, 1 + 77 - 30),
    "lists and maps of constants": ("[{'a': 1}, {'b': 2}] == [{'a': 1}, {}]", {}, 1),
    "conversions of constants": ("duration('1h') > duration(string('1') + 'm')", {}, 1 + 1 + 1),
    "a conversion whatever the type": ("int(dyn('12')) + int(dyn(1u))", {}, 1),
    "a conversion of what is computed": ("int('1' + '2')", {}, 1 + 1),
    "in a list of constants": ("s in ['a', 'b']", {"s": "b"}, 1),
    "in a list of nothing": ("s in []", {"s": "b"}, 0),
    "in a list of lists": ("l in [[1], [2], [3]]", {"l": [9]}, 1 + 3),
    # cel-go cel/library.go: `or` is no call, and neither is what is not asked for.
    "an alternative that is needed": ("optional.none().orValue(x)", {"x": 1}, 1 + 1),
    "an alternative that is not": ("optional.of(x).orValue(x + x)", {"x": 1}, 2),
    "another optional value": ("optional.none().or(optional.of(x))", {"x": 1}, 1 + 2),
    "an optional value that is there": ("optional.of(x).or(optional.of(x))", {"x": 1}, 2),
    "a key that is there": ("m.?k.hasValue()", {"m": {"k": "v"}}, 2 + 1),
    "a key that is not there": ("m.?k.hasValue()", {"m": {}}, 1 + 1),
    "an index that is not there": ("l[?9].hasValue()", {"l": []}, 1 + 1),
    # hasValue(), value() and optional.of(); what it is called on is evaluated for each of the first two.
    "an optional value that is mapped": ("m.?k.optMap(v, 1).hasValue()", {"m": {"k": "v"}}, 2 + 1 + 1 + 1),
    "one whose value is used": ("m.?k.optMap(v, v)", {"m": {"k": "v"}}, 2 * 2 + 3 + 1),
    "one that is not there": ("m.?k.optMap(v, v)", {"m": {}}, 1 + 1 + 1),
    # Where cel-go takes one: it does not copy.
    "long lists that are added are copied": ("size(l + l)", {"l": [0] * 320}, 2 + 1 + 640 // 32 + 1),
    "long lists that are compared are read": ("d == d", {"d": {"a": [0] * 320}}, 2 + 1 + (321 - 8) // 4),
}


@pytest.mark.parametrize(("text", "values", "want"), COSTS.values(), ids=COSTS)
def test_what_an_evaluation_costs(text: str, values: dict[str, Any], want: int) -> None:
    assert cost(text, values) == want


@pytest.mark.parametrize(("text", "values", "want"), COSTS.values(), ids=COSTS)
def test_a_budget_of_the_cost_is_enough_and_less_is_not(text: str, values: dict[str, Any], want: int) -> None:
    run = program(text)
    assert run(values, budget=want).cost == want
    if want:
        with pytest.raises(CostExceeded):
            run(values, budget=want - 1)


@given(st.lists(st.integers(0, 99)), st.integers(0, 99))
def test_the_same_rule_and_values_cost_the_same_each_time(numbers: list[int], limit: int) -> None:
    run = program("l.all(y, y < x || l.exists(z, z == y)) && l.map(y, y > x, y).size() >= 0")
    values = {"l": numbers, "x": limit}
    assert run(values) == run(values)


ENDLESS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "loops within loops": (
        "l.all(a, l.all(b, l.all(c, l.all(d, l.all(e, a + b + c + d + e >= 0)))))",
        {"l": list(range(100))},
    ),
    "a list that doubles": ("[l]" + ".map(y, y + y)" * 100 + ".size() > 0", {"l": [1]}),
    "a text that doubles": ("[s]" + ".map(y, y + y)" * 100 + ".size() > 0", {"s": "a"}),
    "a long list again and again": ("l.all(x, (l + l).size() > 0)", {"l": [0] * 100_000}),
    "a long pattern again and again": (
        "l.all(x, s.matches('[a-z]+'))",
        {"l": [0] * 100_000, "s": "a" * 10_000},
    ),
    "a large value again and again": ("l.all(x, d == d)", {"l": [0] * 100_000, "d": {"a": [0] * 100_000}}),
    "texts in a long list": ("l.all(x, !(s in d))", {"l": [0] * 100_000, "s": "a", "d": ["b"] * 100_000}),
}


@pytest.mark.parametrize(("text", "values"), ENDLESS.values(), ids=ENDLESS)
def test_expensive_evaluations_end_by_their_cost(text: str, values: dict[str, Any]) -> None:
    with pytest.raises(CostExceeded, match="operation cancelled: actual cost limit exceeded"):
        program(text)(values)


# What a call has cost that came to nothing, or with an argument that did, or with one of another type.
FAILED: Final[dict[str, tuple[str, dict[str, Any], int]]] = {
    "a text that is no number": ("int(s)", {"s": "x"}, 2),
    "a pattern that is none": ("s.matches(t)", {"s": "x" * 99, "t": "["}, 2 + 10),
    "bytes that are no text": ("string(data)", {"data": b"\xff" * 100}, 1 + 10),
    "a field that is not there": ("o.f == 1", {"o": {}}, 2 + 1),
    "a text that is not there": ("m.x == 'abc'", {"m": {}}, 2 + 1),
    "a prefix of what is not there": ("m.x.startsWith('abc')", {"m": {}}, 2 + 1),
    "no such function for the value": ("d.startsWith('abc')", {"d": 1}, 1 + 1),
    "a value that is not of its type": ("x + 1 > 0", {"x": "a"}, 3),
    "each turn of a loop": ("l.all(y, 1 / y > 1 || s == 'b')", {"l": [0, 0], "s": "a"}, 2 + 2 * (3 + 3 + 2)),
}


@pytest.mark.parametrize(("text", "values", "want"), FAILED.values(), ids=FAILED)
def test_an_error_has_the_cost_up_to_it(text: str, values: dict[str, Any], want: int) -> None:
    with pytest.raises(EvaluationError) as caught:
        program(text)(values)
    assert caught.value.cost == want


def test_an_error_beyond_the_budget_is_cost_exceeded() -> None:
    with pytest.raises(CostExceeded):
        program("m.x == 'abc'")({"m": {}}, budget=2)


LARGE: Final = "1" * 1_000_000
# Calls that fail after they have looked at all of a large value.
FAILING: Final = {
    "a duration": ("duration(s) == duration('1s')", {"s": LARGE}),
    "a number": ("double(s) == 1.0", {"s": LARGE + "x"}),
    "a text": ("string(data) == 'a'", {"data": b"1" * 1_000_000 + b"\xff"}),
    "a pattern": ("'a'.matches(s)", {"s": "(a|b" * 250_000}),
    # As many as may be compared, and one more.
    "what is too large to compare": ("d == d + [1]", {"d": [[0] * 1_000] * 2_200}),
    "a set of what is large": ("d == [1]", {"d": SetList([{str(key): key for key in range(200_000)}])}),
    "a set that is added to": ("d + [x] == [1]", {"d": SetList([{str(key): 1 for key in range(200_000)}])}),
}


@pytest.mark.parametrize(("text", "values"), FAILING.values(), ids=FAILING)
def test_failing_is_not_free(text: str, values: dict[str, Any]) -> None:
    started = time.process_time()  # whatever else the machine does
    with pytest.raises(CostExceeded):
        program(f"l.all(x, {text} || true)")({"l": [0] * 200_000, **values}, budget=PER_CALL_LIMIT // 5)
    assert time.process_time() - started < 2


def test_values_that_are_nested_in_themselves_are_not_compared_without_end() -> None:
    # Each turn doubles what comparing takes, and hardly what making does.
    nested = "[[1]]" + ".map(y, [y, y])" * 40
    with pytest.raises((EvaluationError, CostExceeded)):
        program(f"dyn({nested}) == dyn({nested})")({})
