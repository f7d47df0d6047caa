"""kube-apiserver's own admission plugins: what they add to writes, and which writes they refuse.

https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.support import objects
from tests.support.api import Answer, Api, assert_forbidden
from tests.support.eventually import WITHIN_S
from tests.support.fixtures import server_with
from tests.support.server_process import ServerProcess

NAMESPACES: Final = "/api/v1/namespaces"
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
STORAGE_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
INGRESS_CLASSES: Final = "/apis/networking.k8s.io/v1/ingressclasses"
RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return objects.pod(name, **{"automountServiceAccountToken": False, **spec})


def seen(api: Api, path: str) -> None:
    """Wait until the server's cache, which plugins look into, has what was written."""
    api.get(path).ok()


# All of the plugins; others do without one of them.
server = server_with("--disable-admission-plugins=")


@pytest.fixture
def path(api: Api, namespace: str) -> str:
    """The path of a namespace that has the service account `default`."""
    path = f"{NAMESPACES}/{namespace}"
    api.post(f"{path}/serviceaccounts", {"metadata": {"name": "default"}}).ok()
    seen(api, f"{path}/serviceaccounts")
    return path


# ---- ServiceAccount


def test_pods_run_as_the_default_account(api: Api, path: str) -> None:
    made = api.post(f"{path}/pods", pod(automountServiceAccountToken=None)).ok()["spec"]
    assert (made["serviceAccountName"], made["serviceAccount"]) == ("default", "default")
    (volume,) = made["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
    }
    (mount,) = made["containers"][0]["volumeMounts"]
    where = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert mount == {"name": volume["name"], "readOnly": True, "mountPath": where}


def test_pods_take_fields_from_their_account(api: Api, path: str) -> None:
    """A pod's own word counts more."""
    account = {
        "metadata": {"name": "quiet"},
        "automountServiceAccountToken": False,
        "imagePullSecrets": [{"name": "pull"}],
    }
    api.post(f"{path}/serviceaccounts", account).ok()
    quiet = {"serviceAccountName": "quiet", "automountServiceAccountToken": None}
    made = api.post(f"{path}/pods", pod("a", **quiet)).ok()["spec"]
    assert "volumes" not in made
    assert made["imagePullSecrets"] == [{"name": "pull"}]
    own = {**quiet, "automountServiceAccountToken": True, "imagePullSecrets": [{"name": "own"}]}
    made = api.post(f"{path}/pods", pod("b", **own)).ok()["spec"]
    assert len(made["volumes"]) == 1
    assert made["imagePullSecrets"] == [{"name": "own"}]


def test_an_account_that_is_not_there(api: Api, path: str, namespace: str) -> None:
    assert_forbidden(
        api.post(f"{path}/pods", pod(serviceAccountName="none")),
        f'error looking up service account {namespace}/none: serviceaccount "none" not found',
    )
    assert_forbidden(
        api.post(f"{path}/pods", pod(serviceAccountName="a/b")),
        f"error looking up service account {namespace}/a/b: "
        "invalid resource name \"a/b\": [may not contain '/']",
    )
    assert api.get(f"{path}/pods/p").status == 404


def test_a_pod_waits_for_the_default_account(api: Api, namespace: str) -> None:
    """A new namespace may be without it for a moment."""
    path = f"{NAMESPACES}/{namespace}"
    other = Api(api.server)
    account = {"metadata": {"name": "default"}}
    late = threading.Timer(0.2, lambda: other.post(f"{path}/serviceaccounts", account))
    late.start()
    api.post(f"{path}/pods", pod()).ok()
    late.join()
    other.close()


# ---- pods


