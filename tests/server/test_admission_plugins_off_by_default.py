"""kube-apiserver's admission plugins that are enabled by name, and their configuration.

https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.admission.plugin_names import OFF_BY_DEFAULT
from tests.support.api import Answer, Api, assert_forbidden, until_status
from tests.support.certificates import request_for
from tests.support.kubeconfigs import kubeconfig_of_webhook
from tests.support.metrics import metrics_of
from tests.support.objects import pod
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import Reply, Review, WebhookServer

NAMESPACES: Final = "/api/v1/namespaces"
NODES: Final = "/api/v1/nodes"
EVENT_BURST: Final = 3
KIND: Final = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
CONFIGURED: Final = {
    "EventRateLimit": {
        "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
        "kind": "Configuration",
        "limits": [{"type": "SourceAndObject", "qps": 1, "burst": EVENT_BURST}],
    },
    "PodNodeSelector": {
        "podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "pool=any", "confined": "pool=any"}
    },
    "PodSecurity": {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "baseline"},
        "exemptions": {"usernames": ["exempt"], "namespaces": ["exempt"], "runtimeClasses": ["exempt"]},
    },
    "ResourceQuota": {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "ResourceQuotaConfiguration",
        "limitedResources": [{"resource": "services", "matchContains": ["loadbalancers"]}],
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with all of them but the one that refuses everything, and that for images."""
    directory = tmp_path_factory.mktemp("plugins")
    file = directory / "admission.yaml"
    plugins = [{"name": name, "configuration": each} for name, each in CONFIGURED.items()]
    file.write_text(json.dumps({**KIND, "plugins": plugins}))
    names = OFF_BY_DEFAULT - {"AlwaysDeny", "ImagePolicyWebhook"}
    flags = (
        f"--enable-admission-plugins={','.join(names)}",
        f"--admission-control-config-file={file}",
        "--default-not-ready-toleration-seconds=7",
    )
    with ServerProcess(directory / "data", *flags) as server:
        yield server


@pytest.fixture
def path(namespace: str) -> str:
    return f"{NAMESPACES}/{namespace}"


# ---- AlwaysPullImages


def test_images_are_always_pulled(api: Api, path: str) -> None:
    spec: Any = {
        "containers": [{"name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent"}],
        "initContainers": [{"name": "d", "image": "i:1"}],
    }
    made = api.post(f"{path}/pods", pod(**spec)).ok()
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert made["spec"]["initContainers"][0]["imagePullPolicy"] == "Always"


# ---- DenyServiceExternalIPs


def service(*addresses: str) -> dict[str, Any]:
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "externalIPs": list(addresses)}}


def test_services_get_no_external_ips(api: Api, path: str) -> None:
    why = "Use of external IPs is denied by admission control."
    assert_forbidden(api.post(f"{path}/services", service("192.0.2.1")), why)
    api.post(f"{path}/services", service()).ok()
    patched = api.patch(f"{path}/services/s", {"spec": {"externalIPs": ["192.0.2.1"]}})
    assert_forbidden(patched, why)


# ---- ExtendedResourceToleration, PodTolerationRestriction


def test_pods_tolerate_what_is_kept_for_the_resource_that_they_ask_for(api: Api, path: str) -> None:
    asked = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    containers = [{"name": "c", "image": "i", "resources": asked}]
    made = api.post(f"{path}/pods", pod(containers=containers)).ok()
    added = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert [each for each in made["spec"]["tolerations"] if each["key"] == "example.com/gpu"] == [added]


def annotate(api: Api, path: str, **annotations: str) -> None:
    named = {f"scheduler.alpha.kubernetes.io/{name}": text for name, text in annotations.items()}
    api.patch(path, {"metadata": {"annotations": named}}).ok()
    api.get(path).ok()  # The cache, which plugins look into, has it now.


def test_pods_get_the_tolerations_of_their_namespace(api: Api, path: str) -> None:
    annotate(api, path, defaultTolerations='[{"key": "k", "operator": "Exists"}]')
    made = api.post(f"{path}/pods", pod()).ok()["spec"]
    assert {"key": "k", "operator": "Exists"} in made["tolerations"]


def test_pods_tolerate_only_what_their_namespace_allows(api: Api, path: str) -> None:
    lost = '{"operator": "Exists", "effect": "NoExecute"}'
    annotate(api, path, tolerationsWhitelist=f'[{{"key": "k", "operator": "Exists"}}, {lost}]')
    api.post(f"{path}/pods", pod("a", tolerations=[{"key": "k", "operator": "Exists"}])).ok()
    assert_forbidden(
        api.post(f"{path}/pods", pod("b", tolerations=[{"key": "other", "operator": "Exists"}])),
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace "
        "whitelist",
    )


