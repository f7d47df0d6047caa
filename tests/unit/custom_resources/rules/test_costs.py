"""What evaluating rules costs. Rows R32, R36.

The figures are those of Kubernetes' own tests (k8s.io/apiextensions-apiserver,
pkg/apiserver/schema/cel/celcoststability_test.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from apiserver.custom_resources.rules.adapt import adapter
from apiserver.custom_resources.rules.compiled import Checker, Rule
from apiserver.custom_resources.rules.types import SchemaTypes
from apiserver.custom_resources.rules.uses import Part
from tests.unit.custom_resources.rules.schemas import (
    INT,
    NUMBER,
    STRING,
    Schema,
    array_of,
    by_key,
    map_of,
    object_of,
)


def text(format_: str) -> Schema:
    return {"type": "string", "format": format_}


SET: Final = array_of(STRING, **{"x-kubernetes-list-type": "set"})
TWO_LISTS: Final = {"a": [1, 2, 3], "b": [1, 2, 3]}
NESTED: Final = {"a": {"b": 1, "d": None}, "a1": {"b1": {"c1": 4}}, "a3": {}}
MAPS: Final = [
    [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}],
    [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}],
    [{"k": "b", "v": "3"}, {"k": "a", "v": "1"}],
    [{"k": "c", "v": "4"}],
]
ITEMS: Final = [
    {"k": "a1", "v": "b1"},
    {"k": "a2", "v": "b2"},
    {"k": "a3", "v": "b3", "v2": "z"},
]

# The properties of self, its value, and rules that hold with what they cost.
GROUPS: Mapping[str, tuple[dict[str, Schema], dict[str, Any], dict[str, int]]] = {
    "integers": (
        {"a": INT, "b": INT},
        {"a": 5, "b": 5},
        {"self.a == self.b": 5, "type(self.a) == int": 4, "self.a + 1 == 5 + 1": 5},
    ),
    "numbers": (
        {"a": NUMBER, "b": NUMBER, "i": INT},
        {"a": 1, "b": 10.0, "i": 5},
        {
            "type(self.a) == double": 4,
            "self.a == 1.0": 3,
            "double(self.i) < self.b": 6,
            "self.i < int(self.b)": 6,
            "double(self.i) < 10.0": 4,
        },
    ),
    "strings": (
        {"s": STRING},
        {"s": "Rook takes \U0001f451"},
        {
            "self.s.startsWith('Rook')": 4,
            "!self.s.startsWith('knight')": 5,
            "self.s.matches('^[^0-9]*$')": 8,
            "!self.s.matches('^[0-9]*$')": 7,
            "type(self.s) == string": 4,
            "size(self.s) == 12": 4,
            "self.s.charAt(3) == 'k'": 4,
            "self.s.indexOf('o') == 1": 4,
            "self.s.indexOf('o', 2) == 2": 4,
            "self.s.replace(' ', 'x') == 'Rookxtakesx\U0001f451'": 7,
            "self.s.substring(5) == 'takes \U0001f451'": 5,
            "self.s.substring(4, 10).trim() == 'takes'": 6,
            "self.s.upperAscii() == 'ROOK TAKES \U0001f451'": 6,
        },
    ),
    "bytes": (
        {"a": text("byte"), "b": text("byte")},
        {"a": "QUI=", "b": "QUI="},
        {
            "self.a == self.b": 5,
            "self.a == b'AB'": 3,
            "type(self.a) == bytes": 4,
            "size(self.a) == 2": 4,
        },
    ),
    "durations": (
        {"d": text("duration")},
        {"d": "1h2m3s4ms"},
        {
            "self.d.getHours() == 1": 4,
            "type(self.d) == google.protobuf.Duration": 4,
        },
    ),
    "times": (
        {"t": text("date-time"), "d": text("date")},
        {"t": "2011-08-18T19:03:37.010000000+01:00", "d": "1997-07-16"},
        {
            "self.t.getDate('01:00') == 18": 4,
            "self.d.getDate() == 16": 4,
        },
    ),
    "enumerations": (
        {"s": {**STRING, "enum": ["Pending", "Available"]}},
        {"s": "Pending"},
        {"self.s == 'Pending'": 3},
    ),
    "conversions": (
        {
            "i": INT,
            "d": NUMBER,
            "f": NUMBER,
            "s": STRING,
            "b": text("byte"),
            "t": text("date-time"),
            "ts": STRING,
        },
        {
            "i": 10,
            "d": 10.0,
            "f": 10.5,
            "s": "10",
            "b": "MTA=",
            "t": "2011-08-18T19:03:37.01+01:00",
            "ts": "2011-08-18T19:03:37.01+01:00",
        },
        {
            "int(self.d) == self.i": 6,
            "bytes(self.s) == self.b": 6,
            "string(self.i) == self.s": 6,
            "string(self.f) == '10.5'": 4,
            "string(self.b) == self.s": 6,
            "timestamp(self.ts) == self.t": 6,
        },
    ),
    "lists": (
        {"a": array_of(INT), "b": array_of(INT)},
        TWO_LISTS,
        {
            "1 in self.a": 5,
            "self.b[0] in self.a": 8,
            "!(0 in self.a)": 6,
        },
    ),
    "sets": (
        {"a": SET, "b": SET},
        {"a": ["a", "b", "c"], "b": ["a", "c", "b"]},
        {
            "self.a == self.b": 5,
            "'a' in self.a": 5,
            "!('x' in self.a)": 6,
        },
    ),
    "map lists": (
        {"o": array_of(by_key(object_of(k=STRING, v=STRING)))},
        {"o": MAPS},
        {
            "size(self.o[0] + [self.o[3][0]]) == 3": 20,
        },
    ),
    "maps": (
        {"a": map_of(STRING), "b": map_of(STRING)},
        {"a": {"k1": "a", "k2": "b"}, "b": {"k2": "b", "k1": "a"}},
        {
            "self.a == self.b": 5,
            "'k1' in self.a": 3,
            "!('k3' in self.a)": 4,
        },
    ),
    "objects": (
        {"o": array_of(object_of(a=STRING, b=STRING))},
        {"o": [{"a": "a", "b": "b"}] * 2},
        {"self.o[0] == self.o[1]": 7},
    ),
    "fields": (
        {
            "a": object_of(b=INT, c=INT, d={**INT, "nullable": True}),
            "a1": object_of(b1=object_of(c1=INT), d2=object_of(e2=INT)),
        },
        NESTED,
        {
            "has(self.a.b)": 2,
            "has(self.a1.b1.c1)": 3,
            "!(has(self.a1.d2) && has(self.a1.d2.e2))": 3,
            "!has(self.a1.d2)": 3,
            "!has(self.a.d)": 3,
        },
    ),
    "keys": (
        {"m": map_of(INT)},
        {"m": {"b": 1, "d": 2}},
        {
            "!('a' in self.m)": 4,
            "!has(self.m.a)": 3,
            "has(self.m.b)": 2,
            "self.m.all(k, self.m[k] > 0)": 17,
            "self.m.exists_one(k, self.m[k] == 2)": 14,
            "!self.m.exists_one(k, self.m[k] > 0)": 17,
            "size(self.m) == 2": 4,
        },
    ),
    "loops": (
        {"l": by_key(object_of(k=STRING, v=STRING, v2=STRING))},
        {"l": ITEMS},
        {
            "has(self.l[0].v)": 3,
            "self.l.all(m, m.k.startsWith('a'))": 21,
            "self.l.all(m, !has(m.v2) || m.v2 == 'z')": 21,
            "self.l.exists(m, m.k.endsWith('1'))": 13,
            "self.l.exists_one(m, m.k == 'a3')": 15,
            "!self.l.all(m, m.k.endsWith('1'))": 18,
            "!self.l.exists(m, m.v == 'x')": 25,
            "!self.l.exists_one(m, m.k.startsWith('a'))": 20,
            "self.l.exists(m, m.k == 'a1' && m.v == 'b1')": 16,
            "self.l.exists(m, has(m.v2) && m.v2 == 'z')": 21,
            "!self.l.all(m, has(m.v2) && m.v2 != 'z')": 10,
        },
    ),
}
CASES: Final = {
    f"{name}: {rule}": (properties, value, rule, cost)
    for name, (properties, value, rules) in GROUPS.items()
    for rule, cost in rules.items()
}


@pytest.mark.parametrize(("properties", "value", "rule", "cost"), CASES.values(), ids=CASES)
def test_what_a_rule_costs(
    properties: dict[str, Schema], value: dict[str, Any], rule: str, cost: int
) -> None:
    schema = object_of(**properties)
    type_ = SchemaTypes("kubernetes").of(schema, "self")
    assert type_ is not None
    checked = Checker(type_).check(Rule(rule), stored=None)
    assert checked.error is None
    assert checked.expression is not None
    adapt = adapter(schema, Part(is_whole=True), "kubernetes")
    result = checked.expression.program({"self": value if adapt is None else adapt(value)})
    assert result == (True, cost)
