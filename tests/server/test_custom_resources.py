"""Custom resources are served while their definitions exist. Rows S01-S05, D06-D10, I13, I22."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.schema.builtin import BuiltinSchemas
from apiserver.wire.protobuf import MessageDecoder, open_envelope
from apiserver.wire.protobuf.wire_format import undelimited
from tests.support.api import STRATEGIC_PATCH, Api, until_status
from tests.support.definitions import (
    DEFINITIONS,
    SPEC,
    Defined,
    condition,
    define,
    definition,
    is_established,
    new_group,
    version,
)
from tests.support.eventually import until
from tests.support.fixtures import server_with
from tests.support.server_process import ServerProcess

TABLE: Final = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
AGGREGATED: Final = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
SCHEMAS: Final = BuiltinSchemas((1, 34))
SERVED_WITHIN_S: Final = 0.1
TRIES_MAX: Final = 50


# Other tests look at all that is served.
server = server_with()


@pytest.fixture
def defined(api: Api) -> Defined:
    return define(api, definition(new_group()))


def _is_gone(api: Api, path: str) -> None:
    until_status(404, lambda: api.get(path), f"{path} is gone")


# ---- being served


def test_a_definition_is_served_at_once(api: Api) -> None:
    """Within 100 ms of its creation, if nothing else is in its way, and without a restart."""
    waited = [time_until_served_s(api)]
    # On a machine with much to do something is in the way of most.
    while waited[-1] >= SERVED_WITHIN_S and len(waited) < TRIES_MAX:
        waited.append(time_until_served_s(api))
    assert waited[-1] < SERVED_WITHIN_S, waited


def time_until_served_s(api: Api) -> float:
    group = new_group()
    api.post(DEFINITIONS, definition(group)).ok()
    began = time.monotonic()
    until_status(200, lambda: api.get(f"/apis/{group}/v1/widgets"))
    return time.monotonic() - began


def test_paths_of_unserved_versions_are_not_found(defined: Defined, api: Api) -> None:
    """Row S02: as Kubernetes says it where no built-in type has the group, in plain text."""
    gone = (
        f"/apis/{defined.group}/v2/widgets",
        f"/apis/{defined.group}/v1/others",
        f"/apis/{defined.group}/v2",
    )
    for path in (*gone, "/apis/nobody.example.com/v1/widgets"):
        answer = api.get(path)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert api.get(f"{defined.objects()}/a/status").message == f'widgets.{defined.group} "a" not found'


def test_every_document_of_discovery_tells_of_it(api: Api) -> None:
    names = {"shortNames": ["wd"], "categories": ["all"], "listKind": "Widgets", "singular": "wi"}
    group = new_group()
    defined = define(api, definition(group, names=names))
    [resource] = api.get(f"/apis/{group}/v1").ok()["resources"]
    assert resource["shortNames"] == ["wd"]
    assert (resource["categories"], resource["singularName"]) == (["all"], "wi")
    assert api.get(defined.objects()).ok()["kind"] == "Widgets"
    assert api.get(f"/apis/{group}").ok()["preferredVersion"]["version"] == "v1"
    first = api.get("/apis", headers=AGGREGATED)
    [item] = [each for each in first.ok()["items"] if each["metadata"]["name"] == group]
    assert item["versions"][0]["resources"][0]["resource"] == "widgets"
    again = api.get("/apis", headers={**AGGREGATED, "If-None-Match": first.headers["etag"]})
    assert again.status == 304
    defined.change([{"op": "add", "path": "/spec/names/shortNames/-", "value": "wx"}])
    changed = until(
        lambda: api.get("/apis", headers=AGGREGATED), lambda answer: b'"wx"' in answer.body, "short name"
    )
    assert changed.headers["etag"] != first.headers["etag"]


def test_an_object_may_be_asked_for_in_every_form_but_protobuf(defined: Defined, api: Api) -> None:
    """Row D06."""
    defined.create("a", spec={"a": "x"}).ok()
    path = f"{defined.objects()}/a"
    refused = api.get(path, headers={"Accept": PROTOBUF})
    assert refused.status == 406
    assert refused.headers["content-type"] == PROTOBUF
    assert api.get(path, headers={"Accept": "application/*"}).ok()["spec"] == {"a": "x"}
    unknown = api.get(path, headers={"Accept": "text/html"})
    assert unknown.message == (
        f"only the following media types are accepted: application/json, application/yaml, {PROTOBUF}"
    )
    assert api.get(path, headers={"Accept": f"{PROTOBUF},application/json"}).ok()["spec"] == {"a": "x"}
    assert b"\nspec:\n  a: x\n" in api.get(path, headers={"Accept": "application/yaml"}).body
    assert api.post(defined.objects(), b"k8s\x00", type=PROTOBUF).status == 415
    strategic = api.patch(path, {"spec": {}}, type=STRATEGIC_PATCH)
    assert strategic.status == 415


WRONG_KINDS: Final[dict[str, tuple[dict[str, Any], int, str]]] = {
    "E13 another kind": ({"kind": "Gadget"}, 422, 'kind: Invalid value: "Gadget": must be Widget'),
    "E13 another version": ({"apiVersion": "{group}/v2"}, 400, "does not match the expected API version"),
    "E13 another group": (
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        400,
        "the API version in the data (apps/v1) does not match the expected API version ({group}/v1)",
    ),
    "no kind": ({"kind": None}, 400, "Object 'Kind' is missing in 'object has no kind field '"),
    "an empty kind": ({"kind": ""}, 400, "Object 'Kind' is missing in 'object has no kind field '"),
    "no version": ({"apiVersion": None}, 400, "the API version in the data () does not match"),
    "a kind that is no text": ({"kind": ["Widget"]}, 400, ".kind accessor error"),
}


@pytest.mark.parametrize(("changes", "code", "message"), WRONG_KINDS.values(), ids=WRONG_KINDS)
def test_a_custom_resource_of_another_kind(
    defined: Defined, api: Api, changes: dict[str, Any], code: int, message: str
) -> None:
    """Row E13: no Go type stands for it, so that validation finds the kind, and that it has to be named."""
    made = defined.create("a", spec={"a": "x"}).ok()
    changes = {
        field: value.format(group=defined.group) if isinstance(value, str) else value
        for field, value in changes.items()
    }
    body = {field: value for field, value in (defined.body("b") | changes).items() if value is not None}
    refused = [
        api.post(defined.objects(), body),
        api.put(f"{defined.objects()}/a", body | {"metadata": made["metadata"]}),
    ]
    for answer in refused:
        assert (answer.status, answer.reason) == (code, "Invalid" if code == 422 else "BadRequest")
        assert message.format(group=defined.group) in answer.message
    if code == 422:
        assert refused[0].json["details"] == {
            "name": "b",
            "group": defined.group,
            "kind": "Gadget",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "message": 'Invalid value: "Gadget": must be Widget',
                    "field": "kind",
                }
            ],
        }
    assert api.get(defined.objects()).ok()["items"] == [made]


PATCHED_KINDS: Final = {
    "kind": ("Gadget", 'kind: Invalid value: "Gadget": must be Widget'),
    "apiVersion": ("example.com/v9", 'apiVersion: Invalid value: "example.com/v9": must be {group}/v1'),
}


@pytest.mark.parametrize("field", PATCHED_KINDS)
def test_a_patch_cannot_change_the_kind_of_a_custom_resource(defined: Defined, api: Api, field: str) -> None:
    made = defined.create("a", spec={"a": "x"}).ok()
    value, message = PATCHED_KINDS[field]
    operation = {"op": "replace", "path": f"/{field}", "value": value}
    for answer in (
        api.patch(f"{defined.objects()}/a", {field: value}),
        api.patch(f"{defined.objects()}/a", [operation], type="json-patch"),
    ):
        assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", field)])
        assert message.format(group=defined.group) in answer.message
    assert api.get(f"{defined.objects()}/a").ok() == made


def test_an_empty_body_is_no_custom_resource(defined: Defined, api: Api) -> None:
    for body in (b"{}", b"null"):
        answer = api.post(defined.objects(), body)
        assert (answer.status, answer.message) == (
            400,
            "Object 'Kind' is missing in 'object has no kind field '",
        )


def metadata_alone(raw: bytes) -> dict[str, Any]:
    """The metadata in a PartialObjectMetadata."""
    return MessageDecoder(SCHEMAS.get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"))(undelimited(raw))


@pytest.mark.parametrize("version_", ["v1", "v1beta1"])
def test_metadata_of_custom_resources_is_served_in_protobuf(
    defined: Defined, api: Api, version_: str
) -> None:
    """Rows D12, D14: what garbage collectors and metadata informers ask for."""
    made = defined.create("a", spec={"a": "x"}).ok()["metadata"]
    as_kind = f"g=meta.k8s.io;v={version_}"
    one = {"Accept": f"{PROTOBUF};as=PartialObjectMetadata;{as_kind}"}
    many = {"Accept": f"{PROTOBUF};as=PartialObjectMetadataList;{as_kind}"}

    got = api.get(f"{defined.objects()}/a", headers=one)
    assert (got.status, got.headers["content-type"]) == (200, PROTOBUF)
    envelope = open_envelope(got.body)
    assert (envelope.api_version, envelope.kind) == (f"meta.k8s.io/{version_}", "PartialObjectMetadata")
    assert metadata_alone(envelope.raw) == made

    listed = open_envelope(api.get(defined.objects(), headers=many).body)
    assert (listed.api_version, listed.kind) == (f"meta.k8s.io/{version_}", "PartialObjectMetadataList")
    assert made["uid"].encode() in listed.raw

    events = api.get(f"{defined.objects()}?watch=1&timeoutSeconds=1", headers=one)
    assert events.headers["content-type"] == f"{PROTOBUF};stream=watch"
    event = open_envelope(events.body[events.body.index(b"k8s\x00") :])
    assert (event.kind, metadata_alone(event.raw)) == ("PartialObjectMetadata", made)

    created = api.post(defined.objects(), defined.body("b"), headers=one)
    assert (created.status, open_envelope(created.body).kind) == (201, "PartialObjectMetadata")
    table = {"Accept": f"{PROTOBUF};as=Table;{as_kind}"}
    assert api.get(defined.objects(), headers=table).status == 406


# Source: apiextensions-apiserver, defaultDeprecationWarning.
WARNINGS = {
    "one that is not deprecated": ("v2", None),
    "a more stable one is better": ("v1beta1", "{group}/v1beta1 Widget is deprecated; use {group}/v2 Widget"),
    "its own words": ("v1", "go away"),
}


@pytest.fixture(scope="module")
def deprecated(server: ServerProcess) -> Defined:
    api = Api(server)
    versions = (
        version("v2"),
        version("v1", storage=False, deprecated=True, deprecationWarning="go away"),
        version("v1beta1", storage=False, deprecated=True),
    )
    defined = define(api, definition(new_group(), *versions))
    api.close()
    return defined


@pytest.mark.parametrize(("name", "text"), WARNINGS.values(), ids=WARNINGS)
def test_clients_of_a_deprecated_version_are_told(
    name: str, text: str | None, deprecated: Defined, api: Api
) -> None:
    """Row S02."""
    answer = api.get(deprecated.objects(version=name))
    assert answer.warnings == ([text.format(group=deprecated.group)] if text else [])


# ---- names and conditions


def test_conflicting_names_are_accepted_once_they_are_free(api: Api) -> None:
    """Source of the texts: apiextensions-apiserver, pkg/controller/status/naming_controller.go."""
    group = new_group()
    first = define(api, definition(group, names={"shortNames": ["wd"]}))
    second = f"{DEFINITIONS}/gadgets.{group}"
    names = {"shortNames": ["wd", "gd"]}
    api.post(DEFINITIONS, definition(group, plural="gadgets", kind="Gadget", names=names)).ok()
    found = until(
        lambda: api.get(second), lambda answer: bool(condition(answer.json, "NamesAccepted")), "refused"
    ).ok()
    accepted = condition(found, "NamesAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "ShortNamesConflict")
    assert accepted["message"] == '"wd" is already in use'
    assert condition(found, "Established")["reason"] == "NotAccepted"
    assert found["status"]["acceptedNames"]["kind"] == "Gadget"
    assert api.get(f"/apis/{group}/v1/gadgets").status == 404
    api.delete(first.path).ok()
    found = until(lambda: api.get(second), is_established, "Established").ok()
    assert condition(found, "NamesAccepted")["reason"] == "NoConflicts"
    assert found["status"]["acceptedNames"]["shortNames"] == ["wd", "gd"]


def test_a_definition_that_lost_a_name_is_served_under_those_it_has(defined: Defined, api: Api) -> None:
    other = definition(defined.group, plural="gadgets", kind="Gadget", names={"shortNames": ["gd"]})
    define(api, other)
    defined.change([{"op": "add", "path": "/spec/names/shortNames", "value": ["gd"]}])
    found = until(
        lambda: api.get(defined.path),
        lambda answer: condition(answer.json, "NamesAccepted")["status"] == "False",
        "refused",
    )
    assert is_established(found)
    assert api.get(defined.objects()).status == 200


APPROVALS = {
    "https://example.com/pull/1": ("True", "ApprovedAnnotation"),
    "unapproved, an experiment": ("False", "UnapprovedAnnotation"),
}


@pytest.mark.parametrize(("said", "expected"), APPROVALS.items(), ids=APPROVALS)
def test_protected_groups_need_an_approval_annotation(said: str, expected: tuple[str, str], api: Api) -> None:
    document = definition(f"{new_group()}.k8s.io")
    document["metadata"]["annotations"] = {"api-approved.kubernetes.io": said}
    defined = define(api, document)
    found = condition(api.get(defined.path).ok(), "KubernetesAPIApprovalPolicyConformant")
    assert (found["status"], found["reason"]) == expected


def test_a_definition_of_a_built_in_resource_changes_nothing(api: Api) -> None:
    document = definition("networking.k8s.io", plural="networkpolicies", kind="NetworkPolicy")
    document["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/pull/1"}
    path = f"{DEFINITIONS}/networkpolicies.networking.k8s.io"
    api.post(DEFINITIONS, document).ok()
    until(lambda: api.get(path), is_established, "Established")
    policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    policy = {"metadata": {"name": "kept"}, "spec": {"podSelector": {}}}
    assert api.post(policies, policy).ok()["spec"]["policyTypes"] == ["Ingress"]
    api.delete(path).ok()
    _is_gone(api, path)
    assert api.get(f"{policies}/kept").status == 200


# ---- writing


def test_a_status_without_a_subresource_is_a_field_like_any_other(api: Api, defined: Defined) -> None:
    """Row I13: with one, neither path writes what is the other's."""
    made = defined.create("a", spec={"a": "1"}, status={"message": "x"}).ok()
    assert made["status"] == {"message": "x"}
    changed = api.patch(f"{defined.objects()}/a", {"status": {"message": "y"}}).ok()
    assert (changed["status"], changed["metadata"]["generation"]) == ({"message": "y"}, 2)

    apart = define(api, definition(new_group(), version(subresources={"status": {}})))
    made = apart.create("a", spec={"a": "1"}, status={"message": "x"}).ok()
    assert "status" not in made
    body = {**made, "spec": {"a": "2"}, "status": {"message": "y"}}
    body["metadata"] = {**made["metadata"], "labels": {"l": "1"}}
    status = api.put(f"{apart.objects()}/a/status", body).ok()
    assert (status["spec"], status["status"]) == ({"a": "1"}, {"message": "y"})
    assert (status["metadata"]["generation"], status["metadata"].get("labels")) == (1, None)
    spec = api.patch(f"{apart.objects()}/a", {"spec": {"a": "3"}, "status": {"message": "z"}}).ok()
    assert (spec["spec"], spec["status"]) == ({"a": "3"}, {"message": "y"})
    assert spec["metadata"]["generation"] == 2
    stale = api.put(f"{apart.objects()}/a/status", body)
    assert stale.status == 409


