"""DaemonSets: a pod on each node that fits.

https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import DAEMON_SETS, PODS, REVISIONS
from apiserver.testkit.simulation.workloads.daemon_sets import BURST_MAX
from tests.unit.testkit.simulation.workloads.cluster import NOW_S, Cluster, node, settled, template

TAINT: Final = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def node_of(pod: Document) -> str:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    assert (field["key"], field["operator"]) == ("metadata.name", "In")
    return str(field["values"][0])


def nodes_of(cluster: Cluster) -> list[str]:
    return sorted(map(node_of, cluster.pods()))


# The nodes, the spec of the pods, and the nodes that get one.
PLACES: Final[dict[str, tuple[list[Document], dict[str, Any], list[str]]]] = {
    "all": ([node("a"), node("b")], {}, ["a", "b"]),
    "a cordoned one, too": ([node("a", unschedulable=True)], {}, ["a"]),
    "not a tainted one": ([node("a"), node("b", taints=[TAINT])], {}, ["a"]),
    "unless it is tolerated": (
        [node("a", taints=[TAINT])],
        {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
        ["a"],
    ),
    "not where the selector does not match": ([node("a")], {"nodeSelector": {"disk": "ssd"}}, []),
    "none": ([], {}, []),
}


@pytest.mark.parametrize(("nodes", "spec", "places"), PLACES.values(), ids=PLACES)
def test_places(nodes: list[Document], spec: dict[str, Any], places: list[str]) -> None:
    cluster, agent = settled(DAEMON_SETS, "agent", nodes=nodes, template=template(**spec))
    assert nodes_of(cluster) == places
    status = agent["status"]
    assert status["desiredNumberScheduled"] == status["numberReady"] == len(places)
    assert status.get("numberAvailable", 0) == status.get("updatedNumberScheduled", 0) == len(places)


def test_a_new_node_gets_a_pod_and_one_that_goes_loses_it() -> None:
    cluster, _ = settled(DAEMON_SETS, "agent", nodes=[node("a")])
    cluster.nodes = [node("b")]
    cluster.settle()
    assert nodes_of(cluster) == ["b"]


# A taint that a node gets later, and whether the pod stays there.
LATE_TAINTS: Final = {
    "one that keeps new pods away": (TAINT, True),
    "one that evicts": ({**TAINT, "effect": "NoExecute"}, False),
}


# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
@pytest.mark.parametrize(("taint", "stays"), LATE_TAINTS.values(), ids=LATE_TAINTS)
def test_pods_on_a_node_that_is_tainted(taint: Document, stays: bool) -> None:
    cluster, agent = settled(DAEMON_SETS, "agent", nodes=[node("a"), node("b")])
    cluster.nodes = [node("a", taints=[taint]), node("b")]
    cluster.settle()
    assert nodes_of(cluster) == (["a", "b"] if stays else ["b"])
    status = agent["status"]
    assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (1, int(stays))


def test_a_node_that_is_not_ready_keeps_its_pod() -> None:
    cluster, _ = settled(DAEMON_SETS, "agent", nodes=[node("a")])
    before = cluster.names()
    cluster.nodes[0]["status"]["conditions"][0]["status"] = "Unknown"
    cluster.settle()
    assert cluster.names() == before


def test_a_new_daemon_set_adopts_the_revisions_that_another_has_left() -> None:
    cluster, _ = settled(DAEMON_SETS, "agent", nodes=[node("a")])
    cluster.delete(DAEMON_SETS, "agent")
    for each in (*cluster.objects[REVISIONS].values(), *cluster.pods()):
        del each["metadata"]["ownerReferences"]
    agent = cluster.add(DAEMON_SETS, "agent")
    cluster.settle()
    (revision,) = cluster.objects[REVISIONS].values()
    assert revision["metadata"]["ownerReferences"][0]["uid"] == agent["metadata"]["uid"]
    assert not cluster.plan(DAEMON_SETS, agent).changes_objects


def test_an_adopted_pod_that_is_for_no_node_stays() -> None:
    cluster = Cluster(nodes=[node("a")])
    cluster.add(PODS, "p")["metadata"]["labels"] = {"app": "a"}
    agent = cluster.add(DAEMON_SETS, "agent")
    cluster.settle()
    status = agent["status"]
    assert (status["currentNumberScheduled"], status["numberMisscheduled"], len(cluster.pods())) == (1, 0, 2)
    assert "deletionTimestamp" not in cluster.objects[PODS]["p"]["metadata"]


def test_a_pod_that_failed_is_replaced() -> None:
    cluster, _ = settled(DAEMON_SETS, "agent", nodes=[node("a")])
    (before,) = cluster.pods()
    before["status"]["phase"] = "Failed"
    cluster.settle()
    assert cluster.names() != [before["metadata"]["name"]]
    assert len(cluster.objects[PODS]) == 1


# The strategy, how many nodes lack a pod at most while it is updated, and how many are updated.
UPDATES: Final = {
    "one by one": ({}, 1, 4),
    "half of them": ({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}, 2, 4),
    "none, until somebody deletes them": ({"type": "OnDelete"}, 0, 0),
}


@pytest.mark.parametrize(("strategy", "most", "updated"), UPDATES.values(), ids=UPDATES)
def test_updates(strategy: Document, most: int, updated: int) -> None:
    cluster, agent = settled(
        DAEMON_SETS, "agent", nodes=[node(name) for name in "abcd"], updateStrategy=strategy
    )
    cluster.change(agent, template=template("i:2"))
    missing = []

    def look() -> None:
        alive = [pod for pod in cluster.pods() if "deletionTimestamp" not in pod["metadata"]]
        missing.append(4 - sum(pod["status"]["phase"] == "Running" for pod in alive))

    cluster.settle(look)
    assert max(missing) == most
    assert agent["status"].get("updatedNumberScheduled", 0) == updated


def test_the_data_of_a_revision_is_encoded_as_go_does() -> None:
    """Clients compare bytes: kubernetes, pkg/controller/daemon/update.go, Match."""
    cluster = Cluster(nodes=[node("a")])
    ordered = template(nodeSelector={"z": "1", "a": "2"}, hostNetwork=False)
    cluster.add(DAEMON_SETS, "agent", template=ordered)
    cluster.settle()
    (revision,) = cluster.objects[REVISIONS].values()
    data = revision["data"]
    assert data["spec"]["template"] == {**ordered, "$patch": "replace"}
    assert json.dumps(data) == json.dumps(data, sort_keys=True)


def test_revisions_number_the_templates() -> None:
    cluster = Cluster(nodes=[node("a")])
    agent = cluster.add(DAEMON_SETS, "agent", revisionHistoryLimit=1)
    for image in ("i", "i:2", "i:3", "i:2"):
        cluster.update(agent, template=template(image))
    revisions = cluster.objects[REVISIONS].values()
    assert sorted(each["revision"] for each in revisions) == [3, 4]
    (pod,) = cluster.pods()
    newest = max(revisions, key=lambda each: int(each["revision"]))
    label = "controller-revision-hash"
    assert pod["metadata"]["labels"][label] == newest["metadata"]["labels"][label]


def test_pods_that_fail_at_once_are_replaced_less_and_less_often() -> None:
    cluster = Cluster(nodes=[node("a")], run=lambda _: ("Failed", False))
    agent = cluster.add(DAEMON_SETS, "agent")
    pods_after = []
    for _ in range(7):
        cluster.settle()
        pods_after.append(sum(line.startswith("create Pod") for line in cluster.log))
        wait_s = cluster.plan(DAEMON_SETS, agent).again_s
        assert wait_s is not None
        cluster.now += wait_s
    # The second one is there at once.
    assert pods_after == [2, 3, 4, 5, 6, 7, 8]
    assert cluster.now - NOW_S == pytest.approx(0.1 * (2**7 - 1))


def test_a_change_of_the_daemon_set_begins_anew() -> None:
    cluster, agent = settled(DAEMON_SETS, "agent", nodes=[node("a")], run=lambda _: ("Failed", False))
    cluster.run = lambda _: ("Running", True)
    cluster.update(agent, template=template("other"))
    assert agent["status"]["numberReady"] == 1


def test_pods_on_other_nodes_do_not_wait() -> None:
    cluster = Cluster(
        nodes=[node("a"), node("b")],
        run=lambda pod: ("Failed", False) if node_of(pod) == "a" else ("Running", True),
    )
    agent = cluster.add(DAEMON_SETS, "agent")
    cluster.settle()
    assert agent["status"]["numberReady"] == 1


def test_a_step_creates_and_deletes_no_more_pods_than_are_allowed() -> None:
    count = 2 * BURST_MAX + 1
    cluster = Cluster(nodes=[node(str(number)) for number in range(count)])
    agent = cluster.add(DAEMON_SETS, "agent")
    assert sum(each.resource == PODS for each in cluster.plan(DAEMON_SETS, agent).creates) == BURST_MAX
    cluster.settle()
    assert agent["status"]["numberReady"] == count
    cluster.nodes = []
    assert len(cluster.plan(DAEMON_SETS, agent).deletes) == BURST_MAX
    cluster.settle()
    assert cluster.pods() == []
