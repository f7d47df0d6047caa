"""What a structural schema cannot say is an error with its place in the class, and a hint."""

from __future__ import annotations

import datetime
import enum
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, NewType, TypeVar

import msgspec
import pydantic
import pytest

from apiserver.types import (
    Depth,
    Ge,
    Immutable,
    Kubernetes,
    Le,
    MaxLen,
    MultipleOf,
    Name,
    Pattern,
    Selectable,
    Unrepresentable,
    crd,
    definition,
    map_by,
    rule,
    set_list,
)
from tests.unit.types.checks import object_of

T = TypeVar("T")
NOW: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Color(enum.Enum):
    RED = "red"


class Root(pydantic.RootModel[list["Root"]]):
    pass


@dataclass
class Growing(Generic[T]):
    next: list[Growing[list[T]]]


@dataclass
class Part:
    name: str
    color: str | None = None


@dataclass
class NullKey:
    name: str | None


@dataclass
class Other:
    name: str
    color: int


@dataclass
class Disk:
    disk: str
    size: int = 1


@dataclass
class Share:
    share: str
    size: str = "1Gi"


@dataclass
class Node:
    next: Node | None = None


@dataclass
class Tree:
    children: list[Annotated[Tree, Depth(2)]]


@dataclass
class Box(Generic[T]):
    content: T


class Pair(NamedTuple):
    one: int
    two: int


# A type of its own: `typing` returns the same object for equal hints, and Ge(True) equals Ge(1).
Number = NewType("Number", float)


class Infinite(enum.Enum):
    ALL = float("inf")


@dataclass
class TwoNames:
    one: Annotated[int, Name("x")]
    two: Annotated[str, Name("x")]


class Row(msgspec.Struct, array_like=True):
    one: int


@dataclass
class TextTag:
    tag: Literal["a"]


@dataclass
class NumberTag:
    tag: Literal[1]


@rule("true")
@dataclass
class TextTag1:
    tag: Annotated[Literal["a"], Name("1")]


@dataclass
class TextTag2:
    tag: Annotated[Literal["b"], Name("1")]


class Nested(pydantic.BaseModel):
    value: int = pydantic.Field(validation_alias=pydantic.AliasPath("outer", "value"))


NoPython = make_dataclass("NoPython", [("value", "int |")])
NoAttribute = make_dataclass("NoAttribute", [("value", "int.missing")])


class Plain:
    pass


@dataclass
class Unknown:
    part: Missing  # type: ignore[name-defined]  # noqa: F821


