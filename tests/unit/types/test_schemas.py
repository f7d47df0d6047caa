"""The structural schemas of types. Each is in a definition that the server accepts."""

from __future__ import annotations

import datetime
import enum
import ipaddress
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, NewType, TypedDict, TypeVar

import pytest
from typing_extensions import TypeAliasType

from apiserver.types import (
    Depth,
    Doc,
    EmbeddedObject,
    Format,
    Ge,
    Gt,
    Immutable,
    Interval,
    IntOrString,
    Keywords,
    Le,
    Len,
    Lt,
    MaxLen,
    MinLen,
    MultipleOf,
    Nullable,
    Pattern,
    Preserve,
    Quantity,
    Rule,
    atomic,
    map_by,
    set_list,
)
from apiserver.types.markers import QUANTITY
from tests.unit.types.checks import field_schema

INTEGER: Final = {"type": "integer", "format": "int64"}
STRING: Final = {"type": "string"}
ANYTHING: Final = {"x-kubernetes-preserve-unknown-fields": True}
Sku = NewType("Sku", str)


T = TypeVar("T")
Port = TypeAliasType("Port", Annotated[int | None, Le(65535)])
Ports = TypeAliasType("Ports", list[Port])
Pairs = TypeAliasType("Pairs", dict[str, tuple[T, T]], type_params=(T,))
INTEGERS: Final = {"type": "array", "items": INTEGER}
PAIR: Final = {"minItems": 2, "maxItems": 2}


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Weather(enum.Enum):
    """The weather of a day."""

    SUN = "sun"


@dataclass
class Documented:
    """Documented(1) is one."""

    one: int | None = None


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Part:
    """A part of a machine."""

    name: str
    count: int = 1


PART: Final = {
    "description": "A part of a machine.",
    "type": "object",
    "properties": {"name": STRING, "count": {**INTEGER, "default": 1}},
    "required": ["name"],
}

SCHEMAS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "bool": (bool, {"type": "boolean"}),
    "int": (int, INTEGER),
    "float": (float, {"type": "number", "format": "double"}),
    "int or float": (int | float, {"type": "number", "format": "double"}),
    "str": (str, STRING),
    "bytes": (bytes, {"type": "string", "format": "byte"}),
    "datetime": (datetime.datetime, {"type": "string", "format": "date-time"}),
    "date": (datetime.date, {"type": "string", "format": "date"}),
    "timedelta": (datetime.timedelta, {"type": "string", "format": "duration"}),
    "UUID": (uuid.UUID, {"type": "string", "format": "uuid"}),
    "IPv4": (ipaddress.IPv4Address, {"type": "string", "format": "ipv4"}),
    "IPv6": (ipaddress.IPv6Address, {"type": "string", "format": "ipv6"}),
    "Decimal": (Decimal, QUANTITY.schema),
    "Quantity": (Quantity, QUANTITY.schema),
    "IntOrString": (IntOrString, {"x-kubernetes-int-or-string": True}),
    "EmbeddedObject": (
        EmbeddedObject,
        {"type": "object", "x-kubernetes-embedded-resource": True, **ANYTHING},
    ),
    "Any": (Any, ANYTHING),
    "Enum": (Color, {"type": "string", "enum": ["red", "green"]}),
    "IntEnum": (Size, {"type": "integer", "enum": [1, 2]}),
    "Literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    "a union of Literals": (Literal["a"] | Literal["b"], {"type": "string", "enum": ["a", "b"]}),
    "a union of Literals with the same value": (
        Literal["a"] | Literal["a", "b"],
        {"type": "string", "enum": ["a", "b"]},
    ),
    "an Enum with a docstring": (
        Weather,
        {"description": "The weather of a day.", "type": "string", "enum": ["sun"]},
    ),
    "a class whose docstring begins like a signature": (
        Documented,
        {"description": "Documented(1) is one.", "type": "object", "properties": {"one": INTEGER}},
    ),
    "a new type": (Sku, STRING),
    "an alias": (Ports, {"type": "array", "items": {**INTEGER, "nullable": True, "maximum": 65535}}),
    "a generic alias": (Pairs[int], {"type": "object", "additionalProperties": {**INTEGERS, **PAIR}}),
    "list": (list[int], {"type": "array", "items": INTEGER}),
    "Sequence": (Sequence[int], {"type": "array", "items": INTEGER}),
    "a bare list": (list, {"type": "array", "items": ANYTHING}),
    "tuple": (tuple[int, ...], {"type": "array", "items": INTEGER}),
    "a pair": (tuple[int, int], {"type": "array", "minItems": 2, "maxItems": 2, "items": INTEGER}),
    "set": (set[str], {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}),
    "frozenset": (frozenset[int], {"type": "array", "items": INTEGER, "x-kubernetes-list-type": "set"}),
    "a list of objects or null": (
        list[Part | None],
        {"type": "array", "items": {**PART, "nullable": True}},
    ),
    "dict": (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    "Mapping": (Mapping[Sku, int], {"type": "object", "additionalProperties": INTEGER}),
    "a dict of anything": (dict[str, Any], {"type": "object", **ANYTHING}),
    "a bare dict": (dict, {"type": "object", **ANYTHING}),
    "a class": (Part, PART),
    "a required value or null": (int | None, {**INTEGER, "nullable": True}),
    "a union with None": (int | str | None, {"nullable": True, "x-kubernetes-int-or-string": True}),
}