def test_a_scale_needs_no_version_though_an_update_does(api: Api) -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    defined = define(api, definition(new_group(), version(subresources={"scale": scale})))
    path = f"{defined.objects()}/a"
    defined.create("a", spec={"n": 1}).ok()
    refused = api.put(path, defined.body("a", spec={"n": 2}))
    assert refused.causes == [("FieldValueInvalid", "metadata.resourceVersion")]
    body = {"metadata": {"name": "a"}, "spec": {"replicas": 4}}
    assert api.put(f"{path}/scale", body).ok()["spec"] == {"replicas": 4}
    assert api.get(path).ok()["spec"] == {"n": 4}
    assert api.patch(path, {"spec": {"n": -1}}).causes == [("FieldValueInvalid", ".spec.n")]


FREE: Final = {"x-kubernetes-preserve-unknown-fields": True}


# What is sent to the scale of an object without a number of replicas: its status, and the number then.
FIRST_REPLICAS: Final[dict[str, tuple[str, Any, int, int | None]]] = {
    "a merge patch": ("merge", {"spec": {"replicas": 3}}, 200, 3),
    "a merge patch to 0": ("merge", {"spec": {"replicas": 0}}, 200, 0),
    "a merge patch of nothing": ("merge", {"metadata": {"labels": {"a": "b"}}}, 400, None),
    "a JSON patch": ("json-patch", [{"op": "replace", "path": "/spec/replicas", "value": 3}], 200, 3),
    "a JSON patch that removes": ("json-patch", [{"op": "remove", "path": "/spec/replicas"}], 200, 0),
    "a JSON patch that expects 0": (
        "json-patch",
        [{"op": "test", "path": "/spec/replicas", "value": 0}],
        422,
        None,
    ),
    "a replacement": ("put", {"spec": {"replicas": 3}}, 200, 3),
    "a replacement with the number that means none": ("put", {"spec": {"replicas": -(1 << 31)}}, 400, None),
    "an apply": ("application/apply-patch+yaml", {"spec": {"replicas": 3}}, 200, 3),
}


