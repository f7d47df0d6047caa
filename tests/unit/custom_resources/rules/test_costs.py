"""What evaluating rules costs. Rows R32, R36.

The figures are those of Kubernetes' own tests (k8s.io/apiextensions-apiserver,
pkg/apiserver/schema/cel/celcoststability_test.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from apiserver.cel.references import References
from apiserver.custom_resources.rules.compilation import RuleCompiler, ValidationRule
from apiserver.custom_resources.rules.schema_types import SchemaTypes
from apiserver.custom_resources.rules.value_adapters import adapter
from apiserver.schema.extensions import Extensions
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
ANYTHING: Final = {"x-kubernetes-preserve-unknown-fields": True}
ANY_OBJECT: Final = {"type": "object", **ANYTHING}
INT_OR_STRING: Final = {"x-kubernetes-int-or-string": True}
NULLABLE_STRING: Final = {**STRING, "nullable": True}
PAIR: Final = object_of(k=STRING, v=STRING)
NUMBERED: Final = {"a": 5, "d": 10.0, "i": 10}
TWO_LISTS: Final = {"a": [1, 2, 3], "b": [1, 2, 3]}
MAPS: Final = [
    [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}],
    [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}],
    [{"k": "b", "v": "3"}, {"k": "a", "v": "1"}],
    [{"k": "c", "v": "4"}],
]
ITEMS: Final = [{"k": "a1", "v": "b1"}, {"k": "a2", "v": "b2"}, {"k": "a3", "v": "b3", "v2": "z"}]
CONVERTED: Final[dict[str, tuple[Schema, Any]]] = {
    "i": (INT, 10),
    "d": (NUMBER, 10.0),
    "f": (NUMBER, 10.5),
    "s": (STRING, "10"),
    "b": (text("byte"), "MTA="),
    "p": (STRING, "3723.004s"),
    "span": (text("duration"), "1h2m3s4ms"),
    "ts": (STRING, "2011-08-18T19:03:37.01+01:00"),
    "t": (text("date-time"), "2011-08-18T19:03:37.01+01:00"),
    "ds": (STRING, "2011-08-18T00:00:00Z"),
    "day": (text("date"), "2011-08-18"),
}
POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "foo", "generateName": "pickItForMe", "namespace": "xyz"},
    "spec": {"field1": "a"},
}
OF_POD: Final = {
    "{}.kind == 'Pod'": 3,
    "{}.apiVersion == 'v1'": 3,
    "{}.metadata.name == 'foo'": 4,
    "{}.metadata.generateName == 'pickItForMe'": 5,
}
EMBEDDED: Final[Schema] = {"type": "object", "x-kubernetes-embedded-resource": True}
COMPOSED: Final = {
    "obj": {"field": "a"},
    "mapOfMap": {"x": {"y": "b"}},
    "mapOfObj": {"k": {"field2": "c"}},
    "mapOfListMap": {"o": [{"k": "1", "v": "d"}]},
    "mapOfList": {"l": ["e"]},
    "listMapOfObj": [{"k": "2", "v": "f"}],
    "listOfMap": [{"z": "g"}],
    "listOfObj": [{"field3": "h"}],
    "listOfListMap": [[{"k": "3", "v": "i"}]],
}


def twice(schema: Schema, value: Any) -> tuple[dict[str, Schema], dict[str, Any]]:
    return {"a": schema, "b": schema}, {"a": value, "b": value}


def equal_to(literal: str) -> str:
    return f"self.a == self.b && self.a == {literal} && self.b == {literal}"


# The properties of self, its value, and rules that hold with what they cost.
GROUPS: Mapping[str, tuple[dict[str, Schema], dict[str, Any], dict[str, int]]] = {
    "integers": (
        *twice(INT, 9223372036854775807),
        {
            equal_to("9223372036854775807"): 11,
            "type(self.a) == int": 4,
            "self.a - 1 == 9223372036854775806 - 0": 5,
        },
    ),
    "numbers": (*twice(NUMBER, 1), {equal_to("1.0"): 11, "type(self.a) == double": 4, "self.a == 1.0": 3}),
    "comparisons of numbers": (
        {"a": INT, "d": NUMBER, "i": NUMBER},
        NUMBERED,
        {
            "double(self.a) < self.d": 6,
            "self.a < int(self.d)": 6,
            "double(self.a) < self.i": 6,
            "double(5) < 10.0": 1,
            "5 < int(10.0)": 1,
            "double(self.a) < 10.0": 4,
        },
    ),
    "strings": (
        *twice(STRING, "Rook takes \U0001f451"),
        {
            equal_to("'Rook takes \U0001f451'"): 14,
            "self.a.startsWith('Rook')": 4,
            "!self.a.startsWith('knight')": 5,
            "self.a.matches('^[^0-9]*$')": 8,
            "!self.a.matches('^[0-9]*$')": 7,
            "type(self.a) == string": 4,
            "size(self.a) == 12": 4,
            "self.a.charAt(3) == 'k'": 4,
            "self.a.indexOf('o') == 1": 4,
            "self.a.indexOf('o', 2) == 2": 4,
            "self.a.replace(' ', 'x') == 'Rookxtakesx\U0001f451'": 7,
            "self.a.replace(' ', 'x', 1) == 'Rookxtakes \U0001f451'": 7,
            "self.a.split(' ') == ['Rook', 'takes', '\U0001f451']": 6,
            "self.a.split(' ', 2) == ['Rook', 'takes \U0001f451']": 6,
            "self.a.substring(5) == 'takes \U0001f451'": 5,
            "self.a.substring(0, 4) == 'Rook'": 5,
            "self.a.substring(4, 10).trim() == 'takes'": 6,
            "self.a.upperAscii() == 'ROOK TAKES \U0001f451'": 6,
            "self.a.lowerAscii() == 'rook takes \U0001f451'": 6,
        },
    ),
    "escaped strings": (*twice(STRING, "l1\nl2"), {equal_to(r"'l1\nl2'"): 11, "self.a == '''l1\nl2'''": 3}),
    "bytes": (
        *twice(text("byte"), "QUI="),
        {"self.a == self.b": 5, "self.a == b'AB'": 3, "type(self.a) == bytes": 4, "size(self.a) == 2": 4},
    ),
    "bools": (
        {"a": {"type": "boolean"}, "b": {"type": "boolean"}, "c": {"type": "boolean"}},
        {"a": True, "b": True, "c": False},
        {equal_to("true"): 11, "self.a != self.c": 5, "type(self.a) == bool": 4},
    ),
    "durations": (
        *twice(text("duration"), "1h2m3s4ms"),
        {
            equal_to("duration('1h2m3s4ms')"): 11,
            "self.a == duration('1h2m') + duration('3s4ms')": 4,
            "self.a.getHours() == 1": 4,
            "type(self.a) == google.protobuf.Duration": 4,
        },
    ),
    "dates": (
        *twice(text("date"), "1997-07-16"),
        {
            equal_to("timestamp('1997-07-16T00:00:00.000Z')"): 11,
            "self.a.getDate() == 16": 4,
            "type(self.a) == google.protobuf.Timestamp": 4,
        },
    ),
    "times": (
        *twice(text("date-time"), "2011-08-18T19:03:37.010000000+01:00"),
        {
            equal_to("timestamp('2011-08-18T19:03:37.010+01:00')"): 11,
            "self.a == timestamp('2011-08-18T00:00:00.000+01:00') + duration('19h3m37s10ms')": 4,
            "self.a.getDate('01:00') == 18": 4,
            "type(self.a) == google.protobuf.Timestamp": 4,
        },
    ),
    "enumerations": (
        {"s": {**STRING, "enum": ["Pending", "Available"]}},
        {"s": "Pending"},
        {"self.s == 'Pending'": 3, "self.s in ['Pending', 'Available']": 2},
    ),
    "conversions": (
        {name: schema for name, (schema, _) in CONVERTED.items()},
        {name: value for name, (_, value) in CONVERTED.items()},
        {
            "int(self.d) == self.i": 6,
            "double(self.i) == self.d": 6,
            "bytes(self.s) == self.b": 6,
            "string(self.i) == self.s": 6,
            "string(self.f) == '10.5'": 4,
            "string(self.b) == self.s": 6,
            "duration(self.p) == self.span": 6,
            "timestamp(self.ts) == self.t": 6,
            "string(self.t) == self.ts": 8,
            "timestamp(self.ds) == self.day": 6,
            "string(self.day) == self.ds": 7,
        },
    ),
    "lists": (
        {"a": array_of(INT), "b": array_of(INT)},
        TWO_LISTS,
        {
            equal_to("[1, 2, 3]"): 11,
            "1 in self.a": 5,
            "self.b[0] in self.a": 8,
            "!(0 in self.a)": 6,
            "self.a + self.b == [1, 2, 3, 1, 2, 3]": 6,
            "self.a + [4, 5] == [1, 2, 3, 4, 5]": 4,
        },
    ),
    "sets": (
        {"a": SET, "b": SET},
        {"a": ["a", "b", "c"], "b": ["a", "c", "b"]},
        {
            "self.a == ['c', 'b', 'a']": 3,
            "self.a == self.b": 5,
            "'a' in self.a": 5,
            "self.b[0] in self.a": 8,
            "!('x' in self.a)": 6,
            "self.a + self.b == ['a', 'b', 'c']": 6,
            "self.a + ['c', 'd'] == ['a', 'b', 'c', 'd']": 4,
        },
    ),
    "map lists": (
        {"o": array_of(by_key(PAIR))},
        {"o": MAPS},
        {
            "self.o[0] == self.o[1]": 7,
            "self.o[0] + self.o[2] == self.o[2]": 11,
            "self.o[2] + self.o[0] == self.o[0]": 11,
            "self.o[0] == [self.o[0][0], self.o[0][1]]": 22,
            "self.o[0] == [self.o[0][1], self.o[0][0]]": 22,
            "self.o[2] + [self.o[0][0], self.o[0][1]] == self.o[0]": 26,
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
            "self.a == {'k1': 'a', 'k2': 'b'}": 3,
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
        {"a": {"b": 1, "d": None}, "a1": {"b1": {"c1": 4}}, "a3": {}},
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
            "'b' in self.m": 3,
            "!has(self.m.a)": 3,
            "has(self.m.b)": 2,
            "self.m.all(k, self.m[k] > 0)": 17,
            "self.m.exists_one(k, self.m[k] == 2)": 14,
            "!self.m.exists_one(k, self.m[k] > 0)": 17,
            "size(self.m) == 2": 4,
            "size(self.m.filter(k, self.m[k] > 1)) == 1": 26,
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
            "size(self.l.filter(m, m.k == 'a1')) == 1": 27,
            "self.l.exists(m, m.k == 'a1' && m.v == 'b1')": 16,
            "self.l.map(m, m.v).exists(v, v == 'b1')": 55,
            "self.l.exists(m, has(m.v2) && m.v2 == 'z')": 21,
            "!self.l.all(m, has(m.v2) && m.v2 != 'z')": 10,
            "self.l.exists_one(m, has(m.v2) && m.v2 == 'z')": 12,
            "self.l.filter(m, has(m.v2) && m.v2 == 'z').size() == 1": 24,
            "self.l.map(m, has(m.v2) && m.v2 == 'z', m.v2).size() == 1": 25,
            "self.l.filter(m, has(m.v2) && m.v2 == 'z').map(m, m.v2).size() == 1": 39,
            # Comparing what is not there costs something, too.
            "self.l.exists(m, m.v2 == 'z')": 24,
            "!self.l.all(m, m.v2 != 'z')": 22,
        },
    ),
    "loops over a list": (
        {"l": array_of(INT)},
        {"l": [1, 1, 2, 2, 3, 3, 4, 5]},
        {
            "2 in self.l": 10,
            "self.l.all(e, e > 0)": 43,
            "self.l.exists(e, e > 2)": 36,
            "self.l.exists_one(e, e > 4)": 22,
            "!self.l.all(e, e < 2)": 21,
            "!self.l.exists(e, e < 0)": 52,
            "!self.l.exists_one(e, e == 2)": 25,
            "self.l.all(e, e < 100)": 43,
            "size(self.l.filter(e, e % 2 == 0)) == 3": 68,
            "self.l.map(e, e * 20).filter(e, e > 50).exists(e, e == 60)": 194,
            "size(self.l) == 8": 4,
        },
    ),
    "loops over another list": (
        {"l": array_of(INT)},
        {"l": [1, 2, 3, 4, 5]},
        {
            "3 in self.l": 7,
            "self.l.all(e, e > 0)": 28,
            "self.l.exists(e, e > 3)": 30,
            "self.l.exists_one(e, e == 3)": 16,
            "!self.l.all(e, e < 3)": 21,
            "!self.l.exists(e, e < 0)": 34,
            "!self.l.exists_one(e, e > 3)": 19,
            "size(self.l.filter(e, e % 2 == 0)) == 2": 46,
            "self.l.map(e, e * 20).filter(e, e > 50).exists_one(e, e == 60)": 133,
        },
    ),
    "an embedded object": (
        {"e": {**EMBEDDED, **object_of(spec=object_of(field1=STRING))}},
        {"e": POD},
        {
            **{rule.format("self.e"): cost + 1 for rule, cost in OF_POD.items()},
            "self.e.spec.field1 == 'a'": 5,
        },
    ),
    "an embedded object of any kind": (
        {"e": {**EMBEDDED, **ANYTHING}},
        {"e": POD},
        {**{rule.format("self.e"): cost + 1 for rule, cost in OF_POD.items()}, "has(self.e)": 1},
    ),
    "a string that could be an int": (
        {"x": INT_OR_STRING},
        {"x": "25%"},
        {
            "type(self.x) == int ? self.x == 1 : self.x == '25%'": 7,
            "type(self.x) == string && self.x == '25%'": 7,
            "self.x == '25%'": 3,
            "self.x != 1": 3,
            "self.x == 1 || self.x == '25%'": 6,
            "self.x == '25%' || self.x == 1": 3,
            "self.x != ['anything']": 3,
        },
    ),
    "an int that could be a string": (
        {"x": INT_OR_STRING},
        {"x": 1},
        {
            "type(self.x) == int ? self.x == 1 : self.x == '25%'": 7,
            "type(self.x) == int && self.x == 1": 7,
            "self.x == 1": 3,
            "self.x != 'some string'": 3,
            "self.x == 1 || self.x == '25%'": 3,
            "self.x == '25%' || self.x == 1": 6,
            "self.x != ['anything']": 3,
        },
    ),
    "percents": (
        {"min": INT_OR_STRING, "current": INT, "available": INT},
        {"min": "50%", "current": 5, "available": 10},
        {
            r"type(self.min) == string && self.min.matches(r'(\d+(\.\d+)?%)')": 10,
            "type(self.min) == int ? self.current <= self.min : double(self.current) / double(self.available)"
            " >= double(self.min.replace('%', '')) / 100.0": 17,
        },
    ),
    "unknown fields": (
        {"u": ANY_OBJECT, "l": array_of(ANY_OBJECT), "f": array_of(object_of(x=ANYTHING))},
        {
            "u": {"a": "a", "b": "b"},
            "l": [{"a": "a", "b": "b"}, {"a": "x", "b": "y"}, {"a": "x", "b": "y"}, {}, {}],
            "f": [{"x": "a"}, {"x": 1}, {"x": 1}],
        },
        {
            "has(self.u)": 1,
            "self.l.size() == 5": 4,
            "self.l[0] != self.l[1]": 7,
            "self.l[1] == self.l[2]": 7,
            "self.l[3] == self.l[4]": 6,
            "self.f[0] != self.f[1]": 7,
            "self.f[1] == self.f[2]": 7,
        },
    ),
    "known and unknown fields": (
        {"u": {**object_of(known=INT), **ANYTHING}, "l": array_of({**object_of(known=INT), **ANYTHING})},
        {
            "u": {"known": 1, "unknown": "a"},
            "l": [{"known": 1, "unknown": "a"}, {"known": 1, "unknown": "b"}, {"known": 1}, {"known": 2}],
        },
        {
            "self.u.known == 1": 4,
            "self.l[0] != self.l[1]": 7,
            "self.l[0] != self.l[2]": 7,
            "self.l[2] != self.l[3]": 7,
        },
    ),
    "null": (
        {
            "unset": STRING,
            "default": {**STRING, "default": "default value"},
            "set": NULLABLE_STRING,
            "nothing": NULLABLE_STRING,
            "m": map_of(NULLABLE_STRING),
        },
        {"default": "default value", "set": "v3", "nothing": None, "m": {"a": None, "b": "not-nil"}},
        {
            "!has(self.unset)": 2,
            "has(self.default) && self.default == 'default value'": 5,
            "has(self.set) && self.set == 'v3'": 4,
            "type(self.set) != null_type": 4,
            "!has(self.nothing)": 2,
            "self.m.size() == 2": 4,
            "'a' in self.m": 3,
            "type(self.m['a']) == null_type": 5,
        },
    ),
    "types": (
        {"m": map_of(object_of(x=INT))},
        {"m": {"k1": {"x": 1}, "k2": {"x": 2}}},
        {"type(self) == type(self)": 5, "type(self.m['k1']) == type(self.m['k2'])": 9},
    ),
    "escaped names": (
        {"o": array_of(array_of(object_of(**{"k!": STRING, "k.": STRING})))},
        {"o": [[{"k!": "a", "k.": "1"}]]},
        {"self.o[0][0].k__dot__ == '1'": 6},
    ),
    "values within values": (
        {
            "obj": object_of(field=STRING),
            "mapOfMap": map_of(map_of(STRING)),
            "mapOfObj": map_of(object_of(field2=STRING)),
            "mapOfListMap": map_of(by_key(PAIR)),
            "mapOfList": map_of(array_of(STRING)),
            "listMapOfObj": by_key(PAIR),
            "listOfMap": array_of(map_of(STRING)),
            "listOfObj": array_of(object_of(field3=STRING)),
            "listOfListMap": array_of(by_key(PAIR)),
        },
        COMPOSED,
        {
            "self.obj.field == 'a'": 4,
            "self.mapOfMap['x']['y'] == 'b'": 5,
            "self.mapOfObj['k'].field2 == 'c'": 5,
            "self.mapOfListMap['o'].exists(e, e.k == '1' && e.v == 'd')": 14,
            "self.mapOfList['l'][0] == 'e'": 5,
            "self.listMapOfObj.exists(e, e.k == '2' && e.v == 'f')": 13,
            "self.listOfMap[0]['z'] == 'g'": 5,
            "self.listOfObj[0].field3 == 'h'": 5,
            "self.listOfListMap[0].exists(e, e.k == '3' && e.v == 'i')": 14,
        },
    ),
    "optional values": (
        {"obj": object_of(field=STRING, absent=STRING), "m": map_of(STRING), "l": array_of(STRING)},
        {"obj": {"field": "a"}, "m": {"k": "v"}, "l": ["a"]},
        {
            "optional.of('a') != optional.of('b')": 3,
            "optional.of('a') != optional.none()": 3,
            "optional.of('a').hasValue()": 2,
            "optional.of('a').or(optional.of('a')).hasValue()": 2,
            "optional.none().or(optional.of('a')).hasValue()": 3,
            "optional.of('a').optMap(v, v == 'a').value()": 8,
            "self.obj.?field == optional.of('a')": 5,
            "self.obj.?absent == optional.none()": 4,
            "self.obj.?field.orValue('v') == 'a'": 4,
            "self.m[?'k'] == optional.of('v')": 5,
            "self.l[?0] == optional.of('a')": 5,
            "optional.ofNonZeroValue(1).hasValue()": 2,
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
    type_ = SchemaTypes(Extensions("kubernetes")).of(schema, "self")
    assert type_ is not None
    checked = RuleCompiler(type_).compile(ValidationRule(rule))
    assert checked.error is None
    assert checked.expression is not None
    adapt = adapter(schema, References(is_whole=True), Extensions("kubernetes"))
    result = checked.expression.program({"self": value if adapt is None else adapt(value)})
    assert result == (True, cost)