@pytest.mark.parametrize(("hint", "schema"), SCHEMAS.values(), ids=SCHEMAS)
def test_the_schema_of_a_type(hint: Any, schema: dict[str, Any]) -> None:
    assert field_schema(hint) == schema


MARKERS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "Ge, Le": (Annotated[int, Ge(1), Le(9)], {**INTEGER, "minimum": 1, "maximum": 9}),
    "Gt, Lt": (
        Annotated[float, Gt(0), Lt(1.5)],
        {
            "type": "number",
            "format": "double",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 1.5,
            "exclusiveMaximum": True,
        },
    ),
    "the stricter of two": (Annotated[int, Ge(1), Ge(3), Gt(2)], {**INTEGER, "minimum": 3}),
    "Ge and Gt of the same": (
        Annotated[int, Ge(3), Gt(3)],
        {**INTEGER, "minimum": 3, "exclusiveMinimum": True},
    ),
    "Interval": (
        Annotated[int, Interval(ge=1, lt=5)],
        {**INTEGER, "minimum": 1, "maximum": 5, "exclusiveMaximum": True},
    ),
    "MultipleOf": (Annotated[int, MultipleOf(5)], {**INTEGER, "multipleOf": 5}),
    "two multiples": (Annotated[int, MultipleOf(4), MultipleOf(6)], {**INTEGER, "multipleOf": 12}),
    "of an optional type": (Annotated[int | None, Ge(1)], {**INTEGER, "nullable": True, "minimum": 1}),
    "of an alias": (Annotated[Annotated[int, Ge(1)], Le(2)], {**INTEGER, "minimum": 1, "maximum": 2}),
    "of items": (list[Annotated[int, Ge(1)]], {"type": "array", "items": {**INTEGER, "minimum": 1}}),
    "lengths of a str": (Annotated[str, MinLen(1), MaxLen(3)], {**STRING, "minLength": 1, "maxLength": 3}),
    "Len of a list": (
        Annotated[list[int], Len(1, 3)],
        {"type": "array", "minItems": 1, "maxItems": 3, "items": INTEGER},
    ),
    "MaxLen of a dict": (
        Annotated[dict[str, int], MaxLen(3)],
        {"type": "object", "maxProperties": 3, "additionalProperties": INTEGER},
    ),
    "bounds of a number or a string": (
        Annotated[IntOrString, Ge(1), MaxLen(4)],
        {"minimum": 1, "maxLength": 4, "x-kubernetes-int-or-string": True},
    ),
    "bounds of the members of a union": (
        Annotated[str, Pattern("%$")] | Annotated[int, Ge(1)],
        {"pattern": "%$", "minimum": 1, "x-kubernetes-int-or-string": True},
    ),
    "Pattern": (Annotated[str, Pattern("^a+$")], {**STRING, "pattern": "^a+$"}),
    "Format of a str": (Annotated[str, Format("hostname")], {**STRING, "format": "hostname"}),
    "Format of an int": (Annotated[int, Format("int32")], {"type": "integer", "format": "int32"}),
    "Doc": (Annotated[int, Doc("A number.")], {"description": "A number.", **INTEGER}),
    "Doc of a class": (Annotated[Part, Doc("The first part.")], {**PART, "description": "The first part."}),
    "Preserve": (Annotated[Part, Preserve], {**PART, **ANYTHING}),
    "Nullable": (Annotated[int, Nullable], {**INTEGER, "nullable": True}),
    "a Nullable enumeration": (
        list[Annotated[Literal["a"], Nullable] | None],
        {"type": "array", "items": {"type": "string", "enum": ["a"], "nullable": True}},
    ),
    "Nullable items": (
        list[Annotated[int, Nullable]],
        {"type": "array", "items": {**INTEGER, "nullable": True}},
    ),
    "Rule": (
        Annotated[int, Rule("self != 13", message="bad luck", reason="FieldValueForbidden")],
        {
            **INTEGER,
            "x-kubernetes-validations": [
                {"rule": "self != 13", "message": "bad luck", "reason": "FieldValueForbidden"}
            ],
        },
    ),
    "Immutable": (
        Annotated[str, Immutable],
        {
            **STRING,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "field is immutable"}],
        },
    ),
    "map_by": (
        Annotated[list[Part], map_by("name")],
        {
            "type": "array",
            "items": PART,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    ),
    "set_list": (
        Annotated[list[str], set_list],
        {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    ),
    "an atomic list": (
        Annotated[list[Part], atomic],
        {"type": "array", "items": PART, "x-kubernetes-list-type": "atomic"},
    ),
    "an atomic object": (Annotated[Part, atomic], {**PART, "x-kubernetes-map-type": "atomic"}),
    "Keywords of a class": (
        Annotated[Part, Keywords({"minProperties": 1, "anyOf": [{"required": ["count"]}]})],
        {**PART, "minProperties": 1, "anyOf": [{"required": ["count"]}]},
    ),
    "Keywords of a str": (
        Annotated[str, Keywords({"not": {"enum": ["."]}}), Keywords({"title": "Name"})],
        {**STRING, "not": {"enum": ["."]}, "title": "Name"},
    ),
}


@pytest.mark.parametrize(("hint", "schema"), MARKERS.values(), ids=MARKERS)
def test_what_markers_add(hint: Any, schema: dict[str, Any]) -> None:
    assert field_schema(hint) == schema


def test_markers_of_others_are_ignored() -> None:
    assert field_schema(Annotated[int, "a text", object(), str, Ge, {"ge": 1}]) == INTEGER


# ---- recursion


@dataclass
class Tree:
    name: str
    children: Annotated[list[Tree], Depth(2)] = field(default_factory=list)


def test_a_recursive_class_ends_at_its_depth() -> None:
    leaf = {"type": "object", "properties": {"name": STRING}, "required": ["name"]}
    branches = {"type": "array", "default": [], "items": leaf}
    branch = {**leaf, "properties": {"name": STRING, "children": branches}}
    tree = {**leaf, "properties": {"name": STRING, "children": {**branches, "items": branch}}}
    assert field_schema(Tree) == tree


@dataclass
class Folder:
    files: dict[str, File]


@dataclass
class File:
    origin: Annotated[Folder | None, Depth(1)] = None


def test_classes_may_contain_each_other() -> None:
    def files(schema: dict[str, Any]) -> dict[str, Any]:
        of = {"type": "object", "additionalProperties": schema}
        return {"type": "object", "properties": {"files": of}, "required": ["files"]}

    inner = files({"type": "object"})
    assert field_schema(Folder) == files({"type": "object", "properties": {"origin": inner}})


# ---- TypedDicts have rules and defaults, too


class Point(TypedDict, total=False):
    x: int
    y: int


def test_a_type_may_be_used_twice() -> None:
    point = {"type": "object", "properties": {"x": INTEGER, "y": INTEGER}}
    assert field_schema(dict[str, tuple[Point, Point]]) == {
        "type": "object",
        "additionalProperties": {"type": "array", "items": point, "minItems": 2, "maxItems": 2},
    }
