"""Claims as 1.30 had them, over HTTP, and what a node may do with its resources there. Rows H01, H09, S03."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from tests.support.api import Api
from tests.support.server_process import ServerProcess

GROUP: Final = "/apis/resource.k8s.io/v1alpha2"
CLAIMS: Final = f"{GROUP}/namespaces/default/resourceclaims"
SLICES: Final = f"{GROUP}/resourceslices"
NODE: Final = {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    flags = (
        "--emulated-version=1.30",
        "--feature-gates=DynamicResourceAllocation=true",
        "--runtime-config=resource.k8s.io/v1alpha2=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
    )
    with (
        ServerProcess(tmp_path_factory.mktemp("classic"), *flags) as server,
        closing(Api(server)) as api,
    ):
        yield api


def test_a_claim_is_allocated_and_given_up(api: Api) -> None:
    api.post(f"{GROUP}/resourceclasses", {"metadata": {"name": "gpu"}, "driverName": "a.b"}).ok()
    claim = {"metadata": {"name": "a"}, "spec": {"resourceClassName": "gpu"}}
    created = api.post(CLAIMS, claim).ok()
    assert created["spec"]["allocationMode"] == "WaitForFirstConsumer"
    status = {"driverName": "a.b", "allocation": {"resourceHandles": [{"driverName": "a.b", "data": "x"}]}}
    assert api.patch(f"{CLAIMS}/a/status", {"status": status}).ok()["status"] == status
    asked = api.patch(f"{CLAIMS}/a/status", {"status": {"deallocationRequested": True}}).ok()
    assert asked["status"] == {**status, "deallocationRequested": True}
    other = api.patch(f"{CLAIMS}/a", {"spec": {"resourceClassName": "other"}})
    assert other.causes == [("FieldValueInvalid", "spec")]
    as_protobuf = api.get(f"{CLAIMS}/a", headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert as_protobuf.body.startswith(b"k8s\0")
    assert {each["name"] for each in api.get(GROUP).ok()["resources"]} >= {
        *("resourceclaims/status", "podschedulingcontexts/status", "resourceclassparameters"),
    }


def test_a_node_has_slices_of_its_own(api: Api) -> None:
    def slice_of(node: str, name: str) -> dict[str, object]:
        model = {"instances": [{"name": "gpu-0"}]}
        return {"metadata": {"name": name}, "nodeName": node, "driverName": "a.b", "namedResources": model}

    assert api.post(SLICES, slice_of("n1", "own"), headers=NODE).status == 201
    refused = api.post(SLICES, slice_of("n2", "other"), headers=NODE)
    assert refused.status == 403
    assert "can only create ResourceSlice with the same NodeName" in refused.message
    api.post(SLICES, slice_of("n2", "other")).ok()
    listed = api.get(f"{SLICES}?fieldSelector=nodeName=n1", headers=NODE).ok()["items"]
    assert [each["metadata"]["name"] for each in listed] == ["own"]
    assert api.get(f"{SLICES}?fieldSelector=nodeName=n2", headers=NODE).status == 403
    assert api.delete(f"{SLICES}/other", headers=NODE).status == 403
    assert api.delete(f"{SLICES}/own", headers=NODE).status == 200
