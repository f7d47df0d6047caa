"""Unions of classes: their fields side by side, and what each class requires."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypedDict

import msgspec
import pydantic
import pytest

from apiserver.types import Rule, rule
from tests.unit.types.checks import custom_schema, field_schema, object_of

INTEGER: Final = {"type": "integer", "format": "int64"}
STRING: Final = {"type": "string"}


@rule("self.size > 0", message="a disk has a size")
@dataclass
class Disk:
    kind: Literal["disk"]
    size: int
    fast: bool = False


@rule("self.server != ''")
@dataclass
class Share:
    server: str
    kind: Literal["nfs", "smb"] = "nfs"
    fast: bool = False
    tags: list[str] = field(default_factory=list)


class DiskStruct(msgspec.Struct, tag="disk", tag_field="kind"):
    size: int


class ShareStruct(msgspec.Struct, tag="nfs", tag_field="kind"):
    server: str


@rule("self.image != ''")
@dataclass
class Image:
    """An image to start."""

    image: str
    tag: str = "latest"


@rule("self.program.startsWith('/')")
@dataclass
class Program:
    program: str
    arguments: list[str]
    tag: str = "none"


def test_a_tag_tells_classes_apart() -> None:
    assert field_schema(Disk | Share) == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["disk", "nfs", "smb"]},
            "size": INTEGER,
            "fast": {"type": "boolean", "default": False},
            "server": STRING,
            "tags": {"type": "array", "items": STRING},
        },
        "required": ["kind"],
        "oneOf": [
            {"properties": {"kind": {"enum": ["disk"]}}, "required": ["kind", "size"]},
            {"properties": {"kind": {"enum": ["nfs", "smb"]}}, "required": ["kind", "server"]},
        ],
        "x-kubernetes-validations": [
            {"rule": "!(self.kind in ['disk']) || (self.size > 0)", "message": "a disk has a size"},
            {"rule": "!(self.kind in ['nfs', 'smb']) || (self.server != '')"},
        ],
    }


def test_required_fields_tell_classes_apart() -> None:
    assert field_schema(Image | Program) == {
        "type": "object",
        "properties": {
            "image": STRING,
            "tag": STRING,
            "program": STRING,
            "arguments": {"type": "array", "items": STRING},
        },
        "oneOf": [{"required": ["image"]}, {"required": ["program", "arguments"]}],
        "x-kubernetes-validations": [
            {"rule": "!(has(self.image)) || (self.image != '')"},
            {
                "rule": "!(has(self.program) && has(self.arguments)) || (self.program.startsWith('/'))",
            },
        ],
    }


@rule("self.size >= oldSelf.size", message="a volume does not shrink")
@rule("oldSelf.hasValue() || self.size > 0", optional_old_self=True)
@dataclass
class Volume:
    namespace: Literal["it's\n"]
    size: int


@rule("oldSelf.size != self.size")
class Extra(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    extra: str = pydantic.Field(alias="x-extra.b")
    size: int = 1


class Other(TypedDict):
    namespace: Literal["other"]


def test_rules_compare_with_old_objects_of_the_same_class() -> None:
    """An update may replace an object by one of another class."""
    rules = [rule["rule"] for rule in field_schema(Volume | Other)["x-kubernetes-validations"]]
    tag = r"__namespace__ in ['it\'s\n']"
    assert rules == [
        f"!(self.{tag} && oldSelf.{tag}) || (self.size >= oldSelf.size)",
        f"!(self.{tag}) || (oldSelf.hasValue() || self.size > 0)",
    ]


def test_a_union_with_odd_names_and_unknown_fields() -> None:
    schema = field_schema(Extra | Image)
    assert schema["x-kubernetes-preserve-unknown-fields"]
    name = "x__dash__extra__dot__b"
    assert schema["x-kubernetes-validations"][0]["rule"] == (
        f"!(has(self.{name}) && has(oldSelf.{name})) || (oldSelf.size != self.size)"
    )


def test_the_tags_of_structs() -> None:
    assert field_schema(DiskStruct | ShareStruct | None, default=None) == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["disk", "nfs"]},
            "size": INTEGER,
            "server": STRING,
        },
        "required": ["kind"],
        "oneOf": [
            {"properties": {"kind": {"enum": ["disk"]}}, "required": ["kind", "size"]},
            {"properties": {"kind": {"enum": ["nfs"]}}, "required": ["kind", "server"]},
        ],
    }


def test_a_union_has_markers() -> None:
    hint = Annotated[Image | Program, Rule("self.tag != 'x'", message="no x")]
    assert field_schema(hint)["x-kubernetes-validations"][-1] == {
        "rule": "self.tag != 'x'",
        "message": "no x",
    }


DEFAULTS: Final[dict[str, tuple[Any, Any, dict[str, Any]]]] = {
    "with a tag": (Disk | Share, Share("a"), {"server": "a", "kind": "nfs", "fast": False, "tags": []}),
    "of a struct": (DiskStruct | ShareStruct, ShareStruct("a"), {"kind": "nfs", "server": "a"}),
    "without a tag": (Image | Program, Image("a", tag="1"), {"image": "a", "tag": "1"}),
}


@pytest.mark.parametrize(("hint", "value", "default"), DEFAULTS.values(), ids=DEFAULTS)
def test_the_default_of_a_union(hint: Any, value: Any, default: dict[str, Any]) -> None:
    assert field_schema(hint, default_factory=lambda: value)["default"] == default


# Values, and whether they are objects of the union.
VALUES: Final[dict[str, tuple[Any, dict[str, Any], bool]]] = {
    "a disk": (Disk | Share, {"kind": "disk", "size": 1}, True),
    "a share": (Disk | Share, {"kind": "smb", "server": "a"}, True),
    "a disk without a size": (Disk | Share, {"kind": "disk", "server": "a"}, False),
    "another kind": (Disk | Share, {"kind": "tape", "size": 1}, False),
    "no kind": (Disk | Share, {"size": 1}, False),
    "an image": (Image | Program, {"image": "a"}, True),
    "a program": (Image | Program, {"program": "/a", "arguments": []}, True),
    "a program without arguments": (Image | Program, {"program": "/a"}, False),
    "both": (Image | Program, {"image": "a", "program": "/a", "arguments": []}, False),
    "a wrong type": (Image | Program, {"image": 1}, False),
}


@pytest.mark.parametrize(("hint", "value", "is_valid"), VALUES.values(), ids=VALUES)
def test_which_values_the_server_accepts(hint: Any, value: dict[str, Any], is_valid: bool) -> None:
    schema = custom_schema(object_of(hint))
    assert (schema.validate({"value": value}) == []) == is_valid