HINTS: Final[dict[str, tuple[Any, str]]] = {
    "complex": (complex, "JSON has no values of type complex; use two numbers"),
    "a time of day": (datetime.time, "JSON has no values of type time; use a str with a Pattern"),
    "a function": (Callable[[], int], "the class Callable has no schema; use str, a dataclass"),
    "a plain class": (Plain, "the class Plain has no schema; use str, a dataclass"),
    "keys that are numbers": (dict[int, str], "the keys of a dict are str; use a class, or dict[str, ...]"),
    "keys with a pattern": (dict[Annotated[str, Pattern("a")], str], "the keys of a dict are str"),
    "a number or a bool": (int | bool, "a value of int | bool; use int | str, or a union of classes"),
    "a class or a str": (Part | str, "a value of Part | str; use int | str"),
    "lists or texts": (list[str] | str, "a value of list | str; use int | str"),
    "values of two types": (Mixed, "an enumeration of int, str; use values that all are str"),
    "a Literal of two types": (Literal["a", 1], "an enumeration of int, str; use values"),
    "a Literal of int and bool": (Literal[1, True], "an enumeration of bool, int; use values"),
    "items of two types": (tuple[int, str], "all items of a list have one type; use a class"),
    "a named tuple": (Pair, "the class Pair has no schema; use str, a dataclass"),
    "a type variable": (Box, "the type variable ~T has no type; name one, as in Box[int]"),
    "a rule for any value": (
        Annotated[Any, Immutable],
        "a rule needs a value with a type; use dict",
    ),
    "a rule for any list": (
        Annotated[list[Any], Immutable],
        "a rule needs a value with a type; use dict",
    ),
    "a path": (Path, "the class Path has no schema; use str, a dataclass, a pydantic model, a msgspec"),
    "null in an enumeration": (
        list[Color | None],
        "an enumeration cannot have null; remove None, or",
    ),
    "a Literal with None": (Literal["a", None], "an enumeration cannot have null; remove None, or"),
    "a root model in itself": (Root, "Root contains itself; add Depth(n) to the field"),
    "ever larger types": (Growing[int], "types contain each other without end; use a class with Depth(n)"),
    "no depth": (Node, "Node contains itself; add Depth(n) to the field"),
    "a depth of the items": (Tree, "Tree contains itself; add Depth(n) to the field"),
    "an unknown name": (Unknown, "the type 'Missing' is not defined; define it in the module"),
    "a text": (list["Missing"], "the type 'Missing' is not defined; define it in"),  # type: ignore[name-defined]  # noqa: F821
    "a bound of a text": (Annotated[str, Ge(1)], "the bound ge applies to numbers only; use a Rule in CEL"),
    "a bound of a quantity": (
        Annotated[Decimal, Ge(1)],
        "bounds do not apply to the text of a quantity; use",
    ),
    "a bound of a date": (
        Annotated[datetime.date, Ge(datetime.date(2026, 1, 1))],
        "bounds do not apply to the text of a date; use a Rule in CEL",
    ),
    "a bound that is no number of JSON": (
        Annotated[int, Ge(Decimal("1.5"))],
        "the bound ge is Decimal('1.5'); use an int or a float",
    ),
    "an infinite bound": (
        Annotated[float, Le(float("inf"))],
        "the bound le is inf; use an int or a float",
    ),
    "a bound that is no number": (Annotated[float, Ge(float("nan"))], "the bound ge is nan; use an int"),
    "a bound that is a bool": (Annotated[Number, Ge(True)], "the bound ge is True; use an int or a float"),
    "bounds of two types": (
        Annotated[int, Ge(1), Ge("a")],
        "the bounds ge 1 and 'a' cannot be combined; use one of them",
    ),
    "multiples without a common one": (
        Annotated[float, MultipleOf(0.5), MultipleOf(3)],
        "the bounds multiple_of 0.5 and 3 cannot be combined; use one of them",
    ),
    "a dict without values": (Counter[str], "a dict has types for its keys and values; use dict[str, ...]"),
    "an infinite value": (Infinite, "JSON has no infinity and no NaN; use other values"),
    "two fields of a name": (TwoNames, "the field one is also named x; rename one of them"),
    "a struct that is an array": (Row, "msgspec writes Row as an array; remove array_like=True"),
    "tags of two types": (TextTag | NumberTag, "an object of NumberTag may also be one of TextTag; add a"),
    "a tag without a name in CEL": (TextTag1 | TextTag2, "rules in CEL cannot access the field '1'; rename"),
    "an alias that is a path": (Nested, "the alias is a path; use a class with the field at the end of the"),
    "a hint that is no Python": (NoPython, "the type hints of NoPython raise SyntaxError: Forward reference"),
    "a hint without its attribute": (NoAttribute, "the type hints of NoAttribute raise AttributeError: "),
    "a length of a number": (Annotated[int, MaxLen(1)], "the bound max_length applies to strings, lists and"),
    "a length of a class": (Annotated[Part, MaxLen(1)], "the bound max_length applies to strings, lists and"),
    "a length of bytes": (Annotated[bytes, MaxLen(1)], "bounds do not apply to the text of a byte; use"),
    "a pattern of a number": (Annotated[int, Pattern("1")], "a pattern applies to strings only; use a Rule"),
    "two patterns": (Annotated[str, Pattern("a"), Pattern("b")], "a schema can have one pattern only"),
    "an unknown key": (Annotated[list[Part], map_by("id")], "the key id is not a field of the items"),
    "a key that may be absent": (Annotated[list[Part], map_by("color")], "the key color can be absent; make"),
    "a map of scalars": (Annotated[list[str], map_by("id")], "the key id is not a field of the items"),
    "a key that may be null": (
        Annotated[list[NullKey], map_by("name")],
        "the key name can be null; remove None from its type",
    ),
    "null in a map": (
        Annotated[list[Part | None], map_by("name")],
        "null is not an item of a list of type map; remove None",
    ),
    "null in a set": (set[int | None], "null is not an item of a list of type set; remove None"),
    "bounds of one of two numbers": (Annotated[int, Ge(1)] | float, "a value of int | float; use int | str"),
    "a list type of a dict": (Annotated[dict[str, str], set_list], "the marker for lists of type set is not"),
    "a set of objects": (set[Box[int]], "the items of a set are strings, numbers or booleans; use map_by"),
    "a selectable list": (Annotated[list[str], Selectable], "clients can select by strings, integers and"),
    "a selectable name with a dot": (
        Annotated[str, Name("a.b"), Selectable],
        "and booleans, but not in lists, dicts and unions; use a field whose path has no such type, and no",
    ),
    "a field of two types in a union": (Disk | Share, "the field size has different types in Disk and Share"),
    "models that cannot be told apart": (Part | Other, "an object of Other may also be one of Part; add a"),
    "an unknown Kubernetes type": (
        Annotated[Any, Kubernetes("io.k8s.Pod")],
        "Kubernetes has no type io.k8s.Pod",
    ),
    "a recursive Kubernetes type": (
        Annotated[
            Any,
            Kubernetes("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"),
        ],
        "the type io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps contains itself",
    ),
}


