"""Compiled schemas: types, unknown fields, defaults, and the normal form of documents."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.golang.times import FarTime
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import (
    STRUCTS_MAX,
    UNKNOWN_FIELDS_MAX,
    CompiledSchema,
    Default,
    SchemaCompiler,
    TypeMismatch,
    compile_schema,
)
from apiserver.schema.structural import Schema, ValueKind

SCHEMAS: Final = BuiltinSchemas((1, 34))


def walk_of(definition: str) -> CompiledSchema:
    return compile_schema(SCHEMAS.get(f"io.k8s.{definition}"))


POD: Final = walk_of("api.core.v1.Pod")
SECRET: Final = walk_of("api.core.v1.Secret")
CONDITIONS: Final = walk_of("api.core.v1.PodStatus")
LEASE: Final = walk_of("api.coordination.v1.Lease")
CRD: Final = walk_of("apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")


def completed(walk: CompiledSchema, document: dict[str, Any]) -> dict[str, Any]:
    """With what Go shows of every struct though nobody has set it: see `test_what_go_shows_of_nothing`."""
    document = copy.deepcopy(document)
    assert walk(document) == []
    return document


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "a", **fields}]}}


# ---- unknown fields: rows E03, E12

UNKNOWN: Final[dict[str, tuple[dict[str, Any], list[str], dict[str, Any]]]] = {
    "a known field is nobody's concern": ({"metadata": {"name": "a"}}, [], {"metadata": {"name": "a"}}),
    "at the top": ({"foo": 1}, ["foo"], {}),
    "below a field": ({"spec": {"zz": {"deep": 1}}}, ["spec.zz"], {"spec": {}}),
    "in an item of a list": (
        container(zz=1) | {"metadata": {}},
        ["spec.containers[0].zz"],
        container() | {"metadata": {}},
    ),
    "in an item of a list in an item of a list": (
        container(ports=[{"containerPort": 1}, {"containerPort": 2, "x": 1}]),
        ["spec.containers[0].ports[1].x"],
        container(ports=[{"containerPort": 1}, {"containerPort": 2}]),
    ),
    "each is told, in the order they came": (
        {"b": 1, "metadata": {"c": 1}, "a": 1},
        ["b", "metadata.c", "a"],
        {"metadata": {}},
    ),
    "an unknown null too": ({"foo": None}, ["foo"], {}),
    "case matters": ({"Spec": {}, "metadata": {"Name": "a"}}, ["Spec", "metadata.Name"], {"metadata": {}}),
    "the keys of a map are free": (
        {"metadata": {"labels": {"zz": "1", "a.b": "2"}}},
        [],
        {"metadata": {"labels": {"zz": "1", "a.b": "2"}}},
    ),
    "nothing is known of an embedded document": (
        {"metadata": {"managedFields": [{"fieldsV1": {"f:zz": {".": {}}}}]}},
        [],
        {"metadata": {"managedFields": [{"fieldsV1": {"f:zz": {".": {}}}}]}},
    ),
}


@pytest.mark.parametrize(("document", "paths", "left"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_fields_are_reported_and_removed(
    document: dict[str, Any], paths: list[str], left: dict[str, Any]
) -> None:
    document = copy.deepcopy(document)
    assert POD(document) == paths
    assert document == completed(POD, left)


# Where a schema may be another value, too, Go decodes it on its own: strictness ends before it.
# Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/v1/marshal.go.
IN_SCHEMAS: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "in a property": ({"properties": {"a": {"zz": 1}}}, [".properties.a.zz"]),
    "in a list of schemas": ({"allOf": [{}, {"zz": 1}]}, [".allOf[1].zz"]),
    "in the schema of items": ({"items": {"zz": 1}}, []),
    "in one of the schemas of items": ({"items": [{"zz": 1}]}, []),
    "beside the schema of items": ({"items": {"zz": 1}, "yy": 1}, [".yy"]),
    "more than are told, in the schema of items": (
        {"items": {f"f{number}": 1 for number in range(UNKNOWN_FIELDS_MAX + 1)}, "yy": 1},
        [".yy"],
    ),
}


@pytest.mark.parametrize(("schema", "paths"), IN_SCHEMAS.values(), ids=IN_SCHEMAS)
def test_unknown_fields_of_schemas(schema: dict[str, Any], paths: list[str]) -> None:
    document = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    assert CRD(document) == [f"spec.versions[0].schema.openAPIV3Schema{path}" for path in paths]
    assert CRD(document) == []


def test_reported_unknown_fields_are_bounded_and_all_are_removed() -> None:
    document = {f"f{number}": 1 for number in range(UNKNOWN_FIELDS_MAX + 5)}
    assert len(POD(document)) == UNKNOWN_FIELDS_MAX
    assert document == completed(POD, {})


# ---- types: row E01, with the texts of Go's decoder (encoding/json, UnmarshalTypeError)

MISMATCHES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "text for a struct": (
        {"spec": "x"},
        "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec",
    ),
    "a list for a map": (
        {"metadata": {"labels": ["a"]}},
        (
            "json: cannot unmarshal array into "
            "Go struct field ObjectMeta.metadata.labels of type map[string]string"
        ),
    ),
    "a number in a map of texts": (
        {"metadata": {"labels": {"a": 5}}},
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    ),
    "a struct for a list": (
        {"spec": {"containers": {}}},
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
    ),
    "a number for a text, in an item": (
        container(image=1),
        "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string",
    ),
    "a truth value for a number": (
        {"spec": {"priority": True}},
        "json: cannot unmarshal bool into Go struct field PodSpec.spec.priority of type int32",
    ),
    "a fraction for a whole number": (
        {"spec": {"priority": 1.5}},
        "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
    ),
    "one more than 32 bits": (
        {"spec": {"priority": 2**31}},
        "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
    ),
    "one less than 64 bits": (
        {"spec": {"activeDeadlineSeconds": -(2**63) - 1}},
        (
            "json: cannot unmarshal number -9223372036854775809 into "
            "Go struct field PodSpec.spec.activeDeadlineSeconds of type int64"
        ),
    ),
    "a number for a truth value": (
        {"spec": {"hostNetwork": 1}},
        "json: cannot unmarshal number into Go struct field PodSpec.spec.hostNetwork of type bool",
    ),
    "a list for an embedded document": (
        {"metadata": {"managedFields": [{"fieldsV1": []}]}},
        (
            "json: cannot unmarshal array into Go struct field "
            "ManagedFieldsEntry.metadata.managedFields.fieldsV1 of type v1.FieldsV1"
        ),
    ),
    **{
        f"{what} for a quantity": (
            container(resources={"limits": {"cpu": value}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
        for what, value in (("a truth value", True), ("an object", {"a": "1"}), ("a list", ["1"]))
    },
    "a fraction for a port": (
        container(livenessProbe={"httpGet": {"port": 1.5}}),
        (
            "json: cannot unmarshal number 1.5 into Go struct field "
            "HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type int32"
        ),
    ),
}


@pytest.mark.parametrize(("document", "message"), MISMATCHES.values(), ids=MISMATCHES)
def test_a_wrong_type_names_the_field(document: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        POD(copy.deepcopy(document))
    assert str(caught.value) == message


def test_a_document_that_is_no_struct_has_no_field_to_name() -> None:
    scalar = compile_schema(Schema(ValueKind.LIST, "[]string", element=Schema(ValueKind.STRING, "string")))
    with pytest.raises(
        TypeMismatch, match=r"^json: cannot unmarshal object into Go value of type \[\]string$"
    ):
        scalar({})


EXTREMES: Final[dict[str, dict[str, Any]]] = {
    "the ends of 32 bits": {"spec": {"priority": -(2**31)}},
    "the other end": {"spec": {"priority": 2**31 - 1}},
    "the ends of 64 bits": {"spec": {"activeDeadlineSeconds": 2**63 - 1}},
    "a port by number": container(livenessProbe={"httpGet": {"port": 80}}),
    "a port by name": container(livenessProbe={"httpGet": {"port": "http"}}),
    "where zero is not the same as nothing": {"spec": {"priority": 0, "enableServiceLinks": False}},
}


@pytest.mark.parametrize("document", EXTREMES.values(), ids=EXTREMES)
def test_what_stays_as_it_is(document: dict[str, Any]) -> None:
    walked = completed(POD, document)
    assert _is_part(document, walked)


def _is_part(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return all(key in whole and _is_part(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return all(_is_part(mine, theirs) for mine, theirs in zip(part, whole, strict=True))
    return part == whole and type(part) is type(whole)


# What a client of Kubernetes is shown of an object in which it has set nothing; recorded, or as Go encodes
# the type: `omitempty` leaves out what is empty, but no struct, and no pointer that is set.
EMPTY: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "structs": ("api.core.v1.Pod", {"metadata": {}, "spec": {"containers": None}, "status": {}}),
    "structs in structs": (
        "api.core.v1.Service",
        {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}},
    ),
    "texts that are always there": (
        "api.core.v1.TypedLocalObjectReference",
        {"apiGroup": None, "kind": "", "name": ""},
    ),
    "times": ("api.core.v1.NamespaceCondition", {"type": "", "status": "", "lastTransitionTime": None}),
    "numbers": ("api.core.v1.ServicePort", {"port": 0, "targetPort": 0}),
    "quantities": ("api.core.v1.ResourceFieldSelector", {"resource": "", "divisor": "0"}),
    "lists": (
        "api.autoscaling.v2.HorizontalPodAutoscalerStatus",
        {"desiredReplicas": 0, "currentMetrics": None},
    ),
    "no creation time, since release 1.34": ("apimachinery.pkg.apis.meta.v1.ObjectMeta", {}),
    "maps": ("api.core.v1.ConfigMap", {"metadata": {}}),
}


@pytest.mark.parametrize(("definition", "shown"), EMPTY.values(), ids=EMPTY)
def test_zero_values_that_go_encodes(definition: str, shown: dict[str, Any]) -> None:
    assert completed(walk_of(definition), {}) == shown


ZEROES: Final[dict[str, dict[str, Any]]] = {
    "a text": {"nodeName": ""},
    "a truth value": {"hostNetwork": False},
    "a list": {"tolerations": []},
    "a map": {"nodeSelector": {}},
}


@pytest.mark.parametrize("spec", ZEROES.values(), ids=ZEROES)
def test_zero_values_that_go_omits(spec: dict[str, Any]) -> None:
    assert completed(POD, {"spec": spec})["spec"] == {"containers": None}


def test_defaults_are_set_from_the_inside_out() -> None:
    seen: list[str] = []

    def default(name: str) -> Default:
        def complete(value: dict[str, Any]) -> None:
            seen.append(name)
            value["name"] = value.get("name") or f"by {name}"

        return complete

    core = "io.k8s.api.core.v1."
    kinds = ("PodSpec", "Container", "ContainerPort")
    compiler = SchemaCompiler({core + kind: default(kind) for kind in kinds})
    document = container(ports=[{}, {"name": "own"}])
    assert compiler.compile(SCHEMAS.get(core + "Pod"))(document) == []
    assert seen == ["ContainerPort", "ContainerPort", "Container", "PodSpec"]
    ports = document["spec"]["containers"][0]["ports"]
    assert [port["name"] for port in ports] == ["by ContainerPort", "own"]


def test_nesting_without_end_is_refused() -> None:
    """A recursive type: the schemas in custom resource definitions."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(50_000):
        schema = {"properties": {"a": schema}}
    document = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    with pytest.raises(TypeMismatch, match="exceeded max depth"):
        CRD(document)
    while "properties" in schema:  # taken apart level by level: freeing it at once would recurse
        schema = schema.pop("properties")["a"]


