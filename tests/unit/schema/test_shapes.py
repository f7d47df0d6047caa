"""The shape of stored documents: Go's decoder would refuse the same."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.shapes import ShapeCompiler
from tests import corpus
from tests.corpus import Manifest
from tests.unit.catalogue.test_builtins import TABLE

COMPILER: Final = ShapeCompiler()
POD: Final = COMPILER.compile(BuiltinSchemas((1, 36)).get("io.k8s.api.core.v1.Pod"))
SERVICE: Final = COMPILER.compile(BuiltinSchemas((1, 36)).get("io.k8s.api.core.v1.Service"))
SECRET: Final = COMPILER.compile(BuiltinSchemas((1, 36)).get("io.k8s.api.core.v1.Secret"))
DEFINITION: Final = COMPILER.compile(
    BuiltinSchemas((1, 36)).get(
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    )
)


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": spec}


def defined(**schema: Any) -> dict[str, Any]:
    return {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}


WRONG: Final[dict[str, tuple[Any, Any, str]]] = {
    "a list for an object": (POD, [], "cannot unmarshal array into Go value of type v1.Pod"),
    "a text for an object": (POD, {"spec": "x"}, "cannot unmarshal string into Go struct field Pod.spec of"),
    "an object for a list": (POD, pod(containers={}), "object into Go struct field PodSpec.spec.containers"),
    "a number for a text": (POD, pod(nodeName=7), "cannot unmarshal number into Go struct field"),
    "a text in a list of objects": (POD, pod(containers=["a"]), "cannot unmarshal string into Go struct"),
    "a number in a list of texts": (POD, pod(containers=[{"args": ["a", 1]}]), "cannot unmarshal number"),
    "a list in a map of texts": (POD, pod(nodeSelector={"a": ["b"]}), "cannot unmarshal array"),
    "a text for a truth value": (POD, pod(hostNetwork="true"), "cannot unmarshal string"),
    "a truth value for a number": (POD, pod(priority=True), "cannot unmarshal bool"),
    "a fraction": (POD, pod(priority=1.5), "cannot unmarshal number 1.5"),
    "a number of too many bits": (POD, pod(priority=1 << 31), "cannot unmarshal number 2147483648"),
    "an object for a number or a text": (SERVICE, {"spec": {"ports": [{"targetPort": {}}]}}, "object"),
    "no time": (POD, {"metadata": {"creationTimestamp": "now"}}, 'parsing time "now"'),
    "no quantity": (POD, pod(overhead={"cpu": "lots"}), "quantities must match"),
    "no base64": (SECRET, {"data": {"a": "!"}}, "illegal base64 data"),
    "deep in itself": (
        DEFINITION,
        defined(properties={"a": {"items": {"type": 7}}}),
        "cannot unmarshal number",
    ),
    "neither of two kinds": (
        DEFINITION,
        defined(additionalProperties="x"),
        "boolean or JSON schema expected",
    ),
}


@pytest.mark.parametrize(("shape", "document", "problem"), WRONG.values(), ids=WRONG)
def test_what_go_would_not_decode(shape: Any, document: Any, problem: str) -> None:
    assert problem in shape(document)


RIGHT: Final[dict[str, tuple[Any, Any]]] = {
    "nothing": (POD, {}),
    "unknown fields": (POD, {"x": 1, "spec": {"y": [{}]}}),
    "null for anything": (
        POD,
        {"metadata": None, "spec": {"containers": [None], "nodeSelector": {"a": None}}},
    ),
    "a number or a text": (SERVICE, {"spec": {"ports": [{"targetPort": 1}, {"targetPort": "a"}]}}),
    "a quantity that is a number": (POD, pod(overhead={"cpu": 1})),
    "who owns which fields": (
        POD,
        {"metadata": {"managedFields": [{"fieldsV1": {"f:a": {}}, "time": "2026-01-01T00:00:00Z"}]}},
    ),
    "either of two kinds": (DEFINITION, defined(additionalProperties=True, items={"type": "object"})),
    "any value": (DEFINITION, defined(default=[1, {"a": None}], enum=[1, "a", None])),
}


@pytest.mark.parametrize(("shape", "document"), RIGHT.values(), ids=RIGHT)
def test_what_go_would_decode(shape: Any, document: Any) -> None:
    assert shape(document) == ""


@pytest.mark.parametrize("manifest", corpus.manifests(), ids=lambda each: each.id)
def test_what_is_stored_of_an_object_of_a_client_has_the_shape_of_its_kind(manifest: Manifest) -> None:
    resource, document = manifest.type_in(TABLE), manifest.document
    resource.check(document)
    assert COMPILER.compile(resource.schema())(document) == ""