@pytest.mark.parametrize(("how", "body", "status", "replicas"), FIRST_REPLICAS.values(), ids=FIRST_REPLICAS)
def test_the_scale_of_an_object_without_a_number_of_replicas(
    how: str, body: Any, status: int, replicas: int | None, api: Api
) -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    defined = define(api, definition(new_group(), version(subresources={"scale": scale})))
    defined.create("a").ok()
    path = f"{defined.objects()}/a"
    whole = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
    if how == "put":
        answer = api.put(f"{path}/scale", whole | body)
    elif isinstance(body, dict) and how != "merge":
        answer = api.patch(f"{path}/scale?fieldManager=m", whole | body, type=how)
    else:
        answer = api.patch(f"{path}/scale", body, type=how)
    assert answer.status == status
    assert api.get(path).ok().get("spec", {}).get("n") == replicas
    if status == 400:
        assert answer.message == 'the spec replicas field ".spec.n" cannot be empty'
    elif status == 200:
        assert answer.json["spec"] == ({"replicas": replicas} if replicas else {})


def test_an_applied_scale_that_cannot_be_shown_changes_nothing(api: Api) -> None:
    """Row F04: an apply that fails leaves the object and its owners as they were."""
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    defined = define(api, definition(new_group(), version(subresources={"scale": scale})))
    path = f"{defined.objects()}/a"
    before = defined.create("a", spec={"a": "x"}).ok()
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
    refused = api.send(
        "PATCH",
        f"{path}/scale?fieldManager=m",
        json.dumps(body).encode(),
        type="application/apply-patch+yaml",
    )
    assert refused.causes == [("FieldValueRequired", ".spec.n")]
    assert api.get(path).ok() == before


