"""Claims as 1.30 had them, over HTTP, and what a node may do with its resources there. Rows H01, H09, S03."""

from __future__ import annotations

import base64
from typing import Final

from tests.support.api import Api, until_status
from tests.support.certificates import request_for
from tests.support.fixtures import api_with

GROUP: Final = "/apis/resource.k8s.io/v1alpha2"
CLAIMS: Final = f"{GROUP}/namespaces/default/resourceclaims"
SLICES: Final = f"{GROUP}/resourceslices"
NODE: Final = {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"}


api = api_with(
    "--emulated-version=1.30",
    "--feature-gates=DynamicResourceAllocation=true",
    "--runtime-config=resource.k8s.io/v1alpha2=true",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
)


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
        *("resourceclaims/status", "podschedulingcontexts/status", "resourceclassparameters")
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
    # Before the gate AuthorizeNodeWithSelectors nodes read all.
    assert len(api.get(SLICES, headers=NODE).ok()["items"]) == 2
    assert api.delete(f"{SLICES}/other", headers=NODE).status == 403
    assert api.delete(f"{SLICES}/own", headers=NODE).status == 200


def test_nodes_of_old_releases_do_what_newer_ones_are_refused(api: Api) -> None:
    """Mirror pods refer to less than any object, tokens have any audience, certificates any name."""
    node = api.post("/api/v1/nodes", {"metadata": {"name": "n1"}}).ok()
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"]}
    meta = {
        "name": "mirror",
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    pods, accounts = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/serviceaccounts"
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    volumes = [{"name": "v", "csi": {"driver": "a.b"}}]
    api.post(pods, {"metadata": meta, "spec": {**spec, "volumes": volumes}}, headers=NODE).ok()
    meta["name"] = "claiming"
    volumes.append({"name": "w", "persistentVolumeClaim": {"claimName": "c"}})
    refused = api.post(pods, {"metadata": meta, "spec": {**spec, "volumes": volumes}}, headers=NODE)
    assert refused.status == 403
    assert refused.message.endswith("can not create pods that reference persistentvolumeclaims")

    api.post(accounts, {"metadata": {"name": "a"}}).ok()
    bound = {"metadata": {"name": "p"}, "spec": {**spec, "serviceAccountName": "a"}}
    uid = api.post(pods, bound).ok()["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
    request = {"spec": {"audiences": ["a", "b"], "boundObjectRef": reference}}
    until_status(201, lambda: api.post(f"{accounts}/a/token", request, headers=NODE), "the pod is known")
    assert api.get(f"{accounts}/a", headers=NODE).message.endswith("not allowed to get service accounts")

    certificate = {
        "metadata": {"name": "c"},
        "spec": {
            "request": base64.b64encode(request_for("system:node:other", "system:nodes")).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    api.post(requests, certificate, headers=NODE).ok()