def test_objects_in_lists_without_end_are_refused() -> None:
    """Each has a few bytes in a body, and hundreds once it is complete. All lists count together."""

    def ports(count: int) -> dict[str, Any]:
        half: list[dict[str, Any]] = [{} for _ in range(count // 2 - 1)]
        return {"spec": {"containers": [{"ports": half}], "initContainers": [{"ports": [*half]}]}}

    POD(ports(STRUCTS_MAX))
    with pytest.raises(TypeMismatch, match=f"max number of objects in lists {STRUCTS_MAX}"):
        POD(ports(STRUCTS_MAX + 2))


def test_a_recursive_type_is_checked_at_every_level() -> None:
    schema = {"properties": {"a": {"properties": {"b": {"type": 7}}}}}
    document = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    with pytest.raises(TypeMismatch, match=r"JSONSchemaProps\..*type of type string$"):
        CRD(document)


# ---- one way to write everything

NORMAL: Final[dict[str, tuple[CompiledSchema, dict[str, Any], dict[str, Any]]]] = {
    "null is absent": (POD, {"spec": None, "metadata": {"name": None}}, {"metadata": {}}),
    "an empty map or list is left out": (
        POD,
        {"metadata": {"labels": {}, "finalizers": []}},
        {"metadata": {}},
    ),
    "or null, where Go always shows it": (POD, {"spec": {"containers": []}}, {"spec": {"containers": None}}),
    "an empty struct is a value": (POD, {"spec": {"securityContext": {}}}, {"spec": {"securityContext": {}}}),
    "what is empty once it is pruned stays": (POD, {"spec": {"zz": 1}}, {"spec": {}}),
    "null in a map is the empty value": (
        POD,
        {"metadata": {"labels": {"a": None}}},
        {"metadata": {"labels": {"a": ""}}},
    ),
    "null in a list too": (POD, {"spec": {"containers": [None]}}, {"spec": {"containers": [{}]}}),
    "a quantity is a text": (
        POD,
        container(resources={"limits": {"cpu": 2, "memory": "1Gi"}}),
        container(resources={"limits": {"cpu": "2", "memory": "1Gi"}}),
    ),
    "a number is what Go's encoder writes of it": (
        POD,
        container(resources={"limits": {"cpu": 0.00001, "memory": 1e16}}),
        container(resources={"limits": {"cpu": "10u", "memory": "10P"}}),
    ),
    "a quantity has one way to be written": (
        POD,
        container(resources={"limits": {"cpu": "0.50", "memory": "1024Mi"}}),
        container(resources={"limits": {"cpu": "500m", "memory": "1Gi"}}),
    ),
    "a quantity keeps its value and a text that is canonical": (
        POD,
        container(resources={"limits": {"cpu": "9223372036854775808", "memory": " 12E6 "}}),
        container(resources={"limits": {"cpu": "9223372036854775808", "memory": "12E6"}}),
    ),
    "a null quantity is none": (
        POD,
        container(resources={"limits": {"cpu": None}}),
        container(resources={"limits": {"cpu": "0"}}),
    ),
    "base64 in lines is joined": (SECRET, {"data": {"a": "YWJj\r\nZGVm\n"}}, {"data": {"a": "YWJjZGVm"}}),
    "empty bytes are a value": (SECRET, {"data": {"a": ""}}, {"data": {"a": ""}}),
    "microseconds stay, in UTC": (
        LEASE,
        {"spec": {"renewTime": "2024-01-01T02:00:00.000001+02:00"}},
        {"spec": {"renewTime": "2024-01-01T00:00:00.000001Z"}},
    ),
    "whole microseconds are written out": (
        LEASE,
        {"spec": {"renewTime": "2024-01-01T00:00:00.000000Z"}},
        {"spec": {"renewTime": "2024-01-01T00:00:00.000000Z"}},
    ),
    "microseconds may be of the year 0": (
        LEASE,
        {"spec": {"renewTime": "0001-01-01T00:00:00.000000+01:00"}},
        {"spec": {"renewTime": "0000-12-31T23:00:00.000000Z"}},
    ),
}


@pytest.mark.parametrize(("walk", "document", "normal"), NORMAL.values(), ids=NORMAL)
def test_documents_are_normalised(
    walk: CompiledSchema, document: dict[str, Any], normal: dict[str, Any]
) -> None:
    document = copy.deepcopy(document)
    walk(document)
    assert document == completed(walk, normal)


# https://www.rfc-editor.org/rfc/rfc3339#section-5.6
TIMES: Final = {
    "as it is kept": ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
    "the last day of a month": ("2024-11-30T23:59:59Z", "2024-11-30T23:59:59Z"),
    "of another zone": ("2024-01-01T02:00:00+02:00", "2024-01-01T00:00:00Z"),
    "of a zone west of Greenwich": ("2023-12-31T20:30:00-03:30", "2024-01-01T00:00:00Z"),
    "the year 0": ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
    "its leap day": ("0000-02-29T00:00:00Z", "0000-02-29T00:00:00Z"),
    "of the year 0 in UTC": ("0001-01-01T00:00:00+05:00", "0000-12-31T19:00:00Z"),
    "before the year 0 in UTC": ("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z"),
    "after the year 9999 in UTC": ("9999-12-31T23:59:59-05:00", "10000-01-01T04:59:59Z"),
    "fractions are dropped": ("2024-01-01T00:00:00.999999999Z", "2024-01-01T00:00:00Z"),
}


@pytest.mark.parametrize(("text", "normal"), TIMES.values(), ids=TIMES)
def test_times_are_in_utc_and_whole_seconds(text: str, normal: str) -> None:
    document = {"metadata": {"creationTimestamp": text}}
    POD(document)
    assert document["metadata"] == {"creationTimestamp": normal}


def test_times_that_came_as_numbers_count_as_they_are_written() -> None:
    document = {"metadata": {"creationTimestamp": FarTime("10000-01-01T00:00:00Z")}}
    POD(document)
    assert type(document["metadata"]["creationTimestamp"]) is str
    assert document["metadata"] == {"creationTimestamp": "10000-01-01T00:00:00Z"}


NO_TIMES: Final = {
    "nothing": "",
    "a word": "yesterday",
    "no zone": "2024-01-01T00:00:00",
    "a blank for the T": "2024-01-01 00:00:00Z",
    "no such month": "2024-13-01T00:00:00Z",
    "no such day of this month": "2024-02-30T00:00:00Z",
    "no such day of a short month": "2024-04-31T00:00:00Z",
    "no such day of this year": "2023-02-29T00:00:00Z",
    "no such day of the year 0": "0000-02-30T00:00:00Z",
    "a year that only the server writes": "10000-01-01T00:59:59Z",
    "a year before the year 0": "-0001-12-31T23:00:00Z",
    "no such hour": "2024-01-01T24:00:00Z",
    "no such zone": "2024-01-01T00:00:00+25:00",
    "digits of another script": "\N{FULLWIDTH DIGIT TWO}024-01-01T00:00:00Z",
    "something behind": "2024-01-01T00:00:00Z\n",
}


@pytest.mark.parametrize("text", NO_TIMES.values(), ids=NO_TIMES)
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(TypeMismatch, match="parsing time"):
        POD({"metadata": {"creationTimestamp": text}})


# Empty lists and maps that count as set in what Kubernetes checks, and the same fields where they do not.
EMPTY_IS_SET: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "policies of scaling": ("autoscaling.v2.HPAScalingRules", {"policies": []}, {"policies": []}),
    "claims of a pod": (
        "core.v1.PodSpec",
        {"resources": {"claims": [], "limits": {}, "requests": {}}, "volumes": []},
        {"resources": {"claims": []}},
    ),
    "what an ephemeral container never has": (
        "core.v1.EphemeralContainer",
        {
            "ports": [],
            "resizePolicy": [],
            "restartPolicyRules": [],
            "resources": {"claims": [], "limits": {}, "requests": {}},
            "env": [],
        },
        {
            "ports": [],
            "resizePolicy": [],
            "restartPolicyRules": [],
            "resources": {"claims": [], "limits": {}, "requests": {}},
        },
    ),
    "and another container may": (
        "core.v1.Container",
        {
            "ports": [],
            "resizePolicy": [],
            "restartPolicyRules": [],
            "resources": {"claims": [], "limits": {}, "requests": {}},
        },
        {"resources": {}},
    ),
    "null is none": (
        "core.v1.EphemeralContainer",
        {"ports": None, "resources": {"limits": None}},
        {"resources": {}},
    ),
}


@pytest.mark.parametrize(("definition", "value", "kept"), EMPTY_IS_SET.values(), ids=EMPTY_IS_SET)
def test_empty_lists_and_maps_that_count_as_set_are_kept(
    definition: str, value: dict[str, Any], kept: dict[str, Any]
) -> None:
    walk = compile_schema(BuiltinSchemas((1, 36)).get(f"io.k8s.api.{definition}"))
    value = copy.deepcopy(value)
    walk(value)
    unset: dict[str, Any] = {}
    walk(unset)
    assert value == unset | kept


ZERO_TIMES: Final = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+00:00",
    "0001-01-01T05:30:00+05:30",
    "0001-01-01T00:00:00.5Z",
    "0001-01-01T0:00:00,5Z",
)
ZERO_MICRO_TIMES: Final = ("0001-01-01T00:00:00.000000Z", "0001-01-01T01:00:00.000000+01:00")
TIMES_AFTER_ZERO: Final = ("0001-01-01T00:00:01Z", "1970-01-01T00:00:00Z")