def test_true_and_1_are_different_values(api: Api) -> None:
    """Row E05: what has no schema is stored as it is said. Python takes both for the same."""
    free = {"type": "object", "properties": {"spec": {**FREE, "type": "object"}}}
    defined = define(api, definition(new_group(), version(schema=free, subresources={"status": {}})))
    path = f"{defined.objects()}/a"
    defined.create("a", spec={"x": 1}).ok()
    changed = api.patch(path, {"spec": {"x": True}}).ok()
    assert (changed["spec"]["x"], changed["metadata"]["generation"]) == (True, 2)
    assert api.get(path).ok()["spec"]["x"] is True


NOTHING: Final[dict[str, tuple[str, str, Any, str]]] = {
    "the same object": ("put", "", None, "json"),
    "the same object, in a dry run": ("put", "?dryRun=All", None, "json"),
    "the same status": ("put", "/status", None, "json"),
    "an empty merge patch": ("patch", "", {}, "merge"),
    "an empty merge patch of the status": ("patch", "/status", {}, "merge"),
    "a JSON patch without operations": ("patch", "", [], "json-patch"),
    "the same apply": ("patch", "?fieldManager=m", {"i": 1}, "application/apply-patch+yaml"),
}


@pytest.mark.parametrize(("verb", "suffix", "body", "media_type"), NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("rule", ["self > oldSelf", "self >= oldSelf", "self > 0"])
def test_r01_a_write_that_changes_nothing_is_a_transition(
    rule: str, verb: str, suffix: str, body: Any, media_type: str, api: Api
) -> None:
    """It is validated before it is found to change nothing."""
    number = {"type": "integer", "x-kubernetes-validations": [{"rule": rule}]}
    spec = {"type": "object", "properties": {"i": number}}
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    defined = define(api, definition(new_group(), version(schema=schema, subresources={"status": {}})))
    path = f"{defined.objects()}/a"
    apply = "application/apply-patch+yaml"
    made = api.patch(f"{path}?fieldManager=m", defined.body("a", spec={"i": 1}), apply).ok()
    for _ in range(2):
        if verb == "put":
            answer = api.put(f"{path}{suffix}", made)
        elif media_type == apply:
            answer = api.patch(f"{path}{suffix}", defined.body("a", spec=body), apply)
        else:
            answer = api.patch(f"{path}{suffix}", body, media_type)
        if rule == "self > oldSelf":
            assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "spec.i")])
        else:
            assert answer.ok()["metadata"] == made["metadata"]
    assert api.get(path).ok() == made


