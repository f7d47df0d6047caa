"""Whole definitions: names, versions, columns and subresources."""

from __future__ import annotations

import copy
import sys
import time
import timeit
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import pytest

from apiserver.types import (
    Column,
    DefinitionError,
    Keywords,
    PodSpec,
    Scale,
    Selectable,
    crd,
    definition,
    definitions,
)
from apiserver.types.plurals import plural_of
from tests.support.processor import slowness
from tests.unit.types.checks import object_of, problems
from tests.unit.types.shop import dataclass_shop

PLURALS: Final = {
    "Order": "orders",
    "Policy": "policies",
    "Gateway": "gateways",
    "Class": "classes",
    "Box": "boxes",
    "Branch": "branches",
    "Mesh": "meshes",
    "ReplicaSet": "replicasets",
    "Y": "ies",
}


@pytest.mark.parametrize(("kind", "plural"), PLURALS.items())
def test_plurals(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


@dataclass
class Spec:
    color: Annotated[str, Selectable]
    size: int = 1


@dataclass
class Status:
    ready: bool = False


@crd(
    "shop.example.com/v1",
    kind="Policy",
    short_names=["pol"],
    categories=["all", "shop"],
    scope="Cluster",
    columns=[
        Column("Color", ".spec.color"),
        Column("Size", ".spec.size", description="In inches.", priority=1, format="int64"),
        Column("First", ".spec.items[0]"),
        Column("Ready", ".status.ready"),
        Column("Age", ".metadata.creationTimestamp"),
        Column("Phase", ".status.ready", type="string"),
    ],
    scale=Scale(".spec.size", ".status.replicas", ".status.selector"),
    selectable_fields=[".spec.size"],
    labels={"team": "a"},
    annotations={"note": "b"},
)
@dataclass
class PolicyV1:
    apiVersion: str  # noqa: N815
    kind: str
    metadata: dict[str, str]
    spec: Spec
    status: Status | None = None


@crd(
    "shop.example.com/v1beta1",
    kind="Policy",
    categories=["all", "shop"],
    scope="Cluster",
    storage=False,
    served=False,
    deprecated="use v1",
)
@dataclass
class PolicyV1Beta1:
    spec: Spec


def test_a_definition_of_two_versions() -> None:
    color, integer = {"type": "string"}, {"type": "integer", "format": "int64"}
    spec = {
        "type": "object",
        "properties": {"color": color, "size": {**integer, "default": 1}},
        "required": ["color"],
    }
    status = {"type": "object", "properties": {"ready": {"type": "boolean", "default": False}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}, "required": ["spec"]}
    document = definition(PolicyV1, PolicyV1Beta1)
    assert document == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "policies.shop.example.com",
            "labels": {"team": "a"},
            "annotations": {"note": "b"},
        },
        "spec": {
            "group": "shop.example.com",
            "names": {
                "plural": "policies",
                "singular": "policy",
                "kind": "Policy",
                "shortNames": ["pol"],
                "categories": ["all", "shop"],
            },
            "scope": "Cluster",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.size",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "selectableFields": [{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.color"}],
                    "additionalPrinterColumns": [
                        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                        {
                            "name": "Size",
                            "type": "integer",
                            "format": "int64",
                            "description": "In inches.",
                            "priority": 1,
                            "jsonPath": ".spec.size",
                        },
                        {"name": "First", "type": "string", "jsonPath": ".spec.items[0]"},
                        {"name": "Ready", "type": "boolean", "jsonPath": ".status.ready"},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                        {"name": "Phase", "type": "string", "jsonPath": ".status.ready"},
                    ],
                },
                {
                    "name": "v1beta1",
                    "served": False,
                    "storage": False,
                    "deprecated": True,
                    "deprecationWarning": "use v1",
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": spec},
                            "required": ["spec"],
                        }
                    },
                    "selectableFields": [{"jsonPath": ".spec.color"}],
                },
            ],
        },
    }
    assert problems(document) == []


@crd("example.com/v1", plural="oxen", singular="ox", list_kind="OxHerd", deprecated=True, status=False)
@dataclass
class Ox:
    status: Status


def test_names_of_ones_own() -> None:
    document = definition(Ox)
    assert document["spec"]["names"] == {
        "plural": "oxen",
        "singular": "ox",
        "kind": "Ox",
        "listKind": "OxHerd",
    }
    version = document["spec"]["versions"][0]
    assert version["deprecated"] is True
    assert version.keys().isdisjoint({"deprecationWarning", "subresources"})
    assert problems(document) == []


def test_keywords_of_whole_objects() -> None:
    """A definition may limit the name of objects."""

    @crd("shop.example.com/v1", keywords={"anyOf": [{"required": ["spec"]}]})
    @dataclass
    class Limited:
        metadata: Annotated[
            dict[str, Any], Keywords({"properties": {"name": {"type": "string", "maxLength": 9}}})
        ]
        spec: dict[str, str] | None = None

    document = definition(Limited)
    assert problems(document) == []
    assert document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
            "spec": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "anyOf": [{"required": ["spec"]}],
    }


