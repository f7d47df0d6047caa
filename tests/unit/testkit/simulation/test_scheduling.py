"""Which simulated node a pod is bound to.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.scheduling import (
    NodeUse,
    PodRequirements,
    in_order,
    is_waiting,
    refusal,
    unschedulable_message,
)
from tests.unit.testkit.simulation.pods import pod


def node(
    name: str = "n", *, labels: dict[str, str] | None = None, ready: str = "True", **spec: Any
) -> Document:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "4", "pods": "3"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def needing(cpu: str = "1", **spec: Any) -> Document:
    found = pod(**spec)
    found["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    del found["spec"]["nodeName"]
    return found


def requiring(*expressions: Document, fields: tuple[Document, ...] = ()) -> Document:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    terms = {"nodeSelectorTerms": [term]}
    return needing(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def expression(operator: str, *values: str, key: str = "zone") -> Document:
    return {"key": key, "operator": operator, "values": list(values)}


TAINT: Final = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
TAINTED: Final = "node(s) had untolerated taint {gpu: yes}"
PORTS: Final = [{"hostPort": 80}]

# A pod, a node, and why it is not bound to it.
FITS: Final[dict[str, tuple[Document, Document, str]]] = {
    "room enough": (needing(), node(), ""),
    "a node that is not ready": (needing(), node(ready="False"), "node(s) were not ready"),
    "cordoned": (needing(), node(unschedulable=True), "node(s) were unschedulable"),
    "cordoned, and tolerated": (
        needing(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
        node(unschedulable=True),
        "",
    ),
    "a taint": (needing(), node(taints=[TAINT]), TAINTED),
    "a taint that only prefers": (needing(), node(taints=[TAINT | {"effect": "PreferNoSchedule"}]), ""),
    "a toleration": (needing(tolerations=[{"key": "gpu", "value": "yes"}]), node(taints=[TAINT]), ""),
    "of another value": (needing(tolerations=[{"key": "gpu", "value": "no"}]), node(taints=[TAINT]), TAINTED),
    "of another effect": (
        needing(tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]),
        node(taints=[TAINT]),
        TAINTED,
    ),
    "of everything": (needing(tolerations=[{"operator": "Exists"}]), node(taints=[TAINT]), ""),
    "a selector": (needing(nodeSelector={"zone": "a"}), node(labels={"zone": "a"}), ""),
    "another zone": (needing(nodeSelector={"zone": "a"}), node(labels={"zone": "b"}), AFFINITY),
    "In": (requiring(expression("In", "a", "b")), node(labels={"zone": "b"}), ""),
    "not In": (requiring(expression("In", "a", "b")), node(labels={"zone": "c"}), AFFINITY),
    "NotIn": (requiring(expression("NotIn", "a")), node(), ""),
    "not NotIn": (requiring(expression("NotIn", "a")), node(labels={"zone": "a"}), AFFINITY),
    "Exists": (requiring(expression("Exists")), node(), AFFINITY),
    "DoesNotExist": (requiring(expression("DoesNotExist")), node(), ""),
    "Gt": (requiring(expression("Gt", "3", key="cores")), node(labels={"cores": "4"}), ""),
    "not Gt": (requiring(expression("Gt", "4", key="cores")), node(labels={"cores": "4"}), AFFINITY),
    "Lt of what is no number": (requiring(expression("Lt", "4")), node(labels={"zone": "a"}), AFFINITY),
    "by name": (requiring(fields=(expression("In", "n", key="metadata.name"),)), node(), ""),
    "by another name": (requiring(fields=(expression("In", "m", key="metadata.name"),)), node(), AFFINITY),
    "an empty term": (requiring(), node(), AFFINITY),
    "too little": (needing("5"), node(), "Insufficient cpu"),
    "just enough": (needing("4"), node(), ""),
    "what no node has": (
        needing("1", overhead={"example.com/gpu": "1"}),
        node(),
        "Insufficient example.com/gpu",
    ),
    "nothing of what no node has": (needing("1", overhead={"example.com/gpu": "0"}), node(), ""),
}


@pytest.mark.parametrize(("found", "candidate", "why"), FITS.values(), ids=FITS)
def test_whether_a_pod_fits(found: Document, candidate: Document, why: str) -> None:
    assert refusal(found, PodRequirements.of(found), candidate, None) == why


def use(*pods: Document) -> NodeUse:
    found = NodeUse()
    for number, each in enumerate(pods):
        found.add(str(number), PodRequirements.of(each))
    return found


def refusal_of(found: Document, taken: NodeUse) -> str:
    return refusal(found, PodRequirements.of(found), node(), taken)


def test_what_is_taken_is_not_there() -> None:
    assert refusal_of(needing("2"), use(needing("2"))) == ""
    assert refusal_of(needing("2"), use(needing("3"))) == "Insufficient cpu"
    assert refusal_of(needing("0"), use(*[needing("0")] * 3)) == "Too many pods"


def test_what_is_given_back_is_there() -> None:
    taken = use(needing("3"))
    taken.remove("0")
    taken.remove("0")
    assert refusal_of(needing("4"), taken) == ""


def with_port(**port: Any) -> Document:
    found = needing("0")
    found["spec"]["containers"][0]["ports"] = [{"hostPort": 80, **port}]
    return found


COLLISIONS: Final = {
    "the same port": ({}, True),
    "another port": ({"hostPort": 81}, False),
    "another protocol": ({"protocol": "UDP"}, False),
    "all addresses and one": ({"hostIP": "10.0.0.1"}, True),
}


@pytest.mark.parametrize(("port", "collides"), COLLISIONS.values(), ids=COLLISIONS)
def test_host_ports(port: dict[str, Any], collides: bool) -> None:
    assert bool(refusal_of(with_port(**port), use(with_port()))) == collides


def test_the_emptiest_node_comes_first() -> None:
    nodes = [node("n-10"), node("n-9"), node("n-8")]
    assert in_order(nodes, {"n-8": use(needing())}) == ["n-9", "n-10", "n-8"]


WAITING: Final[dict[str, tuple[Document, bool]]] = {
    "new": (needing(), True),
    "of the default scheduler": (needing(schedulerName="default-scheduler"), True),
    "of another scheduler": (needing(schedulerName="volcano"), False),
    "gated": (needing(schedulingGates=[{"name": "example.com/quota"}]), False),
    "bound": (pod(), False),
    "being deleted": (
        needing() | {"metadata": {"name": "p", "deletionTimestamp": "2020-01-01T00:00:00Z"}},
        False,
    ),
    "failed": (needing() | {"status": {"phase": "Failed"}}, False),
}


@pytest.mark.parametrize(("found", "waits"), WAITING.values(), ids=WAITING)
def test_which_pods_wait(found: Document, waits: bool) -> None:
    assert is_waiting(found) == waits


MESSAGES: Final = {
    "no nodes": ([], "no nodes available to schedule pods"),
    "some reasons": (
        ["Insufficient cpu", AFFINITY, "Insufficient cpu"],
        f"0/3 nodes are available: 1 {AFFINITY}, 2 Insufficient cpu.",
    ),
}


@pytest.mark.parametrize(("refusals", "message"), MESSAGES.values(), ids=MESSAGES)
def test_messages(refusals: list[str], message: str) -> None:
    assert unschedulable_message(refusals) == message
