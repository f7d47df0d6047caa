"""Plans for ReplicaSets: keeps the desired number of pods. Pure.

Source of the rules: kubernetes, pkg/controller/replicaset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apiserver.catalogue.pod_specs.pod_annotations import DELETION_COST, deletion_cost
from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import PODS
from apiserver.testkit.simulation.workloads.plans import (
    CreateObject,
    DeleteObject,
    WorkloadPlan,
    conditions_of,
    with_condition,
)
from apiserver.testkit.simulation.workloads.pods import (
    claim,
    count_available,
    is_active,
    is_ready,
    is_terminating,
    new_pod,
    phase_of,
)

# Pods that are created, or deleted, at once; the others follow when that has been done.
BURST_MAX: Final = 500


def plan_replica_set(owner: Document, pods: Sequence[Document], now: float) -> WorkloadPlan:
    """Returns the plan for a ReplicaSet.

    pods: those that it manages, or might adopt. now: seconds since 1970.
    """
    plan = WorkloadPlan()
    found = [pod for pod in claim(owner, PODS, pods, plan) if is_active(pod)]
    spec = owner["spec"]
    missing = spec.get("replicas", 1) - len(found)
    if not is_terminating(owner):
        if missing > 0:
            count = min(missing, BURST_MAX)
            plan.creates = [CreateObject(PODS, new_pod(owner, spec["template"], {})) for _ in range(count)]
        elif missing < 0:
            plan.deletes = [
                DeleteObject(PODS, pod) for pod in sorted(found, key=_keep)[: min(-missing, BURST_MAX)]
            ]
    plan.status = _status(owner, found, now, plan)
    status = plan.status
    plan.failed_status = lambda why: {**status, "conditions": _failed(conditions_of(owner), why, now)}
    return plan


def _failed(conditions: list[Document], why: str, now: float) -> list[Document]:
    """Returns conditions with the one that pods cannot be created.

    An existing one is kept: each attempt has another name in its message, and a change of the status would
    cause the next attempt immediately.
    """
    if any(each.get("type") == "ReplicaFailure" for each in conditions):
        return conditions
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": why}
    return with_condition(conditions, failure, timestamps.to_text(now))


def _keep(pod: Document) -> tuple[Any, ...]:
    """Returns a sort key of pods by their value, those to delete first."""
    meta = pod["metadata"]
    cost = (meta.get("annotations") or {}).get(DELETION_COST, "0")
    # Of two that are alike, the younger one goes: later times sort before.
    age = tuple(-ord(letter) for letter in meta.get("creationTimestamp") or "")
    return (
        bool(pod["spec"].get("nodeName")),
        phase_of(pod) == "Running",
        is_ready(pod),
        deletion_cost(cost) or 0,
        age,
        meta["name"],
    )


def _status(owner: Document, pods: Sequence[Document], now: float, plan: WorkloadPlan) -> Document:
    spec, meta = owner["spec"], owner["metadata"]
    wanted = (spec["template"].get("metadata") or {}).get("labels") or {}
    status: Document = {
        "replicas": len(pods),
        "fullyLabeledReplicas": sum(wanted.items() <= _labels(pod).items() for pod in pods),
        "readyReplicas": sum(map(is_ready, pods)),
        "availableReplicas": count_available(pods, spec.get("minReadySeconds", 0), now, plan),
        "observedGeneration": meta.get("generation", 0),
    }
    conditions = [each for each in conditions_of(owner) if each.get("type") != "ReplicaFailure"]
    if conditions:
        status["conditions"] = conditions
    return without_zeros(status, "replicas")


def without_zeros(status: Document, *kept: str) -> Document:
    """Returns a status without the counters that are 0, as Kubernetes stores it. kept: the counters to
    keep.
    """
    return {name: value for name, value in status.items() if value != 0 or name in kept}


def _labels(pod: Document) -> Document:
    return pod["metadata"].get("labels") or {}
