"""DaemonSets: a pod on each node that fits. Pure.

Source of the rules: kubernetes, pkg/controller/daemon (daemon_controller.go, update.go).
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any, Final

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import PODS, REVISIONS
from apiserver.testkit.simulation.scheduling import may_stay, why_not
from apiserver.testkit.simulation.workloads.failed_pods import DaemonSetNode, FailedPods
from apiserver.testkit.simulation.workloads.plans import CreateObject, DeleteObject, WorkloadPlan
from apiserver.testkit.simulation.workloads.pods import (
    ENDED,
    available_in_s,
    claim,
    created,
    is_ready,
    is_terminating,
    new_pod,
    phase_of,
    scaled,
)
from apiserver.testkit.simulation.workloads.revisions import HASH, current_revision, forget_old

# Pods that are created, and that are deleted, at once; the others follow when that has been done.
BURST_MAX: Final = 250
GENERATION: Final = "pod-template-generation"
_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_BY_NAME: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def plan_daemon_set(
    owner: Document,
    pods: Sequence[Document],
    nodes: Sequence[Document],
    revisions: Sequence[Document],
    failed_pods: FailedPods,
    now: float,
) -> WorkloadPlan:
    """Returns what a DaemonSet needs next.

    pods, revisions: Pods and ControllerRevisions that it manages, or might adopt.
    failed_pods: those that have failed before. Whoever carries out the plan adds the pods that it deletes
    (`WorkloadPlan.failed_at`). now: seconds since 1970.
    """
    plan = WorkloadPlan()
    revisions = claim(owner, REVISIONS, revisions, plan)
    by_node: defaultdict[str, list[Document]] = defaultdict(list)
    for pod in sorted(claim(owner, PODS, pods, plan), key=created):
        if node := _node_of(pod):  # One that was adopted may be of no node: it is left alone.
            by_node[node].append(pod)
    update = current_revision(owner, revisions, plan, is_named=False)
    labels = {HASH: update.label, GENERATION: str(owner["metadata"].get("generation", 0))}
    template = _on_nodes(owner["spec"]["template"])
    # In the order of the nodes.
    wanted = {each["metadata"]["name"]: None for each in nodes if not why_not(template, each)}
    if not is_terminating(owner):
        staying = {each["metadata"]["name"] for each in nodes if may_stay(template, each)}
        _delete_strays(by_node, staying.union(wanted), plan)
        _delete_failed(owner, {node: by_node.get(node, []) for node in wanted}, failed_pods, plan, now)
        _place(owner, by_node, wanted, labels, plan)
        if _is_rolling(owner):
            _roll(owner, by_node, wanted, update.label, plan, now)
        del plan.deletes[BURST_MAX:]
    plan.status = _status(owner, by_node, wanted, update.label, plan, now)
    used = {update.label, *((_revision(pod)) for listed in by_node.values() for pod in listed)}
    if not plan.changes_objects:
        names = {each["metadata"]["name"] for each in revisions if _revision(each) in used}
        forget_old(owner, revisions, names, plan)
    return plan


def _revision(found: Document) -> str:
    label: str = (found["metadata"].get("labels") or {}).get(HASH, "")
    return label


def _node_of(pod: Document) -> str:
    """Returns the node that a pod is on, or is to be bound to; empty if there is none."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        name: str = spec["nodeName"]
        return name
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_BY_NAME) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            if each["key"] == "metadata.name":
                return str(each["values"][0])
    return ""