@pytest.mark.parametrize("text", ZERO_TIMES)
def test_the_zero_time_is_null(text: str) -> None:
    document: dict[str, Any] = {
        "metadata": {"creationTimestamp": text, "deletionTimestamp": text},
        "status": {"startTime": text, "conditions": [{"lastProbeTime": text}]},
    }
    assert POD(document) == []
    # Go omits a creation time that is zero. It shows other times, though they are marked as omitted if empty.
    assert document["metadata"] == {"deletionTimestamp": None}
    assert document["status"]["startTime"] is None
    assert document["status"]["conditions"] == completed(CONDITIONS, {"conditions": [{}]})["conditions"]
    budget = {"disruptedPods": {"a": text, "b": "1970-01-01T00:00:00Z"}}
    walk_of("api.policy.v1.PodDisruptionBudgetStatus")(budget)
    assert budget["disruptedPods"] == {"a": None, "b": "1970-01-01T00:00:00Z"}


@pytest.mark.parametrize("text", ZERO_MICRO_TIMES)
def test_the_zero_micro_time_is_null(text: str) -> None:
    lease = {"spec": {"renewTime": text, "acquireTime": "0001-01-01T00:00:00.000001Z"}}
    assert LEASE(lease) == []
    assert lease["spec"] == {"renewTime": None, "acquireTime": "0001-01-01T00:00:00.000001Z"}


