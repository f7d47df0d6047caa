"""The errors of custom resources (recorded from Kubernetes, or from the texts of kube-openapi)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.custom_resources.schemas.validation import ERRORS_MAX

from .samples import (
    INT_OR_STRING,
    TEXT,
    WHOLE,
    Problem,
    field,
    items,
    of,
    problems,
    problems_of,
    root,
    values,
)

NUMBER: Final = {"type": "number"}


def mistyped(value: str, wanted: str, at: str = "v") -> Problem:
    """value: the type that is found, as the message names it."""
    return (at, "TypeInvalid", f'Invalid value: "{value}": {at} in body must be of type {wanted}: "{value}"')


def invalid(value: str, text: str, at: str = "v") -> Problem:
    return (at, "Invalid", f"Invalid value: {value}: {at} in body {text}")


def general(text: str) -> Problem:
    return ("<nil>", "Invalid", f'Invalid value: "": {text}')


# Row E01: all wrong types together, with status 422.
TYPES: Final[dict[str, tuple[dict[str, Any], Any, list[Problem]]]] = {
    "a text": (TEXT, "", []),
    "no text": (TEXT, 5, [mistyped("integer", "string")]),
    "a whole number": (WHOLE, -5, []),
    "a whole number with a point": (WHOLE, 5.0, []),
    "a fraction is no whole number, in two ways": (
        WHOLE,
        1.5,
        [
            mistyped("number", "integer"),
            general("Checked value must be of type integer (default format) in v"),
        ],
    ),
    "more than 64 bits are a fraction": (
        WHOLE,
        1 << 63,
        [
            mistyped("number", "integer"),
            general("Checked value must be of type integer (default format) in v"),
        ],
    ),
    "64 bits are whole": (WHOLE, (1 << 63) - 1, []),
    "true is no number": (NUMBER, True, [mistyped("boolean", "number")]),
    "a whole number is a number": (NUMBER, 5, []),
    "so is one of more than 64 bits": (NUMBER, 1 << 70, []),
    "32 bits": (WHOLE | {"format": "int32"}, (1 << 31) - 1, []),
    "more than 32 bits": (
        WHOLE | {"format": "int32"},
        3_000_000_000,
        [general("Checked value must be of type integer with format int32 in v")],
    ),
    "another type where a format is asked for": (
        WHOLE | {"format": "int32"},
        True,
        [("v", "TypeInvalid", 'Invalid value: "": v in body must be of type int32: ""')],
    ),
    "a float of 32 bits": (NUMBER | {"format": "float"}, 3.4e38, []),
    "a float of more": (
        NUMBER | {"format": "float"},
        3.5e38,
        [general("Checked value must be of type number with format float in v")],
    ),
    "a double": (NUMBER | {"format": "double"}, 3.5e300, []),
    "formats of other types say nothing": (NUMBER | {"format": "int32"}, 3.5e300, []),
    "a number or a text": (INT_OR_STRING, "5%", []),
    "a fraction is neither": (INT_OR_STRING, 1.5, [mistyped("number", "integer,string")]),
    "null": (items(TEXT), [None], [mistyped("null", "string", "v[0]")]),
    "null where it may be": (items(TEXT | {"nullable": True}), [None], []),
    "an object": (of(a=TEXT), "x", [mistyped("string", "object")]),
    "a list is told once": (of(a=TEXT), [1], [mistyped("array", "object")]),
    "in maps": (values(TEXT), {"k": 1}, [mistyped("integer", "string", "v.k")]),
    "in lists": (items(WHOLE), [1, "a"], [mistyped("string", "integer", "v[1]")]),
    "a list is not asked for its type where a format is told": (TEXT | {"format": "date"}, [1], []),
}

LIMITS: Final[dict[str, tuple[dict[str, Any], Any, list[Problem]]]] = {
    "too long": (
        TEXT | {"maxLength": 2},
        "abc",
        [("v", "TooLong", "Too long: may not be more than 2 bytes")],
    ),
    "length is told in characters": (TEXT | {"maxLength": 2}, "äö", []),
    "too short": (TEXT | {"minLength": 2}, "x", [invalid('"x"', "should be at least 2 chars long")]),
    "one thing of a text": (
        TEXT | {"maxLength": 1, "pattern": "^a+$"},
        "bb",
        [("v", "TooLong", "Too long: may not be more than 1 byte")],
    ),
    "no text has less than no characters": (
        TEXT | {"maxLength": -1},
        "b",
        [("v", "TooLong", "Too long: value is too long")],
    ),
    "a pattern": (TEXT | {"pattern": "^[a-z]+$"}, "1", [invalid('"1"', "should match '^[a-z]+$'")]),
    "a pattern may match anywhere": (TEXT | {"pattern": "[a-z]"}, "1a1", []),
    "a pattern that has become invalid": (
        TEXT | {"pattern": "[a"},
        "a",
        [
            invalid(
                '"a"',
                "should match '[a, but pattern is invalid: error parsing regexp: missing closing ]: `[a`'",
            )
        ],
    ),
    "the greatest": (WHOLE | {"maximum": 10}, 11, [invalid("11", "should be less than or equal to 10")]),
    "less than": (
        NUMBER | {"maximum": 0.5, "exclusiveMaximum": True},
        0.5,
        [invalid("0.5", "should be less than 0.5")],
    ),
    "the least": (WHOLE | {"minimum": 1}, 0, [invalid("0", "should be greater than or equal to 1")]),
    "more than": (
        NUMBER | {"minimum": 0, "exclusiveMinimum": True},
        0,
        [invalid("0", "should be greater than 0")],
    ),
    "great floats have an exponent": (
        NUMBER | {"maximum": 1_000_000},
        2_500_000.5,
        [invalid("2.5000005e+06", "should be less than or equal to 1e+06")],
    ),
    "a limit beyond its type refuses all": (
        WHOLE | {"format": "int32", "maximum": 4_294_967_295},
        1,
        [general("Maximum boundary value must be of type integer with format int32 in v")],
    ),
    "both, where the value is beyond it, too": (
        WHOLE | {"format": "int32", "maximum": 4_294_967_295},
        1 << 33,
        [
            general("Checked value must be of type integer with format int32 in v"),
            general("Maximum boundary value must be of type integer with format int32 in v"),
            invalid("8589934592", "should be less than or equal to 4.294967295e+09"),
        ],
    ),
    "a multiple": (WHOLE | {"multipleOf": 3}, 7, [invalid("7", "should be a multiple of 3")]),
    "of a fraction": (NUMBER | {"multipleOf": 0.1}, 0.3, []),
    "of a fraction, not": (
        NUMBER | {"multipleOf": 0.5},
        0.7,
        [invalid("0.7", "should be a multiple of 0.5")],
    ),
    "whole numbers are compared with whole numbers": (
        NUMBER | {"multipleOf": 2.5},
        3,
        [invalid("3", "should be a multiple of 2")],
    ),
    "a factor below 1 is none for whole numbers": (
        NUMBER | {"multipleOf": 0.5},
        7,
        [("v", "Invalid", "Invalid value: 0: factor MultipleOf declared for v must be positive: 0")],
    ),
    "multiples of a fraction have rounding errors": (NUMBER | {"multipleOf": 0.01}, 4.35, []),
    "one of": (
        TEXT | {"enum": ["A", "B"]},
        "C",
        [("v", "NotSupported", 'Unsupported value: "C": supported values: "A", "B"')],
    ),
    "one of several numbers": (
        WHOLE | {"enum": [1, 2]},
        3,
        [("v", "NotSupported", 'Unsupported value: 3: supported values: "1", "2"')],
    ),
    "one of several objects": ({**of(a=WHOLE), "enum": [{"a": 1}]}, {"a": 1}, []),
    "true is not 1": (
        {"enum": [1]},
        True,
        [("v", "NotSupported", 'Unsupported value: true: supported values: "1"')],
    ),
    "null is never one of them": (
        items(TEXT | {"nullable": True, "enum": ["A", None]}),
        [None],
        [("v[0]", "NotSupported", 'Unsupported value: null: supported values: "A", "null"')],
    ),
    "too many items": (
        items(WHOLE, maxItems=1),
        [1, 2],
        [("v", "TooMany", "Too many: 2: must have at most 1 item")],
    ),
    "no list has less than no items": (
        items(WHOLE, maxItems=-1),
        [],
        [("v", "TooMany", "Too many: 0: has too many items")],
    ),
    "items come before their number": (
        items(WHOLE, minItems=3),
        ["x"],
        [mistyped("string", "integer", "v[0]"), invalid("1", "should have at least 3 items")],
    ),
    "fields are validated whatever their number": (
        values(WHOLE, maxProperties=1),
        {"a": "x", "b": 1},
        [("v", "TooMany", "Too many: 2: must have at most 1 item"), mistyped("string", "integer", "v.a")],
    ),
    "both limits of the number of fields": (
        of(a=WHOLE) | {"minProperties": 2, "maxProperties": 0, "required": ["r"]},
        {"a": "x"},
        [
            invalid("1", "should have at least 2 properties"),
            ("v", "TooMany", "Too many: 1: must have at most 0 items"),
            mistyped("string", "integer", "v.a"),
            ("v.r", "Required", "Required value"),
        ],
    ),
    "the best match counts fields whatever their number": (
        of(a=WHOLE, b=WHOLE)
        | {
            "anyOf": [
                {"properties": {"a": {"maximum": 0}}},
                {"maxProperties": 1, "properties": {"a": {"minimum": 0}, "b": {"minimum": 0}}},
            ]
        },
        {"a": 1, "b": 1},
        [
            general('"v" must validate at least one schema (anyOf)'),
            ("v", "TooMany", "Too many: 2: must have at most 1 item"),
        ],
    ),
    "too few fields": (
        values(WHOLE, minProperties=1),
        {},
        [invalid("0", "should have at least 1 properties")],
    ),
    "what must be there comes last": (
        of(a=WHOLE) | {"required": ["r", "s"]},
        {"a": "x"},
        [
            mistyped("string", "integer", "v.a"),
            ("v.r", "Required", "Required value"),
            ("v.s", "Required", "Required value"),
        ],
    ),
    "a format": (
        TEXT | {"format": "date-time"},
        "x",
        [("v", "TypeInvalid", 'Invalid value: "x": v in body must be of type date-time: "x"')],
    ),
    "a format that nobody knows": (TEXT | {"format": "zip"}, "x", []),
}

A, B = {"required": ["a"]}, {"required": ["b"]}
REQUIRED_A: Final = ("v.a", "Required", "Required value")
LOGIC: Final[dict[str, tuple[dict[str, Any], Any, list[Problem]]]] = {
    "one of them": (of(a=TEXT, b=TEXT) | {"oneOf": [A, B]}, {"a": "1"}, []),
    "two of them": (
        of(a=TEXT, b=TEXT) | {"oneOf": [A, B]},
        {"a": "1", "b": "2"},
        [general('"v" must validate one and only one schema (oneOf). Found 2 valid alternatives')],
    ),
    "none, with what the first lacks": (
        of(a=TEXT, b=TEXT) | {"oneOf": [A, B]},
        {},
        [general('"v" must validate one and only one schema (oneOf). Found none valid'), REQUIRED_A],
    ),
    "any of them": (WHOLE | {"anyOf": [{"minimum": 10}, {"maximum": 3}]}, 2, []),
    "none of them": (
        WHOLE | {"anyOf": [{"minimum": 10}, {"maximum": 3}]},
        5,
        [
            general('"v" must validate at least one schema (anyOf)'),
            invalid("5", "should be greater than or equal to 10"),
        ],
    ),
    "what fits best is explained": (
        of(a=WHOLE, b=WHOLE)
        | {
            "anyOf": [
                {"required": ["c"]},
                {"required": ["c"], "properties": {"a": {"minimum": 0}, "b": {"maximum": 0}}},
            ]
        },
        {"a": 1, "b": 1},
        [
            general('"v" must validate at least one schema (anyOf)'),
            invalid("1", "should be less than or equal to 0", "v.b"),
            ("v.c", "Required", "Required value"),
        ],
    ),
    "all of them": (
        WHOLE | {"allOf": [{"minimum": 5}, {"maximum": 9}]},
        1,
        [
            invalid("1", "should be greater than or equal to 5"),
            general('"v" must validate all the schemas (allOf)'),
        ],
    ),
    "none of all": (
        WHOLE | {"allOf": [{"minimum": 5}]},
        1,
        [
            invalid("1", "should be greater than or equal to 5"),
            general('"v" must validate all the schemas (allOf). None validated'),
        ],
    ),
    "not": (WHOLE | {"not": {"enum": [13]}}, 13, [general('"v" must not validate the schema (not)')]),
    "not, and it is not": (WHOLE | {"not": {"enum": [13]}}, 12, []),
    "the same is told once": (
        WHOLE | {"allOf": [{"minimum": 5}, {"minimum": 5}], "minimum": 5},
        1,
        [
            invalid("1", "should be greater than or equal to 5"),
            general('"v" must validate all the schemas (allOf). None validated'),
        ],
    ),
    "a number or a text with a pattern": (
        INT_OR_STRING | {"anyOf": [WHOLE, TEXT], "pattern": "^[0-9]+%$"},
        "x",
        [invalid('"x"', "should match '^[0-9]+%$'")],
    ),
}
CASES: Final = TYPES | LIMITS | LOGIC


@pytest.mark.parametrize(("schema", "value", "expected"), CASES.values(), ids=CASES)
def test_value(schema: dict[str, Any], value: Any, expected: list[Problem]) -> None:
    assert problems(schema, value) == expected


def test_at_the_top_no_field_is_named() -> None:
    custom = root(of(a=TEXT) | {"minProperties": 2, "required": ["b"], "not": {"required": ["c"]}})
    assert problems_of(custom.validate({"a": 1, "c": 1})) == [
        ("<nil>", "Invalid", 'Invalid value: "": "" must not validate the schema (not)'),
        mistyped("integer", "string", "a"),
        ("b", "Required", "Required value"),
    ]
    assert problems_of(custom.validate({"a": "x"})) == [
        ("<nil>", "Invalid", "Invalid value: 1:  in body should have at least 2 properties"),
        ("b", "Required", "Required value"),
    ]


def test_errors_of_a_status_have_paths_below_it() -> None:
    custom = root(of(status=of(msg=TEXT) | {"required": ["n"], "not": {"required": ["x"]}}))
    assert problems_of(custom.validate_status({"msg": 1, "x": 1})) == [
        ("status", "Invalid", 'Invalid value: "": "" must not validate the schema (not)'),
        (
            "status.msg",
            "TypeInvalid",
            'Invalid value: "integer": msg in body must be of type string: "integer"',
        ),
        ("status.n", "Required", "Required value"),
    ]
    assert custom.validate_status({"msg": 1, "n": 1}, {"msg": 1, "n": 1}) == []
    assert root(of()).validate_status({"a": 1}) == []


def test_no_more_errors_than_can_be_read() -> None:
    custom = field(items(of(a=WHOLE)))
    assert len(custom.validate({"v": [{"a": "x"}] * 100_000})) == ERRORS_MAX
