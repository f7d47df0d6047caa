"""How rules judge objects. Rows R01, R23 to R30, R33, R34, R36."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from apiserver.custom_resources.definitions.validation.schema_defaults import DefaultValue, evaluate_defaults
from apiserver.custom_resources.rules.validator import RuleValidator, blocking_error
from apiserver.meta.field_errors import FieldError
from apiserver.schema.extensions import Extensions
from tests.unit.custom_resources.rules.schemas import (
    INT,
    NUMBER,
    STRING,
    Schema,
    array_of,
    errors,
    map_of,
    object_of,
    ruled,
)

# ---- what a failing rule says


SPEC: Final = object_of(n=INT, s=STRING)
SAID: Mapping[str, tuple[str | dict[str, Any], str]] = {
    "a rule without a message": ("self.n > 0 ", "spec: Invalid value: failed rule: self.n > 0"),
    "a message": ({"rule": "self.n > 0", "message": " no "}, "spec: Invalid value: no"),
    "a reason": (
        {"rule": "false", "message": "no", "reason": "FieldValueInvalid"},
        "spec: Invalid value: no",
    ),
    "forbidden": ({"rule": "false", "message": "no", "reason": "FieldValueForbidden"}, "spec: Forbidden: no"),
    "required": (
        {"rule": "false", "message": "no", "reason": "FieldValueRequired"},
        "spec: Required value: no",
    ),
    "duplicate": (
        {"rule": "false", "message": "no", "reason": "FieldValueDuplicate"},
        "spec: Duplicate value",
    ),
    "a message that is worked out": (
        {"rule": "false", "message": "no", "messageExpression": "' n is ' + string(self.n) + ' '"},
        "spec: Invalid value: n is 0",
    ),
    "a message of nothing": (
        {"rule": "false", "message": "no", "messageExpression": "'  '"},
        "spec: Invalid value: no",
    ),
    "a message of two lines": (
        {"rule": "false", "message": "no", "messageExpression": r"'a\nb'"},
        "spec: Invalid value: no",
    ),
    "a message that is too long": (
        {"rule": "false", "message": "no", "messageExpression": f"'{'a' * 5_121}'"},
        "spec: Invalid value: no",
    ),
    "a message that cannot be worked out": (
        {"rule": "false", "messageExpression": "string(1 / self.n)"},
        "spec: Invalid value: failed rule: false",
    ),
    "a message about an old value that is not there": (
        {"rule": "false", "message": "no", "messageExpression": "string(oldSelf.n)"},
        "spec: Invalid value: no",
    ),
    "another field": ({"rule": "false", "message": "no", "fieldPath": ".n"}, "spec.n: Invalid value: no"),
    "a field that is not there": (
        {"rule": "false", "message": "no", "fieldPath": ".x"},
        "spec: Invalid value: no",
    ),
}


@pytest.mark.parametrize(("rule", "said"), SAID.values(), ids=SAID)
def test_the_error_of_a_violated_rule(rule: str | dict[str, Any], said: str) -> None:
    assert errors(ruled(SPEC, rule), {"n": 0}) == [said]


NO_OVERLOAD: Final = "call arguments did not match a supported operator, function or macro signature"
UNEVALUATED: Mapping[str, tuple[str, str]] = {
    "a field that is not there": ("self.s == 'a'", "no such key: s evaluating rule: m"),
    "a division": ("1 / self.n == 1", "division by zero evaluating rule: m"),
    "values of the wrong type": ("self.x + 1 == 2", f"'no such overload': {NO_OVERLOAD} for rule: m"),
}


@pytest.mark.parametrize(("rule", "said"), UNEVALUATED.values(), ids=UNEVALUATED)
def test_a_rule_that_cannot_be_evaluated_is_an_error(rule: str, said: str) -> None:
    schema = ruled(
        object_of(n=INT, s=STRING, x={"x-kubernetes-int-or-string": True}), {"rule": rule, "message": "m"}
    )
    assert errors(schema, {"n": 0, "x": "a"}) == [f'spec: Invalid value: "object": {said}']


def test_every_rule_is_evaluated() -> None:
    found = errors(ruled(SPEC, "self.n > 0", "self.n == 0", "1 / self.n > 0", "self.n > 1"), {"n": 0})
    assert [text.partition(": ")[2] for text in found] == [
        "Invalid value: failed rule: self.n > 0",
        'Invalid value: "object": division by zero evaluating rule: 1 / self.n > 0',
        "Invalid value: failed rule: self.n > 1",
    ]


# ---- where rules stand


LIST: Final = array_of(ruled(INT, "self > 0"))
MAP: Final = map_of(ruled(INT, "self > 0"))
PLACES: Mapping[str, tuple[Schema, Any, list[str]]] = {
    "a scalar's value is shown": (
        object_of(n=ruled(INT, "self > 0")),
        {"n": -1},
        ["spec.n: Invalid value: -1"],
    ),
    "text is quoted": (object_of(s=ruled(STRING, "self != 'a'")), {"s": "a"}, ['spec.s: Invalid value: "a"']),
    "a list's is not": (object_of(l=ruled(LIST, "false")), {"l": []}, ["spec.l: Invalid value"]),
    "items": (LIST, [1, -1, -2], ["spec[1]: Invalid value: -1", "spec[2]: Invalid value: -2"]),
    "values of maps": (MAP, {"a.b": -1}, ["spec[a.b]: Invalid value: -1"]),
    "a field that is not there": (object_of(n=ruled(INT, "false")), {}, []),
    "a field that is null": (object_of(n=ruled({**INT, "nullable": True}, "false")), {"n": None}, []),
    "outer rules come first": (
        ruled(object_of(n=ruled(INT, "self > 0")), "false"),
        {"n": -1},
        ["spec: Invalid value", "spec.n: Invalid value: -1"],
    ),
    "a field below another's path": (
        object_of(m=ruled(MAP, {"rule": "false", "fieldPath": "['k']"})),
        {"m": {"k": 1}},
        ["spec.m.[k]: Invalid value"],
    ),
}


@pytest.mark.parametrize(("schema", "value", "expected"), PLACES.values(), ids=PLACES)
def test_where_rules_are_evaluated(schema: Schema, value: Any, expected: list[str]) -> None:
    assert [text.partition(": failed")[0] for text in errors(schema, value)] == expected


def test_rules_on_the_whole_object() -> None:
    schema = ruled(
        object_of(spec=SPEC), "self.metadata.name == 'a'", {"rule": "false", "fieldPath": ".spec.n"}
    )
    found = RuleValidator(schema, vendor="kubernetes").validate(
        {"metadata": {"name": "b"}, "spec": {}}, is_bounded=False
    )
    assert [str(error) for error in found.errors] == [
        "<nil>: Invalid value: failed rule: self.metadata.name == 'a'",
        "spec.n: Invalid value: failed rule: false",
    ]


def test_the_vendor_names_the_extension() -> None:
    schema = {"type": "object", "x-acme-validations": [{"rule": "false"}]}
    assert RuleValidator(schema, vendor="acme").validate({}, is_bounded=False).errors
    assert not RuleValidator(schema, vendor="kubernetes").validate({}, is_bounded=False).errors


# ---- values as rules see them


SEEN: Mapping[str, tuple[Schema, Any, str]] = {
    "a whole number is a double": (NUMBER, 2, "type(self.v) == double && self.v / 4.0 == 0.5"),
    "an int or string, here an int": ({"x-kubernetes-int-or-string": True}, 5, "type(self.v) == int"),
    "an int or string, here a string": ({"x-kubernetes-int-or-string": True}, "5", "self.v == '5'"),
    "bytes": ({**STRING, "format": "byte"}, "aGk=", "self.v == b'hi'"),
    "a time": ({**STRING, "format": "date-time"}, "2020-01-02T03:04:05Z", "self.v.getHours() == 3"),
    "a duration": ({**STRING, "format": "duration"}, "90m", "self.v == duration('1h30m')"),
    "times in a list": (
        {"type": "array", "items": {**STRING, "format": "date"}},
        ["2020-01-02"],
        "self.v.all(t, t.getFullYear() == 2020)",
    ),
    "a set": (
        {"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
        ["a", "b"],
        "self.v == ['b', 'a'] && self.v + ['b', 'c'] == ['a', 'b', 'c']",
    ),
    "null where that is allowed": ({**STRING, "nullable": True}, None, "!has(self.v)"),
    "null in a list": (
        {"type": "array", "items": {**STRING, "nullable": True}},
        [None],
        "dyn(self.v[0]) == null",
    ),
    "an embedded resource": (
        {"type": "object", "x-kubernetes-embedded-resource": True},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        "self.v.kind == 'Pod' && self.v.metadata.name == 'a'",
    ),
}


@pytest.mark.parametrize(("schema", "value", "rule"), SEEN.values(), ids=SEEN)
def test_how_values_are_seen(schema: Schema, value: Any, rule: str) -> None:
    assert errors(ruled(object_of(v=schema), rule), {"v": value}) == []


# ---- defaults


def judged(*defaults: tuple[Schema, Any]) -> list[str]:
    found = [DefaultValue(schema, value, f"d{index}") for index, (schema, value) in enumerate(defaults)]
    return [str(error) for error in evaluate_defaults(found, Extensions("kubernetes"))]


OPTIONAL_OLD: Final = {"optionalOldSelf": True, "message": "not new"}
DEFAULTS: Mapping[str, tuple[Schema, Any, list[str]]] = {
    "as it should be": (object_of(n=ruled(INT, "self > 0")), {"n": 1}, []),
    "nothing with rules": (object_of(n=INT), {"n": 1}, []),
    "in fields and items": (
        object_of(n=ruled(INT, "self > 0"), l=LIST),
        {"n": -1, "l": [-1]},
        [
            "d0.n: Invalid value: -1: failed rule: self > 0",
            "d0.l[0]: Invalid value: -1: failed rule: self > 0",
        ],
    ),
    "as if it stayed": (ruled(INT, "self == oldSelf"), 1, []),
    "as if it was new": (
        ruled(INT, {"rule": "oldSelf.hasValue()", **OPTIONAL_OLD}),
        1,
        ["d0: Invalid value: 1: not new"],
    ),
}


@pytest.mark.parametrize(("schema", "value", "expected"), DEFAULTS.values(), ids=DEFAULTS)
def test_how_defaults_are_judged(schema: Schema, value: Any, expected: list[str]) -> None:
    assert judged((schema, value)) == expected


def test_defaults_within_defaults_are_judged_by_the_same_rules() -> None:
    inner = ruled(object_of(n=INT), "self.n > 0", "self != oldSelf")
    outer = ruled(object_of(i=inner, j=inner), "self.i == self.j")
    assert judged((outer, {"i": {"n": 1}, "j": {"n": 0}}), (inner, {"n": 0}), (inner, {"n": 1})) == [
        "d0: Invalid value: failed rule: self.i == self.j",
        "d0.i: Invalid value: failed rule: self != oldSelf",
        "d0.j: Invalid value: failed rule: self.n > 0",
        "d0.j: Invalid value: failed rule: self != oldSelf",
        "d1: Invalid value: failed rule: self.n > 0",
        "d1: Invalid value: failed rule: self != oldSelf",
        "d2: Invalid value: failed rule: self != oldSelf",
    ]


# ---- after other errors


INVALID: Mapping[str, tuple[str, bool]] = {
    "a wrong type": ("FieldValueTypeInvalid", True),
    "a missing field": ("FieldValueRequired", True),
    "a value that is none of some": ("FieldValueNotSupported", True),
    "too long": ("FieldValueTooLong", True),
    "too many": ("FieldValueTooMany", True),
    "out of range": ("FieldValueInvalid", False),
    "twice": ("FieldValueDuplicate", False),
}


@pytest.mark.parametrize(("reason", "is_blocking"), INVALID.values(), ids=INVALID)
def test_which_errors_prevent_rules(reason: str, is_blocking: bool) -> None:
    found = blocking_error([FieldError("a", "FieldValueInvalid", ""), FieldError("b", reason, "")])
    text = (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid;"
        " correct the existing errors to complete validation"
    )
    assert (None if found is None else str(found)) == (text if is_blocking else None)


# ---- schemas of other servers


def inside(spec: Schema, value: Any, depth: int, way: Callable[[Any, Any], tuple[Schema, Any]]) -> list[str]:
    for _ in range(depth):
        spec, value = way(spec, value)
    return errors(spec, value)


# Definitions are not decoded, or not served, if they are deeper than these.
WAYS: Mapping[str, tuple[int, Callable[[Any, Any], tuple[Schema, Any]]]] = {
    "fields": (125, lambda schema, value: (object_of(a=schema), {"a": value})),
    "items": (250, lambda schema, value: (array_of(schema), [value])),
    "values": (250, lambda schema, value: (map_of(schema), {"a": value})),
}


@pytest.mark.parametrize(("depth", "way"), WAYS.values(), ids=WAYS)
def test_rules_are_evaluated_as_deep_as_definitions_can_be(
    depth: int, way: Callable[[Any, Any], tuple[Schema, Any]]
) -> None:
    (found,) = inside(ruled(INT, "self > 0"), 0, depth, way)
    assert found.endswith("Invalid value: 0: failed rule: self > 0")