@pytest.mark.parametrize(("hint", "problem"), HINTS.values(), ids=HINTS)
def test_a_type_without_a_schema(hint: Any, problem: str) -> None:
    with pytest.raises(Unrepresentable) as raised:
        definition(object_of(hint))
    assert problem in str(raised.value)
    assert raised.value.path.startswith("Widget")


CYCLE: Final[list[Any]] = []
CYCLE.append(CYCLE)
DEFAULTS: Final[dict[str, tuple[Any, Any, str]]] = {
    "an infinite number": (float, lambda: float("inf"), "the default inf has no form in JSON; make the"),
    "an object": (Any, Plain, "has no form in JSON; make the field optional"),
    "a random text": (str, lambda: str(uuid.uuid4()), "the default factory returns another value at each"),
    "a random number": (float, random.random, "the default factory returns another value at each call; make"),
    "a local time": (
        datetime.datetime,
        lambda: NOW.replace(tzinfo=None),
        "the time has no time zone",
    ),
    "half a second": (
        datetime.timedelta,
        lambda: datetime.timedelta(seconds=0.5),
        "the duration 0:00:00.500000 is not a number of whole seconds",
    ),
    "a factory that fails": (
        Part,
        Part,
        "the default factory raises TypeError: Part.__init__() missing 1 required positional",
    ),
    "a list in itself": (Any, lambda: CYCLE, "the default contains itself; make the field optional"),
    "keys that are numbers": (dict[str, int], lambda: {1: 2}, "the key 1 is not a str"),
}


@pytest.mark.parametrize(("hint", "factory", "problem"), DEFAULTS.values(), ids=DEFAULTS)
def test_a_default_without_json(hint: Any, factory: Any, problem: str) -> None:
    with pytest.raises(Unrepresentable) as raised:
        definition(object_of(hint, default_factory=factory))
    assert problem in str(raised.value)
    assert raised.value.path == "Widget.value"


# ---- the place


@dataclass
class Item:
    sku: str
    price: complex


@dataclass
class Spec:
    items: dict[str, list[Item]] = field(default_factory=dict)


@crd("example.com/v1")
@dataclass
class Order:
    spec: Spec


def test_the_error_names_the_place_in_the_class() -> None:
    with pytest.raises(Unrepresentable) as raised:
        definition(Order)
    assert raised.value.path == "Order.spec.items[*][*].price"
    assert str(raised.value) == (
        "Order.spec.items[*][*].price: JSON has no values of type complex; use two numbers, or a str"
    )


@crd("example.com/v1")
class NotAModel:
    pass


def test_the_class_itself_has_fields() -> None:
    with pytest.raises(Unrepresentable, match="NotAModel: not a class with fields; use a dataclass, a pydan"):
        definition(NotAModel)


def test_a_depth_is_a_positive_number() -> None:
    with pytest.raises(ValueError, match="Depth needs at least 1 level, not 0"):
        Depth(0)


def test_a_map_has_keys() -> None:
    with pytest.raises(ValueError, match="map_by needs at least one key"):
        map_by()
    with pytest.raises(ValueError, match="map_by needs different keys, not a, a"):
        map_by("a", "a")


def test_a_constant_can_be_immutable_but_not_selectable_in_a_list() -> None:
    @dataclass
    class Inner:
        color: Annotated[str, Selectable, Immutable]

    with pytest.raises(Unrepresentable, match=r"Widget\.value\[\*\]\.color: clients can select by"):
        definition(object_of(list[Inner]))