def test_pods_that_ask_for_no_cpu_and_no_memory_are_best_effort(api: Api, path: str) -> None:
    key = "node.kubernetes.io/memory-pressure"
    for name, amount, tolerated in (("a", "0", False), ("b", "1m", True)):
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": amount}}}]
        made = api.post(f"{path}/pods", pod(name, containers=containers)).ok()["spec"]
        assert any(each.get("key") == key for each in made.get("tolerations", ())) is tolerated


def test_of_annotations_only_tolerations_are_taken(api: Api, path: str) -> None:
    annotate(api, path, defaultTolerations='[{"key": "k", "operator": "Exists", "x": [{}], "value": null}]')
    made = api.post(f"{path}/pods", pod()).ok()["spec"]
    assert [each for each in made["tolerations"] if each["key"] == "k"] == [
        {"key": "k", "operator": "Exists"}
    ]


@pytest.mark.parametrize("text", ["garbage", "{}", '["a"]', '[{"key": 5}]', '[{"tolerationSeconds": "1"}]'])
def test_an_annotation_that_means_nothing_refuses_pods(api: Api, path: str, text: str) -> None:
    annotate(api, path, tolerationsWhitelist=text)
    refused = api.post(f"{path}/pods", pod())
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert "scheduler.alpha.kubernetes.io/tolerationsWhitelist" in refused.message


# ---- LimitPodHardAntiAffinityTopology


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
def test_pods_keep_others_off_their_node_only(api: Api, path: str, key: str) -> None:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"a": "b"}}}
    anti_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    answer = api.post(f"{path}/pods", pod(affinity={"podAntiAffinity": anti_affinity}))
    if key == "kubernetes.io/hostname":
        answer.ok()
    else:
        assert_forbidden(
            answer,
            f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key "
            "kubernetes.io/hostname is allowed",
        )


# ---- PodNodeSelector


def test_pods_are_confined_to_the_nodes_of_their_namespace(api: Api, path: str) -> None:
    annotate(api, path, **{"node-selector": "a=b, c=d"})
    made = api.post(f"{path}/pods", pod(nodeSelector={"e": "f"})).ok()
    assert made["spec"]["nodeSelector"] == {"a": "b", "c": "d", "e": "f"}
    assert_forbidden(
        api.post(f"{path}/pods", pod("q", nodeSelector={"a": "x"})),
        "pod node label selector conflicts with its namespace node label selector",
    )


def test_namespaces_without_annotation_have_the_selector_of_the_file(api: Api, path: str) -> None:
    assert api.post(f"{path}/pods", pod()).ok()["spec"]["nodeSelector"] == {"pool": "any"}


def test_the_file_limits_what_pods_of_a_namespace_select(api: Api) -> None:
    """The namespace is made by the way: another plugin creates it."""
    pods = f"{NAMESPACES}/confined/pods"
    api.post(pods, pod("a")).ok()
    assert_forbidden(
        api.post(pods, pod("b", nodeSelector={"e": "f"})),
        "pod node label selector labels conflict with its namespace whitelist",
    )


# ---- NamespaceAutoProvision


def test_namespaces_are_created_when_they_are_needed(api: Api, namespace: str) -> None:
    maps, body = f"{NAMESPACES}/{namespace}-new/configmaps", {"metadata": {"name": "m"}}
    assert api.post(f"{maps}?dryRun=All", body).status == 404
    assert api.get(f"{NAMESPACES}/{namespace}-new").status == 404, "not by a dry run"
    api.post(maps, body).ok()
    assert api.get(f"{NAMESPACES}/{namespace}-new").ok()["status"] == {"phase": "Active"}
    refused = api.post(f"{NAMESPACES}/Not_A_Name/configmaps", body)
    assert (refused.status, refused.reason) == (403, "Forbidden")


# ---- EventRateLimit


def event(namespace: str, name: str) -> dict[str, Any]:
    involved = {"kind": "Pod", "namespace": namespace, "name": "p", "uid": namespace}
    return {"metadata": {"name": name}, "involvedObject": involved, "source": {"component": "test"}}


def test_a_client_may_write_some_events_at_once(api: Api, namespace: str, path: str) -> None:
    """A dry run takes nothing of what it may."""
    for _ in range(EVENT_BURST + 1):
        api.post(f"{path}/events?dryRun=All", event(namespace, "e")).ok()
    answers = (api.post(f"{path}/events", event(namespace, f"e{n}")) for n in range(1_000))
    assert [each.status for each in islice(answers, EVENT_BURST)] == [201] * EVENT_BURST
    refused = next(each for each in answers if each.status != 201)
    assert (refused.status, refused.reason) == (429, "TooManyRequests")
    assert refused.message.startswith("Too many requests: limit reached on type SourceAndObject for key test")


