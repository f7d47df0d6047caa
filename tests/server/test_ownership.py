"""Nobody owns what the server adds to an object: owners are told of what a client has sent. Rows B11, F16.

Source: k8s.io/apiserver, pkg/endpoints/handlers/{create,update,patch}.go: the field manager comes before
mutating admission, the strategies and the allocators.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from apiserver.registry.patch.apply.field_set import paths
from tests.support.api import MERGE_PATCH, Api
from tests.support.kubectl import Kubectl, each_version, program
from tests.support.server_process import ServerProcess

STORAGE_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
ACCOUNT_TOKEN: Final = "kube-api-access-"


class Kind(NamedTuple):
    """path: below the namespace's. owned, unowned: some paths that a creator owns, and that nobody owns."""

    path: str
    document: dict[str, Any]
    owned: set[str]
    unowned: set[str]


def of(api_version: str, kind: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **parts}


CONTAINER: Final = {"name": "c", "image": "i"}
TEMPLATE: Final = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [CONTAINER]}}
ONCE: Final = {**TEMPLATE, "spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
KINDS: Final = {
    "Pod": Kind(
        "/pods",
        of("v1", "Pod", spec={"containers": [CONTAINER]}),
        {'.spec.containers[name="c"].image', ".spec.dnsPolicy", ".spec.restartPolicy"},
        {
            ".spec.volumes",
            '.spec.containers[name="c"].volumeMounts',
            ".spec.tolerations",
            ".spec.serviceAccountName",
            ".spec.serviceAccount",
            ".spec.priority",
            ".spec.preemptionPolicy",
            ".status",
        },
    ),
    "Service": Kind(
        "/services",
        of("v1", "Service", spec={"type": "NodePort", "ports": [{"port": 80}]}),
        {
            ".spec.type",
            ".spec.sessionAffinity",
            '.spec.ports[port=80,protocol="TCP"].targetPort',
            ".spec.internalTrafficPolicy",
        },
        {
            ".spec.clusterIP",
            ".spec.clusterIPs",
            ".spec.ipFamilies",
            ".spec.ipFamilyPolicy",
            '.spec.ports[port=80,protocol="TCP"].nodePort',
        },
    ),
    "Job": Kind(
        "/jobs",
        of("batch/v1", "Job", spec={"template": ONCE}),
        {".spec.backoffLimit", ".spec.template.metadata.labels.app", ".metadata.labels.app"},
        {
            ".spec.selector",
            ".spec.template.metadata.labels.controller-uid",
            ".spec.template.metadata.labels.job-name",
            ".metadata.labels.controller-uid",
        },
    ),
    "Deployment": Kind(
        "/deployments",
        of("apps/v1", "Deployment", spec={"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}),
        {".spec.replicas", ".spec.strategy.type"},
        {".status"},
    ),
    "DaemonSet": Kind(
        "/daemonsets",
        of("apps/v1", "DaemonSet", spec={"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}),
        {".metadata.annotations.deprecated.daemonset.template.generation", ".spec.updateStrategy.type"},
        {".status"},
    ),
    "PersistentVolumeClaim": Kind(
        "/persistentvolumeclaims",
        of(
            "v1",
            "PersistentVolumeClaim",
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        ),
        {".spec.accessModes", ".spec.volumeMode"},
        {".spec.storageClassName", ".metadata.finalizers", ".status"},
    ),
    "Secret": Kind(
        "/secrets", of("v1", "Secret", stringData={"k": "v"}), {".type", ".data.k"}, {".stringData"}
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with all of kube-apiserver's own admission plugins, and a default storage class."""
    data_dir = tmp_path_factory.mktemp("ownership") / "data"
    with ServerProcess(data_dir, "--disable-admission-plugins=") as server, Api(server) as api:
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        body = {"metadata": {"name": "fast", "annotations": default}, "provisioner": "a.example/b"}
        api.post(STORAGE_CLASSES, body).ok()
        yield server


@pytest.fixture
def core(api: Api, namespace: str) -> str:
    """The path of a namespace in the core group. It has the service account `default`."""
    path = f"/api/v1/namespaces/{namespace}"
    api.post(f"{path}/serviceaccounts", {"metadata": {"name": "default"}}).ok()
    # Plugins look into the server's cache.
    api.get(f"{path}/serviceaccounts").ok()
    api.get(STORAGE_CLASSES).ok()
    return path


def collection(core: str, kind: Kind) -> str:
    group_version = kind.document["apiVersion"]
    root = core if group_version == "v1" else core.replace("/api/v1", f"/apis/{group_version}")
    return f"{root}{kind.path}"


def owned(document: dict[str, Any], manager: str = "") -> set[str]:
    """All paths that a manager owns; without one, that anybody owns."""
    entries = document["metadata"].get("managedFields", [])
    return {
        path for entry in entries if manager in ("", entry["manager"]) for path in paths(entry["fieldsV1"])
    }


def is_set(document: dict[str, Any], path: str) -> bool:
    """Only for paths without dots in their names."""
    value: Any = document
    for step in path.replace('[port=80,protocol="TCP"]', "").replace('[name="c"]', "").split(".")[1:]:
        value = value[0] if isinstance(value, list) else value
        if step not in value:
            return False
        value = value[step]
    return True


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_creator_owns_what_it_has_sent_and_defaults_but_nothing_that_the_server_adds(
    api: Api, core: str, kind: Kind
) -> None:
    made = api.post(f"{collection(core, kind)}?fieldManager=m", kind.document).ok()
    paths_owned = owned(made)
    assert kind.owned <= paths_owned
    beginnings = tuple(path + end for path in kind.unowned for end in ".[")
    assert not {path for path in paths_owned if path in kind.unowned or path.startswith(beginnings)}
    added = {path for path in kind.unowned if path != ".stringData"}
    assert {path for path in added if is_set(made, path)} == added, "the server has added them"


REPLACEABLE: Final = ("Service", "Deployment", "DaemonSet", "Secret")


@pytest.mark.parametrize("kind", [KINDS[name] for name in REPLACEABLE], ids=REPLACEABLE)
def test_a_replacement_without_what_the_server_added_takes_nothing_over(
    api: Api, core: str, kind: Kind
) -> None:
    path = collection(core, kind)
    made = api.post(f"{path}?fieldManager=m", kind.document).ok()
    replaced = api.put(f"{path}/x?fieldManager=n", kind.document).ok()
    assert owned(replaced, "n") <= owned(made, "m")
    again = api.put(f"{path}/x?fieldManager=n", kind.document).ok()
    assert again == replaced, "nothing changes the second time"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_apply_of_the_same_after_a_create_is_no_conflict_and_removes_nothing(
    api: Api, core: str, kind: Kind
) -> None:
    path = collection(core, kind)
    made = api.post(f"{path}?fieldManager=m", kind.document).ok()
    applied = api.apply(f"{path}/x?fieldManager=n", kind.document).ok()
    for part in ("spec", "data"):
        assert applied.get(part) == made.get(part)


def test_a_namespace_is_owned_but_for_its_finalizer(api: Api) -> None:
    made = api.post("/api/v1/namespaces?fieldManager=m", {"metadata": {"name": "owned"}}).ok()
    assert owned(made) == {".metadata.labels", ".metadata.labels.kubernetes.io/metadata.name"}


def test_a_creator_takes_over_what_it_has_sent_from_owners_that_it_names(api: Api, core: str) -> None:
    """Others keep what is not there. Source: decodeLiveOrNew, in k8s.io/apimachinery."""
    other = {"manager": "o", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    config_map = of("v1", "ConfigMap", data={"k": "v"})
    config_map["metadata"]["managedFields"] = [{**other, "fieldsV1": {"f:data": {"f:k": {}, "f:absent": {}}}}]
    made = api.post(f"{core}/configmaps?fieldManager=m", config_map).ok()
    assert owned(made, "m") == {".data", ".data.k"}
    assert owned(made, "o") == {".data.absent"}


# ---- updates


def test_what_a_strategy_puts_back_is_no_change_the_second_time(api: Api, core: str) -> None:
    """Its owner is who sent it last, in kube-apiserver, too; but times alone are no reason to write."""
    body: dict[str, Any] = {"metadata": {"name": "put-back"}}
    path = "/api/v1/namespaces/put-back"
    api.post("/api/v1/namespaces?fieldManager=m", body).ok()
    body["spec"] = {"finalizers": ["a.example/b"]}
    first = api.put(f"{path}?fieldManager=n", body).ok()
    assert first["spec"] == {"finalizers": ["kubernetes"]}
    assert owned(first, "n") == {".spec.finalizers"}
    assert api.put(f"{path}?fieldManager=n", body).ok() == first


def test_a_status_is_not_written_through_the_object_nor_the_object_through_its_status(
    api: Api, core: str
) -> None:
    path = f"{collection(core, KINDS['Deployment'])}/x"
    document = KINDS["Deployment"].document
    made = api.post(f"{path.removesuffix('/x')}?fieldManager=m", document).ok()
    both = {**document, "spec": {**document["spec"], "replicas": 5}, "status": {"replicas": 3}}
    both["metadata"] = {"name": "x", "labels": {"a": "1"}, "annotations": {"b": "2"}}
    through_status = api.put(f"{path}/status?fieldManager=s", both).ok()
    assert owned(through_status, "s") == {
        ".status.replicas",
        ".metadata.annotations",
        ".metadata.annotations.b",
    }
    assert owned(through_status, "m") == owned(made, "m")
    assert through_status["spec"] == made["spec"]
    assert "labels" not in through_status["metadata"]
    through_object = api.put(f"{path}?fieldManager=o", both).ok()
    assert owned(through_object, "o") == {".metadata.labels", ".metadata.labels.a", ".spec.replicas"}


def test_a_resize_owns_all_that_was_sent(api: Api, core: str) -> None:
    """As it was recorded, although it changes nothing but resources (lifecycle/resize)."""
    path = f"{core}/pods/x"
    api.post(f"{core}/pods?fieldManager=m", KINDS["Pod"].document).ok()
    pod = api.get(path).ok()
    pod["metadata"]["labels"] = {"a": "1"}
    resized = api.put(f"{path}/resize?fieldManager=r", pod).ok()
    assert "labels" not in resized["metadata"]
    assert owned(resized, "r") == {".metadata.labels", ".metadata.labels.a"}


def test_a_scale_owns_the_replicas_and_nothing_else(api: Api, core: str) -> None:
    path = f"{collection(core, KINDS['Deployment'])}/x"
    api.post(f"{path.removesuffix('/x')}?fieldManager=m", KINDS["Deployment"].document).ok()
    api.put(f"{path}/scale?fieldManager=s", {"metadata": {"name": "x"}, "spec": {"replicas": 2}}).ok()
    assert owned(api.get(path).ok(), "s") == {".spec.replicas"}
    api.patch(path, {"metadata": {"managedFields": [{}]}}, MERGE_PATCH).ok()
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "x"},
        "spec": {"replicas": 3},
    }
    refused = api.apply(f"{path}/scale?fieldManager=a", scale)
    assert refused.message.endswith(".spec.replicas"), refused.body
    api.apply(f"{path}/scale?fieldManager=a&force=true", scale).ok()
    assert owned(api.get(path).ok()) == {".spec.replicas"}


# ---- an apply that creates


def test_an_apply_with_a_version_creates_an_absent_object(api: Api, core: str) -> None:
    """There is nothing that could have another version. Source: registry/generic/registry/store.go."""
    config_map = of("v1", "ConfigMap")
    config_map["metadata"] |= {"resourceVersion": "5"}
    made = api.apply(f"{core}/configmaps/x?fieldManager=m", config_map)
    assert made.status == 201
    config_map["metadata"]["resourceVersion"] = "none"
    config_map["metadata"]["name"] = "y"
    assert api.apply(f"{core}/configmaps/y?fieldManager=m", config_map).status == 400
    service = KINDS["Service"].document | {"metadata": {"name": "y", "resourceVersion": "5"}}
    assert api.put(f"{core}/services/y", service).status == 201


def test_an_apply_with_a_uid_creates_nothing(api: Api, core: str) -> None:
    config_map = of("v1", "ConfigMap")
    config_map["metadata"] |= {"uid": "u"}
    refused = api.apply(f"{core}/configmaps/x?fieldManager=m", config_map)
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert api.get(f"{core}/configmaps/x").status == 404


# ---- kubectl


@pytest.fixture(params=each_version(-1))
def kubectl(request: pytest.FixtureRequest, server: ServerProcess, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(program(request.param), server.kubeconfig, namespace, tmp_path)


FIRST: Final = {
    "create": ["create"],
    "client-side apply": ["apply"],
    "client-side apply of another manager": ["apply", "--field-manager=cli"],
}
THEN: Final = {
    "kubectl": ["apply", "--server-side"],
    "another manager": ["apply", "--server-side", "--field-manager=other"],
}


@pytest.mark.kubectl
@pytest.mark.parametrize("then", THEN.values(), ids=THEN)
@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST)
def test_kubectl_goes_over_to_server_side_apply(
    api: Api, core: str, kubectl: Kubectl, first: list[str], then: list[str]
) -> None:
    kinds = [kind for name, kind in KINDS.items() if name != "Secret"]
    own_namespace = of("v1", "Namespace")
    own_namespace["metadata"] = {"name": f"{core.rpartition('/')[2]}-more"}
    documents = [*(kind.document for kind in kinds), own_namespace]
    manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    kubectl(*first, "-f", "-", stdin=manifests)
    before = [api.get(f"{collection(core, kind)}/x").ok() for kind in kinds]
    for _ in range(2):
        kubectl(*then, "-f", "-", stdin=manifests)
    for kind, old in zip(kinds, before, strict=True):
        new = api.get(f"{collection(core, kind)}/x").ok()
        assert new["spec"] == old["spec"]
        managers = {(e["manager"], e["operation"]) for e in new["metadata"]["managedFields"]}
        assert (("other" if len(then) > 2 else "kubectl"), "Apply") in managers
    (volume,) = api.get(f"{core}/pods/x").ok()["spec"]["volumes"]
    assert volume["name"].startswith(ACCOUNT_TOKEN)


@pytest.mark.kubectl
def test_kubectl_takes_over_what_client_side_apply_owned(api: Api, core: str, kubectl: Kubectl) -> None:
    """A field that is left out after the move goes: the former owner's entry has been taken over."""
    service: dict[str, Any] = KINDS["Service"].document | {"metadata": {"name": "x", "labels": {"a": "1"}}}
    kubectl("apply", "-f", "-", stdin=json.dumps(service))
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(service | {"metadata": {"name": "x"}}))
    found = api.get(f"{core}/services/x").ok()
    assert "labels" not in found["metadata"]
    assert {(e["manager"], e["operation"]) for e in found["metadata"]["managedFields"]} == {
        ("kubectl", "Apply"),
        ("kubectl-last-applied", "Apply"),
    }
