"""The server keeps the status of disruption budgets, by which evictions are allowed. Row I15.

https://kubernetes.io/docs/tasks/run-application/configure-pdb/
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import pytest

from tests.support.api import Api, until_status
from tests.support.definitions import DEFINITIONS, definition, new_group, version
from tests.support.eventually import until
from tests.support.fixtures import api_with
from tests.support.objects import template

_numbers: Final = itertools.count(1)
BUDGETS: Final = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


api = api_with("--controllers=disruption-controller")


@pytest.fixture
def namespace(api: Api) -> str:
    name = f"pdb-{next(_numbers)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    return name


def add_budget(api: Api, namespace: str, name: str = "b", **spec: Any) -> str:
    selector = {"matchLabels": {"app": "a"}}
    path = BUDGETS.format(namespace)
    api.post(path, {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}).ok()
    return f"{path}/{name}"


def add_pods(api: Api, namespace: str, *names: str, owner: dict[str, Any] | None = None) -> None:
    """Pods that are ready."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name in names:
        meta: dict[str, Any] = {"name": name, "labels": {"app": "a"}}
        if owner is not None:
            meta["ownerReferences"] = [reference(owner)]
        containers = [{"name": "c", "image": "i"}]
        api.post(path, {"metadata": meta, "spec": {"containers": containers}}).ok()
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        api.patch(f"{path}/{name}/status", {"status": ready}).ok()


def reference(owner: dict[str, Any]) -> dict[str, Any]:
    identity = {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True, **identity}


def counts(api: Api, budget: str) -> tuple[int, int, int, int]:
    """How many pods are expected, desired, healthy, and may be disrupted."""
    found = api.get(budget).ok()
    if found["status"].get("observedGeneration") != found["metadata"]["generation"]:
        return (0, 0, 0, 0)
    fields = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    expected, desired, healthy, allowed = (found["status"][each] for each in fields)
    return (expected, desired, healthy, allowed)


def await_counts(api: Api, budget: str, *expected: int) -> None:
    until(lambda: counts(api, budget), lambda found: found == expected, what=str(expected))


