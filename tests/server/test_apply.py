"""Server-side apply and field ownership over HTTP, beyond the recorded conversations. Rows F04-F31."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from tests.support import objects
from tests.support.api import APPLY, MERGE_PATCH, STRATEGIC_PATCH, Answer, Api
from tests.support.definitions import OPEN_SPEC, Defined, define, definition, new_group, version
from tests.support.eventually import until
from tests.support.fixtures import api_with
from tests.support.objects import deployments

CONFIG_MAP: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


strict = api_with("--strict-kube-compat")


class Applied:
    """The ConfigMap `a` of a namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.path = f"/api/v1/namespaces/{namespace}/configmaps/a"

    def apply(self, manager: str, more: str = "", **fields: Any) -> Answer:
        return self.api.apply(f"{self.path}?fieldManager={manager}{more}", CONFIG_MAP | fields)

    def merge(self, manager: str, patch: Any) -> Answer:
        return self.api.patch(f"{self.path}?fieldManager={manager}", patch, MERGE_PATCH)

    def owners(self) -> list[tuple[str, str]]:
        """Manager and operation of each entry."""
        entries = self.api.get(self.path).ok()["metadata"].get("managedFields", [])
        return [(entry["manager"], entry["operation"]) for entry in entries]


@pytest.fixture
def config_map(api: Api, namespace: str) -> Applied:
    return Applied(api, namespace)


def test_f28_a_resource_version_in_the_body_is_a_condition(config_map: Applied) -> None:
    made = config_map.apply("m", data={"k": "1"}).ok()
    version = made["metadata"]["resourceVersion"]
    config_map.apply("m", data={"k": "2"}).ok()
    stale = config_map.apply("m", metadata={"name": "a", "resourceVersion": version}, data={"k": "3"})
    assert (stale.status, stale.reason) == (409, "Conflict")
    assert config_map.api.get(config_map.path).ok()["data"] == {"k": "2"}


def test_a_failed_apply_leaves_object_and_owners(config_map: Applied) -> None:
    config_map.apply("m", data={"k": "1"}).ok()
    before = config_map.api.get(config_map.path).body
    assert config_map.apply("other", data={"k": "2"}).status == 409
    assert config_map.apply("m", data={"k": 2}).status == 422
    assert config_map.apply("m", metadata={"name": "a", "labels": {"-": ""}}).status == 422
    assert config_map.api.get(config_map.path).body == before


def test_f25_an_apply_of_the_same_changes_nothing(config_map: Applied) -> None:
    config_map.apply("m", data={"k": "1"}).ok()
    before = config_map.api.get(config_map.path).body
    assert config_map.apply("m", data={"k": "1"}).body == before


def test_f22_an_empty_list_strips_nothing_but_in_kube_apiserver(config_map: Applied, strict: Api) -> None:
    for applied, left in ((config_map, [("m", "Apply")]), (Applied(strict, "default"), [])):
        applied.apply("m", data={"k": "1"}).ok()
        applied.merge("s", {"metadata": {"managedFields": []}}).ok()
        assert applied.owners() == left
        document = applied.apply("m", data={"k": "1"}).ok()
        document["metadata"]["managedFields"] = []
        applied.api.put(applied.path, document).ok()
        assert applied.owners() == left


def test_f21_f23_who_strips_all_ownership_owns_what_else_changes(config_map: Applied, strict: Api) -> None:
    reset = {"metadata": {"managedFields": [{}]}, "data": {"n": "1"}}
    for applied, left in ((config_map, [("s", "Update")]), (Applied(strict, "default"), [])):
        applied.apply("m", data={"k": "1"}).ok()
        applied.merge("s", reset).ok()
        assert applied.owners() == left


