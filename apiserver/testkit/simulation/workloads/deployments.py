"""Plans for Deployments: scales their ReplicaSets until all pods are of the newest one. Pure.

Source of the rules: kubernetes, pkg/controller/deployment (rolling.go, recreate.go, sync.go, progress.go).
"""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition
from apiserver.meta.owners import controller_reference
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import DEPLOYMENTS, REPLICA_SETS
from apiserver.testkit.simulation.workloads.plans import (
    CreateObject,
    DeleteObject,
    UpdateObject,
    WorkloadPlan,
    conditions_of,
    with_condition,
)
from apiserver.testkit.simulation.workloads.pods import (
    ENDED,
    claim,
    copied_annotations,
    created,
    is_terminating,
    phase_of,
    rolls_updates_out,
    scaled,
    short_hash,
)
from apiserver.testkit.simulation.workloads.replica_sets import without_zeros

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = (REVISION, HISTORY, DESIRED, MAXIMUM, "deprecated.deployment.rollback.to")
_AVAILABLE: Final = ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
_UNAVAILABLE: Final = (
    "Available",
    "False",
    "MinimumReplicasUnavailable",
    "Deployment does not have minimum availability.",
)
# No deadline, as Kubernetes stores it.
_NO_DEADLINE_S: Final = (1 << 31) - 1


@dataclass(slots=True)
class _Rollout:
    """A Deployment with its ReplicaSets. new: that of its template; None if it does not exist yet."""

    owner: Document
    new: Document | None
    old: list[Document]
    plan: WorkloadPlan
    now: float

    @property
    def wanted(self) -> int:
        replicas: int = self.owner["spec"].get("replicas", 1)
        return replicas

    @property
    def sets(self) -> list[Document]:
        return [*self.old, self.new] if self.new is not None else self.old

    @property
    def is_rolling(self) -> bool:
        return rolls_updates_out(self.owner, "strategy")

    @property
    def bounds(self) -> tuple[int, int]:
        """Returns how many pods may exist beyond the desired ones, and how many of these may be
        unavailable.
        """
        if not self.is_rolling:
            return 0, self.wanted
        rolling = (self.owner["spec"].get("strategy") or {}).get("rollingUpdate") or {}
        surge = scaled(rolling.get("maxSurge", "25%"), self.wanted, rounds_up=True)
        missing = scaled(rolling.get("maxUnavailable", "25%"), self.wanted, rounds_up=False)
        if not surge and not missing:
            missing = 1
        return surge, min(missing, self.wanted)

    @property
    def most(self) -> int:
        return self.wanted + self.bounds[0] if self.wanted else 0

    @property
    def least(self) -> int:
        return self.wanted - self.bounds[1]


def plan_deployment(
    owner: Document,
    sets: Sequence[Document],
    names: Container[str],
    pods: Mapping[str, Sequence[Document]],
    now: float,
) -> WorkloadPlan:
    """Returns the plan for a Deployment.

    sets: the ReplicaSets that it manages, or might adopt. names: those of all ReplicaSets of the namespace.
    pods: those of each set, by the set's uid. now: seconds since 1970.
    """
    plan = WorkloadPlan()
    mine = sorted(claim(owner, REPLICA_SETS, sets, plan), key=created)
    new = next((each for each in mine if _is_of_template(each, owner)), None)
    rollout = _Rollout(owner, new, [each for each in mine if each is not new], plan, now)
    if is_terminating(owner):
        plan.status = _status(rollout, collisions=_collisions(owner))
        return plan
    has_collided = False
    if owner["spec"].get("paused"):
        _scale_all(rollout)
    elif _is_resized(rollout):
        _keep_revision(rollout)
        _scale_all(rollout)
    elif new is None:
        if rollout.is_rolling or not _empty_old(rollout, pods):
            has_collided = _add_new(rollout, names)
    else:
        _keep_revision(rollout)
        if rollout.is_rolling:
            _roll(rollout, new)
        elif not _empty_old(rollout, pods):
            _scale(rollout, new, rollout.wanted)
    plan.status = _status(rollout, collisions=_collisions(owner) + has_collided)
    if new is not None and not plan.changes_objects and _is_complete(rollout, plan.status):
        _forget_old(rollout)
    return plan


# ---- ReplicaSets


def _is_of_template(found: Document, owner: Document) -> bool:
    return _without_hash(found["spec"]["template"]) == _without_hash(owner["spec"]["template"])