@pytest.mark.parametrize("text", TIMES_AFTER_ZERO)
def test_a_time_after_zero_is_a_time(text: str) -> None:
    document = {"metadata": {"creationTimestamp": text}, "status": {"startTime": text}}
    assert completed(POD, document).items() >= document.items()


@pytest.mark.parametrize("text", ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123Z"])
def test_micro_times_say_their_microseconds(text: str) -> None:
    with pytest.raises(TypeMismatch, match=r"2006-01-02T15:04:05\.000000Z07:00"):
        LEASE({"spec": {"renewTime": text}})


@pytest.mark.parametrize("text", ["YQ", "YQ=", "Y Q==", "====", "YQ==YQ==", "é", "A_-A", "AAAAA"])
def test_invalid_base64_is_refused(text: str) -> None:
    with pytest.raises(TypeMismatch, match=r"^illegal base64 data at input byte \d+$"):
        SECRET({"data": {"a": text}})


def test_a_number_for_a_port_has_32_bits() -> None:
    """Source: apimachinery, pkg/util/intstr: IntVal is an int32."""
    with pytest.raises(TypeMismatch, match="2147483648"):
        POD(container(livenessProbe={"httpGet": {"port": 2**31}}))


# What is made of maps, as Kubernetes makes it: a document, and what becomes of it.
MERGED: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "an integer": ({"spec": {"priority": 3.0}}, {"spec": {"priority": 3}}),
    "a number for a port": (
        container(livenessProbe={"httpGet": {"port": 8e1}}),
        container(livenessProbe={"httpGet": {"port": 80}}),
    ),
    "what has no schema": (
        {"metadata": {"managedFields": [{"fieldsV1": {"a": [1.0, 1.5]}}]}},
        {"metadata": {"managedFields": [{"fieldsV1": {"a": [1, 1.5]}}]}},
    ),
}


