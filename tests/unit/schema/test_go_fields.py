"""The facts about Kubernetes' Go types: protobuf field numbers, and which zero values are encoded."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import orjson
import pytest

from apiserver.catalogue import networking, storage
from apiserver.catalogue.builtins import Catalogue
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.go_fields import GoField, fields_of, go_struct
from apiserver.schema.structural import Schema
from tests.support import go_types
from tests.support.required import KUBECTL, missing

DEFINITIONS: Final = sorted(orjson.loads(go_types.FACTS.read_bytes()))
SCHEMAS: Final = BuiltinSchemas(go_types.RELEASE)
LATER: Final = BuiltinSchemas((1, 37))
# Of releases that have what 1.36 lacks.
OTHERS: Final = (*(BuiltinSchemas((1, minor)) for minor in (34, 35)), LATER)

CRD_V1: Final = "apiextensions-apiserver.pkg.apis.apiextensions.v1"

# Source: the generated.proto and types.go files of k8s.io/api, apimachinery, kube-aggregator and
# apiextensions-apiserver, release 1.36.
FIELDS: Final = {
    "a plain field": ("api.core.v1.ConfigMap", "data", GoField(2, is_pointer=False, encodes_zero=False)),
    "a pointer": ("api.core.v1.ConfigMap", "immutable", GoField(4, is_pointer=True, encodes_zero=False)),
    "shown when empty": ("api.core.v1.Container", "name", GoField(1, is_pointer=False, encodes_zero=True)),
    "a pointer, shown when empty": (
        "api.admissionregistration.v1.MutatingWebhook",
        "sideEffects",
        GoField(6, is_pointer=True, encodes_zero=True),
    ),
    "of the metadata": (
        "apimachinery.pkg.apis.meta.v1.ObjectMeta",
        "deletionGracePeriodSeconds",
        GoField(10, is_pointer=True, encodes_zero=False),
    ),
    "new in 1.34": (
        "api.core.v1.PodSpec",
        "hostnameOverride",
        GoField(41, is_pointer=True, encodes_zero=False),
    ),
    "new in 1.34, of a status, after a number that another field had": (
        "api.core.v1.PodStatus",
        "extendedResourceClaimStatus",
        GoField(18, is_pointer=True, encodes_zero=False),
    ),
    "new in 1.34, of containers": (
        "api.core.v1.EphemeralContainerCommon",
        "restartPolicyRules",
        GoField(25, is_pointer=False, encodes_zero=False),
    ),
    "of a group that is new in 1.34": (
        "api.resource.v1.ResourceClaimConsumerReference",
        "resource",
        GoField(3, is_pointer=False, encodes_zero=True),
    ),
    "new in 1.36": (
        "api.core.v1.PodSpec",
        "schedulingGroup",
        GoField(43, is_pointer=True, encodes_zero=False),
    ),
    "new in 1.37": (
        "api.core.v1.PodSpec",
        "evictionResponders",
        GoField(44, is_pointer=False, encodes_zero=False),
    ),
    "of a definition that is new in 1.37": (
        "api.core.v1.EvictionResponder",
        "priority",
        GoField(2, is_pointer=True, encodes_zero=True),
    ),
    "a status that is new in 1.37": (
        "api.storage.v1.CSINode",
        "status",
        GoField(3, is_pointer=False, encodes_zero=False),
    ),
    "a pointer, shown as null": (
        "api.core.v1.TypedLocalObjectReference",
        "apiGroup",
        GoField(1, is_pointer=True, encodes_zero=True),
    ),
    "after a number that is no longer used": (
        "kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec",
        "groupPriorityMinimum",
        GoField(7, is_pointer=False, encodes_zero=True),
    ),
    "of a custom resource's definition": (
        f"{CRD_V1}.CustomResourceDefinitionVersion",
        "schema",
        GoField(4, is_pointer=True, encodes_zero=False),
    ),
    "of a JSON schema": (
        f"{CRD_V1}.JSONSchemaProps",
        "x-kubernetes-validations",
        GoField(44, is_pointer=False, encodes_zero=False),
    ),
    "a list that is a message of its own": (
        "apimachinery.pkg.apis.meta.v1.APIResource",
        "verbs",
        GoField(4, is_pointer=False, encodes_zero=True, is_message=True),
    ),
    "a list that is none, of the same name": (
        "api.apidiscovery.v2.APIResourceDiscovery",
        "verbs",
        GoField(5, is_pointer=False, encodes_zero=True),
    ),
    "of what is a schema or a boolean in JSON": (
        f"{CRD_V1}.JSONSchemaPropsOrBool",
        "schema",
        GoField(2, is_pointer=True, encodes_zero=False),
    ),
}


@pytest.mark.parametrize(("definition", "name", "field"), FIELDS.values(), ids=FIELDS)
def test_fields(definition: str, name: str, field: GoField) -> None:
    known = go_struct(f"io.k8s.{definition}")
    assert known is not None
    assert known.fields[name] == field


def test_a_volume_has_its_source_among_its_fields() -> None:
    """In JSON `configMap` stands beside `name`; in protobuf it is in a message of its own."""
    volume = go_struct("io.k8s.api.core.v1.Volume")
    assert volume is not None
    assert list(volume.fields) == ["name"]
    assert volume.inlined == {"io.k8s.api.core.v1.VolumeSource": 2}
    source = go_struct("io.k8s.api.core.v1.VolumeSource")
    assert source is not None
    assert source.fields["configMap"].number == 19


def test_of_other_definitions_nothing_is_known() -> None:
    assert go_struct("io.k8s.api.core.v1.Nothing") is None


def test_numbers_are_unique_and_inlined_definitions_are_known() -> None:
    """https://protobuf.dev/programming-guides/proto3/#assigning"""
    for definition in DEFINITIONS:
        known = go_struct(definition)
        assert known is not None
        numbers = [field.number for field in known.fields.values()] + list(known.inlined.values())
        assert len(set(numbers)) == len(numbers), definition
        assert all(0 < number < 2**29 for number in numbers), definition
        assert all(go_struct(inlined) is not None for inlined in known.inlined), definition


