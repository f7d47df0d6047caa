"""What 1.37 adds, over HTTP, with gates and versions switched on: groups of groups, evictions, statuses.

Their rules are told in `tests/unit/catalogue`. Rows H01, H09, S03.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.fixtures import api_with
from tests.support.server_process import ServerProcess

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
SCHEDULING: Final = "/apis/scheduling.k8s.io"
LIFECYCLE: Final = "/apis/lifecycle.k8s.io/v1alpha1"
COMPOSITES: Final = f"{SCHEDULING}/v1alpha3/namespaces/default/compositepodgroups"
POD_GROUPS: Final = f"{SCHEDULING}/v1beta1/namespaces/default/podgroups"
REQUESTS: Final = f"{LIFECYCLE}/namespaces/default/evictionrequests"
EVICTIONS: Final = f"{LIFECYCLE}/namespaces/default/evictions"
CLASSES: Final = f"{SCHEDULING}/v1/priorityclasses"
CSI_NODES: Final = "/apis/storage.k8s.io/v1/csinodes"
RELEASE: Final = "--emulated-version=1.37"
VERSIONS: Final = (
    "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true,lifecycle.k8s.io/v1alpha1=true"
)
GATES: Final = (
    *("CompositePodGroup", "EvictionRequestAPI", "GenericWorkload", "TopologyAwareWorkloadScheduling"),
    "CSIVolumeHealth",
)


api = api_with(
    RELEASE,
    f"--runtime-config={VERSIONS}",
    f"--feature-gates={','.join(f'{gate}=true' for gate in GATES)}",
    "--authorization-mode=Node,RBAC",
)


TARGET: Final = {"pod": {"name": "web", "uid": "b37d123b-8637-4b23-a8f3-41523c344fc2"}}
REFERENCE: Final = {"workloadName": "web", "templateName": "main"}
COMPOSITE: Final = {"workloadRef": REFERENCE, "schedulingPolicy": {"gang": {"minGroupCount": 2}}}
# Where a type is, and an object of it.
OBJECTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "CompositePodGroup": (COMPOSITES, COMPOSITE),
    "EvictionRequest": (REQUESTS, {"target": TARGET, "requester": "a.b/c", "intent": "Eviction"}),
    "Eviction": (EVICTIONS, {"target": TARGET}),
}


@pytest.mark.parametrize(("path", "spec"), OBJECTS.values(), ids=OBJECTS)
def test_objects_are_kept_and_shown(api: Api, path: str, spec: dict[str, Any]) -> None:
    created = api.post(path, {"metadata": {"generateName": "a-"}, "spec": spec}).ok()
    one = f"{path}/{created['metadata']['name']}"
    assert created["spec"].items() >= spec.items()
    assert created["status"] == {}
    (row,) = api.get(path, headers={"Accept": TABLE}).ok()["rows"]
    assert row["cells"][0] == created["metadata"]["name"]
    as_protobuf = api.get(one, headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert as_protobuf.body.startswith(b"k8s\0")
    applied = {key: created[key] for key in ("apiVersion", "kind")} | {"metadata": {"labels": {"a": "b"}}}
    headers = {"Content-Type": "application/apply-patch+yaml"}
    labelled = api.patch(f"{one}?fieldManager=me", applied, headers=headers).ok()
    assert labelled["metadata"]["labels"] == {"a": "b"}
    del labelled["metadata"]["resourceVersion"]
    refused = api.put(one, labelled)
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "metadata.resourceVersion")])
    assert api.delete(one).status == 200


# What clients may send where the spec of an object is to be, and what they are answered.
SPECS: Final[dict[str, tuple[Any, int]]] = {
    "none": (..., 422),
    "null": (None, 422),
    "empty": ({}, 422),
    "a text": ("a", 400),
    "a list": ([], 400),
    "nulls in it": ({"target": None, "requester": None, "workloadRef": None, "schedulingPolicy": None}, 422),
    "numbers in it": ({"target": 1, "workloadRef": 1}, 400),
}


@pytest.mark.parametrize(("spec", "status"), SPECS.values(), ids=SPECS)
def test_what_is_no_spec_is_refused(api: Api, spec: Any, status: int) -> None:
    for path in (COMPOSITES, REQUESTS, EVICTIONS):
        body = {"metadata": {"name": "none"}, "spec": spec}
        if spec is ...:
            del body["spec"]
        assert api.post(path, body).status == status, path


def test_what_is_no_status_is_refused(api: Api) -> None:
    path, spec = OBJECTS["Eviction"]
    api.post(path, {"metadata": {"name": "shapes"}, "spec": spec}).ok()
    for status, code in (
        ({"targetResponders": [None]}, 422),
        ({"targetResponders": [{"name": "a.b/c", "priority": 2**40, "state": 1}]}, 400),
        ({"responders": [{"startTime": "yesterday"}]}, 400),
        ({"conditions": [None, {}]}, 422),
        (None, 200),
    ):
        put = {**api.get(f"{path}/shapes").ok(), "status": status}
        assert api.put(f"{path}/shapes/status", put).status == code, status


def test_discovery_and_openapi_tell_them(api: Api) -> None:
    resources = {each["name"]: each for each in api.get(LIFECYCLE).ok()["resources"]}
    assert resources.keys() == {
        *("evictionrequests", "evictionrequests/status", "evictions", "evictions/status")
    }
    assert resources["evictionrequests"]["namespaced"]
    assert resources["evictionrequests"]["singularName"] == "evictionrequest"
    names = {each["name"] for each in api.get(f"{SCHEDULING}/v1alpha3").ok()["resources"]}
    assert names >= {"compositepodgroups", "compositepodgroups/status", "podgroups", "workloads"}
    schemas = api.get("/openapi/v3/apis/lifecycle.k8s.io/v1alpha1").ok()["components"]["schemas"]
    kinds = schemas["io.k8s.api.lifecycle.v1alpha1.EvictionRequest"]["x-kubernetes-group-version-kind"]
    assert kinds == [{"group": "lifecycle.k8s.io", "kind": "EvictionRequest", "version": "v1alpha1"}]


def test_a_request_counts_changes_of_mind(api: Api) -> None:
    path, spec = OBJECTS["EvictionRequest"]
    created = api.post(path, {"metadata": {"name": "mind"}, "spec": spec}).ok()
    assert created["metadata"]["generation"] == 1
    changed = api.patch(f"{path}/mind", {"spec": {"intent": "Withdrawn"}}).ok()
    assert changed["metadata"]["generation"] == 2
    seen = api.patch(f"{path}/mind/status", {"status": {"observedGeneration": 2}}).ok()
    assert (seen["metadata"]["generation"], seen["status"]) == (2, {"observedGeneration": 2})
    refused = api.patch(f"{path}/mind/status", {"status": {"observedGeneration": 1}})
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "status.observedGeneration")])
    reserved = api.post(path, {"metadata": {"name": "own"}, "spec": {**spec, "requester": "drain.k8s.io/a"}})
    assert (reserved.status, reserved.causes) == (422, [("FieldValueInvalid", "spec.requester")])


def test_responders_tell_the_present_time(api: Api) -> None:
    """By the clock of the server: what was long ago, or is yet to come, is refused."""
    api.post(EVICTIONS, {"metadata": {"name": "web"}, "spec": {"target": TARGET}}).ok()
    name, now = "a.example.com/evictor", datetime.now(UTC)

    def status(time: datetime) -> dict[str, Any]:
        told = {"name": name, "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ")}
        targets = [{"name": name, "priority": 10_000, "state": "Active"}]
        return {"status": {"targetResponders": targets, "responders": [told]}}

    for time in (now - timedelta(minutes=1), now + timedelta(minutes=5)):
        refused = api.patch(f"{EVICTIONS}/web/status", status(time))
        path = "status.responders[0].startTime"
        assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", path)])
    assert api.patch(f"{EVICTIONS}/web/status", status(now)).ok()["status"]["responders"]


def test_groups_have_the_priorities_of_their_classes(api: Api) -> None:
    """The plugin Priority."""
    api.post(CLASSES, {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}).ok()
    for path, spec in ((COMPOSITES, COMPOSITE), (POD_GROUPS, {"schedulingPolicy": {"basic": {}}})):

        def made(name: str, path: str = path, spec: dict[str, Any] = spec, **more: Any) -> Any:
            return api.post(path, {"metadata": {"name": name}, "spec": {**spec, **more}})

        assert made("plain").ok()["spec"]["priority"] == 0
        high = made("high", priorityClassName="high").ok()["spec"]
        assert (high["priority"], high.get("preemptionPolicy")) == (7, None), "a feature that is off"
        refused = made("absent", priorityClassName="absent")
        assert refused.status == 403
        assert "no PriorityClass with name absent was found" in refused.message
        refused = made("own", priorityClassName="high", priority=8)
        assert refused.status == 403
        assert "the integer value of priority (8) must not be provided in " in refused.message


def test_a_node_tells_what_is_wrong_with_its_storage(api: Api) -> None:
    def as_node(name: str) -> dict[str, str]:
        return {"Impersonate-User": f"system:node:{name}", "Impersonate-Group": "system:nodes"}

    drivers = [{"name": "d.example.com", "nodeID": "n"}]
    told: dict[str, Any] = {
        "name": "d.example.com",
        "healthConditions": [{"status": "StorageDegraded", "reason": "Slow"}],
    }
    body = {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}, "status": {"storageHealth": [told]}}
    assert api.post(CSI_NODES, body).ok()["status"] == {}
    status = f"{CSI_NODES}/n1/status"
    patch: dict[str, Any] = {"status": {"storageHealth": [told]}}
    assert api.patch(status, patch, headers=as_node("n2")).status == 403
    patched = api.patch(status, patch, headers=as_node("n1")).ok()["status"]["storageHealth"]
    assert [each["name"] for each in patched] == ["d.example.com"]
    as_protobuf = api.get(f"{CSI_NODES}/n1", headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert b"StorageDegraded" in as_protobuf.body
    for nothing in (None, {"name": "d.example.com", "healthConditions": [None]}):
        null: dict[str, Any] = {**api.get(f"{CSI_NODES}/n1").ok(), "status": {"storageHealth": [nothing]}}
        assert api.put(status, null).status == 422
    told["healthConditions"].append({"status": "Lost"})
    refused = api.patch(status, patch)
    where = "status.storageHealth[0].healthConditions[1]"
    assert refused.status == 422
    assert refused.causes == [
        ("FieldValueNotSupported", f"{where}.status"),
        ("FieldValueRequired", f"{where}.reason"),
    ]


PODS: Final = "/api/v1/namespaces/default/pods"
POD: Final[dict[str, Any]] = {
    "metadata": {"name": "responders"},
    "spec": {
        "containers": [{"name": "a", "image": "a"}],
        "evictionResponders": [{"name": "a.b/c", "priority": 10_000}],
    },
}


def test_pods_name_their_responders(api: Api) -> None:
    assert api.post(PODS, POD).ok()["spec"]["evictionResponders"] == POD["spec"]["evictionResponders"]
    one = f"{PODS}/responders"
    assert api.get(one, headers={"Accept": "application/vnd.kubernetes.protobuf"}).status == 200
    refused = api.patch(one, {"spec": {"evictionResponders": None}})
    assert (refused.status, refused.causes) == (422, [("FieldValueForbidden", "spec")])


def test_the_scheduler_may_read_groups_of_groups(api: Api) -> None:
    headers = {"Impersonate-User": "system:kube-scheduler"}
    assert api.get(COMPOSITES.replace("/namespaces/default", ""), headers=headers).status == 200


@pytest.mark.parametrize(
    "flags",
    [(f"--runtime-config={VERSIONS}",), (f"--feature-gates={','.join(f'{gate}=true' for gate in GATES)}",)],
    ids=["no gates", "no versions"],
)
def test_both_flags_are_needed(tmp_path_factory: pytest.TempPathFactory, flags: tuple[str, ...]) -> None:
    folder = tmp_path_factory.mktemp("off")
    with ServerProcess(folder, RELEASE, *flags) as server, Api(server) as api:
        assert {api.get(path).status for path, _ in OBJECTS.values()} == {404}
        has_gate = "--feature-gates" in flags[0]
        assert ("evictionResponders" in api.post(PODS, POD).ok()["spec"]) == has_gate
