"""Names of classes and attributes."""

from __future__ import annotations

from typing import Any, Final

import pydantic
import pytest

from apiserver.types.code_generation.class_emitters import PydanticEmitter
from apiserver.types.code_generation.generation import EMITTERS, definitions_source
from apiserver.types.code_generation.names import RESERVED, class_name, identifier, singular, unique
from tests.unit.types.code_generation.modules import definition_of, definition_with, imported
from tests.unit.types.code_generation.normalised_definitions import normalised

SINGULARS: Final = {
    "policies": "policy",
    "rules": "rule",
    "addresses": "address",
    "ingresses": "ingress",
    "boxes": "box",
    "branches": "branch",
    "meshes": "mesh",
    "series": "sery",
    "status": "statusItem",
    "class": "classItem",
    "data": "dataItem",
    "dns": "dn",
    "axis": "axisItem",
    "s": "sItem",
}


@pytest.mark.parametrize(("plural", "one"), SINGULARS.items())
def test_names_of_items(plural: str, one: str) -> None:
    assert singular(plural) == one


IDENTIFIERS: Final = {
    "name": "name",
    "x-y": "x_y",
    "$ref": "ref",
    "a.b/c": "a_b_c",
    "2fa": "field_2fa",
    "_private": "private",
    "$": "field_",
    "é": "field_",
}


@pytest.mark.parametrize(("name", "attribute"), IDENTIFIERS.items())
def test_names_of_attributes(name: str, attribute: str) -> None:
    assert identifier(name) == attribute


def test_names_of_classes() -> None:
    assert class_name("x-kubernetes.io/y") == "XKubernetesIoY"
    assert class_name("HTTPRoute-v1beta1") == "HTTPRouteV1beta1"
    assert class_name("2fa") == "Type2fa"


def test_names_that_are_taken() -> None:
    assert unique("a", {"b"}) == "a"
    assert unique("a", {"a"}) == "a_"
    assert unique("a", {"a", "a_", "a_2"}) == "a_3"


def test_names_of_pydantic_are_reserved() -> None:
    """A field of this name would hide what models have."""
    own = {name for cls in (pydantic.BaseModel, type(pydantic.BaseModel)) for name in dir(cls)}
    assert {name for name in own if not name.startswith("_")} <= PydanticEmitter.reserved | RESERVED


# Reserved words, names that Python cannot have, names of what modules import, and names that become the same.
NAMES: Final = (
    *("class", "None", "import", "x-y", "x_y", "x.y", "2fa", "$ref", "_a", "__a", "é", "$"),
    *("list", "str", "int", "dict", "Any", "Literal", "field", "rule", "Rule", "Thing", "ThingSpec"),
    *("schema", "json", "copy", "model_config", "model_dump", "self", "datetime", "msgspec", "kind"),
    *("cls", "function", "mro", "register", "__class__", "-kind", "api-version", "apiVersion."),
)


@pytest.mark.parametrize("kind", EMITTERS)
@pytest.mark.parametrize("name", ["Thing", "Rule", "Any", "List", "Field"])
def test_all_names_at_once(name: str, kind: str) -> None:
    inner: Any = {"type": "object", "properties": {each: {"type": "string"} for each in NAMES}}
    lists = {each: {"type": "array", "items": inner, "default": []} for each in NAMES}
    whole: Any = {**inner, "default": dict.fromkeys(NAMES, "a")}
    properties = {**lists, "whole": whole}
    spec: Any = {
        "type": "object",
        "properties": properties,
        "required": ["kind"],
        "description": 'A "thing".',
    }
    schema: Any = {"type": "object", "properties": {"spec": spec, **inner["properties"]}}
    del schema["properties"]["kind"]
    definition = definition_with(schema, name)
    found = definition_of(definitions_source([definition], kind))
    assert normalised(found) == normalised(definition)


@pytest.mark.parametrize("kind", ["dataclass", "pydantic", "msgspec"])
def test_names_of_fields_that_all_objects_have(kind: str) -> None:
    """A field before them with the same attribute would take their place."""
    properties = {"-kind": {"type": "string"}, "metadata.": {"type": "string"}}
    spec = {"type": "object", "properties": {"-a": {"type": "string"}, "a": {"type": "string"}}}
    schema = {"type": "object", "properties": {**properties, "spec": spec}}
    with imported(definitions_source([definition_with(schema)], kind)) as module:
        names = ["apiVersion", "kind", "metadata", "kind_", "metadata_", "spec"]
        assert list(module.Thing.__annotations__) == names
        assert list(module.ThingSpec.__annotations__) == ["a_", "a"]
