"""Classes for OpenAPI documents and for built-in types."""

from __future__ import annotations

import subprocess
import sys
import typing
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.types.code_generation.generation import EMITTERS, openapi_source
from tests.unit.types.code_generation.modules import imported

BUILTIN: Final = BuiltinSchemas(DEFAULT_RELEASE.version).definitions()
# The second one has a type that contains itself, with names that attributes cannot have.
GROUPS: Final = ("apps/v1", "apiextensions.k8s.io/v1", "v1")
STRING: Final = {"type": "string"}
PETS: Final[dict[str, Any]] = {
    "Pet": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {**STRING, "description": "What it is called."},
            "kind": {"type": ["string", "null"], "enum": ["cat", "dog"]},
            "friends": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
            "home": {
                "allOf": [{"$ref": "#/components/schemas/store.v1.Home"}],
                "description": "Where it lives.",
            },
            "second": {"$ref": "#/components/schemas/rent.v2.Home"},
            "age": {"oneOf": [{"type": "integer"}, STRING]},
            "weight": {"$ref": "#/components/schemas/Weight"},
            "other": {},
        },
    },
    "store.v1.Home": {"type": "object", "properties": {"street": STRING}, "description": "A house."},
    "rent.v2.Home": {"type": "object", "properties": {"floor": {"type": "integer"}}},
    "Weight": {"type": "number"},
}
PET_SOURCE: Final = '''"""Types of an OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from apiserver.types import Doc


class Home(TypedDict):
    """A house."""

    street: NotRequired[str]


class RentV2Home(TypedDict):
    floor: NotRequired[int]


class Pet(TypedDict):
    name: Annotated[str, Doc("What it is called.")]
    kind: NotRequired[Literal["cat", "dog"]]
    friends: NotRequired[list[Pet]]
    home: NotRequired[Annotated[Home, Doc("Where it lives.")]]
    second: NotRequired[RentV2Home]
    age: NotRequired[int | str]
    weight: NotRequired[float]
    other: NotRequired[Any]
'''


def test_classes_of_a_document() -> None:
    assert openapi_source(PETS, "typeddict") == PET_SOURCE


# As OpenAPI 3.1 has null, which FastAPI writes for optional fields.
NULLS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "an alternative": (
        {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "Annotated[float, Nullable] | None",
    ),
    "beside a class": (
        {"anyOf": [{"$ref": "#/components/schemas/Pet"}, {"type": "null"}]},
        "Annotated[Pet, Nullable] | None",
    ),
    "beside several": (
        {"oneOf": [{"type": "integer"}, STRING, {"type": "null"}]},
        "Annotated[int | str, Nullable] | None",
    ),
    "in a list of types": ({"type": ["string", "null"]}, "Annotated[str, Nullable] | None"),
    "alone": ({"type": "null"}, "Any"),
}


@pytest.mark.parametrize(("schema", "expected"), NULLS.values(), ids=NULLS)
def test_null_in_a_document(schema: dict[str, Any], expected: str) -> None:
    item = {"type": "object", "required": ["value"], "properties": {"value": schema}}
    pet = {"type": "object", "properties": {"name": STRING}}
    assert f"    value: {expected}\n" in openapi_source({"Item": item, "Pet": pet}, "dataclass")


REFERENCE: Final = {"$ref": "#/components/schemas/A"}
# What is evaluated while the classes are made, and names one that is not complete.
EARLY: Final[dict[str, dict[str, Any]]] = {
    "a union of an odd name": {
        "A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}},
        "B": {
            "properties": {
                "x-a": {"oneOf": [REFERENCE, STRING]},
                "x-b": {"anyOf": [REFERENCE, {"type": "null"}]},
            }
        },
    },
    "a default of a class that refers to a later one": {
        "A": {"properties": {"name": STRING, "b": {"$ref": "#/components/schemas/B"}}},
        "B": {"properties": {"all": {"type": "array", "items": REFERENCE, "default": [{"name": "x"}]}}},
    },
}


@pytest.mark.parametrize("kind", EMITTERS)
@pytest.mark.parametrize("schemas", EARLY.values(), ids=EARLY)
def test_classes_that_refer_to_each_other_can_be_imported(schemas: dict[str, Any], kind: str) -> None:
    for ordered in (schemas, dict(reversed(schemas.items()))):
        with imported(openapi_source(ordered, kind)) as module:
            assert typing.get_type_hints(module.B, include_extras=True)
            if kind != "typeddict":
                module.B()


@pytest.mark.parametrize("kind", EMITTERS)
@pytest.mark.parametrize("group", GROUPS)
def test_all_types_of_a_group_can_be_resolved(group: str, kind: str) -> None:
    with imported(openapi_source(BUILTIN, kind, group)) as module:
        classes = [
            each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__
        ]
        assert len(classes) > 10
        for cls in classes:
            assert typing.get_type_hints(cls, include_extras=True)


def test_an_object_of_a_built_in_type() -> None:
    with imported(openapi_source(BUILTIN, "msgspec", "apps/v1")) as module:
        template = module.PodTemplateSpec(
            metadata=module.ObjectMeta(labels={"app": "web"}),
            spec=module.PodSpec(containers=[module.Container(name="web", image="nginx")]),
        )
        selector = module.LabelSelector(matchLabels={"app": "web"})
        deployment = module.Deployment(spec=module.DeploymentSpec(selector=selector, template=template))
        written = msgspec.to_builtins(deployment)
        assert written == {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "nginx"}]},
                },
            },
        }
        assert msgspec.convert(written, module.Deployment) == deployment


@pytest.mark.slow
def test_ruff_and_mypy_find_nothing(tmp_path: Path) -> None:
    for group in GROUPS:
        for kind in EMITTERS:
            name = f"{group.replace('/', '_').replace('.', '_')}_{kind}.py"
            tmp_path.joinpath(name).write_text(openapi_source(BUILTIN, kind, group))
    cache = tmp_path / "cache"
    for arguments in (
        ["ruff", "format", "--isolated", "--diff", "--no-cache"],
        ["mypy", "--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={cache}"],
    ):
        checker = [sys.executable, "-m", *arguments, str(tmp_path)]
        done = subprocess.run(checker, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
