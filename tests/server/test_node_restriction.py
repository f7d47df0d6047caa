"""What the admission plugin NodeRestriction lets kubelets do.

https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
"""

from __future__ import annotations

import base64
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api, assert_forbidden, until_status
from tests.support.certificates import request_for
from tests.support.fixtures import server_with
from tests.support.objects import pod
from tests.support.rbac import grant, rule

NODES: Final = "/api/v1/nodes"

server = server_with("--enable-admission-plugins=NodeRestriction")


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}"


def as_node(name: str) -> dict[str, str]:
    return {"Impersonate-User": f"system:node:{name}", "Impersonate-Group": "system:nodes"}


@pytest.fixture(scope="module")
def _nodes_are_authorized(api: Api) -> None:
    everything = rule("get list watch create update patch delete", "*", group="*")
    grant(api, "", "system:nodes", everything, subject_kind="Group")


@pytest.fixture
def node(api: Api, namespace: str, _nodes_are_authorized: None) -> str:
    """The name of a node, which has one pod, `mine`, in the namespace; `other` runs elsewhere."""
    api.post(NODES, {"metadata": {"name": namespace}}, headers=as_node(namespace)).ok()
    for name, where in (("mine", namespace), ("other", "elsewhere")):
        api.post(f"/api/v1/namespaces/{namespace}/pods", pod(name, nodeName=where)).ok()
    return namespace


def test_nodes_change_themselves_only(api: Api, node: str) -> None:
    caller: Any = {"headers": as_node(node)}
    api.patch(f"{NODES}/{node}/status", {"status": {"phase": "Running"}}, **caller).ok()
    refused = api.post(NODES, {"metadata": {"name": f"{node}-x"}}, **caller)
    assert_forbidden(refused, f'node "{node}" is not allowed to modify node "{node}-x"')


NODE_CHANGES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a label of its own": ({"metadata": {"labels": {"example.com/a": "b"}}}, ""),
    "its zone": ({"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}}, ""),
    "a label for kubelets": ({"metadata": {"labels": {"x.node.kubernetes.io/a": "b"}}}, ""),
    "a label of Kubernetes": (
        {"metadata": {"labels": {"a.k8s.io/b": "c"}}},
        "is not allowed to modify labels: a.k8s.io/b",
    ),
    "labels that are for restrictions": (
        {"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b", "node-role.kubernetes.io/c": ""}}},
        "is not allowed to modify labels: node-restriction.kubernetes.io/a, node-role.kubernetes.io/c",
    ),
    "taints": ({"spec": {"taints": []}}, 'node "NODE" is not allowed to modify taints'),
    "an owner": (
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "1"}]}},
        'node "NODE" is not allowed to modify ownerReferences',
    ),
}


@pytest.mark.parametrize(("change", "why"), NODE_CHANGES.values(), ids=NODE_CHANGES)
def test_what_nodes_change_of_themselves(api: Api, node: str, change: dict[str, Any], why: str) -> None:
    answer = api.patch(f"{NODES}/{node}", change, headers=as_node(node))
    if why:
        assert_forbidden(answer, why.replace("NODE", node))
    else:
        answer.ok()


def test_nodes_do_not_register_with_labels_of_kubernetes(api: Api, node: str) -> None:
    name = f"{node}-b"
    labels = {"node-role.kubernetes.io/control-plane": ""}
    refused = api.post(NODES, {"metadata": {"name": name, "labels": labels}}, headers=as_node(name))
    assert_forbidden(
        refused,
        f'node "{name}" is not allowed to set the following labels: node-role.kubernetes.io/control-plane',
    )


def test_nodes_delete_and_evict_their_own_pods(api: Api, path: str, node: str) -> None:
    caller: Any = {"headers": as_node(node)}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}
    assert_forbidden(
        api.post(f"{path}/pods/other/eviction", eviction, **caller),
        f"node {node} can only evict pods with spec.nodeName set to itself",
    )
    assert_forbidden(
        api.delete(f"{path}/pods/other", **caller),
        f'node "{node}" can only delete pods with spec.nodeName set to itself',
    )
    api.patch(f"{path}/pods/mine/status", {"status": {"phase": "Running"}}, **caller).ok()
    api.delete(f"{path}/pods/mine?gracePeriodSeconds=0", **caller).ok()