def test_finalizers_need_no_domain_but_clients_are_warned(defined: Defined, api: Api) -> None:
    body = defined.body("a")
    body["metadata"]["finalizers"] = ["mine", "example.com/mine"]
    made = api.post(defined.objects(), body)
    assert made.status == 201
    [warning] = made.warnings
    assert warning.startswith('metadata.finalizers: \\"mine\\": prefer a domain-qualified finalizer name')


# ---- schemas that change


def test_stored_objects_are_shown_by_the_schema_of_today(defined: Defined, api: Api) -> None:
    """Rows E14, E15: with defaults that came later, and without fields that are gone; the version stays."""
    before = defined.create("a", spec={"a": "x", "n": 1}).ok()
    operations: list[dict[str, Any]] = [
        {"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/n"},
        {
            "op": "add",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/d",
            "value": {"type": "string", "default": "late"},
        },
    ]
    with api.watch(f"{defined.objects()}?watch=true") as stream:
        assert stream.next()["object"] == before
        defined.change(operations)
        assert stream.body() == b""  # Clients begin again, and see what there is now.
    expected = {**before, "spec": {"a": "x", "d": "late"}}
    path = f"{defined.objects()}/a"
    until(lambda: api.get(path), lambda answer: answer.json["spec"].get("d") == "late", "the default")
    assert api.get(path).ok() == expected
    assert api.get(defined.objects()).ok()["items"] == [expected]
    with api.watch(f"{defined.objects()}?watch=true") as stream:
        assert stream.next()["object"] == expected
    assert api.get(f"{defined.objects()}?fieldSelector=metadata.name%3Da").ok()["items"] == [expected]


