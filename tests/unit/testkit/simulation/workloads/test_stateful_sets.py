"""StatefulSets: pods with names and claims of their own, one after the other.

https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import CLAIMS, PODS, REVISIONS, STATEFUL_SETS
from tests.unit.testkit.simulation.workloads.cluster import Cluster, running, settled, template

DATA: Final = {
    "metadata": {"name": "data", "labels": {"kind": "disk"}},
    "spec": {"resources": {"requests": {"storage": "1Gi"}}},
}


def add_set(cluster: Cluster, **spec: Any) -> Document:
    return cluster.add(STATEFUL_SETS, "db", **{"replicas": 3, "serviceName": "db", **spec})


def settled_set(
    run: Callable[[Document], tuple[str, bool]] = running, **spec: Any
) -> tuple[Cluster, Document]:
    return settled(STATEFUL_SETS, "db", run=run, **{"replicas": 3, "serviceName": "db", **spec})


def pods_of(cluster: Cluster) -> list[str]:
    return [line.removeprefix("create Pod ") for line in cluster.log if line.startswith("create Pod ")]


def deleted_pods(cluster: Cluster) -> list[str]:
    return [line.removeprefix("delete Pod ") for line in cluster.log if line.startswith("delete Pod ")]


def test_pods_come_in_their_order() -> None:
    cluster = Cluster()
    db = add_set(cluster)
    counts = []
    cluster.settle(lambda: counts.append(sum(p["status"]["phase"] == "Pending" for p in cluster.pods())))
    assert pods_of(cluster) == ["db-0", "db-1", "db-2"]
    assert max(counts) == 1
    pod = cluster.objects[PODS]["db-1"]
    (revision,) = cluster.objects[REVISIONS].values()
    assert pod["metadata"]["labels"] == {
        "app": "a",
        "controller-revision-hash": revision["metadata"]["name"],
        "statefulset.kubernetes.io/pod-name": "db-1",
        "apps.kubernetes.io/pod-index": "1",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
    assert db["status"] == {
        "observedGeneration": 1,
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "currentRevision": revision["metadata"]["name"],
        "updateRevision": revision["metadata"]["name"],
        "collisionCount": 0,
    }


def test_all_at_once_if_they_are_managed_in_parallel() -> None:
    cluster, _ = settled_set(lambda _: ("Pending", False), podManagementPolicy="Parallel")
    assert cluster.names() == ["db-0", "db-1", "db-2"]


def test_one_that_is_not_ready_holds_up_the_others() -> None:
    cluster, db = settled_set(lambda pod: ("Running", pod["metadata"]["name"] != "db-1"))
    assert cluster.names() == ["db-0", "db-1"]
    assert (db["status"]["replicas"], db["status"]["readyReplicas"]) == (2, 1)


def test_pods_go_from_the_highest_down() -> None:
    cluster, db = settled_set()
    cluster.update(db, replicas=1)
    assert (deleted_pods(cluster), cluster.names()) == (["db-2", "db-1"], ["db-0"])


def test_ordinals_may_start_elsewhere() -> None:
    cluster, _ = settled_set(ordinals={"start": 5}, replicas=2)
    assert cluster.names() == ["db-5", "db-6"]


def test_a_pod_that_is_gone_comes_back_under_its_name() -> None:
    cluster, _ = settled_set()
    cluster.delete(PODS, "db-1")
    cluster.settle()
    assert cluster.names() == ["db-0", "db-1", "db-2"]


def test_a_pod_that_has_failed_is_replaced() -> None:
    cluster, _ = settled_set()
    cluster.objects[PODS]["db-1"]["status"]["phase"] = "Failed"
    cluster.settle()
    assert deleted_pods(cluster) == ["db-1"]
    assert cluster.objects[PODS]["db-1"]["status"]["phase"] == "Running"


def test_claims_outlive_their_pods() -> None:
    cluster, db = settled_set(volumeClaimTemplates=[DATA], replicas=2)
    assert cluster.names(CLAIMS) == ["data-db-0", "data-db-1"]
    claim = cluster.objects[CLAIMS]["data-db-1"]
    assert claim["metadata"]["labels"] == {"kind": "disk", "app": "a"}
    assert "ownerReferences" not in claim["metadata"]
    volumes = cluster.objects[PODS]["db-1"]["spec"]["volumes"]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]
    cluster.update(db, replicas=1)
    assert cluster.names(CLAIMS) == ["data-db-0", "data-db-1"]


# The strategy, and which pods are replaced by a change of the template, in their order.
UPDATES: Final = {
    "all, from the highest down": ({}, ["db-2", "db-1", "db-0"]),
    "down to the partition": (
        {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
        ["db-2"],
    ),
    "none, until somebody deletes them": ({"updateStrategy": {"type": "OnDelete"}}, []),
    "down to the partition, which counts from the first ordinal": (
        {
            "ordinals": {"start": 5},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
        },
        ["db-7"],
    ),
}


@pytest.mark.parametrize(("spec", "replaced"), UPDATES.values(), ids=UPDATES)
def test_updates(spec: dict[str, Any], replaced: list[str]) -> None:
    cluster, db = settled_set(**spec)
    before = db["status"]["currentRevision"]
    cluster.update(db, template=template("i:2"))
    assert deleted_pods(cluster) == replaced
    assert db["status"].get("updatedReplicas", 0) == len(replaced)
    is_done = len(replaced) == 3
    assert (db["status"]["currentRevision"] == before) is not is_done
    assert (db["status"]["currentRevision"] == db["status"]["updateRevision"]) is is_done


def test_a_pod_below_the_partition_comes_back_as_it_was() -> None:
    cluster, db = settled_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    cluster.update(db, template=template("i:2"))
    cluster.delete(PODS, "db-0")
    cluster.settle()
    images = [pod["spec"]["containers"][0]["image"] for pod in cluster.pods()]
    assert images == ["i", "i", "i:2"]


def test_going_back_makes_the_old_revision_the_newest() -> None:
    cluster, db = settled_set()
    cluster.update(db, template=template("i:2"))
    cluster.update(db, template=template())
    revisions = cluster.objects[REVISIONS]
    assert sorted(each["revision"] for each in revisions.values()) == [2, 3]
    assert revisions[db["status"]["currentRevision"]]["revision"] == 3


def test_old_revisions_are_kept_for_a_while() -> None:
    cluster = Cluster()
    db = add_set(cluster, revisionHistoryLimit=1)
    for number in range(4):
        cluster.update(db, template=template(f"i:{number}"))
    assert sorted(each["revision"] for each in cluster.objects[REVISIONS].values()) == [3, 4]


# Pods that its selector selects and that nobody manages, and whether it adopts them.
ORPHANS: Final = {
    "its own name": ("db-0", True),
    "another name": ("other", False),
    "no ordinal as it writes them": ("db-00", False),
}


@pytest.mark.parametrize(("name", "is_adopted"), ORPHANS.values(), ids=ORPHANS)
def test_orphans(name: str, is_adopted: bool) -> None:
    cluster = Cluster()
    orphan = cluster.add(PODS, name)
    orphan["metadata"]["labels"] = {"app": "a"}
    add_set(cluster, replicas=1)
    cluster.settle()
    assert ("ownerReferences" in orphan["metadata"]) is is_adopted
    assert cluster.names() == sorted({"db-0", name})