def test_pods_stay_on_lost_nodes_for_a_while(api: Api, path: str) -> None:
    made = api.post(f"{path}/pods", pod()).ok()["spec"]
    assert made["tolerations"] == [
        {
            "key": f"node.kubernetes.io/{taint}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for taint in ("not-ready", "unreachable")
    ]


def test_priorities(api: Api, path: str, namespace: str) -> None:
    name = f"{namespace}-high"
    high = {"metadata": {"name": name}, "value": 7, "preemptionPolicy": "Never"}
    api.post(PRIORITY_CLASSES, high).ok()
    plain = api.post(f"{path}/pods", pod("plain")).ok()["spec"]
    assert (plain["priority"], plain["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    made = api.post(f"{path}/pods", pod("high", priorityClassName=name)).ok()
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (7, "Never")
    system = api.post(f"{path}/pods", pod("system", priorityClassName="system-node-critical")).ok()
    assert system["spec"]["priority"] == 2_000_001_000
    assert_forbidden(
        api.post(f"{path}/pods", pod(priorityClassName="none")), "no PriorityClass with name none was found"
    )
    assert_forbidden(
        api.post(f"{path}/pods", pod(priority=8, priorityClassName=name)),
        "the integer value of priority (8) must not be provided in pod spec; priority admission controller "
        "computed 7 from the given PriorityClass name",
    )
    # Who replaces the pod as it was sent need not know its number.
    for field in ("priority", "preemptionPolicy"):
        del made["spec"][field]
    made["metadata"]["labels"] = {"a": "b"}
    assert api.put(f"{path}/pods/high", made).ok()["spec"]["priority"] == 7


def test_there_is_one_default_priority_class(api: Api, path: str, namespace: str) -> None:
    name = f"{namespace}-default"
    default = {"metadata": {"name": name}, "value": 5, "globalDefault": True}
    api.post(PRIORITY_CLASSES, default).ok()
    seen(api, PRIORITY_CLASSES)
    try:
        made = api.post(f"{path}/pods", pod()).ok()["spec"]
        assert (made["priorityClassName"], made["priority"]) == (name, 5)
        other = {**default, "metadata": {"name": f"{namespace}-other"}}
        text = f"PriorityClass {name} is already marked as default. Only one default can exist"
        assert_forbidden(api.post(PRIORITY_CLASSES, other), text)
        api.post(PRIORITY_CLASSES, {**other, "globalDefault": False}).ok()
        assert_forbidden(api.patch(f"{PRIORITY_CLASSES}/{namespace}-other", {"globalDefault": True}), text)
        api.patch(f"{PRIORITY_CLASSES}/{name}", {"description": "the default"}).ok()
    finally:
        api.delete(f"{PRIORITY_CLASSES}/{name}").ok()
        seen(api, PRIORITY_CLASSES)


def test_runtime_classes_set_overhead_and_scheduling(api: Api, path: str, namespace: str) -> None:
    runtime = {
        "metadata": {"name": namespace},
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"k": "v"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
    }
    api.post(RUNTIME_CLASSES, runtime).ok()
    made = api.post(f"{path}/pods", pod(runtimeClassName=namespace, nodeSelector={"a": "b"})).ok()["spec"]
    assert made["overhead"] == {"cpu": "100m"}
    assert made["nodeSelector"] == {"a": "b", "k": "v"}
    assert {"key": "t", "operator": "Exists"} in made["tolerations"]
    refused: dict[str, dict[str, Any]] = {
        'pod rejected: RuntimeClass "none" not found': {"runtimeClassName": "none"},
        "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead": {
            "runtimeClassName": namespace,
            "overhead": {"cpu": "1"},
        },
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead": {
            "overhead": {"cpu": "1"}
        },
        "conflict: runtimeClass.scheduling.nodeSelector[k] = v; pod.spec.nodeSelector[k] = w": {
            "runtimeClassName": namespace,
            "nodeSelector": {"k": "w"},
        },
    }
    for text, spec in refused.items():
        assert_forbidden(api.post(f"{path}/pods", pod("refused", **spec)), text)


# ---- PodSecurity

LABEL: Final = "pod-security.kubernetes.io/"


def test_pod_security_standards_of_a_namespace(api: Api, path: str, namespace: str) -> None:
    """Pods are refused, templates of pods warned about, and what is there already is told of."""
    api.post(f"{path}/pods", pod("old", hostNetwork=True)).ok()
    seen(api, f"{path}/pods")
    labelled = api.patch(path, {"metadata": {"labels": {f"{LABEL}enforce": "baseline"}}})
    labelled.ok()
    assert labelled.warnings == [
        (
            f'existing pods in namespace \\"{namespace}\\" violate the new PodSecurity enforce level '
            '\\"baseline:latest\\"'
        ),
        "old: host namespaces",
    ]
    seen(api, path)
    api.post(f"{path}/pods", pod("good")).ok()
    assert_forbidden(
        api.post(f"{path}/pods", pod("bad", hostPID=True)),
        'violates PodSecurity "baseline:latest": host namespaces (hostPID=true)',
    )
    template = {"metadata": {"name": "t"}, "template": {"spec": pod(hostPID=True)["spec"]}}
    answer = api.post(f"{path}/podtemplates", template)
    answer.ok()
    warning = 'would violate PodSecurity \\"baseline:latest\\": host namespaces (hostPID=true)'
    assert warning in answer.warnings
    api.patch(f"{path}/pods/old", {"metadata": {"labels": {"a": "b"}}}).ok()


def test_labels_that_cannot_be_understood(api: Api, path: str) -> None:
    answer = api.patch(path, {"metadata": {"labels": {f"{LABEL}warn": "x"}}})
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", f"metadata.labels[{LABEL}warn]")])


# ---- LimitRanger


def test_limit_ranges(api: Api, path: str) -> None:
    limits = [{"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}}]
    api.post(f"{path}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}}).ok()
    seen(api, f"{path}/limitranges")
    made = api.post(f"{path}/pods", pod()).ok()
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m"}
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"].startswith(
        "LimitRanger plugin set: "
    )
    large = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}
    assert_forbidden(
        api.post(f"{path}/pods", pod("q", containers=[large])),
        "maximum cpu usage per Container is 1, but limit is 2",
    )
    dry = api.post(f"{path}/pods?dryRun=All", pod("dry")).ok()
    assert "limits" in dry["spec"]["containers"][0]["resources"]


# ---- ResourceQuota


def measure(api: Api, path: str, hard: dict[str, str], name: str = "q", **spec: Any) -> None:
    """Create a quota, and set its status as if nothing were used."""
    quota = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    api.post(f"{path}/resourcequotas", quota).ok()
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    api.patch(f"{path}/resourcequotas/{name}/status", {"status": status}).ok()
    seen(api, f"{path}/resourcequotas")


def used(api: Api, path: str, name: str = "q") -> dict[str, str]:
    found: dict[str, str] = api.get(f"{path}/resourcequotas/{name}").ok()["status"]["used"]
    return found


def make(api: Api, path: str, name: str, query: str = "") -> Answer:
    return api.post(f"{path}/configmaps{query}", {"metadata": {"name": name}})


def test_a_quota_is_used_up(api: Api, path: str) -> None:
    measure(api, path, {"count/configmaps": "1"})
    make(api, path, "dry", "?dryRun=All").ok()
    assert used(api, path) == {"count/configmaps": "0"}, "what is not stored uses nothing"
    make(api, path, "a").ok()
    assert used(api, path) == {"count/configmaps": "1"}
    one = "count/configmaps=1"
    text = f"exceeded quota: q, requested: {one}, used: {one}, limited: {one}"
    assert_forbidden(make(api, path, "b"), text)
    assert_forbidden(make(api, path, "b", "?dryRun=All"), text)
    api.post(f"{path}/secrets", {"metadata": {"name": "s"}}).ok()
    # What has become free counts at once, whatever the cache says.
    api.patch(f"{path}/resourcequotas/q/status", {"status": {"used": {"count/configmaps": "0"}}}).ok()
    make(api, path, "b").ok()


def test_events_are_not_counted(api: Api, path: str) -> None:
    measure(api, path, {"count/events": "0"})
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": path.rpartition("/")[2]}}
    api.post(f"{path}/events", event).ok()


def test_a_change_may_use_more(api: Api, path: str) -> None:
    measure(api, path, {"services.nodeports": "1"})
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}
    api.post(f"{path}/services", service).ok()
    assert used(api, path) == {"services.nodeports": "0"}
    api.patch(f"{path}/services/s", {"spec": {"type": "NodePort"}}).ok()
    assert used(api, path) == {"services.nodeports": "1"}


@pytest.mark.parametrize("form", ["merge", "json-patch", "put"])
def test_a_pod_that_comes_into_the_scope_of_a_quota_needs_room_there(api: Api, path: str, form: str) -> None:
    """It is charged as a new one, and refused if that is too much."""
    measure(api, path, {"pods": "1"}, "ending", scopes=["Terminating"])
    measure(api, path, {"pods": "9"}, "endless", scopes=["NotTerminating"])
    for name in ("a", "b"):
        api.post(f"{path}/pods", objects.pod(name)).ok()

    def end(name: str, query: str = "") -> Answer:
        where = f"{path}/pods/{name}"
        if form == "put":
            stored = api.get(where).ok()
            stored["spec"]["activeDeadlineSeconds"] = 5
            return api.put(where + query, stored)
        if form == "merge":
            return api.patch(where + query, {"spec": {"activeDeadlineSeconds": 5}})
        add = {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 5}
        return api.send("PATCH", where + query, [add], type=form)

    end("a", "?dryRun=All").ok()
    assert used(api, path, "ending") == {"pods": "0"}
    end("a").ok()
    assert used(api, path, "ending") == {"pods": "1"}
    text = "exceeded quota: ending, requested: pods=1, used: pods=1, limited: pods=1"
    for query in ("?dryRun=All", ""):
        assert_forbidden(end("b", query), text)
    api.patch(f"{path}/pods/a", {"spec": {"activeDeadlineSeconds": 4}}).ok()
    assert used(api, path, "ending") == {"pods": "1"}


def test_what_a_claim_has_become_is_charged_to_quotas_though_it_is_not_refused(api: Api, path: str) -> None:
    gold = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    measure(api, path, {"requests.storage": "1Gi"}, scopeSelector={"matchExpressions": [gold]})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    api.post(f"{path}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec}).ok()
    api.patch(f"{path}/persistentvolumeclaims/c/status", {"status": {"phase": "Bound"}}).ok()
    wanted = api.patch(f"{path}/persistentvolumeclaims/c", {"spec": {"volumeAttributesClassName": "gold"}})
    asked = "requests.storage"
    assert_forbidden(
        wanted, f"exceeded quota: q, requested: {asked}=2Gi, used: {asked}=0, limited: {asked}=1Gi"
    )
    status = {"status": {"currentVolumeAttributesClassName": "gold"}}
    api.patch(f"{path}/persistentvolumeclaims/c/status", status).ok()
    assert used(api, path) == {"requests.storage": "2Gi"}


def test_devices_are_counted_by_their_classes(api: Api, path: str) -> None:
    name = "gpu.deviceclass.resource.k8s.io/devices"
    measure(api, path, {name: "3"})
    claims = path.replace("/api/v1", "/apis/resource.k8s.io/v1") + "/resourceclaims"

    def ask(claim: str, **request: Any) -> Answer:
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", **request}}]
        return api.post(claims, {"metadata": {"name": claim}, "spec": {"devices": {"requests": requests}}})

    ask("a", count=2).ok()
    assert used(api, path) == {name: "2"}
    assert ask("b", count=2).status == 403
    assert ask("b", allocationMode="All").status == 403
    ask("b").ok()
    assert used(api, path) == {name: "3"}


def test_every_quota_must_have_room(api: Api, path: str) -> None:
    measure(api, path, {"configmaps": "1"}, "small")
    measure(api, path, {"count/configmaps": "9"}, "large")
    make(api, path, "a").ok()
    assert_forbidden(
        make(api, path, "b"),
        "exceeded quota: small, requested: configmaps=1, used: configmaps=1, limited: configmaps=1",
    )
    assert used(api, path, "large") == {"count/configmaps": "1"}, "what is refused by one is charged to none"


def race(servers: Sequence[Api], path: str, *, writers: int, each: int) -> list[int]:
    """The statuses of creates by writers that begin at the same time."""
    begin = threading.Barrier(writers)

    def write(writer: int) -> list[int]:
        with Api(servers[writer % len(servers)].server) as api:
            begin.wait(WITHIN_S)
            return [make(api, path, f"o{writer}-{n}").status for n in range(each)]

    with ThreadPoolExecutor(writers) as pool:
        return [status for statuses in pool.map(write, range(writers)) for status in statuses]


def test_concurrent_writers_do_not_exceed_a_quota(api: Api, path: str) -> None:
    measure(api, path, {"count/configmaps": "10"})
    statuses = race([api], path, writers=6, each=5)
    assert sorted(statuses) == [201] * 10 + [403] * 20
    assert used(api, path) == {"count/configmaps": "10"}


@pytest.mark.etcd
def test_concurrent_servers_do_not_exceed_a_quota(replicas: tuple[Api, Api]) -> None:
    """Neither may let through what the other one has counted."""
    path = f"{NAMESPACES}/default"
    measure(replicas[0], path, {"count/configmaps": "10"})
    seen(replicas[1], f"{path}/resourcequotas")
    statuses = race(replicas, path, writers=6, each=5)
    assert statuses.count(201) == 10, statuses
    assert used(replicas[1], path) == {"count/configmaps": "10"}


# ---- storage, networks, nodes


def claim(name: str = "c", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    whole = {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}
    return {"metadata": {"name": name}, "spec": whole}


def test_default_storage_classes(api: Api, path: str, namespace: str) -> None:
    """The newest of the default classes, for claims that do not say; those in use are not removed."""
    default = {
        "metadata": {
            "name": namespace,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "example.com/p",
    }
    api.post(STORAGE_CLASSES, default).ok()
    seen(api, STORAGE_CLASSES)
    try:
        made = api.post(f"{path}/persistentvolumeclaims", claim()).ok()
        assert made["spec"]["storageClassName"] == namespace
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        none = api.post(f"{path}/persistentvolumeclaims", claim("none", storageClassName="")).ok()
        assert none["spec"]["storageClassName"] == ""
    finally:
        api.delete(f"{STORAGE_CLASSES}/{namespace}").ok()
        seen(api, STORAGE_CLASSES)


def test_claims_grow_where_they_may(api: Api, path: str, namespace: str) -> None:
    storage = {"metadata": {"name": namespace}, "provisioner": "example.com/p", "allowVolumeExpansion": False}
    api.post(STORAGE_CLASSES, storage).ok()
    claims = f"{path}/persistentvolumeclaims"
    api.post(claims, claim(storageClassName=namespace, volumeName="v")).ok()
    api.patch(f"{claims}/c/status", {"status": {"phase": "Bound"}}).ok()
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert_forbidden(
        api.patch(f"{claims}/c", larger),
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
        "support resize",
    )
    api.patch(f"{STORAGE_CLASSES}/{namespace}", {"allowVolumeExpansion": True}).ok()
    seen(api, STORAGE_CLASSES)
    assert api.patch(f"{claims}/c", larger).ok()["spec"]["resources"]["requests"] == {"storage": "2Gi"}


def test_the_default_class_of_ingresses(api: Api, path: str, namespace: str) -> None:
    default = {
        "metadata": {
            "name": namespace,
            "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
        },
        "spec": {"controller": "example.com/c"},
    }
    api.post(INGRESS_CLASSES, default).ok()
    seen(api, INGRESS_CLASSES)
    ingresses = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"
    spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    try:
        made = api.post(ingresses, {"metadata": {"name": "a"}, "spec": spec}).ok()
        assert made["spec"]["ingressClassName"] == namespace
        old = {"name": "b", "annotations": {"kubernetes.io/ingress.class": "own"}}
        made = api.post(ingresses, {"metadata": old, "spec": spec}).ok()
        assert "ingressClassName" not in made["spec"]
    finally:
        api.delete(f"{INGRESS_CLASSES}/{namespace}").ok()
        seen(api, INGRESS_CLASSES)


def test_new_nodes_are_not_ready(api: Api, namespace: str) -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    for name, taints in ((f"{namespace}-a", []), (f"{namespace}-b", [taint])):
        made = api.post("/api/v1/nodes", {"metadata": {"name": name}, "spec": {"taints": taints}}).ok()
        assert made["spec"]["taints"] == [taint]
        made["spec"]["taints"] = []
        assert "taints" not in api.put(f"/api/v1/nodes/{name}", made).ok()["spec"]


# ---- certificates


def test_certificates_for_system_masters_are_refused(api: Api, namespace: str) -> None:
    def request(name: str, organization: str) -> dict[str, Any]:
        subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)])
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
        return {
            "metadata": {"name": f"{namespace}-{name}"},
            "spec": {
                "request": base64.b64encode(signed.public_bytes(Encoding.PEM)).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth"],
            },
        }

    api.post(REQUESTS, request("dev", "dev")).ok()
    assert_forbidden(
        api.post(REQUESTS, request("master", "system:masters")),
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
    )


# ---- switched off


def test_plugins_that_are_off(tmp_path: Path) -> None:
    flag = "--disable-admission-plugins=ServiceAccount,DefaultTolerationSeconds"
    with ServerProcess(tmp_path, flag) as server, Api(server) as api:
        made = api.post(f"{NAMESPACES}/default/pods", pod(serviceAccountName="none")).ok()["spec"]
        assert "tolerations" not in made