def test_the_definitions_of_a_module() -> None:
    found = definitions(sys.modules[__name__])
    assert [each["metadata"]["name"] for each in found] == ["policies.shop.example.com", "oxen.example.com"]
    assert found == [definition(PolicyV1, PolicyV1Beta1), definition(Ox)]


def test_the_definitions_of_objects() -> None:
    assert definitions([Ox, Spec, 1, Ox]) == [definition(Ox)]
    assert definitions([]) == []


def test_a_definition_can_be_changed() -> None:
    cls = object_of(PodSpec, default_factory=dict)
    before = copy.deepcopy(definition(cls))
    changed = definition(cls)
    value = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["value"]
    value["properties"]["containers"].clear()
    value["default"]["a"] = 1
    assert definition(cls) == before


# For a class with some 30 fields, on an ordinary machine.
SECONDS_MAX: Final = 0.005


def test_a_definition_is_fast() -> None:
    timer = timeit.Timer(lambda: definition(dataclass_shop.Order), timer=time.thread_time)
    assert min(timer.repeat(repeat=50, number=1)) < SECONDS_MAX * slowness()


# ---- errors


def version(api_version: str = "example.com/v1", **options: Any) -> type:
    @crd(api_version, **{"kind": "Widget", **options})
    @dataclass
    class Widget:
        name: str

    return Widget


@dataclass
class NotDecorated(Ox):
    pass


ERRORS: Final[dict[str, tuple[list[type], str]]] = {
    "no class": ([], "a definition needs at least one class"),
    "a class without a decorator of its own": (
        [NotDecorated],
        "NotDecorated does not have the decorator crd",
    ),
    "another kind": (
        [version(), version("example.com/v2", kind="Other", storage=False)],
        "are not versions of one type: kind is 'Widget' and 'Other'",
    ),
    "another plural": (
        [version(), version("example.com/v2", plural="things", storage=False)],
        "are not versions of one type: plural is '' and 'things'",
    ),
    "another scope": (
        [version(), version("example.com/v2", scope="Cluster", storage=False)],
        "are not versions of one type: scope is 'Namespaced' and 'Cluster'",
    ),
    "a version twice": (
        [version(), version(storage=False)],
        "the version v1 of Widget has several classes",
    ),
    "two stored versions": (
        [version(), version("example.com/v2")],
        "one version of Widget needs storage=True, and the others storage=False; with storage=True: v1, v2",
    ),
    "no stored version": ([version(storage=False)], "with storage=True: none"),
    "a column of an unknown field": (
        [version(columns=[Column("Color", ".spec.color")])],
        "the column Color: there is no field .spec.color",
    ),
}


@pytest.mark.parametrize(("classes", "problem"), ERRORS.values(), ids=ERRORS)
def test_classes_without_a_definition(classes: list[type], problem: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        definition(*classes)
    assert problem in str(raised.value)


@pytest.mark.parametrize("api_version", ["v1", "example.com/", "/v1", "a/b/c"])
def test_the_group_and_version_are_checked(api_version: str) -> None:
    with pytest.raises(DefinitionError, match=f"'{api_version}' is not a group and a version"):
        crd(api_version)


def test_other_versions_have_the_scope_of_the_stored_one() -> None:
    cluster = definition(version("example.com/v2", storage=False), version(scope="Cluster"))
    assert cluster["spec"]["scope"] == "Cluster"
    assert definition(version())["spec"]["scope"] == "Namespaced"


@pytest.mark.parametrize("options", [{"columns": [("Age", ".spec.age")]}, {"scale": (".a", ".b")}])
def test_columns_and_scale_are_objects_of_their_classes(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=f"^{next(iter(options))} "):
        crd("example.com/v1", **options)


class Factory:
    """A default factory without a hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factory)

    def __call__(self) -> list[str]:
        return ["a"]


def test_a_default_factory_is_any_callable() -> None:
    @crd("example.com/v1")
    @dataclass
    class Widget:
        names: list[str] = field(default_factory=Factory())

    version_ = definition(Widget)["spec"]["versions"][0]
    assert version_["schema"]["openAPIV3Schema"]["properties"]["names"]["default"] == ["a"]


def test_the_scope_is_checked() -> None:
    with pytest.raises(DefinitionError, match="the scope 'Global' is not one of Namespaced, Cluster"):
        crd("example.com/v1", scope="Global")


@pytest.mark.parametrize("argument", ["short_names", "categories", "selectable_fields"])
def test_a_text_is_not_a_list(argument: str) -> None:
    """Its characters would be the items."""
    options: dict[str, Any] = {argument: "ord"}
    with pytest.raises(DefinitionError, match=f"{argument} is a list, not 'ord'"):
        crd("example.com/v1", **options)