def _without_hash(template: Document) -> Document:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
    rest = {key: value for key, value in meta.items() if key != "labels" and value}
    return {**template, "metadata": {**rest, "labels": labels}}


def _collisions(owner: Document) -> int:
    count: int = (owner.get("status") or {}).get("collisionCount") or 0
    return count


def revision_of(found: Document) -> int:
    """Returns the revision in the annotations of a Deployment or a ReplicaSet; 0 if there is none."""
    text = (found["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _next_revision(rollout: _Rollout) -> int:
    return max(map(revision_of, rollout.old), default=0) + 1


def _add_new(rollout: _Rollout, names: Container[str]) -> bool:
    """Create the ReplicaSet of the template; returns whether another one has its name."""
    owner, meta = rollout.owner, rollout.owner["metadata"]
    template = copy.deepcopy(owner["spec"]["template"])
    code = short_hash([_without_hash(template), _collisions(owner)])
    name = f"{meta['name']}-{code}"
    if name in names:
        return True
    template.setdefault("metadata", {}).setdefault("labels", {})[HASH] = code
    selector = copy.deepcopy(owner["spec"]["selector"])
    selector.setdefault("matchLabels", {})[HASH] = code
    there = sum(_replicas(each) for each in rollout.old)
    replicas = min(rollout.wanted, max(rollout.most - there, 0)) if rollout.is_rolling else rollout.wanted
    revision = _next_revision(rollout)
    rollout.plan.creates.append(
        CreateObject(
            REPLICA_SETS,
            {
                "metadata": {
                    "name": name,
                    "namespace": meta["namespace"],
                    "labels": dict(template["metadata"]["labels"]),
                    "annotations": {
                        **copied_annotations(owner, *_NOT_COPIED),
                        REVISION: str(revision),
                        **_sizes(rollout),
                    },
                    "ownerReferences": [controller_reference(owner)],
                },
                "spec": {
                    "replicas": replicas,
                    "minReadySeconds": owner["spec"].get("minReadySeconds", 0),
                    "selector": selector,
                    "template": template,
                },
            },
        )
    )
    _tell_revision(rollout, revision)
    return False


def _sizes(rollout: _Rollout) -> Document:
    return {DESIRED: str(rollout.wanted), MAXIMUM: str(rollout.wanted + rollout.bounds[0])}


def _keep_revision(rollout: _Rollout) -> None:
    """Give the new ReplicaSet the highest revision, and the Deployment the same."""
    new, owner = rollout.new, rollout.owner
    if new is None:
        return
    revision = max(revision_of(new), _next_revision(rollout))
    wanted_annotations = {**copied_annotations(owner, *_NOT_COPIED), REVISION: str(revision)}
    min_ready_s = owner["spec"].get("minReadySeconds", 0)

    def change(found: Document) -> bool:
        annotations = found["metadata"].get("annotations") or {}
        wanted = {**annotations, **wanted_annotations}
        before = annotations.get(REVISION, "")
        if before and before != str(revision):
            history = [each for each in annotations.get(HISTORY, "").split(",") if each]
            wanted[HISTORY] = ",".join([*history, before])
        is_changed = wanted != annotations or found["spec"].get("minReadySeconds", 0) != min_ready_s
        found["metadata"]["annotations"] = wanted
        found["spec"]["minReadySeconds"] = min_ready_s
        return is_changed

    if change(copy.deepcopy(new)):
        rollout.plan.updates.append(UpdateObject(REPLICA_SETS, new, change))
    _tell_revision(rollout, revision)


def _tell_revision(rollout: _Rollout, revision: int) -> None:
    if revision_of(rollout.owner) == revision:
        return

    def change(found: Document) -> bool:
        annotations = {**(found["metadata"].get("annotations") or {}), REVISION: str(revision)}
        found["metadata"]["annotations"] = annotations
        return True

    rollout.plan.updates.append(UpdateObject(DEPLOYMENTS, rollout.owner, change))


def _forget_old(rollout: _Rollout) -> None:
    """Delete the oldest ReplicaSets without pods, beyond the number kept for rollbacks."""
    limit = rollout.owner["spec"].get("revisionHistoryLimit", 10)
    idle = [
        each
        for each in sorted(rollout.old, key=revision_of)
        if not _replicas(each) and not _counted(each, "replicas") and not is_terminating(each)
    ]
    rollout.plan.deletes += [DeleteObject(REPLICA_SETS, each) for each in idle[: max(len(idle) - limit, 0)]]


# ---- scaling


def _replicas(found: Document) -> int:
    replicas: int = found["spec"].get("replicas", 1)
    return replicas


def _counted(found: Document, counter: str) -> int:
    count: int = (found.get("status") or {}).get(counter, 0)
    return count


def _scale(rollout: _Rollout, found: Document, replicas: int) -> bool:
    """Scale a ReplicaSet; returns whether it has another size now."""
    sizes = _sizes(rollout)

    def change(live: Document) -> bool:
        annotations = live["metadata"].get("annotations") or {}
        is_changed = live["spec"].get("replicas") != replicas or not sizes.items() <= annotations.items()
        live["spec"]["replicas"] = replicas
        live["metadata"]["annotations"] = {**annotations, **sizes}
        return is_changed

    if not change(copy.deepcopy(found)):
        return False
    rollout.plan.updates.append(UpdateObject(REPLICA_SETS, found, change))
    return True


def _is_resized(rollout: _Rollout) -> bool:
    """Returns whether the Deployment was scaled after its ReplicaSets."""
    for each in rollout.sets:
        desired = (each["metadata"].get("annotations") or {}).get(DESIRED)
        if _replicas(each) and desired is not None and desired != str(rollout.wanted):
            return True
    return False


def _scale_all(rollout: _Rollout) -> None:
    """Scale all ReplicaSets proportionally, so that they have the desired number of pods together."""
    active = [each for each in rollout.sets if _replicas(each)]
    if len(active) <= 1:
        only = active[0] if active else rollout.new or (rollout.old[-1] if rollout.old else None)
        if only is not None:
            _scale(rollout, only, rollout.wanted)
        return
    if not rollout.is_rolling:
        return
    left = rollout.most - sum(map(_replicas, active))
    newest_first = sorted(active, key=created, reverse=left > 0)
    newest_first.sort(key=_replicas, reverse=True)
    sizes = []
    for each in newest_first:
        share = _share(rollout, each) if left else 0
        share = max(min(share, left), 0) if left > 0 else min(max(share, left), 0)
        sizes.append(_replicas(each) + share)
        left -= share
    sizes[0] = max(sizes[0] + left, 0)
    for each, size in zip(newest_first, sizes, strict=True):
        _scale(rollout, each, size)


def _share(rollout: _Rollout, found: Document) -> int:
    """Returns by how much a ReplicaSet grows with the Deployment; negative if it shrinks."""
    if not rollout.wanted:
        return -_replicas(found)
    text = (found["metadata"].get("annotations") or {}).get(MAXIMUM, "")
    before = int(text) if text.isascii() and text.isdigit() and int(text) else rollout.most
    return round(_replicas(found) * rollout.most / before) - _replicas(found)


def _roll(rollout: _Rollout, new: Document) -> None:
    """Scale the new ReplicaSet up and the old ones down, as far as the bounds allow."""
    if _replicas(new) > rollout.wanted:
        grown = rollout.wanted
    else:
        room = rollout.most - sum(map(_replicas, rollout.sets))
        grown = min(_replicas(new) + max(room, 0), rollout.wanted)
    if _scale(rollout, new, grown):
        return
    missing_of_new = _replicas(new) - _counted(new, "availableReplicas")
    room = sum(map(_replicas, rollout.sets)) - rollout.least - missing_of_new
    if room <= 0:
        return
    left = [_replicas(each) for each in rollout.old]
    for place, each in enumerate(rollout.old):  # What is not available is not missed.
        cut = max(min(room, left[place] - _counted(each, "availableReplicas")), 0)
        left[place] -= cut
        room -= cut
    spare = sum(_counted(each, "availableReplicas") for each in rollout.sets) - rollout.least
    for place, each in enumerate(rollout.old):
        cut = max(min(spare, left[place]), 0)
        spare -= cut
        if left[place] - cut != _replicas(each):
            _scale(rollout, each, left[place] - cut)


def _empty_old(rollout: _Rollout, pods: Mapping[str, Sequence[Document]]) -> bool:
    """Scale the old ReplicaSets down to zero; returns whether some of their pods still exist."""
    is_scaled = [_scale(rollout, each, 0) for each in rollout.old if _replicas(each)]
    running = [
        pod
        for each in rollout.old
        for pod in pods.get(each["metadata"]["uid"], ())
        if phase_of(pod) not in ENDED
    ]
    return any(is_scaled) or bool(running)


# ---- status


def _is_complete(rollout: _Rollout, status: Document) -> bool:
    counters = ("updatedReplicas", "replicas", "availableReplicas")
    return all(status.get(counter, 0) == rollout.wanted for counter in counters)


def _status(rollout: _Rollout, *, collisions: int) -> Document:
    owner, now = rollout.owner, timestamps.to_text(rollout.now)
    total = sum(_counted(each, "replicas") for each in rollout.sets)
    available = sum(_counted(each, "availableReplicas") for each in rollout.sets)
    status: Document = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "replicas": total,
        "updatedReplicas": _counted(rollout.new, "replicas") if rollout.new is not None else 0,
        "readyReplicas": sum(_counted(each, "readyReplicas") for each in rollout.sets),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(map(_replicas, rollout.sets)) - available, 0),
        "collisionCount": collisions,
    }
    has_enough = available >= rollout.least
    conditions = _put(rollout, conditions_of(owner), _AVAILABLE if has_enough else _UNAVAILABLE, now)
    if (progress := _progress(rollout, status)) is not None:
        conditions = _put(rollout, conditions, progress, now, is_renewed=_has_progressed(rollout, status))
    failures = [found for each in rollout.sets if (found := find_condition(each, "ReplicaFailure"))]
    if failures:
        why = ("ReplicaFailure", "True", failures[0].get("reason", ""), failures[0].get("message", ""))
        conditions = _put(rollout, conditions, why, now)
    else:
        conditions = [each for each in conditions if each.get("type") != "ReplicaFailure"]
    return without_zeros({**status, "conditions": conditions})