def _on_nodes(template: Document) -> Document:
    """Returns a template whose pods stay on nodes that have trouble."""
    found = copy.deepcopy(template)
    tolerations = found["spec"].setdefault("tolerations", [])
    for name, effect in _TOLERATED:
        tolerations.append({"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect})
    if found["spec"].get("hostNetwork"):
        key = "node.kubernetes.io/network-unavailable"
        tolerations.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    return found


def _new_pod(owner: Document, labels: Document, node: str) -> Document:
    pod = new_pod(owner, _on_nodes(owner["spec"]["template"]), labels)
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = (affinity.get(_BY_NAME) or {}).get("nodeSelectorTerms") or [{}]
    affinity[_BY_NAME] = {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}
    return pod


def _delete_failed(
    owner: Document,
    by_node: Mapping[str, Sequence[Document]],
    failed_pods: FailedPods,
    plan: WorkloadPlan,
    now: float,
) -> None:
    """Have failed pods deleted that have been there long enough, one on each node; others follow them."""
    meta = owner["metadata"]
    for node, listed in by_node.items():
        failed = [pod for pod in listed if phase_of(pod) == "Failed" and not is_terminating(pod)]
        if not failed or len(plan.failed_at) == BURST_MAX:
            continue
        place = DaemonSetNode(meta["uid"], meta.get("generation", 0), node)
        wait_s = failed_pods.wait_s(place, now)
        if wait_s > 0:
            plan.look_again(wait_s)
            continue
        plan.deletes.append(DeleteObject(PODS, failed[0]))
        plan.failed_at.append(place)


def _place(
    owner: Document,
    by_node: defaultdict[str, list[Document]],
    wanted: Collection[str],
    labels: Document,
    plan: WorkloadPlan,
) -> None:
    """Have one pod on each node that is wanted: the oldest one that has not ended."""
    missing = []
    for node in wanted:
        listed = by_node.get(node, [])
        alive = [pod for pod in listed if not is_terminating(pod)]
        succeeded = [pod for pod in alive if phase_of(pod) == "Succeeded"]
        running = [pod for pod in alive if phase_of(pod) not in ENDED]
        plan.deletes += [DeleteObject(PODS, pod) for pod in (*succeeded, *running[1:])]
        if not listed:
            missing.append(node)
    plan.creates += [CreateObject(PODS, _new_pod(owner, labels, node)) for node in missing[:BURST_MAX]]


def _delete_strays(
    by_node: Mapping[str, Sequence[Document]], places: Container[str], plan: WorkloadPlan
) -> None:
    """Have pods deleted on nodes that are gone, or that they must leave.

    A taint that only keeps new pods away takes none from its node.
    """
    for node, listed in by_node.items():
        if node not in places:
            plan.deletes += [DeleteObject(PODS, pod) for pod in listed if not is_terminating(pod)]


def _is_rolling(owner: Document) -> bool:
    strategy = owner["spec"].get("updateStrategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def _roll(
    owner: Document,
    by_node: defaultdict[str, list[Document]],
    wanted: Collection[str],
    label: str,
    plan: WorkloadPlan,
    now: float,
) -> None:
    """Have pods of old templates replaced, as many at a time as may be missing; never one before another."""
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    # To start the new pod before the old one ends (maxSurge) is the same here, but for its order.
    most = max(scaled(rolling.get("maxUnavailable", 1), len(wanted), rounds_up=True), 1)
    min_ready_s = owner["spec"].get("minReadySeconds", 0)
    missing, old = 0, []
    for node in wanted:
        listed = by_node.get(node, [])
        if not any(_is_available(pod, min_ready_s, now) for pod in listed):
            missing += 1
            old += [(False, pod) for pod in listed if _revision(pod) != label and not is_terminating(pod)]
        else:
            old += [(True, pod) for pod in listed if _revision(pod) != label and not is_terminating(pod)]
    going = {each.found["metadata"]["uid"] for each in plan.deletes}
    for is_available, pod in sorted(old, key=lambda each: each[0]):
        if is_available and missing >= most:
            return
        missing += is_available
        if pod["metadata"]["uid"] not in going:
            plan.deletes.append(DeleteObject(PODS, pod))


def _is_available(pod: Document, min_ready_s: float, now: float) -> bool:
    wait_s = available_in_s(pod, min_ready_s, now)
    return wait_s is not None and wait_s <= 0 and not is_terminating(pod)


def _status(
    owner: Document,
    by_node: defaultdict[str, list[Document]],
    wanted: Collection[str],
    label: str,
    plan: WorkloadPlan,
    now: float,
) -> Document:
    min_ready_s = owner["spec"].get("minReadySeconds", 0)
    counters = {"current": 0, "ready": 0, "available": 0, "updated": 0}
    for node in wanted:
        pods = [pod for pod in by_node.get(node, ()) if not is_terminating(pod)]
        if not pods:
            continue
        pod = pods[0]
        counters["current"] += 1
        counters["ready"] += is_ready(pod)
        counters["updated"] += _revision(pod) == label
        wait_s = available_in_s(pod, min_ready_s, now)
        counters["available"] += wait_s is not None and wait_s <= 0
        if wait_s is not None and wait_s > 0:
            plan.look_again(wait_s)
    status: dict[str, Any] = {
        "currentNumberScheduled": counters["current"],
        "numberMisscheduled": sum(
            any(not is_terminating(pod) for pod in listed)
            for node, listed in by_node.items()
            if node not in wanted
        ),
        "desiredNumberScheduled": len(wanted),
        "numberReady": counters["ready"],
        "observedGeneration": owner["metadata"].get("generation", 0),
        "updatedNumberScheduled": counters["updated"],
        "numberAvailable": counters["available"],
        "numberUnavailable": len(wanted) - counters["available"],
    }
    kept = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    found = {name: value for name, value in status.items() if value or name in kept}
    conditions = (owner.get("status") or {}).get("conditions")
    return {**found, "conditions": conditions} if conditions else found