def test_managed_fields_set_by_a_client_are_kept_if_valid(config_map: Applied) -> None:
    config_map.apply("m", data={"k": "1"}).ok()
    entry = {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    unreadable: list[dict[str, Any]] = [{"k:{": {}}, {"f:a": "x"}, {"a": {}}]
    for fields in unreadable:
        config_map.merge("s", {"metadata": {"managedFields": [{**entry, "fieldsV1": fields}]}})
        assert config_map.owners() == [("m", "Apply")]
    config_map.merge(
        "s", {"metadata": {"managedFields": [{**entry, "fieldsV1": {"f:data": {"f:k": {}}}}]}}
    ).ok()
    assert config_map.owners() == [("x", "Apply")]


def test_f26_nobody_owns_what_was_a_default(api: Api, namespace: str) -> None:
    applied = api.apply(f"{deployments(namespace)}/d?fieldManager=m", objects.deployment()).ok()
    assert (applied["spec"]["replicas"], applied["spec"]["strategy"]["type"]) == (1, "RollingUpdate")
    (entry,) = applied["metadata"]["managedFields"]
    assert sorted(entry["fieldsV1"]["f:spec"]) == ["f:selector", "f:template"]


FIELD_VALIDATION: Final[dict[str, tuple[str, int, list[str]]]] = {
    "ignored": ("Ignore", 201, []),
    "warned of": ("Warn", 201, ["metadata.bogus"]),
    "refused": ("Strict", 400, []),
}


@pytest.mark.parametrize(
    ("level", "status", "warnings"), FIELD_VALIDATION.values(), ids=FIELD_VALIDATION.keys()
)
def test_field_validation(level: str, status: int, warnings: list[str], config_map: Applied) -> None:
    """Rows E05-E08."""
    metadata = {"name": "a", "bogus": 1}
    answer = config_map.apply("m", f"&fieldValidation={level}", metadata=metadata)
    assert answer.status == status
    assert answer.warnings == [rf"unknown field \"{path}\"" for path in warnings]


UNDECLARED: Final = "failed to create typed patch object (/{}; {}): {}"
REPEATED: Final = (
    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
    '  line 2: key "paused" already set in map'
)
# The body of an apply to a Deployment; what of it is told under Warn and under Strict.
BOTH_KINDS: Final[dict[str, tuple[bytes, list[str], str]]] = {
    "an unknown field": (
        b'"spec":{"foo":1}',
        ['unknown field "spec.foo"'],
        UNDECLARED.format("a", "apps/v1, Kind=Deployment", ".spec.foo: field not declared in schema"),
    ),
    "several, one in a list with keys": (
        b'"bogus":1,"spec":{"template":{"spec":{"containers":[{"name":"c","foo":1}]}}}',
        ['unknown field "spec.template.spec.containers[0].foo"', 'unknown field "bogus"'],
        UNDECLARED.format(
            "a",
            "apps/v1, Kind=Deployment",
            'errors:\n  .spec.template.spec.containers[name="c"].foo: field not declared in schema'
            "\n  .bogus: field not declared in schema",
        ),
    ),
    "a duplicate": (
        b'"spec":{"paused":true,\n"paused":false}',
        ['line 2: key "paused" already set in map'],
        REPEATED,
    ),
    "both": (
        b'"spec":{"paused":true,\n"paused":false,"foo":1}',
        ['line 2: key "paused" already set in map', 'unknown field "spec.foo"'],
        UNDECLARED.format("a", "apps/v1, Kind=Deployment", ".spec.foo: field not declared in schema")
        + f", {REPEATED}",
    ),
}


@pytest.mark.parametrize(("fields", "warnings", "refusal"), BOTH_KINDS.values(), ids=BOTH_KINDS)
def test_e08_unknown_and_duplicate_fields_of_an_apply_are_both_told(
    api: Api, namespace: str, fields: bytes, warnings: list[str], refusal: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/a?fieldManager=m&dryRun=All"
    body = b'{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},%b}' % fields
    warned = api.apply(f"{path}&fieldValidation=Warn", body)
    assert warned.warnings == [text.replace('"', r"\"") for text in warnings]
    refused = api.apply(f"{path}&fieldValidation=Strict", body)
    assert (refused.status, refused.reason, refused.message) == (400, "BadRequest", refusal)
    assert api.apply(f"{path}&fieldValidation=Ignore", body).warnings == []


def test_e08_a_strict_apply_of_a_custom_resource_names_the_undeclared_field(api: Api, namespace: str) -> None:
    defined = define(api, definition(new_group()))
    path = f"{defined.objects(namespace)}/a?fieldManager=m&fieldValidation=Strict"
    refused = api.apply(path, defined.body("a", bogus=1))
    kind = f"{defined.group}/v1, Kind={defined.kind}"
    told = UNDECLARED.format("a", kind, ".bogus: field not declared in schema")
    assert (refused.status, refused.reason, refused.message) == (400, "BadRequest", told)


@pytest.mark.parametrize("level", ["Ignore", "Warn", "Strict"])
def test_e06_an_apply_that_names_unknown_fields_is_refused_as_in_kubernetes(strict: Api, level: str) -> None:
    """Recorded: fieldvalidation/apply-ignore, fieldvalidation/apply-strict."""
    body = CONFIG_MAP | {"bogus": 1}
    path = f"/api/v1/namespaces/default/configmaps/a?fieldManager=m&fieldValidation={level}"
    refused = strict.apply(path, body)
    told = UNDECLARED.format("a", "/v1, Kind=ConfigMap", ".bogus: field not declared in schema")
    assert (refused.status, refused.message) == (500, told)
    assert "reason" not in refused.json


def test_a_refusal_comes_with_the_warnings_of_the_body(api: Api) -> None:
    """Row E07. Whatever speaks against the object: here, there is no such namespace."""
    path = "/api/v1/namespaces/nowhere/configmaps/a?fieldManager=m"
    answer = api.apply(path, CONFIG_MAP | {"nonsense": 1})
    assert (answer.status, answer.warnings) == (404, [r"unknown field \"nonsense\""])


WITHOUT_NAMES: Final[dict[str, dict[str, Any]]] = {
    "no metadata": {},
    "metadata without a name": {"metadata": {"labels": {"l": "1"}}},
    "an empty name": {"metadata": {"name": ""}},
}


@pytest.mark.parametrize("fields", WITHOUT_NAMES.values(), ids=WITHOUT_NAMES)
def test_an_apply_without_a_name_takes_that_of_the_object(
    config_map: Applied, fields: dict[str, Any]
) -> None:
    """Row F09: the merged object has one, but a new one has not."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"}} | fields
    path = f"{config_map.path}?fieldManager=m"
    answer = config_map.api.apply(path, body)
    assert (answer.status, answer.message) == (
        400,
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    )
    config_map.apply("other", data={"j": "1"}).ok()
    applied = config_map.api.apply(path, body).ok()
    assert applied["metadata"]["name"] == "a"
    assert applied["data"] == {"j": "1", "k": "1"}
    [entry] = [each for each in applied["metadata"]["managedFields"] if each["manager"] == "m"]
    assert entry["fieldsV1"].keys() == {"f:data", *(("f:metadata",) if "labels" in str(fields) else ())}
    assert config_map.api.apply(path, body).ok() == applied


BODIES: Final[dict[str, tuple[bytes, int]]] = {
    "no YAML": (b"a: [", 400),
    "no UTF-8": (b'{"apiVersion":"\xff"}', 400),
    "a list": (b"[]", 400),
    "null": (b"null", 400),
    "no metadata": (b'{"apiVersion":"v1","kind":"ConfigMap","metadata":null}', 400),
    "metadata that is a text": (b'{"apiVersion":"v1","kind":"ConfigMap","metadata":"x"}', 422),
    "a name that is a number": (b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":5}}', 422),
    "a version that is a number": (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":1}}',
        422,
    ),
    "labels that are a list": (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":[]}}',
        422,
    ),
    "another kind of kind": (b'{"apiVersion":1,"kind":["x"],"metadata":{"name":"a"}}', 400),
    "too many levels": (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":'
        + b'{"a":' * 900
        + b"1"
        + b"}" * 900
        + b"}",
        422,
    ),
}


@pytest.mark.parametrize(("body", "status"), BODIES.values(), ids=BODIES.keys())
def test_malformed_apply_bodies(body: bytes, status: int, config_map: Applied) -> None:
    answer = config_map.api.apply(f"{config_map.path}?fieldManager=m", body)
    assert answer.status == status, answer.body
    assert config_map.api.get(config_map.path).status == 404


def test_an_item_twice_is_refused_by_its_path(api: Api, namespace: str) -> None:
    containers = [{"name": "c", "image": "i"}, {"name": "c", "image": "j"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    answer = api.apply(f"/api/v1/namespaces/{namespace}/pods/p?fieldManager=m", pod)
    assert answer.status == 422
    assert '.spec.containers: duplicate entries for key [name="c"]' in answer.message


def test_f30_owners_in_another_version_conflict_in_theirs(api: Api, namespace: str) -> None:
    path = f"namespaces/{namespace}/horizontalpodautoscalers/h"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}

    def scaler(version: str, replicas: int) -> dict[str, Any]:
        kind = {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler"}
        return {
            **kind,
            "metadata": {"name": "h"},
            "spec": {"maxReplicas": replicas, "scaleTargetRef": target},
        }

    api.apply(f"/apis/autoscaling/v1/{path}?fieldManager=one", scaler("v1", 3)).ok()
    refused = api.apply(f"/apis/autoscaling/v2/{path}?fieldManager=two", scaler("v2", 4))
    assert refused.causes == [("FieldManagerConflict", ".spec.maxReplicas")]
    taken = api.apply(f"/apis/autoscaling/v2/{path}?fieldManager=two&force=true", scaler("v2", 4)).ok()
    owned = {entry["manager"]: entry["fieldsV1"]["f:spec"] for entry in taken["metadata"]["managedFields"]}
    assert ("f:maxReplicas" in owned["one"], "f:maxReplicas" in owned["two"]) == (False, True)


def test_statuses_are_applied_on_their_own_path_only(api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods/p"
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    spec = {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
    assert api.apply(f"{pods}/status?fieldManager=k", head | {"status": {"phase": "Failed"}}).status == 404
    body = head | {"spec": spec, "status": {"phase": "Failed"}}
    made = api.apply(f"{pods}?fieldManager=m", body).ok()
    assert made["status"]["phase"] == "Pending"
    assert "f:status" not in made["metadata"]["managedFields"][0]["fieldsV1"]
    shown = api.apply(f"{pods}/status?fieldManager=k", head | {"status": {"phase": "Running"}}).ok()
    assert shown["status"]["phase"] == "Running"
    entry = next(each for each in shown["metadata"]["managedFields"] if each["manager"] == "k")
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:phase": {}}})


def test_yaml_of_many_keys_is_read_like_json(config_map: Applied) -> None:
    data = {f"k{number}": "v" for number in range(3000)}
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + "".join(
        f"  {key}: {value}\n" for key, value in data.items()
    )
    answer = config_map.api.apply(f"{config_map.path}?fieldManager=m", text.encode())
    assert orjson.loads(answer.body)["data"] == data
    fields = answer.ok()["metadata"]["managedFields"][0]["fieldsV1"]
    assert list(fields["f:data"]) == sorted(f"f:{key}" for key in data)


def test_f08_an_apply_that_wants_a_certain_object_creates_no_other(config_map: Applied) -> None:
    refused = config_map.apply("m", metadata={"name": "a", "uid": "gone"})
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert "uid mismatch: the provided object specified uid gone" in refused.message
    assert config_map.api.get(config_map.path).status == 404


# ---- numbers, types and null

NUMBERS: Final[dict[str, tuple[str, str, int]]] = {
    "an apply": (APPLY, "", 200),
    "a strategic merge patch": (STRATEGIC_PATCH, "", 200),
    "an apply of a scale": (APPLY, "/scale", 200),
    "a strategic merge patch of a scale": (STRATEGIC_PATCH, "/scale", 200),
    "a strategic merge patch of a status": (STRATEGIC_PATCH, "/status", 200),
    "a merge patch is JSON": (MERGE_PATCH, "", 422),
    "a merge patch of a scale": (MERGE_PATCH, "/scale", 422),
}


@pytest.fixture
def deployment(api: Api, namespace: str) -> str:
    api.post(deployments(namespace), objects.deployment()).ok()
    return f"{deployments(namespace)}/d"


@pytest.mark.parametrize(("media_type", "subresource", "status"), NUMBERS.values(), ids=NUMBERS)
def test_a_whole_number_written_as_a_decimal_is_an_integer_unless_it_is_decoded(
    media_type: str, subresource: str, status: int, api: Api, deployment: str
) -> None:
    kind = {"/scale": ("autoscaling/v1", "Scale")}.get(subresource, ("apps/v1", "Deployment"))
    part = "status" if subresource == "/status" else "spec"
    body = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "d"}, part: {"replicas": 3.0}}
    query = "?fieldManager=m&force=true" if media_type == APPLY else ""
    answer = api.patch(f"{deployment}{subresource}{query}", body, media_type)
    assert answer.status == status
    shown = api.get(deployment).ok()[part].get("replicas")
    assert repr(shown) == ("3" if status == 200 else "1")


def test_a_whole_number_that_is_a_key_is_an_integer(api: Api, deployment: str) -> None:
    ports = [{"containerPort": 80.0}]
    spec = {"template": {"spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]}}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    made = api.apply(f"{deployment}?fieldManager=m", body).ok()
    owned = next(e for e in made["metadata"]["managedFields"] if e["manager"] == "m")["fieldsV1"]
    containers = owned["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert list(containers['k:{"name":"c"}']["f:ports"]) == ['k:{"containerPort":80,"protocol":"TCP"}']


WRONG_TYPES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a name": ({"metadata": {"name": 123}}, ".metadata.name: expected string, got "),
    "a name that is a list": ({"metadata": {"name": ["a"]}}, ".metadata.name: expected string, got "),
    "metadata": ({"metadata": "x"}, ".metadata: expected map, got &{x}"),
    "a namespace": (
        {"metadata": {"name": "a", "namespace": 1}},
        ".metadata.namespace: expected string, got ",
    ),
    "a uid": ({"metadata": {"name": "a", "uid": 1}}, ".metadata.uid: expected string, got "),
    "owners": (
        {"metadata": {"name": "a", "managedFields": "x"}},
        ".metadata.managedFields: expected list, got",
    ),
    "data": ({"data": [1]}, ".data: expected map, got &{[...]}"),
}


@pytest.mark.parametrize(("fields", "text"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_a_wrong_type_in_an_apply_is_told_by_its_path(
    fields: dict[str, Any], text: str, config_map: Applied
) -> None:
    """Row E01."""
    refused = config_map.apply("m", **fields)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert "failed to create typed patch object (/" in refused.message
    assert text in refused.message


WRONG_SCALES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a spec": ({"spec": "x"}, ".spec: expected map, got &{x}"),
    "a number": ({"spec": {"replicas": "x"}}, ".spec.replicas: expected numeric (int or float), got string"),
    "a status": ({"status": "x"}, ".status: expected map, got &{x}"),
    "metadata": ({"metadata": "x"}, ".metadata: expected map, got &{x}"),
    "labels": ({"metadata": {"name": "d", "labels": 1}}, ".metadata.labels: expected map, got &{1}"),
}


def scale(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, **fields}


@pytest.mark.parametrize(("fields", "text"), WRONG_SCALES.values(), ids=WRONG_SCALES)
def test_a_scale_of_a_wrong_type_is_refused(
    fields: dict[str, Any], text: str, api: Api, deployment: str
) -> None:
    refused = api.apply(f"{deployment}/scale?fieldManager=m", scale(**fields))
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.message.endswith(f"; autoscaling/v1, Kind=Scale): {text}")


@pytest.mark.parametrize("spec", [{"replicas": None}, {}, None], ids=["null", "omitted", "no spec"])
def test_f15_who_gives_up_the_number_of_a_scale_scales_to_zero(spec: Any, api: Api, deployment: str) -> None:
    api.apply(f"{deployment}/scale?fieldManager=m&force=true", scale(spec={"replicas": 3})).ok()
    api.apply(f"{deployment}/scale?fieldManager=m&force=true", scale(spec=spec)).ok()
    assert api.get(deployment).ok()["spec"]["replicas"] == 0


def test_e06_unknown_fields_of_a_scale_are_told(api: Api, deployment: str) -> None:
    path = f"{deployment}/scale?fieldManager=m"
    assert api.apply(path, scale(spec={"zz": 1})).warnings == [r"unknown field \"spec.zz\""]
    assert api.apply(f"{path}&fieldValidation=Strict", scale(zz=1)).status == 400


def test_f10_a_quantity_written_otherwise_is_another_value(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/q"

    def apply(manager: str, cpu: Any) -> Answer:
        spec = {"hard": {"cpu": cpu}}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
        return api.apply(f"{path}?fieldManager={manager}", body)

    made = apply("a", "1").ok()
    assert apply("b", "1000m").status == 409
    assert apply("b", 1).status == 409
    assert apply("a", "1000m").ok()["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


TEXT: Final = {"type": "string"}
NULLABLE: Final = {"type": "string", "nullable": True}
WITH_NULL: Final = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": TEXT,
                "nullable": NULLABLE,
                "default": {**TEXT, "default": "D"},
                "both": {**NULLABLE, "default": "D"},
                "list": {"type": "array", "items": TEXT},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "map": {"type": "object", "additionalProperties": TEXT},
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": TEXT, "v": TEXT}},
                },
                "free": {"x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"a": TEXT, "nullable": NULLABLE}},
    },
}
REFUSED: Final = object()
GONE: Final = object()
# What is applied to an object without the field, and to one where the same manager has applied a value: what
# the field is then. Null says nothing of what is inside of lists and objects: that is given up.
NULLS: Final[dict[str, tuple[dict[str, Any], Any, Any]]] = {
    "a text": ({"a": None}, REFUSED, REFUSED),
    "a list": ({"list": None}, REFUSED, REFUSED),
    "a set": ({"tags": None}, REFUSED, GONE),
    "a list of items": ({"items": None}, REFUSED, GONE),
    "a map": ({"map": None}, REFUSED, {}),
    "in a map": ({"map": {"k": None}}, REFUSED, REFUSED),
    "in an item": ({"items": [{"k": "1", "v": None}]}, REFUSED, REFUSED),
    "where it is allowed": ({"nullable": None}, None, None),
    "where there is a default": ({"default": None}, "D", "D"),
    "where it is allowed and there is a default": ({"both": None}, None, None),
    "where there is no schema": ({"free": {"k": None}}, {"k": None}, {"k": None}),
}
BEFORE: Final = {
    "a": "x", "list": ["x"], "tags": ["x"], "items": [{"k": "1", "v": "x"}], "map": {"k": "x"},
    "nullable": "x", "default": "x", "both": "x", "free": {"k": "x"},
}  # fmt: skip


@pytest.fixture
def with_null(api: Api) -> Defined:
    return define(api, definition(new_group(), version("v1", schema=WITH_NULL, subresources={"status": {}})))


@pytest.mark.parametrize(("spec", "added", "replaced"), NULLS.values(), ids=NULLS)
def test_f08_f15_null_in_an_apply_of_a_custom_resource_is_a_value(
    spec: dict[str, Any], added: Any, replaced: Any, with_null: Defined, api: Api
) -> None:
    [field] = spec
    for name, before, expected in (("a", {}, added), ("b", {field: BEFORE[field]}, replaced)):
        path = f"{with_null.objects()}/{name}"
        made = api.apply(f"{path}?fieldManager=m", with_null.body(name, spec=before)).ok()
        answer = api.apply(f"{path}?fieldManager=m", with_null.body(name, spec=spec))
        if expected is REFUSED:
            [(reason, where)] = answer.causes
            assert (answer.status, reason) == (422, "FieldValueTypeInvalid")
            assert where.startswith(f"spec.{field}")
            assert answer.message.endswith(': "null"')
            assert api.get(path).ok() == made
        else:
            assert answer.ok().get("spec", {}).get(field, GONE) == expected
            assert f"f:{field}" in answer.ok()["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]


def test_null_in_an_apply_of_a_status_is_a_value(with_null: Defined, api: Api) -> None:
    path = f"{with_null.objects()}/s"
    api.post(with_null.objects(), with_null.body("s", spec={})).ok()
    refused = api.apply(f"{path}/status?fieldManager=m", with_null.body("s", status={"a": None}))
    assert (refused.status, refused.causes) == (422, [("FieldValueTypeInvalid", "status.a")])
    kept = api.apply(f"{path}/status?fieldManager=m", with_null.body("s", status={"nullable": None}))
    assert kept.ok()["status"] == {"nullable": None}


def test_null_in_all_other_writes_of_a_custom_resource_is_nothing(with_null: Defined, api: Api) -> None:
    path = f"{with_null.objects()}/n"
    made = api.post(with_null.objects(), with_null.body("n", spec={"a": None, "map": {"k": None}})).ok()
    assert made["spec"] == {"map": {}, "default": "D", "both": "D"}
    patched = api.patch(
        path, [{"op": "add", "path": "/spec/a", "value": None}], "application/json-patch+json"
    )
    assert patched.ok()["spec"] == made["spec"]


# ---- what is empty, and what has a time

RULE: Final = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
# The rules that two writes have, and whether the writer owns them then. The list is in Go's JSON even if
# empty, but not in what is stored.
EMPTY_LISTS: Final[dict[str, tuple[Any, Any, bool]]] = {
    "at once": ([], [], True),
    "later, where nobody is known to own anything": (None, [], False),
    "in place of rules": ([RULE], [], True),
    "null": (None, None, False),
    "null in place of none": ([], None, True),
}


def role_with(name: str, rules: Any) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }


@pytest.mark.parametrize("verb", ["put", "merge patch", "JSON patch", "strategic merge patch"])
@pytest.mark.parametrize(("first", "second", "is_owned"), EMPTY_LISTS.values(), ids=EMPTY_LISTS)
def test_f16_an_empty_list_that_is_always_encoded_is_owned(
    first: Any, second: Any, is_owned: bool, verb: str, api: Api
) -> None:
    name = f"empty-{new_group()}"
    made = api.post(f"{ROLES}?fieldManager=m", role_with(name, first)).ok()
    assert bool(made["metadata"].get("managedFields")) == (first is not None)
    path = f"{ROLES}/{name}?fieldManager=m"
    match verb:
        case "put":
            answer = api.put(path, role_with(name, second))
        case "JSON patch":
            patch = [{"op": "add", "path": "/rules", "value": second}]
            answer = api.patch(path, patch, "application/json-patch+json")
        case _:
            media_type = {"merge patch": MERGE_PATCH}.get(verb, STRATEGIC_PATCH)
            answer = api.patch(path, {"rules": second}, media_type)
    document = answer.ok()
    owned = [each["fieldsV1"] for each in document["metadata"].get("managedFields", [])]
    assert owned == ([{"f:rules": {}}] if is_owned else [])
    assert document["rules"] is None
    assert api.put(path, role_with(name, second)).ok()["metadata"] == document["metadata"], "nothing changes"


def test_f16_empty_lists_in_items_and_structs_are_owned(api: Api) -> None:
    drivers = [{"name": "d", "nodeID": "n", "topologyKeys": []}]
    node = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "e"}}
    made = api.post(
        "/apis/storage.k8s.io/v1/csinodes?fieldManager=m", node | {"spec": {"drivers": drivers}}
    ).ok()
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:drivers"]
    assert owned['k:{"name":"d"}'] == {".": {}, "f:name": {}, "f:nodeID": {}, "f:topologyKeys": {}}
    assert made["spec"]["drivers"] == [drivers[0] | {"topologyKeys": None}]


# What is applied to a Deployment beside what it has, and whether that counts as a change.
CHANGES: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "nothing": ({}, False),
    "a status, which is not written": ({"status": {"replicas": 2}}, True),
    "a status that is null": ({"status": None}, True),
    "a status that is empty": ({"status": {}}, False),
}


@pytest.mark.parametrize(("more", "has_time"), CHANGES.values(), ids=CHANGES)
def test_f01_who_applies_a_change_has_a_time_though_it_is_taken_back(
    more: dict[str, Any], has_time: bool, api: Api, deployment: str
) -> None:
    labels = {"metadata": {"labels": {"app": "a"}}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    answer = api.apply(f"{deployment}?fieldManager=m", body | {"spec": {"template": labels}} | more).ok()
    [entry] = [each for each in answer["metadata"]["managedFields"] if each["manager"] == "m"]
    assert ("time" in entry) == has_time
    assert "f:status" not in entry["fieldsV1"]


# ---- several versions of a type, and schemas that change


@pytest.fixture
def scaled(api: Api, namespace: str) -> Scaled:
    return Scaled(api, namespace)


class Scaled:
    """A HorizontalPodAutoscaler. Its v1 has one number where v2 has a list."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self._path = f"namespaces/{namespace}/horizontalpodautoscalers/h"

    def apply(self, manager: str, version: str, **spec: Any) -> Answer:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
        document = {
            "apiVersion": f"autoscaling/{version}",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": target, **spec},
        }
        return self.api.apply(f"/apis/autoscaling/{version}/{self._path}?fieldManager={manager}", document)

    def shown(self, field: str) -> Any:
        return self.api.get(f"/apis/autoscaling/v1/{self._path}").ok()["spec"][field]


def _cpu(utilization: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def test_f15_f30_what_is_given_up_in_another_version_goes(scaled: Scaled) -> None:
    scaled.apply("m", "v1", minReplicas=2).ok()
    scaled.apply("m", "v2").ok()
    assert scaled.shown("minReplicas") == 1, "the default"


def test_f14_f30_what_another_has_in_another_version_stays(scaled: Scaled) -> None:
    scaled.apply("m", "v2", minReplicas=2, metrics=[_cpu(50)]).ok()
    scaled.apply("other", "v1", minReplicas=2, targetCPUUtilizationPercentage=50).ok()
    scaled.apply("m", "v2").ok()
    assert (scaled.shown("minReplicas"), scaled.shown("targetCPUUtilizationPercentage")) == (2, 50)
    scaled.apply("other", "v1").ok()
    assert scaled.shown("minReplicas") == 1
    # v1 without a target is v2 with a metric, in which the one that was given up is not missed.
    assert scaled.shown("targetCPUUtilizationPercentage") == 50


MALFORMED: Final[dict[str, dict[str, Any]]] = {
    "a metric that is null": {"metrics": [None]},
    "a policy that is null": {"behavior": {"scaleUp": {"policies": [None]}}},
    "a resource that is null": {"metrics": [{"type": "Resource", "resource": None}]},
}


@pytest.mark.parametrize("spec", MALFORMED.values(), ids=MALFORMED.keys())
def test_f30_what_cannot_be_converted_for_another_owner_is_refused(
    spec: dict[str, Any], scaled: Scaled
) -> None:
    scaled.apply("m", "v1").ok()
    assert scaled.apply("other", "v2", **spec).status == 422


@pytest.fixture
def open_type(api: Api) -> Defined:
    """A type with two versions, which accepts anything in its spec."""
    older, newer = version("v1", schema=OPEN_SPEC), version("v2", schema=OPEN_SPEC, storage=False)
    return define(api, definition(new_group(), older, newer))


@pytest.mark.parametrize("levels", [300, 600])
def test_what_is_too_deep_is_refused_also_beside_owners_in_another_version(
    levels: int, open_type: Defined, api: Api
) -> None:
    path = f"{open_type.objects(version='v2')}/a"
    made = open_type.body("a", spec={"x": 1})
    api.apply(f"{open_type.objects()}/a?fieldManager=m", made).ok()
    before = api.get(path).body
    deep: Any = 1
    for _ in range(levels):
        deep = {"a": deep}
    body = open_type.body("a", "v2", spec={"y": deep})
    refused = (api.apply(f"{path}?fieldManager=o", body), api.patch(path, {"spec": {"y": deep}}))
    assert [answer.status for answer in refused] == [400, 400]
    assert api.get(path).body == before


def test_f10_true_and_1_are_different_values(open_type: Defined, api: Api) -> None:
    path = f"{open_type.objects()}/a"
    api.apply(f"{path}?fieldManager=m", open_type.body("a", spec={"x": 1, "y": [[0]]})).ok()
    for spec, field in (({"x": True}, ".spec.x"), ({"y": [[False]]}, ".spec.y")):
        refused = api.apply(f"{path}?fieldManager=o", open_type.body("a", spec=spec))
        assert refused.causes == [("FieldManagerConflict", field)]


def test_a_no_op_apply_may_change_something_under_a_new_schema(api: Api) -> None:
    defined = define(api, definition(new_group()))
    path = f"{defined.objects()}/w?fieldManager=m&fieldValidation=Ignore"
    body = defined.body("w", spec={"a": "1", "later": "2"})
    versions = {api.apply(path, body).ok()["metadata"]["resourceVersion"] for _ in range(3)}
    assert len(versions) == 1
    fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
    defined.change([{"op": "add", "path": f"{fields}/later", "value": {"type": "string"}}])
    shown = until(lambda: api.apply(path, body), lambda answer: "later" in answer.ok()["spec"])
    assert shown.ok()["spec"] == {"a": "1", "later": "2"}
