"""Changes of a schema, whether they are breaking, and what becomes of a value that the old schema allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Schema = Mapping[str, Any]

KEPT: Final = "kept"
# It is pruned, or has other defaults.
CHANGED: Final = "changed"
REFUSED: Final = "refused"


class SchemaChange(NamedTuple):
    """A change of the schema of a field.

    expected: the kind and the path below the field of each change; breaking ones begin with `!`.
    value: one that the old schema allows. outcome: what becomes of it when it is written with the new one.
    """

    old: Schema
    new: Schema
    expected: list[str]
    value: Any
    outcome: str


def _object(**properties: Schema) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(items: Schema, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _map(values: Schema, **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, **more}


def _integer(**more: Any) -> dict[str, Any]:
    return {"type": "integer", **more}


def _string(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


def _number(**more: Any) -> dict[str, Any]:
    return {"type": "number", **more}


def _by(*keys: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def _rules(*rules: Mapping[str, Any]) -> dict[str, Any]:
    return {"x-kubernetes-validations": list(rules)}


_OPEN: Final = {"x-kubernetes-preserve-unknown-fields": True}
_INT_OR_STRING: Final = {"x-kubernetes-int-or-string": True}
_INT_OR_STRING_IN_WORDS: Final = {**_INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]}
_SET: Final = {"x-kubernetes-list-type": "set"}
_A: Final = _object(a=_string())
_KEYED: Final = {**_object(k=_string(), p=_string(), v=_string()), "required": ["k", "p"]}
_KEYED_BY_K: Final = {**_KEYED, "required": ["k"]}
_A_OR_B: Final = _object(a=_string(), b=_string())
_A_OR_B_OR_C: Final = _object(a=_string(), b=_string(), c=_string())
_REQUIRED_A_OR_B: Final = [{"required": ["a"]}, {"required": ["b"]}]
_UUID4: Final = "11111111-2222-4333-8444-555555555555"
_UUID1: Final = "11111111-2222-1333-8444-555555555555"
_RULE: Final = {"rule": "self > 5", "message": "m"}
_CONFIG_MAP: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": "b"}}}
_EMBEDDED: Final = {"type": "object", "x-kubernetes-embedded-resource": True, **_OPEN}

SCHEMA_CHANGES: Final[Mapping[str, SchemaChange]] = {
    name: SchemaChange(*change)
    for name, change in {
        # ---- fields
        "a field is removed": (
            _object(a=_string(), b=_string()),
            _A,
            ["!FieldRemoved .b"],
            {"a": "x", "b": "y"},
            CHANGED,
        ),
        "a field is added": (_A, _object(a=_string(), b=_string()), ["FieldAdded .b"], {"a": "x"}, KEPT),
        "a field is required": (_A, {**_A, "required": ["a"]}, ["!RequiredAdded .a"], {}, REFUSED),
        "a new field is required": (
            _A,
            {**_object(a=_string(), b=_string()), "required": ["b"]},
            ["!RequiredAdded .b", "FieldAdded .b"],
            {"a": "x"},
            REFUSED,
        ),
        "a field with a default is required": (
            _A,
            {**_object(a=_string(default="x")), "required": ["a"]},
            ["RequiredAdded .a", "DefaultAdded .a"],
            {},
            CHANGED,
        ),
        "a field becomes optional": (
            {**_A, "required": ["a"]},
            _A,
            ["RequiredRemoved .a"],
            {"a": "x"},
            KEPT,
        ),
        "a default is added": (_A, _object(a=_string(default="x")), ["DefaultAdded .a"], {}, CHANGED),
        "a default changes": (
            _object(a=_string(default="x")),
            _object(a=_string(default="y")),
            ["!DefaultChanged .a"],
            {},
            CHANGED,
        ),
        "a default is removed": (
            _object(a=_string(default="x")),
            _A,
            ["!DefaultRemoved .a"],
            {},
            CHANGED,
        ),
        "a default is one field too many": (
            {**_A_OR_B, "maxProperties": 1},
            {**_object(a=_string(default="x"), b=_string()), "maxProperties": 1},
            ["DefaultAdded .a", "!DefaultAdded .a"],
            {"b": "y"},
            REFUSED,
        ),
        "a default makes two of exactly one": (
            {**_A_OR_B, "oneOf": _REQUIRED_A_OR_B},
            {**_object(a=_string(default="x"), b=_string()), "oneOf": _REQUIRED_A_OR_B},
            ["DefaultAdded .a", "!DefaultAdded .a"],
            {"b": "y"},
            REFUSED,
        ),
        "unknown fields are pruned": (
            {"type": "object", **_OPEN},
            {"type": "object"},
            ["!PreserveUnknownFieldsRemoved "],
            {"x": 1},
            CHANGED,
        ),
        "unknown fields are kept": (
            {"type": "object"},
            {"type": "object", **_OPEN},
            ["FieldsKept "],
            {},
            KEPT,
        ),
        "an unknown field gets a schema": (
            {"type": "object", **_OPEN},
            {**_object(a=_integer()), **_OPEN},
            ["!TypeChanged .a"],
            {"a": "x"},
            REFUSED,
        ),
        "a field loses its schema, but is kept": (
            {**_A, **_OPEN},
            {"type": "object", **_OPEN},
            ["TypeWidened .a"],
            {"a": "x"},
            KEPT,
        ),
        "a map becomes an object": (
            _map(_string()),
            _A,
            ["!AdditionalPropertiesRemoved "],
            {"a": "x", "b": "y"},
            CHANGED,
        ),
        "an object becomes a map": (_A, _map(_string()), ["FieldsKept "], {"a": "x"}, KEPT),
        "an object becomes a map of another type": (
            _A,
            _map(_integer()),
            ["!TypeChanged .a", "FieldsKept "],
            {"a": "x"},
            REFUSED,
        ),
        "the values of a map are bounded": (
            _map(_string()),
            _map(_string(maxLength=2)),
            ["!MaxLengthLowered [*]"],
            {"k": "abc"},
            REFUSED,
        ),
        "the items of a list are bounded": (
            _list(_string()),
            _list(_string(maxLength=2)),
            ["!MaxLengthLowered [*]"],
            ["abc"],
            REFUSED,
        ),
        "resources are embedded": (
            {"type": "object", **_OPEN},
            _EMBEDDED,
            ["!EmbeddedResourceAdded "],
            {"x": 1},
            REFUSED,
        ),
        "resources are not embedded any more": (
            {"type": "object", "x-kubernetes-embedded-resource": True, **_object(spec={"type": "object"})},
            _object(spec={"type": "object"}),
            ["!EmbeddedResourceRemoved "],
            _CONFIG_MAP,
            CHANGED,
        ),
        "resources may be something else": (
            _EMBEDDED,
            {"type": "object", **_OPEN},
            ["EmbeddedResourceRemoved "],
            _CONFIG_MAP,
            KEPT,
        ),
        # ---- types
        "a string becomes an integer": (_string(), _integer(), ["!TypeChanged "], "x", REFUSED),
        "an integer becomes a number": (_integer(), _number(), ["TypeWidened "], 1, KEPT),
        "a number becomes an integer": (_number(), _integer(), ["!TypeChanged "], 1.5, REFUSED),
        "numbers that are integers": (
            _number(enum=[1, 2]),
            _integer(enum=[1, 2]),
            ["TypeWidened "],
            2,
            KEPT,
        ),
        "an integer becomes an integer or a string": (_integer(), _INT_OR_STRING, ["TypeWidened "], 1, KEPT),
        "an integer or a string becomes an integer": (
            _INT_OR_STRING,
            _integer(),
            ["!TypeChanged "],
            "x",
            REFUSED,
        ),
        "an integer or a string says so in alternatives": (
            _INT_OR_STRING,
            _INT_OR_STRING_IN_WORDS,
            [],
            "x",
            KEPT,
        ),
        "anything becomes a string": (_OPEN, _string(), ["!TypeChanged "], 5, REFUSED),
        "a string becomes anything": (_string(), _OPEN, ["TypeWidened "], "x", KEPT),
        "null is not allowed": (
            _object(a=_string(nullable=True)),
            _A,
            ["!NullableRemoved .a"],
            {"a": None},
            CHANGED,
        ),
        "null is not allowed in lists": (
            _list(_string(nullable=True)),
            _list(_string()),
            ["!NullableRemoved [*]"],
            [None],
            REFUSED,
        ),
        "null is allowed": (_string(), _string(nullable=True), ["NullableAdded "], "x", KEPT),
        "null is not in the values": (
            _string(nullable=True),
            _string(nullable=True, enum=["a", "b"]),
            ["!NullableRemoved ", "!EnumAdded "],
            "c",
            REFUSED,
        ),
        "null is not one of both truths": (
            _list({"type": "boolean", "nullable": True}),
            _list({"type": "boolean", "nullable": True, "enum": [True, False]}),
            ["!NullableRemoved [*]"],
            [None],
            REFUSED,
        ),
        "null was not one of the values": (
            _string(nullable=True, enum=["a"]),
            _string(enum=["a"]),
            [],
            "a",
            KEPT,
        ),
        "strings are allowed, too, with bounds": (
            _integer(),
            {**_INT_OR_STRING, "maxLength": 3, "pattern": "^a"},
            ["TypeWidened "],
            12345,
            KEPT,
        ),
        "integers are allowed, too, with a bound": (
            _string(),
            {**_INT_OR_STRING, "maximum": 3},
            ["TypeWidened "],
            "12345",
            KEPT,
        ),
        # ---- numbers
        "a maximum is added": (_integer(), _integer(maximum=5), ["!MaximumLowered "], 7, REFUSED),
        "a maximum falls": (_integer(maximum=10), _integer(maximum=5), ["!MaximumLowered "], 7, REFUSED),
        "a maximum rises": (_integer(maximum=5), _integer(maximum=10), ["ConstraintRelaxed "], 5, KEPT),
        "a maximum becomes exclusive": (
            _number(maximum=10),
            _number(maximum=10, exclusiveMaximum=True),
            ["!MaximumLowered "],
            10,
            REFUSED,
        ),
        "the same maximum, exclusive": (
            _integer(maximum=10),
            _integer(maximum=11, exclusiveMaximum=True),
            [],
            10,
            KEPT,
        ),
        "a minimum rises": (_integer(minimum=1), _integer(minimum=3), ["!MinimumRaised "], 2, REFUSED),
        "a minimum falls": (_integer(minimum=3), _integer(minimum=1), ["ConstraintRelaxed "], 3, KEPT),
        "a fraction as minimum": (_number(), _number(minimum=0.5), ["!MinimumRaised "], 0.25, REFUSED),
        "a format of 32 bits": (
            _integer(minimum=0),
            _integer(minimum=0, format="int32"),
            ["!MaximumLowered "],
            3_000_000_000,
            REFUSED,
        ),
        "a format of 32 bits that bounds imply": (
            _integer(minimum=0, maximum=5_000),
            _integer(minimum=0, maximum=5_000, format="int32"),
            [],
            5_000,
            KEPT,
        ),
        "a coarser multiple": (
            _integer(multipleOf=2),
            _integer(multipleOf=4),
            ["!MultipleOfChanged "],
            2,
            REFUSED,
        ),
        "a finer multiple": (_integer(multipleOf=4), _integer(multipleOf=2), ["ConstraintRelaxed "], 4, KEPT),
        "integers are multiples of 1": (_integer(), _integer(multipleOf=1), ["ConstraintRelaxed "], 3, KEPT),
        # ---- sizes
        "a maximum length is added": (
            _string(),
            _string(maxLength=2),
            ["!MaxLengthLowered "],
            "abc",
            REFUSED,
        ),
        "a maximum length rises": (
            _string(maxLength=2),
            _string(maxLength=3),
            ["ConstraintRelaxed "],
            "ab",
            KEPT,
        ),
        "a minimum length rises": (
            _string(minLength=1),
            _string(minLength=2),
            ["!MinLengthRaised "],
            "a",
            REFUSED,
        ),
        "fewer items": (
            _list(_integer(), maxItems=3),
            _list(_integer(), maxItems=2),
            ["!MaxItemsLowered "],
            [1, 2, 3],
            REFUSED,
        ),
        "more items": (_list(_integer()), _list(_integer(), minItems=1), ["!MinItemsRaised "], [], REFUSED),
        "fewer keys": (
            _map(_integer()),
            _map(_integer(), maxProperties=1),
            ["!MaxPropertiesLowered "],
            {"a": 1, "b": 2},
            REFUSED,
        ),
        "more keys": (
            _map(_integer()),
            _map(_integer(), minProperties=1),
            ["!MinPropertiesRaised "],
            {},
            REFUSED,
        ),
        "as many fields as there are": (
            _A,
            {**_A, "maxProperties": 1},
            ["ConstraintRelaxed "],
            {"a": "x"},
            KEPT,
        ),
        "as many fields as are required": (
            {**_A, "required": ["a"]},
            {**_A, "required": ["a"], "minProperties": 1},
            ["ConstraintRelaxed "],
            {"a": "x"},
            KEPT,
        ),
        # ---- strings
        "a pattern is added": (_string(), _string(pattern="^a"), ["!PatternAdded "], "b", REFUSED),
        "a pattern changes": (
            _string(pattern="^[ab]"),
            _string(pattern="^a"),
            ["!PatternChanged "],
            "b",
            REFUSED,
        ),
        "a pattern is removed": (_string(pattern="^a"), _string(), ["ConstraintRelaxed "], "a", KEPT),
        "a pattern that all strings match": (
            _string(),
            _string(pattern=".*"),
            ["ConstraintRelaxed "],
            "a\nb",
            KEPT,
        ),
        "a format is added": (_string(), _string(format="ipv4"), ["!FormatAdded "], "x", REFUSED),
        "a format of an integer or a string": (
            _INT_OR_STRING,
            {**_INT_OR_STRING, "format": "ipv4"},
            ["!FormatAdded "],
            "x",
            REFUSED,
        ),
        "a format with fewer values": (
            _string(format="uuid"),
            _string(format="uuid4"),
            ["!FormatChanged "],
            _UUID1,
            REFUSED,
        ),
        "a format with more values": (_string(format="uuid4"), _string(format="uuid"), [], _UUID4, KEPT),
        "a format that is not checked": (_string(), _string(format="password"), [], "x", KEPT),
        "a format is removed": (_string(format="ipv4"), _string(), ["ConstraintRelaxed "], "1.2.3.4", KEPT),
        # ---- values
        "a value is removed": (
            _string(enum=["a", "b"]),
            _string(enum=["a", "c"]),
            ["!ValuesRemoved "],
            "b",
            REFUSED,
        ),
        "a value is added": (_string(enum=["a"]), _string(enum=["a", "b"]), ["ValuesAdded "], "a", KEPT),
        "an enum is added": (_string(), _string(enum=["a"]), ["!EnumAdded "], "b", REFUSED),
        "an enum is removed": (_string(enum=["a"]), _string(), ["EnumRemoved "], "a", KEPT),
        "both truths": (
            {"type": "boolean"},
            {"type": "boolean", "enum": [True, False]},
            [],
            True,
            KEPT,
        ),
        "one truth": (
            {"type": "boolean"},
            {"type": "boolean", "enum": [True]},
            ["!EnumAdded "],
            False,
            REFUSED,
        ),
        "a bound that all values meet": (
            _string(enum=["a", "b"]),
            _string(enum=["a", "b"], maxLength=1),
            [],
            "a",
            KEPT,
        ),
        "a pattern that a value does not match": (
            _string(enum=["a", "b"]),
            _string(enum=["a", "b"], pattern="^a"),
            ["!ValuesRemoved "],
            "b",
            REFUSED,
        ),
        "integers between bounds are named": (
            _integer(minimum=1, maximum=3),
            _integer(enum=[1, 2, 3]),
            [],
            3,
            KEPT,
        ),
        "some integers between bounds are named": (
            _integer(minimum=1, maximum=3),
            _integer(minimum=1, maximum=3, enum=[1, 2]),
            ["!EnumAdded "],
            3,
            REFUSED,
        ),
        # ---- alternatives
        "bounds of other types": (
            _integer(),
            _integer(maxLength=1, minItems=2, pattern="^a"),
            [],
            12345,
            KEPT,
        ),
        "an alternative is removed": (
            _string(anyOf=[{"pattern": "^a"}, {"pattern": "^b"}]),
            _string(anyOf=[{"pattern": "^a"}]),
            ["!AlternativesChanged "],
            "b",
            REFUSED,
        ),
        "an alternative is added": (
            _string(anyOf=[{"pattern": "^a"}]),
            _string(anyOf=[{"pattern": "^a"}, {"pattern": "^b"}]),
            ["ConstraintRelaxed "],
            "a",
            KEPT,
        ),
        "alternatives in another order": (
            {**_A_OR_B, "anyOf": [{"required": ["a", "b"]}, {"required": ["b"]}]},
            {**_A_OR_B, "anyOf": [{"required": ["b"]}, {"required": ["b", "a"]}]},
            [],
            {"b": "x"},
            KEPT,
        ),
        "any instead of exactly one": (
            {**_A_OR_B, "oneOf": _REQUIRED_A_OR_B},
            {**_A_OR_B, "anyOf": _REQUIRED_A_OR_B},
            ["ConstraintRelaxed ", "ConstraintRelaxed "],
            {"b": "x"},
            KEPT,
        ),
        "exactly one instead of any": (
            {**_A_OR_B, "anyOf": _REQUIRED_A_OR_B},
            {**_A_OR_B, "oneOf": _REQUIRED_A_OR_B},
            ["ConstraintRelaxed ", "!AlternativesChanged "],
            {"a": "x", "b": "y"},
            REFUSED,
        ),
        "exactly one, or a new field": (
            {**_A_OR_B, "oneOf": _REQUIRED_A_OR_B},
            {**_A_OR_B_OR_C, "oneOf": [*_REQUIRED_A_OR_B, {"required": ["c"]}]},
            ["ConstraintRelaxed ", "FieldAdded .c"],
            {"b": "x"},
            KEPT,
        ),
        "exactly one, or a field that was kept": (
            {**_A_OR_B, **_OPEN, "oneOf": _REQUIRED_A_OR_B},
            {**_A_OR_B, **_OPEN, "oneOf": [*_REQUIRED_A_OR_B, {"required": ["c"]}]},
            ["!AlternativesChanged "],
            {"b": "x", "c": "y"},
            REFUSED,
        ),
        "exactly one of more": (
            _string(oneOf=[{"pattern": "^a"}]),
            _string(oneOf=[{"pattern": "^a"}, {"pattern": "a$"}]),
            ["!AlternativesChanged "],
            "a",
            REFUSED,
        ),
        "what must not be": (
            _string(),
            _string(**{"not": {"pattern": "^a"}}),
            ["!AlternativesChanged "],
            "a",
            REFUSED,
        ),
        "one condition of several is removed": (
            _string(allOf=[{"pattern": "^a"}, {"minLength": 1}]),
            _string(allOf=[{"pattern": "^a"}]),
            ["ConstraintRelaxed "],
            "a",
            KEPT,
        ),
        "one more condition": (
            _string(allOf=[{"pattern": "^a"}]),
            _string(allOf=[{"pattern": "^a"}, {"minLength": 2}]),
            ["!AlternativesChanged "],
            "a",
            REFUSED,
        ),
        # ---- lists and maps of server-side apply
        "a list becomes a set": (
            _list(_string()),
            _list(_string(), **_SET),
            ["!ListTypeChanged "],
            ["a", "a"],
            REFUSED,
        ),
        "a set becomes a list": (
            _list(_string(), **_SET),
            _list(_string()),
            ["!ListTypeChanged "],
            ["a"],
            KEPT,
        ),
        "the same list type in words": (
            _list(_string()),
            _list(_string(), **{"x-kubernetes-list-type": "atomic"}),
            [],
            ["a", "a"],
            KEPT,
        ),
        "items get keys": (
            _list(_KEYED),
            _list(_KEYED, **_by("k", "p")),
            ["!ListTypeChanged "],
            [{"k": "a", "p": "b"}, {"k": "a", "p": "b"}],
            REFUSED,
        ),
        "items have fewer keys": (
            _list(_KEYED, **_by("k", "p")),
            _list(_KEYED_BY_K, **_by("k")),
            ["RequiredRemoved [*].p", "!ListMapKeysChanged "],
            [{"k": "a", "p": "b"}, {"k": "a", "p": "c"}],
            REFUSED,
        ),
        "an object becomes atomic": (
            _A,
            {**_A, "x-kubernetes-map-type": "atomic"},
            ["!MapTypeChanged "],
            {"a": "x"},
            KEPT,
        ),
        "an object becomes granular": (
            {**_A, "x-kubernetes-map-type": "atomic"},
            {**_A, "x-kubernetes-map-type": "granular"},
            ["MapTypeChanged "],
            {"a": "x"},
            KEPT,
        ),
        # ---- rules
        "a rule is added": (_integer(), _integer(**_rules(_RULE)), ["!RuleAdded "], 3, REFUSED),
        "a rule is removed": (_integer(**_rules(_RULE)), _integer(), ["RuleRemoved "], 7, KEPT),
        "a rule is written otherwise": (
            _integer(**_rules(_RULE)),
            _integer(**_rules({"rule": "self>5", "message": "m"})),
            [],
            7,
            KEPT,
        ),
        "the message of a rule changes": (
            _integer(**_rules(_RULE)),
            _integer(**_rules({**_RULE, "message": "n"})),
            ["RuleMessageChanged "],
            7,
            KEPT,
        ),
        "a rule about updates is added": (
            _integer(),
            _integer(**_rules({"rule": "self >= oldSelf"})),
            ["!RuleAdded "],
            3,
            KEPT,
        ),
        "only texts change": (_string(description="a"), _string(description="b", title="c"), [], "x", KEPT),
    }.items()
}
