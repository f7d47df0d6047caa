"""The lifecycle of namespaces: their label, their content, and their deletion. Rows A12, A13, A16, I16."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api
from tests.support.eventually import WITHIN_S

NAMESPACES: Final = "/api/v1/namespaces"
SYSTEM: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
LABEL: Final = "kubernetes.io/metadata.name"
HELD: Final = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}


def await_gone(api: Api, name: str, start: str) -> None:
    """Wait until the namespace is deleted. start: a resourceVersion at which it existed."""
    path = f"{NAMESPACES}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={start}"
    with api.watch(path) as events:
        assert any(event["type"] == "DELETED" for event in events)
    assert api.get(f"{NAMESPACES}/{name}").status == 404


def assert_terminating_refusal(answer: Answer, namespace: str, resource: str) -> None:
    """Row A13."""
    assert (answer.status, answer.reason) == (403, "Forbidden"), answer.body
    assert (
        f"unable to create new content in namespace {namespace} because it is being terminated"
        in answer.message
    )
    assert answer.message.startswith(f"{resource} ")
    assert answer.causes == [("NamespaceTerminating", "metadata.namespace")]


@pytest.fixture
def held(api: Api, namespace: str) -> dict[str, Any]:
    """A terminating namespace that a finalizer keeps, as the delete returned it."""
    api.post(f"{NAMESPACES}/{namespace}/configmaps", HELD).ok()
    document: dict[str, Any] = api.delete(f"{NAMESPACES}/{namespace}").ok()
    return document


def release(api: Api, namespace: str) -> None:
    path = f"{NAMESPACES}/{namespace}/configmaps/held"
    api.patch(path, {"metadata": {"finalizers": None}}).ok()


# ---- those that are always there


def test_the_first_namespaces(api: Api) -> None:
    found = {each["metadata"]["name"]: each for each in api.get(NAMESPACES).ok()["items"]}
    for name in SYSTEM:
        assert found[name]["status"] == {"phase": "Active"}
        assert found[name]["spec"] == {"finalizers": ["kubernetes"]}
        assert found[name]["metadata"]["labels"][LABEL] == name


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_protected_namespaces_cannot_be_deleted(api: Api, name: str) -> None:
    """Source: the NamespaceLifecycle admission plugin."""
    for query in ("", "?gracePeriodSeconds=0", "?propagationPolicy=Orphan"):
        answer = api.delete(f"{NAMESPACES}/{name}{query}")
        assert (answer.status, answer.reason) == (403, "Forbidden")
        assert answer.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    found = api.get(f"{NAMESPACES}/{name}").ok()
    assert "deletionTimestamp" not in found["metadata"]
    assert api.delete(NAMESPACES).status == 405


# ---- birth


def test_a_new_namespace(api: Api, namespace: str) -> None:
    """Row I16."""
    found = api.get(f"{NAMESPACES}/{namespace}").ok()
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["status"] == {"phase": "Active"}
    assert found["metadata"]["labels"] == {LABEL: namespace}
    assert "namespace" not in found["metadata"]


def test_the_name_label_cannot_be_changed(api: Api, namespace: str) -> None:
    """It can neither be set to something else nor be taken away."""
    path = f"{NAMESPACES}/{namespace}"
    for labels in ({LABEL: "other", "a": "b"}, {LABEL: None}, None):
        found = api.patch(path, {"metadata": {"labels": labels}}).ok()
        assert found["metadata"]["labels"][LABEL] == namespace
    selected = api.get(f"{NAMESPACES}?labelSelector={LABEL}%3D{namespace}").ok()["items"]
    assert [each["metadata"]["name"] for each in selected] == [namespace]
    made = api.post(NAMESPACES, {"metadata": {"generateName": "generated-"}}).ok()["metadata"]
    assert made["labels"] == {LABEL: made["name"]}
    lies = {"metadata": {"name": f"{namespace}-lies", "labels": {LABEL: "default"}}}
    assert api.post(NAMESPACES, lies).ok()["metadata"]["labels"][LABEL] == f"{namespace}-lies"


@pytest.mark.parametrize("name", ["A", "a.b", "a_b", "-a", "a" * 64])
def test_names_are_labels_of_dns(api: Api, name: str) -> None:
    """Row A15."""
    answer = api.post(NAMESPACES, {"metadata": {"name": name}})
    assert (answer.status, answer.causes[0][1]) == (422, "metadata.name")


def test_the_spec_is_not_for_clients_to_change(api: Api, namespace: str) -> None:
    """The finalizers of a namespace are written at `finalize`."""
    changed = api.patch(
        f"{NAMESPACES}/{namespace}", {"spec": {"finalizers": []}, "status": {"phase": "Odd"}}
    ).ok()
    assert changed["spec"] == {"finalizers": ["kubernetes"]}
    assert changed["status"] == {"phase": "Active"}


def test_nothing_is_created_where_there_is_no_namespace(api: Api) -> None:
    """Row A16, for writes of every sort; reading finds nothing."""
    nowhere = f"{NAMESPACES}/nowhere"
    for path in ("configmaps", "pods", "secrets"):
        answer = api.post(f"{nowhere}/{path}", {"metadata": {"name": "a"}, "spec": {"containers": []}})
        assert (answer.status, answer.message) == (404, 'namespaces "nowhere" not found')
    assert api.put(f"{nowhere}/endpoints/a", {"metadata": {"name": "a"}}).status == 404
    assert api.post(f"{nowhere}/configmaps?dryRun=All", {"metadata": {"name": "a"}}).status == 404
    assert api.get(f"{nowhere}/configmaps").ok()["items"] == []
    assert api.delete(f"{nowhere}/configmaps").ok()["items"] == []


def test_a_namespace_can_be_used_at_once(api: Api, namespace: str) -> None:
    """Also where a cache has not heard of it yet."""
    for n in range(30):
        name = f"{namespace}-{n}"
        api.post(NAMESPACES, {"metadata": {"name": name}}).ok()
        api.post(f"{NAMESPACES}/{name}/configmaps", {"metadata": {"name": "a"}}).ok()


# ---- end


def test_a_deletion_empties_the_namespace(api: Api, namespace: str) -> None:
    """Row A12: objects of every type go, then it; nothing of a neighbour goes."""
    neighbour = f"{namespace}x"
    api.post(NAMESPACES, {"metadata": {"name": neighbour}}).ok()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    objects: dict[str, dict[str, dict[str, Any]]] = {
        "api/v1": {"configmaps": {}, "secrets": {}, "pods": {"spec": spec}, "serviceaccounts": {}},
        "apis/coordination.k8s.io/v1": {"leases": {}},
    }
    paths = []
    for where in (namespace, neighbour):
        for root, types in objects.items():
            for resource, fields in types.items():
                path = f"/{root}/namespaces/{where}/{resource}"
                for n in range(3):
                    api.post(path, {"metadata": {"name": f"o{n}"}, **fields}).ok()
                paths.append(path)
    answer = api.delete(f"{NAMESPACES}/{namespace}")
    deleted = answer.ok()
    assert (answer.status, deleted["kind"], deleted["status"]) == (200, "Namespace", {"phase": "Terminating"})
    assert deleted["spec"] == {"finalizers": ["kubernetes"]}
    assert deleted["metadata"]["deletionTimestamp"]
    await_gone(api, namespace, deleted["metadata"]["resourceVersion"])
    left = {path: len(api.get(path).ok()["items"]) for path in paths}
    assert left == {path: 3 if f"/{neighbour}/" in path else 0 for path in paths}


def test_the_name_can_be_used_again(api: Api, namespace: str) -> None:
    """Row A10: what is made there then is not taken along."""
    first = api.get(f"{NAMESPACES}/{namespace}").ok()["metadata"]
    api.delete(f"{NAMESPACES}/{namespace}").ok()
    await_gone(api, namespace, first["resourceVersion"])
    second = api.post(NAMESPACES, {"metadata": {"name": namespace}}).ok()
    assert second["metadata"]["uid"] != first["uid"]
    api.post(f"{NAMESPACES}/{namespace}/configmaps", {"metadata": {"name": "a"}}).ok()
    assert api.get(f"{NAMESPACES}/{namespace}").ok()["status"] == {"phase": "Active"}


def test_nothing_is_created_in_a_terminating_namespace(
    api: Api, namespace: str, held: dict[str, Any]
) -> None:
    """Row A13: neither by POST nor by a PUT that would create; what is there can be written and deleted."""
    path = f"{NAMESPACES}/{namespace}"
    new = {"metadata": {"name": "new"}}
    assert_terminating_refusal(api.post(f"{path}/configmaps", new), namespace, "configmaps")
    assert_terminating_refusal(api.post(f"{path}/configmaps?dryRun=All", new), namespace, "configmaps")
    assert_terminating_refusal(api.put(f"{path}/endpoints/new", new), namespace, "endpoints")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    assert_terminating_refusal(api.post(leases, new), namespace, "leases.coordination.k8s.io")
    assert api.patch(f"{path}/configmaps/held", {"data": {"k": "v"}}).ok()["data"] == {"k": "v"}
    again = api.post(NAMESPACES, {"metadata": {"name": namespace}})
    assert (again.status, again.reason) == (409, "AlreadyExists")


def test_a_namespace_waits_for_objects_with_finalizers(
    api: Api, namespace: str, held: dict[str, Any]
) -> None:
    """Rows A12, G02."""
    start = held["metadata"]["resourceVersion"]
    path = f"{NAMESPACES}/{namespace}/configmaps"
    with api.watch(f"{path}?watch=1") as events:
        assert any("deletionTimestamp" in event["object"]["metadata"] for event in events)
    again = api.delete(f"{NAMESPACES}/{namespace}").ok()
    assert again["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]
    assert api.get(f"{NAMESPACES}/{namespace}").ok()["status"]["phase"] == "Terminating"
    release(api, namespace)
    await_gone(api, namespace, start)


def condition(document: dict[str, Any], kind: str) -> tuple[str, str, str]:
    (found,) = [each for each in document["status"].get("conditions", ()) if each["type"] == kind]
    return found["status"], found["reason"], found["message"]


# Source: kubernetes, pkg/controller/namespace/deletion, status_condition_utils.go.
HELD_CONDITIONS: Final = {
    "NamespaceDeletionDiscoveryFailure": (
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 1 resource instances",
    ),
    "NamespaceFinalizersRemaining": (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    ),
}
EMPTY_CONDITIONS: Final = {
    **HELD_CONDITIONS,
    "NamespaceContentRemaining": ("False", "ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("False", "ContentRemoved", "All content successfully removed"),
}


def test_a12_a_terminating_namespace_tells_what_keeps_it(
    api: Api, namespace: str, held: dict[str, Any]
) -> None:
    start = held["metadata"]["resourceVersion"]
    path = f"{NAMESPACES}?watch=1&fieldSelector=metadata.name%3D{namespace}&resourceVersion={start}"
    with api.watch(path) as events:
        waiting = next(each["object"] for each in events if each["object"]["status"].get("conditions"))
        assert {kind: condition(waiting, kind) for kind in HELD_CONDITIONS} == HELD_CONDITIONS
        release(api, namespace)
        emptied = next(
            each["object"]
            for each in events
            if condition(each["object"], "NamespaceContentRemaining")[0] == "False"
        )
    assert {kind: condition(emptied, kind) for kind in EMPTY_CONDITIONS} == EMPTY_CONDITIONS
    assert [each["type"] for each in emptied["status"]["conditions"]] == [*EMPTY_CONDITIONS]


def test_a12_pods_go_before_what_they_may_need(api: Api, namespace: str) -> None:
    """Source: KEP-5080, ordered namespace deletion."""
    path = f"{NAMESPACES}/{namespace}"
    api.post(f"{path}/secrets", {"metadata": {"name": "needed"}}).ok()
    meta = {"name": "held", "finalizers": ["example.com/hold"]}
    containers = [{"name": "c", "image": "i"}]
    api.post(f"{path}/pods", {"metadata": meta, "spec": {"containers": containers}}).ok()
    start = api.delete(path).ok()["metadata"]["resourceVersion"]
    watch = f"{NAMESPACES}?watch=1&fieldSelector=metadata.name%3D{namespace}&resourceVersion={start}"
    with api.watch(watch) as events:
        waiting = next(each["object"] for each in events if each["object"]["status"].get("conditions"))
    text = "Some resources are remaining: pods. has 1 resource instances"
    assert condition(waiting, "NamespaceContentRemaining") == ("True", "SomeResourcesRemain", text)
    assert "deletionTimestamp" in api.get(f"{path}/pods/held").ok()["metadata"]
    assert "deletionTimestamp" not in api.get(f"{path}/secrets/needed").ok()["metadata"]
    api.patch(f"{path}/pods/held", {"metadata": {"finalizers": None}}).ok()
    await_gone(api, namespace, start)
    assert api.get(f"{path}/secrets").ok()["items"] == []


def test_finalizers_of_its_metadata_keep_a_namespace(api: Api, namespace: str) -> None:
    """Row G02: metadata.finalizers of the namespace, beside those of its spec."""
    path = f"{NAMESPACES}/{namespace}"
    api.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}}).ok()
    start = api.delete(path).ok()["metadata"]["resourceVersion"]
    with api.watch(f"{NAMESPACES}?watch=1&fieldSelector=metadata.name%3D{namespace}") as events:
        finalized = next(e["object"] for e in events if not e["object"].get("spec", {}).get("finalizers"))
    assert finalized["status"]["phase"] == "Terminating"
    api.patch(path, {"metadata": {"finalizers": None}}).ok()
    await_gone(api, namespace, start)


def test_finalize(api: Api, namespace: str) -> None:
    """Row I12: the subresource that takes finalizers off; with the last one a terminating namespace goes."""
    path = f"{NAMESPACES}/{namespace}"
    document = api.get(path).ok()
    document["spec"]["finalizers"].append("example.com/mine")
    assert api.put(f"{path}/finalize", document).ok()["spec"]["finalizers"] == [
        "kubernetes",
        "example.com/mine",
    ]
    start = api.delete(path).ok()["metadata"]["resourceVersion"]
    with api.watch(f"{NAMESPACES}?watch=1&fieldSelector=metadata.name%3D{namespace}") as events:
        last = next(
            each["object"] for each in events if each["object"]["spec"]["finalizers"] == ["example.com/mine"]
        )
    last["spec"]["finalizers"] = []
    api.put(f"{path}/finalize", last).ok()
    await_gone(api, namespace, start)
    assert api.get(f"{NAMESPACES}/default/finalize").status == 405


def test_a_dry_run_of_a_deletion_changes_nothing(api: Api, namespace: str) -> None:
    """Row G10."""
    path = f"{NAMESPACES}/{namespace}"
    before = api.get(path).ok()
    api.delete(f"{path}?dryRun=All").ok()
    assert api.get(path).ok() == before
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        assert api.delete(path, {"preconditions": wrong}).status == 409
    assert api.get(path).ok() == before


def test_creations_race_with_a_deletion(api: Api, namespace: str) -> None:
    """Rows A12, A13: whatever was still created is taken along; no object is left without a namespace."""
    for attempt in range(15):
        name = f"{namespace}-{attempt}"
        start = api.post(NAMESPACES, {"metadata": {"name": name}}).ok()["metadata"]["resourceVersion"]
        codes: set[int] = set()
        began = threading.Barrier(5)

        def create(
            writer: int, name: str = name, codes: set[int] = codes, began: threading.Barrier = began
        ) -> None:
            caller = Api(api.server)
            began.wait(WITHIN_S)
            for n in itertools.count():
                path = f"{NAMESPACES}/{name}/configmaps"
                answer = caller.post(path, {"metadata": {"name": f"o{writer}-{n}"}})
                codes.add(answer.status)
                if answer.status != 201:
                    break
            caller.close()

        threads = [threading.Thread(target=create, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        began.wait(WITHIN_S)
        api.delete(f"{NAMESPACES}/{name}").ok()
        await_gone(api, name, start)
        for thread in threads:
            thread.join()
        assert codes <= {201, 403, 404}
        assert api.get(f"{NAMESPACES}/{name}/configmaps").ok()["items"] == []
