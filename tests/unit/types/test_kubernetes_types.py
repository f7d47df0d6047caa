"""Built-in Kubernetes types in the classes of users."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_origin

import pytest

from apiserver import types
from apiserver.types import Kubernetes, LabelSelector, MaxLen, PodTemplateSpec, crd, definition
from tests.support.processor import slowness
from tests.unit.types.checks import custom_schema, field_schema, object_of

ALIASES: Final[dict[str, Any]] = {
    name: each
    for name in types.__all__
    if get_origin(each := getattr(types, name)) is Annotated and isinstance(each.__metadata__[0], Kubernetes)
}
# Of the definition of a class with one PodTemplateSpec.
BYTES_MAX: Final = 1.5 * 1024 * 1024
SECONDS_MAX: Final = 0.2


@pytest.mark.parametrize("name", ALIASES)
def test_the_server_accepts_each_type(name: str) -> None:
    schema = field_schema(ALIASES[name])
    assert schema["type"] == "object"
    assert schema["description"]


def test_there_are_types_to_embed() -> None:
    assert {"Condition", "Container", "PodSpec", "PodTemplateSpec", "ResourceRequirements"} <= {*ALIASES}


def test_lists_merge_as_in_the_built_in_types() -> None:
    containers = field_schema(PodTemplateSpec)["properties"]["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    ports = containers["items"]["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["items"]["properties"]["protocol"]["default"] == "TCP"
    limits = containers["items"]["properties"]["resources"]["properties"]["limits"]
    assert limits["additionalProperties"] == types.markers.QUANTITY.schema


def test_an_embedded_type_has_markers() -> None:
    schema = field_schema(Annotated[list[Annotated[LabelSelector, types.Doc("One.")]], MaxLen(3)])
    assert (schema["maxItems"], schema["items"]["description"]) == (3, "One.")


def test_any_definition_can_be_embedded() -> None:
    schema = field_schema(Annotated[dict[str, Any], Kubernetes("io.k8s.api.batch.v1.JobTemplateSpec")])
    assert schema["properties"]["spec"]["properties"]["parallelism"]["format"] == "int32"


TEMPLATE: Final = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}, "creationTimestamp": None},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "web:1",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": 2, "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": "http"}},
                "env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            }
        ],
        "volumes": [{"name": "a", "emptyDir": {}}],
    },
}


def test_the_server_keeps_a_pod_template() -> None:
    schema = custom_schema(object_of(PodTemplateSpec))
    document: dict[str, Any] = {"value": copy.deepcopy(TEMPLATE)}
    assert schema.pruner(document) == []
    assert schema.validate(document) == []
    assert document["value"]["metadata"] == TEMPLATE["metadata"]
    ports = document["value"]["spec"]["containers"][0].pop("ports")
    assert ports == [{"containerPort": 80, "protocol": "TCP"}]


BAD: Final[dict[str, Any]] = {
    "a template without containers": {"spec": {}},
    "a port that is no number": {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": "x"}]}]}},
    "two containers of a name": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}},
}


@pytest.mark.parametrize("template", BAD.values(), ids=BAD)
def test_the_server_rejects_a_bad_pod_template(template: dict[str, Any]) -> None:
    document = {"value": copy.deepcopy(template)}
    schema = custom_schema(object_of(PodTemplateSpec))
    assert [error.field for error in schema.validate(document) + schema.validate_parts(document)] != []


@crd("example.com/v1")
@dataclass
class Workload:
    template: PodTemplateSpec


TIMED: Final = """
import dataclasses, time
from apiserver.types import PodTemplateSpec, crd, definition

made = dataclasses.make_dataclass("Workload", [("template", PodTemplateSpec)])
began = time.process_time()
definition(crd("example.com/v1")(made))
print(time.process_time() - began)
"""


def test_a_definition_with_a_pod_template_is_small() -> None:
    assert len(json.dumps(definition(Workload))) < BYTES_MAX


def test_a_definition_with_a_pod_template_is_fast() -> None:
    """In processor time of a new process, which reads the definitions of Kubernetes; the least of three."""
    runs = [subprocess.run([sys.executable, "-c", TIMED], capture_output=True, check=True) for _ in range(3)]
    assert min(float(run.stdout) for run in runs) < SECONDS_MAX * slowness()
