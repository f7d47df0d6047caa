"""Plans for StatefulSets: pods with their own names and volume claims, one after the other. Pure.

Source of the rules: kubernetes, pkg/controller/statefulset (stateful_set_control.go, stateful_set_utils.go).
"""

from __future__ import annotations

import copy
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import CLAIMS, PODS, REVISIONS
from apiserver.testkit.simulation.workloads.plans import CreateObject, DeleteObject, WorkloadPlan
from apiserver.testkit.simulation.workloads.pods import (
    ENDED,
    claim,
    count_available,
    is_available,
    is_ready,
    is_terminating,
    new_pod,
    phase_of,
    rolls_updates_out,
)
from apiserver.testkit.simulation.workloads.replica_sets import without_zeros
from apiserver.testkit.simulation.workloads.revisions import (
    HASH,
    Revision,
    current_revision,
    forget_old,
    revision_label,
    template_of,
)

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


@dataclass(slots=True)
class _StatefulSet:
    """A StatefulSet with its pods.

    update: the revision of the template. current: the one that all pods had last.
    """

    owner: Document
    pods: dict[int, Document]
    update: Revision
    current: Revision
    plan: WorkloadPlan
    now: float

    @property
    def wanted(self) -> range:
        spec = self.owner["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        return range(first, first + spec.get("replicas", 1))

    @property
    def is_ordered(self) -> bool:
        return bool(self.owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    @property
    def partition(self) -> int:
        """The lowest ordinal that is updated."""
        strategy = self.owner["spec"].get("updateStrategy") or {}
        partition: int = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        return self.wanted.start + partition

    @property
    def is_rolling(self) -> bool:
        return rolls_updates_out(self.owner)

    def is_healthy(self, pod: Document) -> bool:
        return is_available(pod, self.owner["spec"].get("minReadySeconds", 0), self.now)


def plan_stateful_set(
    owner: Document,
    pods: Sequence[Document],
    revisions: Sequence[Document],
    claims: Container[str],
    now: float,
) -> WorkloadPlan:
    """Returns the plan for a StatefulSet.

    pods, revisions: the Pods and ControllerRevisions that it manages, or might adopt.
    claims: the names of existing volume claims. now: seconds since 1970.
    """
    plan = WorkloadPlan()
    named = [pod for pod in pods if _ordinal(owner, pod) is not None]
    mine = {
        ordinal: pod
        for pod in claim(owner, PODS, named, plan)
        if (ordinal := _ordinal(owner, pod)) is not None
    }
    revisions = claim(owner, REVISIONS, revisions, plan)
    update = current_revision(owner, revisions, plan, is_named=True)
    name = (owner.get("status") or {}).get("currentRevision") or update.name
    template = template_of(revisions, name)
    current = Revision(name, name, template) if template is not None else update
    found = _StatefulSet(owner, mine, update, current, plan, now)
    if not is_terminating(owner):
        _scale(found, claims)
    plan.status = _status(found)
    used = {update.name, current.name, *(revision_label(pod) for pod in mine.values())}
    if not plan.changes_objects:
        forget_old(owner, revisions, used, plan)
    return plan


def _ordinal(owner: Document, pod: Document) -> int | None:
    prefix = f"{owner['metadata']['name']}-"
    name = pod["metadata"]["name"]
    digits = name.removeprefix(prefix)
    is_member = name.startswith(prefix) and digits.isascii() and digits.isdigit()
    return int(digits) if is_member and str(int(digits)) == digits else None


def _scale(found: _StatefulSet, claims: Container[str]) -> None:
    """Create, delete and replace pods in their order, waiting for each one to become healthy."""
    plan, wanted = found.plan, found.wanted
    for ordinal in wanted:
        pod = found.pods.get(ordinal)
        if pod is None:
            _create(found, ordinal, claims)
        elif is_terminating(pod):
            pass  # It is created again when it is gone.
        elif phase_of(pod) in ENDED:
            plan.deletes.append(DeleteObject(PODS, pod))
        elif found.is_healthy(pod):
            continue
        if found.is_ordered:
            return
    condemned = sorted((each for each in found.pods if each not in wanted), reverse=True)
    for ordinal in condemned:
        pod = found.pods[ordinal]
        if not is_terminating(pod):
            plan.deletes.append(DeleteObject(PODS, pod))
        if found.is_ordered:
            return
    if found.is_rolling and not plan.changes_objects and not condemned:
        _roll(found)


def _roll(found: _StatefulSet) -> None:
    """Replace the pod of an old template with the highest ordinal, if all above it are healthy."""
    for ordinal in reversed(found.wanted):
        pod = found.pods.get(ordinal)
        if ordinal < found.partition or pod is None:
            return
        if revision_label(pod) != found.update.name and not is_terminating(pod):
            found.plan.deletes.append(DeleteObject(PODS, pod))
            return
        if not found.is_healthy(pod):
            return


def _create(found: _StatefulSet, ordinal: int, claims: Container[str]) -> None:
    owner, plan = found.owner, found.plan
    revision = found.current if found.is_rolling and ordinal < found.partition else found.update
    set_name, name = owner["metadata"]["name"], f"{owner['metadata']['name']}-{ordinal}"
    labels = {HASH: revision.label, POD_NAME: name, POD_INDEX: str(ordinal)}
    pod = new_pod(owner, revision.template, labels, name)
    spec = pod["spec"]
    spec["hostname"] = name
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    volumes = {each["name"]: each for each in spec.get("volumes") or ()}
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        claim_name = f"{template['metadata']['name']}-{set_name}-{ordinal}"
        volume = template["metadata"]["name"]
        volumes[volume] = {"name": volume, "persistentVolumeClaim": {"claimName": claim_name}}
        if claim_name not in claims:
            plan.creates.append(CreateObject(CLAIMS, _claim(owner, template, claim_name)))
    if volumes:
        spec["volumes"] = list(volumes.values())
    plan.creates.append(CreateObject(PODS, pod))


def _claim(owner: Document, template: Document, name: str) -> Document:
    """Returns a volume claim without an owner, which outlives the StatefulSet."""
    meta = template["metadata"]
    labels = {**(meta.get("labels") or {}), **(owner["spec"]["selector"].get("matchLabels") or {})}
    found: Document = {"name": name, "namespace": owner["metadata"]["namespace"], "labels": labels}
    if meta.get("annotations"):
        found["annotations"] = dict(meta["annotations"])
    return {"metadata": found, "spec": copy.deepcopy(template["spec"])}


def _status(found: _StatefulSet) -> Document:
    owner, pods = found.owner, list(found.pods.values())
    spec = owner["spec"]
    ready = [pod for pod in pods if is_ready(pod)]
    alive = [pod for pod in pods if not is_terminating(pod)]
    updated = sum(revision_label(pod) == found.update.name for pod in alive)
    current, count = found.current.name, sum(revision_label(pod) == found.current.name for pod in alive)
    wanted = len(found.wanted)
    is_done = updated == wanted == len(ready) == len(pods)
    if found.is_rolling and is_done:
        current, count = found.update.name, updated
    status: Document = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "replicas": len(pods),
        "readyReplicas": len(ready),
        "availableReplicas": count_available(ready, spec.get("minReadySeconds", 0), found.now, found.plan),
        "currentReplicas": count,
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": found.update.name,
        "collisionCount": 0,
    }
    conditions = (owner.get("status") or {}).get("conditions")
    if conditions:
        status["conditions"] = conditions
    return without_zeros(status, "replicas", "collisionCount", "availableReplicas")
