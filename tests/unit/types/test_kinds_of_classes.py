"""Dataclasses, pydantic models, msgspec structs and TypedDicts make the same definitions, byte for byte."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, Final, Generic, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from pydantic import alias_generators
from typing_extensions import ReadOnly

from apiserver.types import Default, Doc, Ge, definition, rule
from tests.unit.types.checks import field_schema, problems
from tests.unit.types.shop import dataclass_shop, msgspec_shop, pydantic_shop, typed_dict_shop

T = TypeVar("T")
U = TypeVar("U")
INTEGER: Final = {"type": "integer", "format": "int64"}
STRING: Final = {"type": "string"}
SHOPS: Final = {"pydantic": pydantic_shop, "msgspec": msgspec_shop, "TypedDict": typed_dict_shop}


@pytest.mark.parametrize("shop", SHOPS.values(), ids=SHOPS)
def test_definitions_are_byte_equal(shop: Any) -> None:
    expected = json.dumps(definition(dataclass_shop.Order), indent=1)
    assert json.dumps(definition(shop.Order), indent=1) == expected


def test_the_server_accepts_the_definition() -> None:
    assert problems(definition(dataclass_shop.Order)) == []


def test_the_package_imports_only_the_standard_library_and_annotated_types() -> None:
    program = (
        "import sys, annotated_types; before = {*sys.modules}; import apiserver.types;"
        "new = {name.partition('.')[0] for name in {*sys.modules} - before} - sys.stdlib_module_names;"
        "ours = {'.'.join(name.split('.')[:2]) for name in sys.modules if name.startswith('apiserver')};"
        "print(sorted(new), sorted(ours))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "['apiserver'] ['apiserver', 'apiserver.types']\n"


@dataclass(kw_only=True)
class BaseData:
    one: int = 1
    two: str


@dataclass
class SubData(BaseData):
    three: int
    constructed: InitVar[int] = 0
    derived: int = field(init=False, default=1)


class BaseStruct(msgspec.Struct, kw_only=True):
    one: int = 1
    two: str


class SubStruct(BaseStruct):
    three: int


@pydantic.dataclasses.dataclass(kw_only=True)
class BaseValidated:
    one: int = 1
    two: str


@pydantic.dataclasses.dataclass
class SubValidated(BaseValidated):
    three: int
    constructed: InitVar[int] = 0
    derived: int = field(init=False, default=1)


class BaseDict(TypedDict):
    one: Annotated[int, Default(1)]
    two: str


class SubDict(BaseDict):
    three: int


@pytest.mark.parametrize("cls", [SubStruct, SubValidated, SubDict])
def test_the_fields_of_the_base_come_first(cls: type) -> None:
    assert json.dumps(field_schema(cls)) == json.dumps(field_schema(SubData))


# ---- pydantic


class Settings(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=alias_generators.to_camel, extra="allow")

    max_size: int = 1
    mail: Annotated[list[Annotated[str, pydantic.Field(min_length=1, description="One.")]], Doc("All.")]


class Root(pydantic.RootModel[list[int]]):
    pass


@pydantic.dataclasses.dataclass
class Validated:
    size: int = pydantic.Field(ge=1, default=2)


class Late(pydantic.BaseModel):
    part: Later


class Later(pydantic.BaseModel):
    name: str


class Derived(pydantic.BaseModel):
    one: int
    other: int = pydantic.Field(default_factory=lambda data: data["one"])


class Unknown(pydantic.BaseModel):
    part: Missing  # type: ignore[name-defined]  # noqa: F821


def test_a_model_with_aliases_and_extra_fields() -> None:
    assert field_schema(Settings) == {
        "type": "object",
        "properties": {
            "maxSize": {**INTEGER, "default": 1},
            "mail": {
                "description": "All.",
                "type": "array",
                "items": {"description": "One.", **STRING, "minLength": 1},
            },
        },
        "required": ["mail"],
        "x-kubernetes-preserve-unknown-fields": True,
    }


def test_other_classes_of_pydantic() -> None:
    assert field_schema(Root) == {"type": "array", "items": INTEGER}
    assert field_schema(pydantic.SecretStr) == {**STRING, "format": "password"}
    assert field_schema(pydantic.AnyUrl) == field_schema(pydantic.HttpUrl) == {**STRING, "format": "uri"}
    assert field_schema(pydantic.AwareDatetime) == {**STRING, "format": "date-time"}
    assert field_schema(pydantic.PastDate) == {**STRING, "format": "date"}
    assert field_schema(pydantic.PositiveInt) == {**INTEGER, "minimum": 0, "exclusiveMinimum": True}
    size = {**INTEGER, "default": 2, "minimum": 1}
    assert field_schema(Validated) == {"type": "object", "properties": {"size": size}}


class Choices(pydantic.BaseModel):
    size: int = pydantic.Field(validation_alias=pydantic.AliasChoices("maxSize", "size"))


def test_the_first_of_several_aliases_is_the_name() -> None:
    assert [*field_schema(Choices)["properties"]] == ["maxSize"]


def test_a_model_that_names_later_ones() -> None:
    part = {"type": "object", "properties": {"name": STRING}, "required": ["name"]}
    assert field_schema(Late) == {"type": "object", "properties": {"part": part}, "required": ["part"]}


PYDANTIC_ERRORS: Final = {
    "a default that depends on others": (Derived, "Widget.value.other: the default depends on other fields"),
    "an unknown type": (Unknown, "Widget.value.part: the type 'Missing' is not defined"),
}


@pytest.mark.parametrize(("cls", "problem"), PYDANTIC_ERRORS.values(), ids=PYDANTIC_ERRORS)
def test_a_model_without_a_schema(cls: type, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        field_schema(cls)


# ---- msgspec


class Renamed(msgspec.Struct, rename="camel"):
    max_size: int | msgspec.UnsetType = msgspec.UNSET
    min_size: int = 1
    rate: float | msgspec.UnsetType | None = msgspec.UNSET


def test_a_struct_with_other_names_and_unset_fields() -> None:
    assert field_schema(Renamed) == {
        "type": "object",
        "properties": {
            "maxSize": INTEGER,
            "minSize": {**INTEGER, "default": 1},
            "rate": {"type": "number", "format": "double", "nullable": True},
        },
    }


# ---- TypedDicts


class Mapped(TypedDict):
    name: str
    count: NotRequired[Annotated[int, Default(1), Ge(1)]]
    note: NotRequired[str]
    other: Annotated[NotRequired[str], Doc("Another.")]
    fixed: ReadOnly[NotRequired[str]]


class Equal(TypedDict):
    one: Annotated[float, Default(1)]
    two: Annotated[float, Default(1.0)]


def test_defaults_that_are_equal_in_python_differ() -> None:
    properties = field_schema(Equal)["properties"]
    assert [repr(each["default"]) for each in properties.values()] == ["1", "1.0"]


def test_a_typed_dict_has_defaults_by_markers() -> None:
    assert field_schema(Mapped) == {
        "type": "object",
        "properties": {
            "name": STRING,
            "count": {**INTEGER, "default": 1, "minimum": 1},
            "note": STRING,
            "other": {"description": "Another.", **STRING},
            "fixed": STRING,
        },
        "required": ["name"],
    }


# ---- generics and inheritance


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Labelled(Box[list[U]], Generic[U]):
    label: U


@dataclass
class Crate(Labelled[int]):
    size: int


class ModelBox(pydantic.BaseModel, Generic[T]):
    content: T


class ModelLabelled(ModelBox[list[U]], Generic[U]):
    label: U


class ModelCrate(ModelLabelled[int]):
    size: int


class StructBox(msgspec.Struct, Generic[T]):
    content: T


class StructLabelled(StructBox[list[U]], Generic[U]):
    label: U


class StructCrate(StructLabelled[int]):
    size: int


class DictBox(TypedDict, Generic[T]):
    content: T


class DictLabelled(DictBox[list[U]], Generic[U]):
    label: U


class DictCrate(DictLabelled[int]):
    size: int


INTEGERS: Final = {"type": "array", "items": INTEGER}
GENERICS: Final[dict[str, tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "an argument": ((Box[int], ModelBox[int], StructBox[int], DictBox[int]), {"content": INTEGER}),
    "an argument of a base": (
        (Labelled[int], ModelLabelled[int], StructLabelled[int], DictLabelled[int]),
        {"content": INTEGERS, "label": INTEGER},
    ),
    "a class that is not generic": (
        (Crate, ModelCrate, StructCrate, DictCrate),
        {"content": INTEGERS, "label": INTEGER, "size": INTEGER},
    ),
}


@pytest.mark.parametrize(("hints", "fields"), GENERICS.values(), ids=GENERICS)
def test_generics(hints: tuple[Any, ...], fields: dict[str, Any]) -> None:
    for hint in hints:
        schema = {"type": "object", "properties": fields, "required": [*fields]}
        assert field_schema(hint) == schema, hint


@rule("self.content > 0")
@dataclass
class Checked(Box[int]):
    """A box with a rule."""


@rule("self.content < 9")
@dataclass
class CheckedTwice(Checked):
    pass


def test_rules_are_inherited_and_descriptions_are_not() -> None:
    assert field_schema(CheckedTwice) == {
        "type": "object",
        "properties": {"content": INTEGER},
        "required": ["content"],
        "x-kubernetes-validations": [{"rule": "self.content > 0"}, {"rule": "self.content < 9"}],
    }
