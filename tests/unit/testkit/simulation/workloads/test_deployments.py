"""Deployments and ReplicaSets: as many pods as are wanted, and rollouts within their bounds.

https://kubernetes.io/docs/concepts/workloads/controllers/deployment/
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from apiserver.testkit.simulation.workloads.deployments import revision_of
from apiserver.testkit.simulation.workloads.pods import is_ready, scaled
from apiserver.testkit.simulation.workloads.replica_sets import BURST_MAX
from tests.unit.testkit.simulation.workloads.cluster import Cluster, settled, template


def rolling(surge: int | str, unavailable: int | str) -> Document:
    return {
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
        }
    }


def images(cluster: Cluster) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in cluster.pods()]


def reason(owner: Document, kind: str = "Progressing") -> str:
    return str((find_condition(owner, kind) or {}).get("reason", ""))


def test_a_deployment_has_its_pods() -> None:
    cluster, web = settled(DEPLOYMENTS, "web", replicas=3)
    (replica_set,) = cluster.objects[REPLICA_SETS].values()
    assert len(cluster.pods()) == 3
    assert replica_set["metadata"]["ownerReferences"][0] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": web["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    code = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{code}"
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "a", "pod-template-hash": code}
    status = {key: value for key, value in web["status"].items() if key != "conditions"}
    assert status == {
        "observedGeneration": 1,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    assert (reason(web), reason(web, "Available")) == ("NewReplicaSetAvailable", "MinimumReplicasAvailable")
    assert (revision_of(web), revision_of(replica_set)) == (1, 1)


# The strategy, and the most and the fewest pods (ready ones) that there are while four are replaced.
ROLLOUTS: Final = {
    "one more": (rolling(1, 0), 5, 4),
    "one less": (rolling(0, 1), 4, 3),
    "by default": ({}, 5, 4),
    "all at once": (rolling("100%", 0), 8, 4),
    "neither": (rolling(0, 0), 4, 3),
    "anew": ({"strategy": {"type": "Recreate"}}, 4, 0),
}


@pytest.mark.parametrize(("spec", "most", "fewest"), ROLLOUTS.values(), ids=ROLLOUTS)
def test_rollouts(spec: Document, most: int, fewest: int) -> None:
    cluster, web = settled(DEPLOYMENTS, "web", replicas=4, **spec)
    cluster.change(web, template=template("i:2"))
    seen: list[tuple[int, int]] = []

    def look() -> None:
        alive = [pod for pod in cluster.pods() if "deletionTimestamp" not in pod["metadata"]]
        seen.append((len(alive), sum(map(is_ready, alive))))

    cluster.settle(look)
    assert images(cluster) == ["i:2"] * 4
    assert (max(all_ for all_, _ in seen), min(ready for _, ready in seen)) == (most, fewest)
    assert (revision_of(web), reason(web)) == (2, "NewReplicaSetAvailable")


@given(
    sizes=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    surge=st.sampled_from([0, 1, 3, "25%", "50%"]),
    unavailable=st.sampled_from([0, 1, 2, "25%", "100%"]),
    changes=st.lists(st.sampled_from(["i:1", "i:2", "i:3", "scale"]), max_size=4),
)
def test_a_rollout_keeps_its_bounds_and_ends(
    sizes: tuple[int, int], surge: int | str, unavailable: int | str, changes: list[str]
) -> None:
    cluster, web = settled(DEPLOYMENTS, "web", replicas=sizes[0], **rolling(surge, unavailable))
    size = sizes[0]
    for change in changes:
        is_scaled = change == "scale"
        if is_scaled:
            size = sizes[1]
            cluster.change(web, replicas=size)
        else:
            cluster.change(web, template=template(change))
        missing = scaled(unavailable, size, rounds_up=False)
        extra = scaled(surge, size, rounds_up=True)
        least = 0 if is_scaled else size - (missing or (0 if extra else 1))

        def look(least: int = least, most: int = max(sizes) + extra) -> None:
            alive = [pod for pod in cluster.pods() if "deletionTimestamp" not in pod["metadata"]]
            assert len(alive) <= most
            assert sum(map(is_ready, alive)) >= least

        cluster.settle(look)
        assert (len(cluster.pods()), web["status"].get("replicas", 0)) == (size, size)


def test_a_rollout_that_does_not_get_ready_stops_and_says_so() -> None:
    cluster, web = settled(
        DEPLOYMENTS,
        "web",
        run=lambda pod: ("Running", pod["spec"]["containers"][0]["image"] != "broken"),
        replicas=4,
        progressDeadlineSeconds=60,
        **rolling(1, 0),
    )
    cluster.update(web, template=template("broken"))
    assert sorted(images(cluster)) == ["broken", "i", "i", "i", "i"]
    assert reason(web) == "ReplicaSetUpdated"
    cluster.now += 61
    cluster.settle()
    assert (reason(web), reason(web, "Available")) == ("ProgressDeadlineExceeded", "MinimumReplicasAvailable")
    cluster.update(web, template=template("i"))
    assert (images(cluster), reason(web)) == (["i"] * 4, "NewReplicaSetAvailable")


def test_going_back_makes_the_old_revision_the_newest() -> None:
    cluster, web = settled(DEPLOYMENTS, "web", replicas=1)
    (first,) = cluster.objects[REPLICA_SETS].values()
    cluster.update(web, template=template("i:2"))
    cluster.update(web, template=template())
    annotations = first["metadata"]["annotations"]
    assert (revision_of(web), revision_of(first)) == (3, 3)
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert first["spec"]["replicas"] == 1
    assert len(cluster.objects[REPLICA_SETS]) == 2


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_old_replica_sets_are_kept_for_a_while(cluster: Cluster) -> None:
    web = cluster.add(DEPLOYMENTS, "web", replicas=1, revisionHistoryLimit=2)
    for number in range(5):
        cluster.update(web, template=template(f"i:{number}"))
    assert sorted(map(revision_of, cluster.objects[REPLICA_SETS].values())) == [3, 4, 5]


def test_a_paused_deployment_is_scaled_but_not_rolled_out() -> None:
    cluster, web = settled(DEPLOYMENTS, "web", replicas=2)
    cluster.update(web, template=template("i:2"), paused=True, replicas=3)
    assert (images(cluster), reason(web)) == (["i"] * 3, "DeploymentPaused")
    cluster.update(web, paused=False)
    assert (images(cluster), reason(web)) == (["i:2"] * 3, "NewReplicaSetAvailable")


def test_two_sizes_change_in_proportion() -> None:
    cluster, web = settled(
        DEPLOYMENTS,
        "web",
        run=lambda pod: ("Running", pod["spec"]["containers"][0]["image"] != "broken"),
        replicas=10,
        **rolling(3, 2),
    )
    cluster.update(web, template=template("broken"))
    assert (images(cluster).count("i"), images(cluster).count("broken")) == (8, 5)
    cluster.update(web, replicas=15)
    # As in the example of Kubernetes' documentation.
    assert (images(cluster).count("i"), images(cluster).count("broken")) == (11, 7)


def test_min_ready_seconds() -> None:
    cluster, web = settled(DEPLOYMENTS, "web", replicas=1, minReadySeconds=10)
    (replica_set,) = cluster.objects[REPLICA_SETS].values()
    assert (web["status"]["readyReplicas"], web["status"].get("availableReplicas", 0)) == (1, 0)
    assert cluster.plan(REPLICA_SETS, replica_set).again_s == pytest.approx(10)
    cluster.now += 10
    cluster.settle()
    assert web["status"]["availableReplicas"] == 1


def test_orphans_are_adopted_and_strangers_are_not(cluster: Cluster) -> None:
    orphan = {"name": "orphan", "namespace": "default", "labels": {"app": "a"}}
    cluster._create(PODS, {"metadata": orphan, "spec": template()["spec"]})
    owners = [{"uid": "other", "kind": "ReplicaSet", "name": "r", "controller": True}]
    others = {**orphan, "name": "others", "ownerReferences": owners}
    cluster._create(PODS, {"metadata": others, "spec": template()["spec"]})
    cluster.add(REPLICA_SETS, "r", replicas=2)
    cluster.settle()
    assert len(cluster.pods()) == 3
    assert cluster.objects[PODS]["orphan"]["metadata"]["ownerReferences"][0]["name"] == "r"
    assert cluster.objects[PODS]["others"]["metadata"]["ownerReferences"] == owners


def test_adopted_pods_are_enough_at_once(cluster: Cluster) -> None:
    orphan = {"name": "orphan", "namespace": "default", "labels": {"app": "a"}}
    cluster._create(PODS, {"metadata": orphan, "spec": template()["spec"]})
    replica_set = cluster.add(REPLICA_SETS, "r", replicas=1)
    plan = cluster.plan(REPLICA_SETS, replica_set)
    assert (len(plan.adoptions), plan.creates, plan.deletes) == (1, [], [])
    assert plan.status is not None
    assert plan.status["replicas"] == 1
    # What is planned is not done: who plans has only a copy of what is stored.
    assert "ownerReferences" not in cluster.objects[PODS]["orphan"]["metadata"]


def test_an_adopted_replica_set_is_scaled_at_once() -> None:
    cluster, web = settled(DEPLOYMENTS, "web", replicas=1)
    (replica_set,) = cluster.objects[REPLICA_SETS].values()
    del replica_set["metadata"]["ownerReferences"]
    cluster.change(web, replicas=3)
    plan = cluster.plan(DEPLOYMENTS, web)
    assert (len(plan.adoptions), plan.creates) == (1, [])
    cluster.settle()
    assert len(cluster.objects[REPLICA_SETS]) == 1
    assert (replica_set["spec"]["replicas"], "collisionCount" in web["status"]) == (3, False)


def test_a_pod_that_is_not_selected_any_more_is_released_and_replaced() -> None:
    cluster, _ = settled(REPLICA_SETS, "r", replicas=1)
    (pod,) = cluster.pods()
    pod["metadata"]["labels"]["app"] = "debugged"
    cluster.settle()
    assert len(cluster.pods()) == 2
    assert pod["metadata"]["ownerReferences"] == []


def pod(name: str, **changes: Any) -> Document:
    meta = {
        "name": name,
        "namespace": "default",
        "labels": {"app": "a"},
        "creationTimestamp": "2020-01-01T00:00:00Z",
    }
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {**template()["spec"], "nodeName": "n"}
    found: Document = {"metadata": meta, "spec": spec, "status": status}
    for key, value in changes.items():
        found[key] = {**found[key], **value}
    return found


COST: Final = "controller.kubernetes.io/pod-deletion-cost"
# Two pods: the one that goes first, and the other.
DELETED_FIRST: Final = {
    "not bound": (pod("z", spec={"nodeName": ""}), pod("a")),
    "pending": (pod("z", status={"phase": "Pending"}), pod("a")),
    "not ready": (pod("z", status={"conditions": []}), pod("a")),
    "cheap": (pod("z", metadata={"annotations": {COST: "-5"}}), pod("a")),
    "no number": (
        pod("a", metadata={"annotations": {COST: "x"}}),
        pod("z", metadata={"annotations": {COST: "1"}}),
    ),
    "a number that no server takes": (
        pod("a", metadata={"annotations": {COST: "\u00b2"}}),
        pod("z", metadata={"annotations": {COST: "1"}}),
    ),
    "younger": (pod("z", metadata={"creationTimestamp": "2021-01-01T00:00:00Z"}), pod("a")),
}


@pytest.mark.parametrize(("first", "other"), DELETED_FIRST.values(), ids=DELETED_FIRST)
def test_which_pod_goes_first(cluster: Cluster, first: Document, other: Document) -> None:
    for each in (other, first):
        cluster._create(PODS, each)
        cluster.objects[PODS][each["metadata"]["name"]]["metadata"] |= {
            "creationTimestamp": each["metadata"]["creationTimestamp"]
        }
    cluster.add(REPLICA_SETS, "r", replicas=1)
    cluster.settle()
    assert cluster.names() == [other["metadata"]["name"]]


def test_what_cannot_be_created_is_told(cluster: Cluster) -> None:
    replica_set = cluster.add(REPLICA_SETS, "r", replicas=1)
    plan = cluster.plan(REPLICA_SETS, replica_set)
    assert plan.failed_status is not None
    replica_set["status"] = plan.failed_status("exceeded quota")
    (condition,) = replica_set["status"]["conditions"]
    assert (condition["type"], condition["reason"], condition["message"]) == (
        "ReplicaFailure",
        "FailedCreate",
        "exceeded quota",
    )
    assert "conditions" not in (cluster.plan(REPLICA_SETS, replica_set).status or {})


def test_another_name_in_the_reason_is_no_other_status(cluster: Cluster) -> None:
    """It would be tried again at once, since the status has changed."""
    replica_set = cluster.add(REPLICA_SETS, "r", replicas=1)
    plan = cluster.plan(REPLICA_SETS, replica_set)
    assert plan.failed_status is not None
    replica_set["status"] = plan.failed_status('pods "r-abcde" is forbidden')
    plan = cluster.plan(REPLICA_SETS, replica_set)
    assert plan.failed_status is not None
    assert plan.failed_status('pods "r-fghij" is forbidden') == replica_set["status"]


def test_a_step_deletes_no_more_pods_than_are_allowed() -> None:
    cluster, replica_set = settled(REPLICA_SETS, "r", replicas=BURST_MAX + 1)
    cluster.change(replica_set, replicas=0)
    assert len(cluster.plan(REPLICA_SETS, replica_set).deletes) == BURST_MAX
    cluster.settle()
    assert cluster.pods() == []


# How clients have written the conditions of a Deployment that is rolled out, and of a ReplicaSet that fails.
REWRITTEN: Final = {
    "in another order": lambda conditions: conditions[::-1],
    "with one of their own in front": lambda conditions: [{"type": "Ours", "status": "True"}, *conditions],
    "with one of their own behind": lambda conditions: [*conditions, {"type": "Ours", "status": "True"}],
}


@pytest.mark.parametrize("rewritten", REWRITTEN.values(), ids=REWRITTEN)
def test_conditions_stay_where_they_are(rewritten: Callable[[list[Document]], list[Document]]) -> None:
    cluster, web = settled(DEPLOYMENTS, "web", replicas=1)
    replica_set = cluster.objects[REPLICA_SETS][cluster.names(REPLICA_SETS)[0]]
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    replica_set["status"]["conditions"] = [{**failure, "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    told = cluster.plan(DEPLOYMENTS, web).status
    assert told is not None
    web["status"] = {**told, "conditions": rewritten(told["conditions"])}
    assert cluster.plan(DEPLOYMENTS, web).status == web["status"]
    replica_set["status"]["conditions"] = rewritten(replica_set["status"]["conditions"])
    plan = cluster.plan(REPLICA_SETS, replica_set)
    assert plan.failed_status is not None
    assert plan.failed_status("quota") == replica_set["status"]


def test_conditions_that_clients_wrote_without_times_get_them() -> None:
    cluster, web = settled(DEPLOYMENTS, "web", replicas=1)
    for each in web["status"]["conditions"]:
        del each["lastUpdateTime"], each["lastTransitionTime"]
    cluster.settle()
    now = timestamps.to_text(cluster.now)
    available = find_condition(web, "Available")
    assert available is not None
    assert (available["lastUpdateTime"], available["lastTransitionTime"]) == (now, now)


def test_a_name_that_is_taken_is_a_collision(cluster: Cluster) -> None:
    web = cluster.add(DEPLOYMENTS, "web", replicas=1)
    plan = cluster.plan(DEPLOYMENTS, web)
    name = plan.creates[0].document["metadata"]["name"]
    cluster.add(REPLICA_SETS, name, replicas=0, selector={"matchLabels": {"app": "other"}})
    cluster.settle()
    assert web["status"]["collisionCount"] == 1
    assert len(cluster.objects[REPLICA_SETS]) == 2
    assert len(cluster.pods()) == 1
