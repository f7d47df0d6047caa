"""What expressions could cost at most, given the sizes that a schema allows. Rows R32, R35.

The figures are those of Kubernetes' own tests (k8s.io/apiextensions-apiserver,
pkg/apiserver/schema/cel/compilation_test.go), unless a comment counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from apiserver.cel.cost_estimate import estimate
from apiserver.cel.environment import Environment
from apiserver.cel.library.comprehensions import BINDINGS
from apiserver.cel.library.kubernetes import KUBERNETES
from apiserver.custom_resources.rules.schema_types import SchemaTypes
from apiserver.schema.extensions import Extensions

Schema = dict[str, Any]
UNLIMITED: Final = None


def worst_cost(schema: Schema, rule: str) -> int:
    type_ = SchemaTypes(Extensions("kubernetes")).of(schema, "self")
    assert type_ is not None
    environment = Environment({"self": type_, "oldSelf": type_}, (*KUBERNETES, BINDINGS))
    return estimate(environment.check(rule).node, type_).high


def scalar(kind: str) -> Schema:
    if kind == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    if kind in {"byte", "date", "date-time", "duration"}:
        return {"type": "string", "format": kind}
    return {"type": kind}


def limited(schema: Schema, name: str, limit: int | None) -> Schema:
    return schema if limit is None else {**schema, name: limit}


def text(limit: int | None, **more: Any) -> Schema:
    return limited({"type": "string", **more}, "maxLength", limit)


def array_of(items: Schema) -> Callable[[int | None], Schema]:
    return lambda limit: limited({"type": "array", "items": items}, "maxItems", limit)


def map_of(values: Schema) -> Callable[[int | None], Schema]:
    return lambda limit: limited({"type": "object", "additionalProperties": values}, "maxProperties", limit)


def object_of(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


REQUIRED: Final = {
    "type": "object",
    "required": ["required"],
    "properties": {"required": {"type": "string"}, "optional": {"type": "string"}},
}

# The rule, the schema by its limit, the cost without one, a limit, the cost with it.
Case = tuple[str, Callable[[int | None], Schema], int, int, int]
CASES: Mapping[str, Case] = {
    "a loop over numbers": ("self.all(x, true)", array_of(scalar("number")), 4718591, 10, 32),
    "a loop over strings": ("self.all(x, true)", array_of(scalar("string")), 3145727, 20, 62),
    "a loop over booleans": ("self.all(x, true)", array_of(scalar("boolean")), 1887437, 5, 17),
    "a loop over lists": ("self.all(x, true)", array_of(array_of(scalar("number"))(None)), 3145727, 100, 302),
    "a loop over durations": ("self.all(x, true)", array_of(scalar("duration")), 2359295, 5, 17),
    "a loop over dates": ("self.all(x, true)", array_of(scalar("date")), 725936, 15, 47),
    "a loop over times": ("self.all(x, true)", array_of(scalar("date-time")), 428963, 25, 77),
    "a loop over ints or strings": ("self.all(x, true)", array_of(scalar("int-or-string")), 4718591, 10, 32),
    "a loop over objects counts required fields": ("self.all(x, true)", array_of(REQUIRED), 555128, 50, 152),
    "a loop over a map of numbers": ("self.all(x, true)", map_of(scalar("number")), 1348169, 10, 32),
    "a loop over a map of strings": ("self.all(x, true)", map_of(scalar("string")), 1179647, 3, 11),
    "a loop over a map of booleans": ("self.all(x, true)", map_of(scalar("boolean")), 943718, 100, 302),
    "a loop over a map of times": ("self.all(x, true)", map_of(scalar("date-time")), 349526, 25, 77),
    "a loop in a loop": ("self.all(x, self.all(y, true))", array_of(scalar("string")), -1, 10, 352),
    "three loops": ("self.all(x, self.all(y, self.all(z, true)))", array_of(scalar("number")), -1, 10, 3552),
    "a comparison in a loop": (
        "self.all(x, x == 0.0)",
        array_of(scalar("number")),
        6291454,
        3 * 1024 * 2048,
        25165826,
    ),
    "contains": ("self.contains('test')", text, 314574, 10, 5),
    "startsWith reads the prefix": ("self.startsWith('test')", text, 2, 15, 2),
    "endsWith reads the suffix": ("self.endsWith('test')", text, 2, 30, 2),
    "a concatenation": ("size(self + 'hello') > size('hello')", text, 314578, 4, 7),
    "a match": ("self.matches('x')", text, 314574, 50, 22),
    "a match of nothing": ("''.matches('(((((((((())))))))))[0-9]')", text, 7, 10, 7),
    "a match with nothing": ("self.matches('')", text, 1, 100, 1),
    "an equality reads the shorter text": ("self == 'x'", text, 2, 0, 1),
    "an equality of bytes": ("self == b'x'", lambda limit: text(limit, format="byte"), 2, 0, 1),
    "numbers have no size": ("self[1] == 0.0", array_of(scalar("number")), 2, 5000, 2),
    "objects have no size": ("self[0] == null", array_of(object_of()), 2, 422, 2),
    "items may be as long as their schema lets them": (
        "self[1] == self[1]",
        array_of(scalar("string")),
        314577,
        8,
        314577,
    ),
    "values of maps, too": (
        "self.all(x, x.contains(self[x]))",
        lambda limit: limited(map_of(text(limit))(None), "maxProperties", limit),
        2752507,
        10,
        72,
    ),
    "an int or a string": ("self[0] == 5", array_of(scalar("int-or-string")), 3, 10, 3),
    "an item of an item": ("self[0][0] == -1.0", array_of(array_of(scalar("number"))(None)), 3, 51, 3),
    "a field in a loop": (
        "self.all(x, x.y == 25.2)",
        array_of(map_of(scalar("number"))(None)),
        6291452,
        12,
        74,
    ),
    "a method": ("self[0].getHours() == 2", array_of(scalar("duration")), 4, 525, 4),
    "the old value has the same sizes": (
        "oldSelf.size() == self.size()",
        map_of(scalar("integer")),
        5,
        10,
        5,
    ),
    "times are compared as text": ("self['a'] == self['b']", map_of(scalar("date-time")), 8, 7, 8),
    "an enumeration has its longest value": (
        "self.contains('A')",
        lambda limit: text(limit, enum=["A", "B", "C", "LongValue"]),
        2,
        1000,
        401,
    ),
    # One for reading self, none for asking.
    "has() costs nothing": ("has(self.x)", map_of(scalar("number")), 1, 100, 1),
}


@pytest.mark.parametrize(("rule", "schema", "cost", "limit", "limited_cost"), CASES.values(), ids=CASES)
def test_the_worst_cost_of_a_rule(
    rule: str, schema: Callable[[int | None], Schema], cost: int, limit: int, limited_cost: int
) -> None:
    if cost >= 0:
        assert worst_cost(schema(UNLIMITED), rule) == cost
    else:
        assert worst_cost(schema(UNLIMITED), rule) > 10**12
    assert worst_cost(schema(limit), rule) == limited_cost


# k8s.io/apiextensions-apiserver v0.36.3: the longest lists that were accepted within 10,000,000.
PER_ITEM: Final = {16: 11, 63: 30, 253: 106, 1024: 414}


@pytest.mark.parametrize(("length", "cost"), PER_ITEM.items())
def test_each_item_of_a_loop_costs_by_its_longest_value(length: int, cost: int) -> None:
    def worst(items: int) -> int:
        return worst_cost(array_of(text(length))(items), "self.all(x, x.contains('gpu'))")

    assert worst(1001) - worst(1000) == cost


THREE: Final = array_of(text(8))(3)  # items of up to 32 bytes
# Counted as cel-go expands the macros; every one reads self (1).
MACROS: Mapping[str, tuple[str, int]] = {
    # Each turn: @not_strictly_false(!accumulator) 3, accumulator 1; the result 1.
    "exists": ("self.exists(x, true)", 1 + 3 * 4 + 1),
    # Each turn: accumulator + 1; the result == 1.
    "exists_one": ("self.exists_one(x, true)", 1 + 3 * 2 + 2),
    # An empty list 10; each turn: accumulator + [x]; then size() 1, comparing 1.
    "filter": ("self.filter(x, true).size() == 1", 1 + 10 + 3 * 13 + 1 + 2),
    "map": ("self.map(x, x).size() == 1", 1 + 10 + 3 * 13 + 1 + 2),
    "map with a condition": ("self.map(x, true, x).size() == 1", 1 + 10 + 3 * 13 + 1 + 2),
    "transformList": ("self.transformList(i, x, x).size() == 1", 1 + 10 + 3 * 13 + 1 + 2),
    # An empty map 30; each turn: @mapInsert(accumulator, i, x).
    "transformMap": ("self.transformMap(i, x, x).size() == 1", 1 + 30 + 3 * 4 + 1 + 2),
    # The list has as many items as the one it is made of.
    "a loop over what a loop made": ("self.filter(x, true).all(x, true)", 1 + 10 + 3 * 13 + 1 + 3 * 3 + 1),
    # Of which the dearer side counts: x == x reads 32 bytes.
    "a choice": ("self.size() > 1 ? self[0] == self[1] : true", 1 + 1 + 1 + (2 + 2 + 4)),
    # Both sides may be needed.
    "an and": ("self.size() > 1 && self.size() < 3", 3 + 3),
    # A binding counts as a list of nothing, and its variable has the bound value's size.
    "a binding": ("cel.bind(x, self[0], x == x)", 10 + 2 + 2 + 4),
    "a list": ("[self[0], 'a'].size() == 2", 2 + 10 + 1 + 1),
    "a map": ("{'a': self[0]}.size() == 1", 2 + 30 + 1 + 1),
    # Not by their size, of which nothing is known.
    "quantities are compared at once": ("quantity(self[0]) == quantity('1')", 2 + 1 + 1 + 1),
    "URLs are compared as text": ("url(self[0]) == url(self[1])", (2 + 4) * 2 + 4),
    "a sum of text": ("self.isSorted()", 1 + 3 * (1 + 4)),
    "dyn() hides no size": ("dyn(self[0]) == self[0]", 2 + 1 + 2 + 4),
}


@pytest.mark.parametrize(("rule", "cost"), MACROS.values(), ids=MACROS)
def test_what_macros_cost(rule: str, cost: int) -> None:
    assert worst_cost(THREE, rule) == cost


def test_long_chains_need_no_deep_stack() -> None:
    assert worst_cost(THREE, " + ".join(["1"] * 200) + " > 0") == 200


def test_costs_do_not_overflow() -> None:
    nested = "self.all(a, " * 8 + "true" + ")" * 8
    assert worst_cost(array_of(scalar("number"))(None), nested) == 2**64 - 1