@pytest.mark.parametrize(("document", "expected"), MERGED.values(), ids=MERGED)
def test_a_whole_number_in_what_has_been_merged_is_an_integer(
    document: dict[str, Any], expected: dict[str, Any]
) -> None:
    merged, normal = copy.deepcopy(document), copy.deepcopy(expected)
    POD(merged, is_merged=True)
    POD(normal)
    assert repr(merged) == repr(normal)


@pytest.mark.parametrize("number", [3.5, 2.0**31, 1e300])
def test_other_numbers_in_what_has_been_merged_are_refused(number: float) -> None:
    with pytest.raises(TypeMismatch, match=r"of type int32$"):
        POD({"spec": {"priority": number}}, is_merged=True)


# ---- whatever comes

_NAMES: Final = st.sampled_from(
    ["metadata", "spec", "status", "name", "labels", "containers", "env", "value", "creationTimestamp", "zz"]
)
_TEXTS: Final = st.sampled_from(["", "a", "YQ==", "2024-01-01T00:00:00.5+01:00", "\ud7ff", "1Gi"])
_SCALARS: Final = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS
_JSON: Final = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4)
)
# Likely to get below the surface: right types on the way down.
_PODS: Final = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": _SCALARS,
                "labels": st.dictionaries(_NAMES, _TEXTS, max_size=3) | _JSON,
                "creationTimestamp": _TEXTS,
            },
        ),
        "spec": st.fixed_dictionaries({"containers": st.lists(st.dictionaries(_NAMES, _JSON), max_size=3)}),
        "zz": _JSON,
    },
)


