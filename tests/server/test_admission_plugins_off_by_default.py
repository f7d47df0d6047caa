"""kube-apiserver's admission plugins that are enabled by name, and their configuration.

https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.admission.plugin_names import OFF_BY_DEFAULT
from tests.support.api import Api, assert_forbidden
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
        "the admission plugin EventRateLimit must be configured in a file",
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