def test_nodes_report_about_their_own_pods(api: Api, path: str, node: str) -> None:
    caller: Any = {"headers": as_node(node)}
    assert_forbidden(
        api.patch(f"{path}/pods/other/status", {"status": {"phase": "Running"}}, **caller),
        f'node "{node}" can only update pod status for pods with spec.nodeName set to itself',
    )
    assert_forbidden(
        api.patch(f"{path}/pods/mine", {"metadata": {"labels": {"a": "b"}}}, **caller),
        f'unexpected operation "UPDATE", node "{node}" can only create and delete mirror pods',
    )
    claimed = {"requestMappings": [{"containerName": "c", "resourceName": "a.b/c", "requestName": "r"}]}
    for status, what in (
        ({"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "d"}]}, "resource claim statues"),
        (
            {"extendedResourceClaimStatus": {"resourceClaimName": "d", **claimed}},
            "extended resource claim status",
        ),
    ):
        assert_forbidden(
            api.patch(f"{path}/pods/mine/status", {"status": status}, **caller),
            f'node "{node}" cannot update {what}',
        )
    assert_forbidden(
        api.patch(f"{path}/pods/mine/resize", {"spec": {}}, **caller),
        "unexpected pod subresource \"resize\", only 'status' and 'eviction' are allowed",
    )


def from_secret(field: str) -> dict[str, Any]:
    return {"name": "E", "valueFrom": {field: {"name": "s", "key": "k"}}}


def owner_of_mirrors(**changed: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "u", "controller": True, **changed}


CLAIM: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
MIRROR_PODS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], str]]] = {
    "whole": ({}, {}, ""),
    "without the annotation": (
        {"annotations": {}},
        {},
        'pod does not have "kubernetes.io/config.mirror" annotation, node "NODE" can only create mirror pods',
    ),
    "on another node": (
        {},
        {"nodeName": "x"},
        'node "NODE" can only create pods with spec.nodeName set to itself',
    ),
    "without an owner": (
        {"ownerReferences": []},
        {},
        'node "NODE" can only create pods with an owner reference set to itself',
    ),
    "of two owners": (
        {"ownerReferences": [owner_of_mirrors(), owner_of_mirrors(kind="ConfigMap")]},
        {},
        'node "NODE" can only create pods with a single owner reference set to itself',
    ),
    "of another owner": (
        {"ownerReferences": [owner_of_mirrors(name="x")]},
        {},
        'node "NODE" can only create pods with an owner reference set to itself',
    ),
    "with a ConfigMap": (
        {},
        {"volumes": [{"name": "v", "configMap": {"name": "m"}}]},
        'node "NODE" can not create pods that reference configmaps',
    ),
    "with a Secret": (
        {},
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
        'node "NODE" can not create pods that reference secrets',
    ),
    "with a ConfigMap among others": (
        {},
        {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "m"}}]}}]},
        'node "NODE" can not create pods that reference configmaps',
    ),
    "with a Secret among others": (
        {},
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]},
        'node "NODE" can not create pods that reference secrets',
    ),
    "with a Secret for images": (
        {},
        {"imagePullSecrets": [{"name": "s"}]},
        'node "NODE" can not create pods that reference secrets',
    ),
    "with a value of a Secret": (
        {},
        {"initContainers": [{"name": "i", "image": "i", "env": [from_secret("secretKeyRef")]}]},
        'node "NODE" can not create pods that reference secrets',
    ),
    "with all values of a ConfigMap": (
        {},
        {"initContainers": [{"name": "i", "image": "i", "envFrom": [{"configMapRef": {"name": "m"}}]}]},
        'node "NODE" can not create pods that reference configmaps',
    ),
    "with a trust bundle": (
        {},
        {
            "volumes": [
                {"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"name": "b", "path": "p"}}]}}
            ]
        },
        'node "NODE" can not create pods that reference clustertrustbundles',
    ),
    "with a claim": (
        {},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        'node "NODE" can not create pods that reference persistentvolumeclaims',
    ),
    "with a claim of a device": (
        {},
        {"resourceClaims": [{"name": "d", "resourceClaimName": "c"}]},
        'node "NODE" can not create pods that reference resourceclaims',
    ),
    "with an account": (
        {},
        {"serviceAccountName": "a"},
        'node "NODE" can not create pods that reference serviceaccounts',
    ),
    "with a CSI driver": (
        {},
        {"volumes": [{"name": "v", "csi": {"driver": "d.example.com"}}]},
        'node "NODE" can not create pods that reference csidrivers (via CSI volumes)',
    ),
    "with a claim of its own": (
        {},
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}]},
        'node "NODE" can not create pods that reference persistentvolumeclaims (via ephemeral volumes)',
    ),
    "with endpoints": (
        {},
        {"volumes": [{"name": "v", "glusterfs": {"endpoints": "e", "path": "p"}}]},
        'node "NODE" can not create pods that reference endpoints (via glusterFS volumes)',
    ),
    "with a token": (
        {},
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        'node "NODE" can not create pods that reference serviceaccounts (via projected volumes)',
    ),
    "with a source without a kind": (
        {},
        {"volumes": [{"name": "v", "projected": {"sources": [{}]}}]},
        'error checking mirror pod for API references: unknown source for projected volume "v"',
    ),
    "with nothing of the API": (
        {},
        {
            "volumes": [
                {"name": "v", "emptyDir": {}},
                {"name": "w", "projected": {"sources": [{"downwardAPI": {}}]}},
            ]
        },
        "",
    ),
}