def test_metrics_of_a_resource_are_shown_once_however_often_it_changes(defined: Defined, api: Api) -> None:
    for number in range(3):
        names = [f"n{number}"]
        defined.change([{"op": "add", "path": "/spec/names/shortNames", "value": names}])
        text = f'"{names[0]}"'.encode()
        until(
            lambda: api.get(f"/apis/{defined.group}/v1"),
            lambda answer, text=text: text in answer.body,  # type: ignore[misc]
        )
        api.get(defined.objects()).ok()
    lines = [line.rpartition(b" ")[0] for line in api.get("/metrics").body.splitlines() if line[:1] != b"#"]
    own = [line for line in lines if defined.group.encode() in line]
    assert own
    assert len(own) == len(set(own))


# ---- columns and fields to select by


def test_columns_of_a_type_that_names_none(defined: Defined, api: Api) -> None:
    """Row D08."""
    defined.create("a").ok()
    shown = api.get(defined.objects(), headers=TABLE).ok()
    assert [each["name"] for each in shown["columnDefinitions"]] == ["Name", "Created At"]


def test_columns(api: Api) -> None:
    """Row D10."""
    columns: list[dict[str, Any]] = [
        {"name": "A", "type": "string", "jsonPath": ".spec.a", "priority": 1, "description": "the a"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    defined = define(api, definition(new_group(), version(additionalPrinterColumns=columns)))
    defined.create("x", spec={"a": "b"}).ok()
    shown = api.get(defined.objects(), headers=TABLE).ok()
    assert [(each["name"], each["type"], each["priority"]) for each in shown["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("A", "string", 1),
        ("Age", "date", 0),
    ]
    [cells] = [row["cells"] for row in shown["rows"]]
    assert cells[:2] == ["x", "b"]
    assert cells[2].endswith("s")


# ---- deletion


def test_objects_go_before_their_definition(defined: Defined, api: Api) -> None:
    """Source of the texts: apiextensions-apiserver, pkg/controller/finalizer."""
    defined.create("free").ok()
    held = defined.body("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    api.post(defined.objects(), held).ok()
    with api.watch(f"{defined.objects()}?watch=true&resourceVersion=0") as stream:
        deleted = api.delete(defined.path).ok()
        assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert condition(deleted, "Terminating")["reason"] == "InstanceDeletionPending"
        _is_gone(api, f"{defined.objects()}/free")
        refused = defined.create("late")
        assert refused.status == 403
        assert refused.message == (
            f'widgets.{defined.group} "late" is forbidden: create not allowed while custom resource '
            "definition is terminating"
        )
        still = until(
            lambda: api.get(defined.path),
            lambda answer: condition(answer.json, "Terminating")["reason"] == "InstanceDeletionInProgress",
            "in progress",
        )
        assert still.json["metadata"]["deletionTimestamp"]
        api.patch(f"{defined.objects()}/held", {"metadata": {"finalizers": None}}).ok()
        _is_gone(api, defined.path)
        *_, last = stream
        assert (last["type"], last["object"]["metadata"]["name"]) == ("DELETED", "held")
    assert api.get(defined.objects()).body == b"404 page not found\n"
    assert defined.group not in {each["name"] for each in api.get("/apis").ok()["groups"]}


def test_a_definition_created_again_has_no_objects(defined: Defined, api: Api) -> None:
    for number in range(3):
        defined.create(f"o{number}").ok()
    api.delete(defined.path).ok()
    _is_gone(api, defined.path)
    again = define(api, definition(defined.group))
    assert api.get(again.objects()).ok()["items"] == []
    again.create("o1").ok()


def test_a_namespace_takes_its_custom_resources_with_it(defined: Defined, api: Api) -> None:
    """Row A12."""
    api.post("/api/v1/namespaces", {"metadata": {"name": "leaving"}}).ok()
    defined.create("a", "leaving").ok()
    api.delete("/api/v1/namespaces/leaving").ok()
    _is_gone(api, "/api/v1/namespaces/leaving")
    assert api.get(f"/apis/{defined.group}/v1/widgets").ok()["items"] == []


# ---- the server's own life


def test_after_a_restart_all_is_served_before_the_server_is_ready(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        groups = [new_group() for _ in range(5)]
        made = [define(api, definition(group)).create("a", spec={"a": "x"}).ok() for group in groups]
        terminating = definition(new_group())
        held = define(api, terminating)
        body = held.body("held")
        body["metadata"]["finalizers"] = ["example.com/held"]
        api.post(held.objects(), body).ok()
        api.delete(held.path).ok()
        server.kill()
        server.start()
        api = Api(server)
        for group, found in zip(groups, made, strict=True):
            assert api.get(f"/apis/{group}/v1/namespaces/default/widgets/a").ok() == found
        api.patch(f"{held.objects()}/held", {"metadata": {"finalizers": None}}).ok()
        _is_gone(api, held.path)
        api.close()


def test_schemas_are_published_whole(api: Api) -> None:
    """Row I20: `kubectl explain` reads them."""
    schema = {
        **SPEC,
        "description": "Something.",
        "properties": {
            **SPEC["properties"],
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "inner": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"spec": {"type": "object"}},
            },
        },
    }
    group = new_group()
    define(api, definition(group, version(schema=schema)))
    name = ".".join((*reversed(group.split(".")), "v1", "Widget"))
    document = api.get(f"/openapi/v3/apis/{group}/v1").ok()
    widget = document["components"]["schemas"][name]
    assert widget["description"] == "Something."
    assert widget["properties"]["port"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert widget["properties"]["metadata"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]
    assert widget["x-kubernetes-group-version-kind"] == [{"group": group, "kind": "Widget", "version": "v1"}]
    # The fields that all objects have are described as those of built-in types.
    pod = api.get("/openapi/v3/api/v1").ok()["components"]["schemas"]
    for field in ("apiVersion", "kind", "metadata"):
        text = pod["io.k8s.api.core.v1.Pod"]["properties"][field]["description"]
        assert widget["properties"][field]["description"] == text
        listed = document["components"]["schemas"][f"{name}List"]["properties"][field]["description"]
        assert listed == pod["io.k8s.api.core.v1.PodList"]["properties"][field]["description"]
    create = document["paths"][f"/apis/{group}/v1/namespaces/{{namespace}}/widgets"]["post"]
    assert PROTOBUF not in create["responses"]["200"]["content"]
    everything = api.get("/openapi/v2").ok()
    assert everything["definitions"][name]["properties"]["port"] == {"x-kubernetes-int-or-string": True}
    assert f"/apis/{group}/v1/widgets" in everything["paths"]
    assert "io.k8s.api.core.v1.Pod" in everything["definitions"]
    index = api.get("/openapi/v3").ok()["paths"]
    before = {path: each["serverRelativeURL"] for path, each in index.items()}
    define(api, definition(group, plural="gadgets", kind="Gadget"))
    after = {path: each["serverRelativeURL"] for path, each in api.get("/openapi/v3").ok()["paths"].items()}
    assert {path for path in before if before[path] != after[path]} == {f"apis/{group}/v1"}
