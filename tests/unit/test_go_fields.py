"""What is known of Kubernetes' Go types: numbers on the wire, and which empty values mean something."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import orjson
import pytest

from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.go_fields import GoField, go_struct
from tests.support import go_types
from tests.support.required import missing

DEFINITIONS: Final = sorted(orjson.loads(go_types.FACTS.read_bytes()))
SCHEMAS: Final = BuiltinSchemas(go_types.RELEASE)

# Source: the generated.proto and types.go files of k8s.io/api and k8s.io/apimachinery, release 1.33.
FIELDS: Final = {
    "a plain field": ("api.core.v1.ConfigMap", "data", GoField(2, is_pointer=False, shows_empty=False)),
    "a pointer": ("api.core.v1.ConfigMap", "immutable", GoField(4, is_pointer=True, shows_empty=False)),
    "shown when empty": ("api.core.v1.Container", "name", GoField(1, is_pointer=False, shows_empty=True)),
    "a pointer, shown when empty": (
        "api.admissionregistration.v1.MutatingWebhook",
        "sideEffects",
        GoField(6, is_pointer=True, shows_empty=True),
    ),
    "of the metadata": (
        "apimachinery.pkg.apis.meta.v1.ObjectMeta",
        "deletionGracePeriodSeconds",
        GoField(10, is_pointer=True, shows_empty=False),
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


def test_every_field_is_one_of_the_schema() -> None:
    """Otherwise a client's value would be refused, or lost, without a word."""
    strange = []
    for definition in set(DEFINITIONS) & set(SCHEMAS.definitions()):
        known = go_struct(definition)
        assert known is not None
        names = SCHEMAS.get(definition).fields
        if names:
            strange += [f"{definition}.{name}" for name in known.fields if name not in names]
    assert strange == []


@pytest.mark.kubectl
def test_numbers_are_those_of_kubectl() -> None:
    """An independent witness of any release: numbers, once given, stay."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        missing("kubectl")
    try:
        theirs = go_types.facts(go_types.GoBinary(Path(kubectl)))
    except ValueError:
        missing("a kubectl that is a 64-bit ELF program with Go's type descriptions")
    ours = orjson.loads(go_types.FACTS.read_bytes())
    assert len(theirs) > 400
    different = [
        (definition, name)
        for definition in theirs.keys() & ours.keys()
        for name in theirs[definition].keys() & ours[definition].keys()
        if int(theirs[definition][name].rstrip("p!")) != int(ours[definition][name].rstrip("p!"))
    ]
    assert different == []