def _put(
    rollout: _Rollout,
    conditions: Sequence[Document],
    wanted: tuple[str, str, str, str],
    now: str,
    *,
    is_renewed: bool = False,
) -> list[Document]:
    """Returns conditions with one added or replaced. is_renewed: whether its time is updated even if it is
    unchanged.
    """
    kind, value, reason, message = wanted
    condition: Document = {"type": kind, "status": value, "reason": reason, "message": message}
    before = find_condition(rollout.owner, kind)
    is_same = before is not None and all(before.get(name) == text for name, text in condition.items())
    kept = before.get("lastUpdateTime") if before is not None and is_same and not is_renewed else None
    condition["lastUpdateTime"] = kept or now
    return with_condition(conditions, condition, now)


def _has_progressed(rollout: _Rollout, status: Document) -> bool:
    before = rollout.owner.get("status") or {}

    def old_pods(of: Document) -> int:
        return int(of.get("replicas", 0)) - int(of.get("updatedReplicas", 0))

    return any(
        status[counter] > before.get(counter, 0)
        for counter in ("updatedReplicas", "readyReplicas", "availableReplicas")
    ) or old_pods(status) < old_pods(before)


def _progress(rollout: _Rollout, status: Document) -> tuple[str, str, str, str] | None:
    """Returns the condition about the progress of the rollout; None if the current one remains."""
    owner, kind = rollout.owner, "Progressing"
    deadline_s = owner["spec"].get("progressDeadlineSeconds", _NO_DEADLINE_S)
    before: Document = find_condition(owner, kind) or {}
    if deadline_s == _NO_DEADLINE_S:
        return None
    if owner["spec"].get("paused"):
        return (kind, "Unknown", "DeploymentPaused", "Deployment is paused")
    if before.get("reason") == "DeploymentPaused":
        return (kind, "Unknown", "DeploymentResumed", "Deployment is resumed")
    if rollout.new is None:
        names = [each.document["metadata"]["name"] for each in rollout.plan.creates]
        if not names:
            return None
        return (kind, "True", "NewReplicaSetCreated", f'Created new replica set "{names[0]}"')
    name = f'ReplicaSet "{rollout.new["metadata"]["name"]}"'
    if _is_complete(rollout, status):
        return (kind, "True", "NewReplicaSetAvailable", f"{name} has successfully progressed.")
    if _has_progressed(rollout, status) or not before or _is_new_rollout(rollout):
        return (kind, "True", "ReplicaSetUpdated", f"{name} is progressing.")
    if before.get("reason") == "NewReplicaSetAvailable":
        return None
    since = timestamps.from_text(before.get("lastUpdateTime") or "")
    left_s = (since if since is not None else rollout.now) + deadline_s - rollout.now
    if left_s <= 0:
        return (kind, "False", "ProgressDeadlineExceeded", f"{name} has timed out progressing.")
    rollout.plan.look_again(left_s)
    return None


def _is_new_rollout(rollout: _Rollout) -> bool:
    """Returns whether the template has changed back to that of an existing ReplicaSet."""
    return rollout.new is not None and revision_of(rollout.new) < _next_revision(rollout)