@settings(max_examples=200, deadline=None)
@given(_PODS | st.dictionaries(_NAMES, _JSON))
def test_a_normalised_document_is_stable(document: dict[str, Any]) -> None:
    """Anything is refused, or left in a state that a second walk does not change."""
    try:
        POD(document)
    except TypeMismatch:
        return
    again = copy.deepcopy(document)
    assert POD(again) == []
    assert again == document


# ---- the schemas of the built-in types


def test_definitions_are_schemas() -> None:
    pod = SCHEMAS.get("io.k8s.api.core.v1.Pod")
    spec = pod.fields["spec"]
    containers = spec.fields["containers"]
    assert (pod.kind, pod.go_type, pod.struct_name) == (ValueKind.STRUCT, "v1.Pod", "Pod")
    assert spec.definition == "io.k8s.api.core.v1.PodSpec"
    assert (containers.kind, containers.go_type) == (ValueKind.LIST, "[]v1.Container")
    assert containers.element is SCHEMAS.get("io.k8s.api.core.v1.Container")
    assert "containers" in spec.required


KINDS: Final = {
    "int32": ("PodSpec", "priority", ValueKind.INTEGER, 32),
    "int64": ("PodSpec", "activeDeadlineSeconds", ValueKind.INTEGER, 64),
    "map of texts": ("PodSpec", "nodeSelector", ValueKind.MAP, 64),
    "map of bytes": ("Secret", "data", ValueKind.MAP, 64),
    "moment": ("Event", "firstTimestamp", ValueKind.TIME, 64),
    "moment in microseconds": ("Event", "eventTime", ValueKind.MICRO_TIME, 64),
    "number or name": ("HTTPGetAction", "port", ValueKind.INT_OR_STRING, 64),
    "map of quantities": ("ResourceRequirements", "limits", ValueKind.MAP, 64),
}