@pytest.mark.parametrize(("meta", "spec", "why"), MIRROR_PODS.values(), ids=MIRROR_PODS)
def test_nodes_create_mirror_pods_only(
    api: Api, path: str, node: str, meta: dict[str, Any], spec: dict[str, Any], why: str
) -> None:
    uid = api.get(f"{NODES}/{node}").ok()["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    mirror = pod("m", nodeName=node, **spec) if "nodeName" not in spec else pod("m", **spec)
    mirror["metadata"] |= {
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [owner],
        **meta,
    }
    answer = api.post(f"{path}/pods", mirror, headers=as_node(node))
    if why:
        assert_forbidden(answer, why.replace("NODE", node))
    else:
        answer.ok()


def not_for(node: str, audience: str) -> str:
    return (
        f'audience "{audience}" not found in pod spec volume, system:node:{node} is not authorized to '
        "request tokens for this audience"
    )


def test_nodes_get_tokens_for_their_pods(api: Api, path: str, node: str) -> None:
    api.post(f"{path}/serviceaccounts", {"metadata": {"name": "a"}}).ok()
    source = {"serviceAccountToken": {"path": "t", "audience": "vault"}}
    volumes = [{"name": "v", "projected": {"sources": [source]}}]
    made = api.post(f"{path}/pods", pod("t", nodeName=node, serviceAccountName="a", volumes=volumes)).ok()
    elsewhere = api.get(f"{path}/pods/other").ok()

    def asked(bound: Any, *audiences: str) -> Answer:
        reference = bound and {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": bound["metadata"]["name"],
            "uid": bound["metadata"]["uid"],
        }
        spec = {"boundObjectRef": reference, "audiences": list(audiences)}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return api.post(f"{path}/serviceaccounts/a/token", request, headers=as_node(node))

    asked(made, "vault").ok()
    assert_forbidden(asked(made, "other"), not_for(node, "other"))
    assert_forbidden(asked(made), not_for(node, ""))
    assert_forbidden(asked(None), "node requested token not bound to a pod")
    assert_forbidden(asked(elsewhere), "node requested token bound to a pod scheduled on a different node")
    assert_forbidden(asked(made, "a", "b"), "node may only request 0 or 1 audiences")


def test_nodes_get_no_tokens_for_pods_that_are_gone(api: Api, path: str, node: str) -> None:
    """A pod of the same name is another one: its token must not be for the one before."""
    api.post(f"{path}/serviceaccounts", {"metadata": {"name": "a"}}).ok()
    api.post(f"{path}/pods", pod("t", nodeName=node, serviceAccountName="a")).ok()

    def asked(**bound: str) -> Answer:
        spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", **bound}, "audiences": ["vault"]}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return api.post(f"{path}/serviceaccounts/a/token", request, headers=as_node(node))

    assert_forbidden(asked(name="t"), "node requested token with a pod binding without a uid")
    assert_forbidden(
        asked(name="t", uid="former"),
        "the UID in the bound object reference (former) does not match the UID in record. The object might "
        "have been deleted and then recreated",
    )
    assert asked(name="gone", uid="former").status == 404


def test_nodes_get_the_tokens_that_drivers_of_volumes_want(api: Api, path: str, node: str) -> None:
    drivers = "/apis/storage.k8s.io/v1/csidrivers"
    for name in ("inline", "claimed"):
        metadata = {"name": f"{name}.{node}"}
        api.post(drivers, {"metadata": metadata, "spec": {"tokenRequests": [{"audience": name}]}}).ok()
    api.post(f"{path}/serviceaccounts", {"metadata": {"name": "a"}}).ok()
    capacity, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    source = {"driver": f"claimed.{node}", "volumeHandle": "h"}
    volume = {"capacity": capacity, "accessModes": modes, "csi": source}
    api.post("/api/v1/persistentvolumes", {"metadata": {"name": node}, "spec": volume}).ok()
    claim = {"volumeName": node, "accessModes": modes, "resources": {"requests": capacity}}
    api.post(f"{path}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim}).ok()
    volumes = [
        {"name": "i", "csi": {"driver": f"inline.{node}"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
    ]
    made = api.post(f"{path}/pods", pod("t", nodeName=node, serviceAccountName="a", volumes=volumes)).ok()
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "t", "uid": made["metadata"]["uid"]}

    def asked(audience: str) -> Answer:
        spec = {"boundObjectRef": bound, "audiences": [audience]}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return api.post(f"{path}/serviceaccounts/a/token", request, headers=as_node(node))

    asked("inline").ok()
    asked("claimed").ok()
    assert_forbidden(asked("vault"), not_for(node, "vault"))
    # Who is allowed it by a rule needs no volume: the audience is the resource, the account the name.
    audience = rule("request-serviceaccounts-token-audience", "vault", "a")
    grant(api, path.rpartition("/")[2], "system:nodes", audience, subject_kind="Group")
    until_status(201, lambda: asked("vault"), "the rule counts")
    assert_forbidden(asked("other"), not_for(node, "other"))


# The volumes of a pod, and what is wrong with the audience `vault`; nothing: a volume asks for it.
GONE_CLAIM: Final = {"persistentVolumeClaim": {"claimName": "gone"}}
UNBOUND_CLAIM: Final = {"persistentVolumeClaim": {"claimName": "unbound"}}
GONE_DRIVER: Final = {"csi": {"driver": "gone"}}
VAULT_TOKEN: Final = {"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}
VOLUMES_OF_TOKENS: Final[dict[str, tuple[list[dict[str, Any]], str]]] = {
    "a claim that is gone": ([GONE_CLAIM], 'persistentvolumeclaim "gone" not found'),
    "a claim without a volume": ([UNBOUND_CLAIM], 'persistentvolume "" not found'),
    "a driver that is gone": ([GONE_DRIVER], 'csidriver.storage.k8s.io "gone" not found'),
    "an ephemeral claim that is not there yet": (
        [{"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}],
        'persistentvolumeclaim "t-v0" not found',
    ),
    "several": (
        [GONE_CLAIM, UNBOUND_CLAIM, GONE_DRIVER, GONE_CLAIM],
        (
            '[persistentvolumeclaim "gone" not found, persistentvolume "" not found, '
            'csidriver.storage.k8s.io "gone" not found]'
        ),
    ),
    "one besides a token": ([GONE_CLAIM, VAULT_TOKEN], ""),
    "a driver in place of one that is no more": ([{"awsElasticBlockStore": {"volumeID": "v"}}], ""),
}


@pytest.mark.parametrize(("volumes", "why"), VOLUMES_OF_TOKENS.values(), ids=VOLUMES_OF_TOKENS)
def test_nodes_get_no_tokens_for_volumes_that_are_not_known(
    api: Api, path: str, node: str, volumes: list[dict[str, Any]], why: str
) -> None:
    audience = [{"audience": "vault"}]
    driver = {"metadata": {"name": "ebs.csi.aws.com"}, "spec": {"tokenRequests": audience}}
    applied = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", **driver}
    api.apply("/apis/storage.k8s.io/v1/csidrivers/ebs.csi.aws.com?fieldManager=m", applied).ok()
    api.post(f"{path}/serviceaccounts", {"metadata": {"name": "a"}}).ok()
    api.post(f"{path}/persistentvolumeclaims", {"metadata": {"name": "unbound"}, "spec": CLAIM}).ok()
    named = [{"name": f"v{index}", **volume} for index, volume in enumerate(volumes)]
    made = api.post(f"{path}/pods", pod("t", nodeName=node, serviceAccountName="a", volumes=named)).ok()
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "t", "uid": made["metadata"]["uid"]}
    spec = {"boundObjectRef": bound, "audiences": ["vault"]}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = api.post(f"{path}/serviceaccounts/a/token", request, headers=as_node(node))
    if why:
        assert_forbidden(answer, f'error validating audience "vault": {why}')
    else:
        answer.ok()


def test_nodes_write_their_own_csi_node(api: Api, node: str) -> None:
    csi_nodes = "/apis/storage.k8s.io/v1/csinodes"
    why = "can only access CSINode with the same name as the requesting node"
    other: dict[str, Any] = {"metadata": {"name": f"{node}-x"}, "spec": {"drivers": []}}
    api.post(csi_nodes, {"metadata": {"name": node}, "spec": {"drivers": []}}, headers=as_node(node)).ok()
    assert_forbidden(api.post(csi_nodes, other, headers=as_node(node)), why)
    api.post(csi_nodes, other).ok()
    label = {"metadata": {"labels": {"a": "b"}}}
    api.patch(f"{csi_nodes}/{node}", label, headers=as_node(node)).ok()
    assert_forbidden(api.patch(f"{csi_nodes}/{node}-x", label, headers=as_node(node)), why)
    assert_forbidden(api.delete(f"{csi_nodes}/{node}-x", headers=as_node(node)), why)


def test_nodes_publish_their_own_devices(api: Api, node: str) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"

    def resource_slice(name: str, where: str) -> dict[str, Any]:
        pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
        return {
            "metadata": {"name": name},
            "spec": {"driver": "d.example.com", "pool": pool, "nodeName": where, "devices": []},
        }

    def why(operation: str) -> str:
        return f"can only {operation} ResourceSlice with the same NodeName as the requesting node"

    api.post(slices, resource_slice(f"{node}-own", node), headers=as_node(node)).ok()
    other = resource_slice(f"{node}-other", f"{node}-x")
    assert_forbidden(api.post(slices, other, headers=as_node(node)), why("create"))
    api.post(slices, other).ok()
    assert_forbidden(api.delete(f"{slices}/{node}-other", headers=as_node(node)), why("delete"))
    api.delete(f"{slices}/{node}-own", headers=as_node(node)).ok()


def test_nodes_keep_their_own_lease(api: Api, node: str, path: str) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    api.post(leases, {"metadata": {"name": node}}, headers=as_node(node)).ok()
    assert_forbidden(
        api.post(leases, {"metadata": {"name": f"{node}-x"}}, headers=as_node(node)),
        "can only access node lease with the same name as the requesting node",
    )
    assert_forbidden(
        api.post(
            f"{path.replace('/api/v1', '/apis/coordination.k8s.io/v1')}/leases",
            {"metadata": {"name": node}},
            headers=as_node(node),
        ),
        'can only access leases in the "kube-node-lease" system namespace',
    )


def test_nodes_ask_for_their_own_certificate(api: Api, node: str) -> None:
    def request(name: str) -> dict[str, Any]:
        return asked_with(request_for(name, "system:nodes"))

    def asked_with(pem: bytes) -> dict[str, Any]:
        spec = {
            "request": base64.b64encode(pem).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        }
        return {"metadata": {"generateName": "c-"}, "spec": spec}

    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    api.post(requests, request(f"system:node:{node}"), headers=as_node(node)).ok()
    assert_forbidden(
        api.post(requests, request("system:node:x"), headers=as_node(node)),
        f"can only create a node CSR with CN=system:node:{node}",
    )
    for pem in (b"", request_for("x").replace(b" REQUEST", b"")):
        assert_forbidden(
            api.post(requests, asked_with(pem), headers=as_node(node)),
            "unable to parse csr: PEM block type must be CERTIFICATE REQUEST",
        )
    damaged = asked_with(request_for("x").replace(b"MI", b"AA"))
    refused = api.post(requests, damaged, headers=as_node(node))
    assert refused.status == 403
    assert "unable to parse csr: asn1: structure error" in refused.message


def test_nodes_report_the_capacity_of_claims(api: Api, node: str, path: str) -> None:
    claim = {
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    claims = f"{path}/persistentvolumeclaims"
    api.post(claims, claim).ok()
    caller: Any = {"headers": as_node(node)}
    api.patch(f"{claims}/c/status", {"status": {"capacity": {"storage": "1Gi"}}}, **caller).ok()
    assert_forbidden(
        api.patch(f"{claims}/c/status", {"status": {"phase": "Bound"}}, **caller),
        f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions',
    )
    changed = api.patch(f"{claims}/c", {"metadata": {"labels": {"a": "b"}}}, **caller)
    assert_forbidden(changed, "may only update PVC status")


def test_who_is_no_node_is_not_confined(api: Api, node: str) -> None:
    """The group alone does not make a node, nor the name."""
    only_group = {"Impersonate-User": "jane", "Impersonate-Group": "system:nodes"}
    api.patch(f"{NODES}/{node}", {"metadata": {"labels": {"a.k8s.io/b": "c"}}}, headers=only_group).ok()