# ---- PodTopologyLabels


def test_pods_get_the_zone_of_their_node(api: Api, namespace: str, path: str) -> None:
    zone = {"topology.kubernetes.io/zone": "z", "other": "x"}
    api.post(NODES, {"metadata": {"name": namespace, "labels": zone}}).ok()
    api.get(f"{NODES}/{namespace}").ok()
    api.post(f"{path}/pods", pod("bound")).ok()
    binding = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": namespace}}
    api.post(f"{path}/pods/bound/binding", binding).ok()
    made = api.post(f"{path}/pods", pod("placed", nodeName=namespace)).ok()
    for found in (api.get(f"{path}/pods/bound").ok(), made):
        assert found["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z"}


# ---- OwnerReferencesPermissionEnforcement


def test_who_sets_owners_may_delete(api: Api, namespace: str, path: str) -> None:
    editor = grant(api, namespace, "editor", rule("create patch", "configmaps"))
    maps = f"{path}/configmaps"
    owner = api.post(maps, {"metadata": {"name": "owner"}}).ok()["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    api.post(maps, owned, headers=editor).ok()
    api.patch(f"{maps}/owned", {"data": {"a": "b"}}, headers=editor).ok()
    patched = api.patch(f"{maps}/owned", {"metadata": {"ownerReferences": []}}, headers=editor)
    assert_forbidden(patched, "cannot set an ownerRef on a resource you can't delete: , <nil>")


def test_who_blocks_the_deletion_of_owners_may_change_their_finalizers(
    api: Api, namespace: str, path: str
) -> None:
    maps = f"{path}/configmaps"
    rules = (rule("create", "configmaps"),)
    creator = grant(api, namespace, "creator", *rules)
    finalizer = grant(api, namespace, "finalizer", *rules, rule("update", "configmaps/finalizers"))
    owner = api.post(maps, {"metadata": {"name": "owner"}}).ok()["metadata"]

    def owned(name: str, **changed: Any) -> dict[str, Any]:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
        blocking = {**reference, "blockOwnerDeletion": True, **changed}
        return {"metadata": {"name": name, "ownerReferences": [blocking]}}

    assert_forbidden(
        api.post(maps, owned("a"), headers=creator),
        "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers "
        "on: , <nil>",
    )
    api.post(maps, owned("a"), headers=finalizer).ok()
    assert_forbidden(
        api.post(maps, owned("b", kind="Garbage"), headers=finalizer),
        "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind "
        'Garbage: no matches for kind "Garbage" in version "v1"',
    )


# ---- NodeRestriction


def as_node(name: str) -> dict[str, str]:
    return {"Impersonate-User": f"system:node:{name}", "Impersonate-Group": "system:nodes"}


@pytest.fixture(scope="module")
def _nodes_are_authorized(api: Api) -> None:
    grant(
        api,
        "",
        "system:nodes",
        rule("get list watch create update patch delete", "*", group="*"),
        subject_kind="Group",
    )


@pytest.fixture
def node(api: Api, namespace: str, _nodes_are_authorized: None) -> str:
    """The name of a node, which has one pod, `mine`, in the namespace; `other` runs elsewhere."""
    api.post(NODES, {"metadata": {"name": namespace}}, headers=as_node(namespace)).ok()
    for name, where in (("mine", namespace), ("other", "elsewhere")):
        api.post(f"{NAMESPACES}/{namespace}/pods", pod(name, nodeName=where)).ok()
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
    "taints": (
        {"spec": {"taints": []}},
        'node "NODE" is not allowed to modify taints',
    ),
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


# ---- configuration of plugins that are on by default


def test_how_long_pods_stay_on_lost_nodes(api: Api, path: str) -> None:
    made = api.post(f"{path}/pods", pod()).ok()["spec"]["tolerations"]
    stay_s = {each["key"]: each["tolerationSeconds"] for each in made if "tolerationSeconds" in each}
    assert stay_s == {"node.kubernetes.io/not-ready": 7, "node.kubernetes.io/unreachable": 300}


def test_what_namespaces_enforce_without_labels(api: Api, namespace: str, path: str) -> None:
    api.post("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "exempt"}, "handler": "h"})
    shared, why = pod(hostPID=True), 'violates PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    assert_forbidden(api.post(f"{path}/pods", shared), why)
    api.post(f"{NAMESPACES}/exempt/pods", {**shared, "metadata": {"generateName": "p-"}}).ok()
    user = grant(api, namespace, "exempt", rule("create", "pods"))
    api.post(f"{path}/pods", shared, headers=user).ok()
    api.post(f"{path}/pods", pod("q", hostPID=True, runtimeClassName="exempt")).ok()
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    api.patch(path, label).ok()
    api.get(path).ok()
    api.post(f"{path}/pods", pod("r", hostPID=True)).ok()


POD_CREATE: Final = 'request_operation="create",resource="pod",subresource=""'


def test_what_is_enforced_is_counted(api: Api, path: str) -> None:
    def counted() -> dict[str, float]:
        lines = metrics_of(api).splitlines()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in lines if line.startswith("pod_security_"))
        }

    def evaluated(decision: str) -> str:
        policy = f'decision="{decision}",mode="enforce",policy_level="baseline",policy_version="latest"'
        return f"pod_security_evaluations_total{{{policy},{POD_CREATE}}}"

    before = counted()
    api.post(f"{path}/pods", pod()).ok()
    assert api.post(f"{path}/pods", pod("q", hostPID=True)).status == 403
    api.post(f"{NAMESPACES}/exempt/pods", {**pod(), "metadata": {"generateName": "p-"}}).ok()
    after = counted()
    names = (evaluated("allow"), evaluated("deny"), f"pod_security_exemptions_total{{{POD_CREATE}}}")
    assert [after[name] - before.get(name, 0) for name in names] == [1, 1, 1]