@pytest.mark.parametrize(("definition", "field", "kind", "bits"), KINDS.values(), ids=KINDS)
def test_kinds_of_fields(definition: str, field: str, kind: ValueKind, bits: int) -> None:
    schema = SCHEMAS.get(f"io.k8s.api.core.v1.{definition}").fields[field]
    assert (schema.kind, schema.bits) == (kind, bits)


def test_bytes_and_quantities_as_values() -> None:
    for definition, field, kind in (
        ("Secret", "data", ValueKind.BYTES),
        ("ResourceRequirements", "limits", ValueKind.QUANTITY),
    ):
        element = SCHEMAS.get(f"io.k8s.api.core.v1.{definition}").fields[field].element
        assert element is not None
        assert element.kind is kind


def test_every_definition_can_be_compiled() -> None:
    for definition in SCHEMAS.definitions():
        compile_schema(SCHEMAS.get(definition))


def test_definitions_that_are_not_there() -> None:
    with pytest.raises(KeyError):
        SCHEMAS.get("io.k8s.api.core.v1.Nothing")
    with pytest.raises(LookupError, match=r"1, 99"):
        BuiltinSchemas((1, 99)).get("io.k8s.api.core.v1.Pod")


def test_definitions_without_fields_are_of_structs() -> None:
    """Kubernetes has two: whatever clients write into them is unknown."""
    schemas = BuiltinSchemas((1, 36))
    kinds = ("apiserverinternal.v1alpha1.StorageVersionSpec", "scheduling.v1alpha2.BasicSchedulingPolicy")
    for kind in kinds:
        schema = schemas.get(f"io.k8s.api.{kind}")
        assert (schema.kind, schema.fields) == (ValueKind.STRUCT, {})