def await_event(api: Api, namespace: str, reason: str, text: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=reason%3D{reason}"
    found = until(lambda: api.get(path).ok()["items"], what=reason)
    assert text in found[0]["message"]
    assert found[0]["involvedObject"]["kind"] == "PodDisruptionBudget"


def workload(api: Api, namespace: str, kind: str, **more: Any) -> dict[str, Any]:
    """An owner of pods that wants four."""
    plural = f"{kind.lower()}s"
    prefix = "/api/v1" if kind == "ReplicationController" else "/apis/apps/v1"
    labels = {"app": "a"}
    selector = labels if kind == "ReplicationController" else {"matchLabels": labels}
    spec = {"replicas": 4, "selector": selector, "template": template()}
    meta = {"name": f"{kind.lower()}-{next(_numbers)}", **more}
    made: dict[str, Any] = api.post(
        f"{prefix}/namespaces/{namespace}/{plural}", {"metadata": meta, "spec": spec}
    ).ok()
    return made


def test_a_budget_follows_its_pods(api: Api, namespace: str) -> None:
    budget = add_budget(api, namespace, minAvailable=2)
    await_counts(api, budget, 0, 2, 0, 0)
    await_event(api, namespace, "NoPods", "No matching pods found")
    add_pods(api, namespace, "a", "b", "c")
    await_counts(api, budget, 3, 2, 3, 1)
    condition = api.get(budget).ok()["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "True",
        "SufficientPods",
    )
    pods = f"/api/v1/namespaces/{namespace}/pods"
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    api.patch(f"{pods}/a/status", unready).ok()
    await_counts(api, budget, 3, 2, 2, 0)
    api.delete(f"{pods}/a?gracePeriodSeconds=0").ok()
    await_counts(api, budget, 2, 2, 2, 0)
    api.patch(budget, {"spec": {"minAvailable": 0}}).ok()
    await_counts(api, budget, 2, 0, 2, 2)


def test_evictions_use_up_the_budget_until_there_are_more_pods(api: Api, namespace: str) -> None:
    budget = add_budget(api, namespace, minAvailable=2)
    add_pods(api, namespace, "a", "b", "c")
    await_counts(api, budget, 3, 2, 3, 1)
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def evict(name: str) -> int:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        return api.post(f"{pods}/{name}/eviction", body).status

    api.patch(f"{pods}/a", {"metadata": {"finalizers": ["example.com/keep"]}}).ok()
    assert evict("a") == 201
    assert evict("b") == 429
    # It is still there, and does not count any more; nor is it waited for.
    await_counts(api, budget, 3, 2, 2, 0)
    assert evict("b") == 429
    until(
        lambda: api.get(budget).ok()["status"],
        lambda status: "disruptedPods" not in status,
        what="the evicted pod is seen to be on its way out",
    )
    add_pods(api, namespace, "d")
    await_counts(api, budget, 4, 2, 3, 1)
    assert evict("b") == 201


OWNERS: Final = ("ReplicaSet", "Deployment", "StatefulSet", "ReplicationController")


@pytest.mark.parametrize("kind", OWNERS)
def test_as_many_pods_are_expected_as_their_owners_want(api: Api, namespace: str, kind: str) -> None:
    owner = scaled = workload(api, namespace, kind)
    if kind == "Deployment":
        owner = workload(api, namespace, "ReplicaSet", ownerReferences=[reference(scaled)])
        previous = workload(api, namespace, "ReplicaSet", ownerReferences=[reference(scaled)])
        add_pods(api, namespace, "old", owner=previous)
        api.delete(f"/api/v1/namespaces/{namespace}/pods/old?gracePeriodSeconds=0").ok()
    budget = add_budget(api, namespace, maxUnavailable="25%")
    add_pods(api, namespace, "a", "b", owner=owner)
    await_counts(api, budget, 4, 3, 2, 0)
    group = "api/v1" if kind == "ReplicationController" else "apis/apps/v1"
    name = scaled["metadata"]["name"]
    path = f"/{group}/namespaces/{namespace}/{kind.lower()}s/{name}/scale"
    api.patch(path, {"spec": {"replicas": 2}}).ok()
    await_counts(api, budget, 2, 1, 2, 1)


def test_the_scale_of_custom_resources_counts(api: Api, namespace: str) -> None:
    replicas = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": replicas, "status": replicas}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    group = new_group()
    api.post(DEFINITIONS, definition(group, version(schema=schema, subresources={"scale": scale}))).ok()
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    until_status(200, lambda: api.get(path), "they are served")
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "g"}}
    owner = api.post(path, {**widget, "spec": {"replicas": 3}}).ok()
    budget = add_budget(api, namespace, maxUnavailable=1)
    add_pods(api, namespace, "a", owner=owner)
    await_counts(api, budget, 3, 2, 1, 0)


def test_pods_without_an_owner_do_not_count_where_owners_decide(api: Api, namespace: str) -> None:
    budget = add_budget(api, namespace, maxUnavailable=1)
    add_pods(api, namespace, "alone")
    await_counts(api, budget, 0, 0, 1, 0)
    await_event(api, namespace, "UnmanagedPods", "minAvailable")


GONE: Final = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "gone", "uid": "u"}}
# The owner of the pod `a`, and why nobody knows how many pods there should be.
UNKNOWN: Final = {
    "an owner that does not exist": (GONE, 'found no controllers for pod "a"'),
    "an owner without a scale": (
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u"}},
        "jobs.batch does not implement the scale subresource",
    ),
    "an owner of an unknown kind": (
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "u"}},
        'no matches for kind "Thing" in version "example.com/v1"',
    ),
}


@pytest.mark.parametrize(("owner", "message"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_budget_that_cannot_be_judged_says_why(
    api: Api, namespace: str, owner: dict[str, Any], message: str
) -> None:
    if owner["kind"] == "Job":
        containers = [{"name": "c", "image": "i"}]
        job = {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
        owner = api.post(
            f"/apis/batch/v1/namespaces/{namespace}/jobs", {"metadata": {"name": "j"}, "spec": job}
        ).ok()
    add_pods(api, namespace, "a", owner=owner)
    budget = add_budget(api, namespace, minAvailable="50%")

    def condition() -> dict[str, Any]:
        conditions = api.get(budget).ok()["status"].get("conditions") or [{}]
        return dict(conditions[0])

    found = until(condition, lambda each: each.get("reason") == "SyncFailed", "it failed")
    assert (found["status"], found["message"]) == ("False", message)
    await_event(api, namespace, "CalculateExpectedPodCountFailed", message)
    # With a number there is no need to ask owners.
    api.patch(budget, {"spec": {"minAvailable": 1}}).ok()
    await_counts(api, budget, 1, 1, 1, 0)