def fields_in(schemas: BuiltinSchemas, definition: str) -> Iterable[str]:
    return schemas.get(definition).fields if definition in schemas.definitions() else ()


def test_every_field_is_one_of_the_schema() -> None:
    """Otherwise a client's value would be refused, or lost, without a word."""
    strange = []
    for definition in set(DEFINITIONS) & set(SCHEMAS.definitions()):
        known = go_struct(definition)
        assert known is not None
        names = set(SCHEMAS.get(definition).fields)
        if names:
            names |= {name for each in OTHERS for name in fields_in(each, definition)}
            strange += [f"{definition}.{name}" for name in known.fields if name not in names]
    assert strange == []


def served_definitions(minor: int, schemas: BuiltinSchemas) -> set[str]:
    """Of resources, their lists and their subresources, those included that are served on demand."""
    served = Catalogue(Brand(), schemas, release=EmulatedRelease(minor, minor - 1)).resources().resources
    definitions = {resource.definition for resource in served}
    definitions |= {sub.definition for each in served for sub in each.subresources.values()} - {""}
    on_demand = {each.definition for each in (*networking.types(), *storage.types())}
    definitions |= on_demand & set(schemas.definitions())
    definitions.add(f"io.k8s.{CRD_V1}.CustomResourceDefinition")
    return definitions | ({f"{definition}List" for definition in definitions} & set(schemas.definitions()))


def inside(schema: Schema, found: dict[str, Schema]) -> None:
    """Put all definitions that a schema has anywhere inside into `found`."""
    if schema.definition:
        if schema.definition in found:
            return
        found[schema.definition] = schema
    for child in schema.fields.values():
        inside(child, found)
    if schema.element is not None:
        inside(schema.element, found)


# By release: what came to 1.37 after the last source of numbers that is known here.
WITHOUT_NUMBERS: Final[dict[int, set[str]]] = {
    36: set(),
    37: {
        "core.v1.NodeSystemInfo.runningInUserNamespace",
        "resource.v1.DeviceCounterConsumption.compatibilityGroups",
        "resource.v1.DeviceDerivedAttribute.expression",
        "resource.v1.DeviceDerivedAttribute.name",
        "resource.v1.DeviceSubRequest.derivedAttributes",
        "resource.v1.ExactDeviceRequest.derivedAttributes",
    },
}


@pytest.mark.parametrize("minor", WITHOUT_NUMBERS)
def test_every_field_of_served_types_has_a_number(minor: int) -> None:
    """A field without one makes protobuf clients use JSON, and the walk guesses what its zero means."""
    schemas = BuiltinSchemas((1, minor))
    found: dict[str, Schema] = {}
    for definition in served_definitions(minor, schemas):
        inside(schemas.get(definition), found)
    assert len(found) > 400
    missing_fields = set()
    for definition, schema in found.items():
        names = schema.fields.keys() - fields_of(definition).keys()
        if "x-kubernetes-group-version-kind" in schemas.definitions()[definition]:
            names -= {"apiVersion", "kind"}  # in protobuf they are in the envelope
        missing_fields |= {f"{definition.removeprefix('io.k8s.api.')}.{name}" for name in names}
    assert missing_fields == WITHOUT_NUMBERS[minor]


@pytest.mark.kubectl
def test_numbers_are_those_of_kubectl() -> None:
    """An independent witness of any release: numbers, once given, stay."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        missing("kubectl", KUBECTL)
    try:
        theirs = go_types.facts(go_types.GoBinary(Path(kubectl)))
    except ValueError:
        missing("a kubectl that is a 64-bit ELF program with Go's type descriptions", KUBECTL)
    ours = orjson.loads(go_types.FACTS.read_bytes())
    assert len(theirs) > 400
    different = [
        (definition, name)
        for definition in theirs.keys() & ours.keys()
        for name in theirs[definition].keys() & ours[definition].keys()
        if int(theirs[definition][name].rstrip("pm!")) != int(ours[definition][name].rstrip("pm!"))
    ]
    assert different == []
