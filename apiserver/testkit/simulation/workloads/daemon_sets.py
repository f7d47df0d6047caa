"""DaemonSets: a pod on each node that fits. Pure.

Source of the rules: kubernetes, pkg/controller/daemon (daemon_controller.go, update.go).
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Final

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import PODS, REVISIONS
from apiserver.testkit.simulation.scheduling import may_stay, why_not
from apiserver.testkit.simulation.workloads.failed_pods import DaemonSetNode, FailedPods
from apiserver.testkit.simulation.workloads.plans import CreateObject, DeleteObject, WorkloadPlan
from apiserver.testkit.simulation.workloads.pods import (
    ENDED,
    claim,
    count_available,
    created,
    is_available,
    is_ready,
    is_terminating,
    new_pod,
    phase_of,
    rolls_updates_out,
    scaled,
)
from apiserver.testkit.simulation.workloads.replica_sets import without_zeros
from apiserver.testkit.simulation.workloads.revisions import (
    HASH,
    current_revision,
    forget_old,
    revision_label,
)

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
    """Returns the plan for a DaemonSet.

    pods, revisions: the Pods and ControllerRevisions that it manages, or might adopt.
    failed_pods: those that have failed before, to which the pods that the plan deletes are added
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
        if rolls_updates_out(owner):
            _roll(owner, by_node, wanted, update.label, plan, now)
        del plan.deletes[BURST_MAX:]
    plan.status = _status(owner, by_node, wanted, update.label, plan, now)
    used = {update.label, *(revision_label(pod) for listed in by_node.values() for pod in listed)}
    if not plan.changes_objects:
        names = {each["metadata"]["name"] for each in revisions if revision_label(each) in used}
        forget_old(owner, revisions, names, plan)
    return plan


def _node_of(pod: Document) -> str:
    """Returns the node that a pod is on, or has to be bound to; empty if there is none."""
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
    """Returns a template whose pods stay on unhealthy nodes."""
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
    """Delete failed pods after their delay, one on each node, so that others follow."""
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
    """Keep one pod on each selected node, the oldest one that has not ended."""
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
    """Delete pods on nodes that are deleted, or that they must leave.

    A taint that only repels new pods removes none from its node.
    """
    for node, listed in by_node.items():
        if node not in places:
            plan.deletes += [DeleteObject(PODS, pod) for pod in listed if not is_terminating(pod)]


def _roll(
    owner: Document,
    by_node: defaultdict[str, list[Document]],
    wanted: Collection[str],
    label: str,
    plan: WorkloadPlan,
    now: float,
) -> None:
    """Replace pods of old templates, as many at a time as may be unavailable, deleting old ones first."""
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    # To start the new pod before the old one ends (maxSurge) is the same here, but for its order.
    most = max(scaled(rolling.get("maxUnavailable", 1), len(wanted), rounds_up=True), 1)
    min_ready_s = owner["spec"].get("minReadySeconds", 0)
    missing, old = 0, []
    for node in wanted:
        listed = by_node.get(node, [])
        has_pod = any(is_available(pod, min_ready_s, now) for pod in listed)
        missing += not has_pod
        old += [(has_pod, pod) for pod in listed if revision_label(pod) != label and not is_terminating(pod)]
    going = {each.found["metadata"]["uid"] for each in plan.deletes}
    for has_pod, pod in sorted(old, key=lambda each: each[0]):
        if has_pod and missing >= most:
            return
        missing += has_pod
        if pod["metadata"]["uid"] not in going:
            plan.deletes.append(DeleteObject(PODS, pod))


def _status(
    owner: Document,
    by_node: defaultdict[str, list[Document]],
    wanted: Collection[str],
    label: str,
    plan: WorkloadPlan,
    now: float,
) -> Document:
    alive = ([pod for pod in by_node.get(node, ()) if not is_terminating(pod)] for node in wanted)
    pods = [listed[0] for listed in alive if listed]
    available = count_available(pods, owner["spec"].get("minReadySeconds", 0), now, plan)
    status: Document = {
        "currentNumberScheduled": len(pods),
        "numberMisscheduled": sum(
            any(not is_terminating(pod) for pod in listed)
            for node, listed in by_node.items()
            if node not in wanted
        ),
        "desiredNumberScheduled": len(wanted),
        "numberReady": sum(map(is_ready, pods)),
        "observedGeneration": owner["metadata"].get("generation", 0),
        "updatedNumberScheduled": sum(revision_label(pod) == label for pod in pods),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
    }
    kept = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    if conditions := (owner.get("status") or {}).get("conditions"):
        status["conditions"] = conditions
    return without_zeros(status, *kept)