def test_labels_of_an_exempt_namespace(api: Api) -> None:
    path = f"{NAMESPACES}/exempt"
    api.post(f"{path}/configmaps", {"metadata": {"generateName": "m-"}}).ok()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    patched = api.patch(path, {"metadata": {"labels": labels}})
    patched.ok()
    (warning,) = patched.warnings
    assert warning == (
        'namespace \\"exempt\\" is exempt from Pod Security, and the policy (enforce=restricted:latest, '
        "warn=restricted:latest) will be ignored"
    )


def test_what_is_limited_by_default_needs_a_quota(api: Api, path: str) -> None:
    balancer = {"metadata": {"name": "l"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}
    why = "insufficient quota to consume: services.loadbalancers"
    assert_forbidden(api.post(f"{path}/services", balancer), why)
    assert_forbidden(api.post(f"{path}/services?dryRun=All", balancer), why)
    hard = {"services.loadbalancers": "1"}
    api.post(f"{path}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}).ok()
    status = {"status": {"hard": hard, "used": {"services.loadbalancers": "0"}}}
    api.patch(f"{path}/resourcequotas/q/status", status).ok()
    api.post(f"{path}/services", balancer).ok()


# ---- ImagePolicyWebhook


class ImageServer(WebhookServer):
    """Denies the image `bad`."""

    async def answer(self, path: str, review: Review) -> Reply:
        is_allowed = {"image": "bad"} not in review["spec"]["containers"]
        return {**review, "status": {"allowed": is_allowed, "reason": "it is bad"}}


def test_another_server_decides_about_images(tmp_path: Path) -> None:
    with ImageServer(tmp_path / "webhook") as images:
        kubeconfig_of_webhook(tmp_path / "kubeconfig", images, below="review", token="secret")
        policy = {"imagePolicy": {"kubeConfigFile": str(tmp_path / "kubeconfig")}}
        (tmp_path / "admission.json").write_text(json.dumps(policy))
        flags = (
            "--enable-admission-plugins=ImagePolicyWebhook",
            f"--admission-control-config-file={tmp_path / 'admission.json'}",
        )
        with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api:
            pods = f"{NAMESPACES}/default/pods"
            api.post(pods, pod("good")).ok()
            assert images.headers["Authorization"] == "Bearer secret"
            assert_forbidden(
                api.post(pods, pod("bad", containers=[{"name": "c", "image": "bad"}])),
                "image policy webhook backend denied one or more images: it is bad",
            )


# ---- the process


BAD_STARTS: Final = {
    "a file that is not there": (["--admission-control-config-file=none.yaml"], "cannot read none.yaml"),
    "a plugin without its configuration": (
        ["--enable-admission-plugins=EventRateLimit"],
        "the admission plugin EventRateLimit must be configured in such a file",
    ),
}


@pytest.mark.parametrize(("flags", "why"), BAD_STARTS.values(), ids=BAD_STARTS)
def test_a_mistake_prevents_the_start(tmp_path: Path, flags: list[str], why: str) -> None:
    (line,) = ServerProcess(tmp_path, *flags).refusal().stderr.strip().splitlines()
    assert f"--admission-control-config-file: {why}" in line


def test_everything_can_be_refused(tmp_path: Path) -> None:
    flag = "--enable-admission-plugins=AlwaysDeny"
    with ServerProcess(tmp_path, flag) as server, Api(server) as api:
        why = "admission control is denying all modifications"
        assert_forbidden(api.post(NAMESPACES, {"metadata": {"name": "n"}}), why)
        api.get(NAMESPACES).ok()