def test_definitions_that_were_removed_or_came_later() -> None:
    """What the server works on it must know, though no client sees it in the release."""
    for release in ((1, 15), (1, 30), (1, 36)):
        schemas = BuiltinSchemas(release)
        assert "rollbackTo" in schemas.get("io.k8s.api.extensions.v1beta1.DeploymentSpec").fields
        assert "rules" in schemas.get("io.k8s.api.networking.v1.IngressSpec").fields


def test_removed_definitions_have_the_descriptions_of_what_has_replaced_them() -> None:
    definitions = BuiltinSchemas((1, 15)).definitions()
    old, new = (definitions[f"io.k8s.api.apps.{version}.DeploymentSpec"] for version in ("v1beta1", "v1"))
    assert old["properties"]["replicas"]["description"] == new["properties"]["replicas"]["description"]
    assert "description" not in old["properties"]["rollbackTo"]


OLD_OBJECTS: Final[dict[str, tuple[str, str, str] | None]] = {
    "io.k8s.api.apps.v1beta1.Deployment": ("apps", "v1beta1", "Deployment"),
    "io.k8s.api.extensions.v1beta1.IngressList": ("extensions", "v1beta1", "IngressList"),
    "io.k8s.api.auditregistration.v1alpha1.AuditSink": (
        *("auditregistration.k8s.io", "v1alpha1", "AuditSink"),
    ),
    "io.k8s.api.rbac.v1alpha1.ClusterRole": ("rbac.authorization.k8s.io", "v1alpha1", "ClusterRole"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.CustomResourceDefinition": (
        "apiextensions.k8s.io",
        "v1beta1",
        "CustomResourceDefinition",
    ),
    "io.k8s.api.settings.v1alpha1.PodPreset": ("settings.k8s.io", "v1alpha1", "PodPreset"),
    "io.k8s.api.auditregistration.v1alpha1.AuditSinkList": (
        "auditregistration.k8s.io",
        "v1alpha1",
        "AuditSinkList",
    ),
    "io.k8s.api.rbac.v1alpha1.Subject": None,
}


@pytest.mark.parametrize(("name", "kind"), OLD_OBJECTS.items())
def test_removed_definitions_of_objects_tell_their_kind(name: str, kind: tuple[str, ...] | None) -> None:
    """kubectl looks for them by it."""
    found = BuiltinSchemas((1, 15)).definitions()[name].get("x-kubernetes-group-version-kind")
    if kind is None:
        assert found is None
    else:
        assert found == [dict(zip(("group", "version", "kind"), kind, strict=True))]


def test_threads_compile_together() -> None:
    """None of them gets a walk that another has not finished, as of a recursive type."""
    schema = SCHEMAS.get("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    document = {"properties": {"a": {"properties": {"b": {"unknown": 1}}}}}
    compiler = SchemaCompiler()
    together = threading.Barrier(8)

    def check(_: int) -> list[str]:
        together.wait()
        return compiler.compile(schema)(copy.deepcopy(document))

    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(check, range(8))]
    (alone,) = compile_schema(schema)(document)
    assert found == [[alone]] * 8
