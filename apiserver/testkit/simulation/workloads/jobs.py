"""Plans for Jobs: runs pods until enough of them have succeeded, or too many have failed. Pure.

Each pod is counted exactly once, even if the server stops in between: an ended pod is first noted in the
status (uncountedTerminatedPods, completedIndexes), then loses its finalizer, and is counted when it has lost
it. Source of the rules: kubernetes, pkg/controller/job (job_controller.go, indexed_job_utils.go).
"""

from __future__ import annotations

import copy
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from apiserver.catalogue.batch.jobs.specs import InvalidIndexes, parse_indexes
from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition, is_condition_true
from apiserver.meta.owners import controller_of
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import PODS
from apiserver.testkit.simulation.workloads.failed_pods import doubled
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
    created,
    is_active,
    is_ready,
    is_terminating,
    new_pod,
    phase_of,
)

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
CONTROLLER: Final = "kubernetes.io/job-controller"
# A tenth of Kubernetes': how long a failed pod is waited for before another one is created.
RETRY_DELAY_S: Final = 1.0
RETRY_DELAY_S_MAX: Final = 60.0
BURST_MAX: Final = 500


class _End(NamedTuple):
    """The reason why a Job ends. interim: the condition until all its pods have ended; final: the one after
    that.
    """

    interim: str
    final: str
    reason: str
    message: str


_COMPLETE: Final = _End(
    "SuccessCriteriaMet", "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
)


def _failure(reason: str, message: str) -> _End:
    return _End("FailureTarget", "Failed", reason, message)


@dataclass(slots=True)
class _Job:
    owner: Document
    pods: list[Document]
    now: float
    plan: WorkloadPlan = field(default_factory=WorkloadPlan)
    # Uids of ended pods that are not counted yet.
    succeeded_uids: list[str] = field(default_factory=list)
    failed_uids: list[str] = field(default_factory=list)
    succeeded: int = 0
    failed: int = 0
    indexes: set[int] = field(default_factory=set)
    refusal: _End | None = None

    @property
    def spec(self) -> Document:
        spec: Document = self.owner["spec"]
        return spec

    @property
    def before(self) -> Document:
        status: Document = self.owner.get("status") or {}
        return status

    @property
    def is_indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def active(self) -> list[Document]:
        return [pod for pod in self.pods if is_active(pod)]

    @property
    def terminating(self) -> list[Document]:
        return [pod for pod in self.pods if is_terminating(pod) and phase_of(pod) not in ENDED]

    @property
    def waits_for_ends(self) -> bool:
        """Whether a pod that is being deleted counts as failed, and is replaced, only once it has ended."""
        return (
            self.spec.get("podReplacementPolicy") == "Failed" or self.spec.get("podFailurePolicy") is not None
        )

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def all_succeeded(self) -> int:
        return len(self.indexes) if self.is_indexed else self.succeeded + len(self.succeeded_uids)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.failed_uids)


def is_ours(owner: Document) -> bool:
    return bool(owner["spec"].get("managedBy", CONTROLLER) == CONTROLLER)


def is_finished(owner: Document) -> bool:
    return is_condition_true(owner, "Complete") or is_condition_true(owner, "Failed")


def plan_job(owner: Document, pods: Sequence[Document], now: float) -> WorkloadPlan:
    """Returns the plan for a Job.

    pods: those that it manages, or might adopt. now: seconds since 1970.
    """
    plan = WorkloadPlan()
    if not is_ours(owner):
        return plan
    if is_finished(owner):
        uid = owner["metadata"]["uid"]
        mine = [pod for pod in pods if (controller_of(pod) or {}).get("uid") == uid]
        plan.updates += [UpdateObject(PODS, pod, released) for pod in mine if is_tracked(pod)]
        return plan
    job = _Job(owner, sorted(claim(owner, PODS, pods, plan, finalizer=FINALIZER), key=created), now, plan)
    _count(job)
    end = _end(job)
    if end is not None:
        if end.final == "Failed":
            plan.deletes += [DeleteObject(PODS, pod) for pod in job.active]
        else:
            _delete_uncounted(job, job.active)
    elif job.is_suspended:
        _delete_uncounted(job, job.active)
    elif not is_terminating(owner):
        _scale(job)
    plan.status = _status(job, end)
    return plan


def orphan_plan(pod: Document) -> WorkloadPlan:
    """Releases a pod whose Job was deleted, or that has no Job any more, so that it can be deleted, too."""
    owner = controller_of(pod)

    def release(found: Document) -> bool:
        return controller_of(found) == owner and released(found)

    return WorkloadPlan(updates=[UpdateObject(PODS, pod, release)] if is_tracked(pod) else [])


def is_tracked(pod: Document) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def released(pod: Document) -> bool:
    """Remove the finalizer from a pod."""
    finalizers = pod["metadata"].get("finalizers") or []
    pod["metadata"]["finalizers"] = [each for each in finalizers if each != FINALIZER]
    return FINALIZER in finalizers


# ---- counting


def _count(job: _Job) -> None:
    before = job.before
    tracked = {pod["metadata"]["uid"] for pod in job.pods if is_tracked(pod)}
    (job.succeeded, job.succeeded_uids), (job.failed, job.failed_uids) = (
        _counted(kind, before, tracked) for kind in ("succeeded", "failed")
    )
    job.indexes = _indexes(before.get("completedIndexes", ""), job.spec.get("completions") or 0)
    stored = set(job.indexes)
    noted = {*job.succeeded_uids, *job.failed_uids}
    for pod in job.pods:
        uid = pod["metadata"]["uid"]
        if uid not in tracked:
            continue
        if uid in noted:
            job.plan.updates.append(UpdateObject(PODS, pod, released))
        elif phase_of(pod) == "Succeeded":
            if not job.is_indexed:
                job.succeeded_uids.append(uid)
                continue
            index = _index(pod)
            if index is None or index in stored:
                job.plan.updates.append(UpdateObject(PODS, pod, released))
            else:
                job.indexes.add(index)
        elif phase_of(pod) == "Failed" or (is_terminating(pod) and not job.waits_for_ends):
            action, why = _action(job.spec, pod)
            if action == "Ignore":
                job.plan.updates.append(UpdateObject(PODS, pod, released))
                continue
            if action == "FailJob" and job.refusal is None:
                job.refusal = _failure("PodFailurePolicy", why)
            job.failed_uids.append(uid)


def _counted(kind: str, before: Document, tracked: Container[str]) -> tuple[int, list[str]]:
    """Returns how many pods count as ended, and the uids of those that still have their finalizer."""
    noted = (before.get("uncountedTerminatedPods") or {}).get(kind) or ()
    waiting = [uid for uid in noted if uid in tracked]
    return before.get(kind, 0) + len(noted) - len(waiting), waiting


def _action(spec: Document, pod: Document) -> tuple[str, str]:
    """Returns the action of the failure policy for a failed pod, and the reason; Count by default."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for number, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        action = str(rule["action"])
        matched = f"matching {action} rule at index {number}"
        codes = rule.get("onExitCodes")
        for each in _ended(pod) if codes is not None else ():
            if _matches_code(codes, each):
                code = each["state"]["terminated"]["exitCode"]
                return (
                    action,
                    f"Container {each['name']} for pod {name} failed with exit code {code} {matched}",
                )
        for pattern in rule.get("onPodConditions") or ():
            found = find_condition(pod, pattern["type"])
            if found is not None and found.get("status") == pattern.get("status", "True"):
                return action, f"Pod {name} has condition {pattern['type']} {matched}"
    return "Count", ""


def _ended(pod: Document) -> list[Document]:
    return [
        each
        for each in _container_statuses(pod)
        if ((each.get("state") or {}).get("terminated") or {}).get("exitCode")
    ]


def _matches_code(rule: Document, status: Document) -> bool:
    if rule.get("containerName") and rule["containerName"] != status["name"]:
        return False
    code = status["state"]["terminated"]["exitCode"]
    return bool((code in rule["values"]) == (rule["operator"] == "In"))


def _index(pod: Document) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _indexes(text: str, completions: int) -> set[int]:
    try:
        return {each for first, last in parse_indexes(text, completions) for each in range(first, last + 1)}
    except InvalidIndexes:
        return set()


def indexes_text(indexes: set[int]) -> str:
    """Returns indexes in the form of a status: `1,3-5,7`, and `0,1` for two consecutive ones."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    texts = [",".join(map(str, part)) if len(part) < 3 else f"{part[0]}-{part[-1]}" for part in parts]
    return ",".join(texts)


# ---- the end


def _end(job: _Job) -> _End | None:
    """Returns how the Job ends, if it does; an end that has begun continues."""
    for kind, final in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
        if is_condition_true(job.owner, kind) and (found := find_condition(job.owner, kind)):
            return _End(kind, final, found.get("reason", ""), found.get("message", ""))
    if job.refusal is not None:
        return job.refusal
    limit = job.spec.get("backoffLimit", 6)
    restarts = sum(_restarts(pod) for pod in job.active)
    is_restarting = job.spec["template"]["spec"].get("restartPolicy") == "OnFailure"
    if job.all_failed > limit or (is_restarting and restarts > 0 and restarts >= limit):
        return _failure("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline_s, started = job.spec.get("activeDeadlineSeconds"), job.before.get("startTime")
    if deadline_s is not None and started and not job.is_suspended:
        left_s = (timestamps.from_text(started) or job.now) + deadline_s - job.now
        if left_s <= 0:
            return _failure("DeadlineExceeded", "Job was active longer than specified deadline")
        job.plan.look_again(left_s)
    completions = job.spec.get("completions")
    if completions is None:
        is_complete = job.all_succeeded > 0 and not job.active
    else:
        is_complete = job.all_succeeded >= completions
    return _COMPLETE if is_complete else None


def _restarts(pod: Document) -> int:
    return sum(each.get("restartCount", 0) for each in _container_statuses(pod))


def _container_statuses(pod: Document) -> list[Document]:
    status = pod.get("status") or {}
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def _delete_uncounted(job: _Job, pods: Sequence[Document]) -> None:
    """Delete pods that do not count as failed, because there are too many, or the Job is suspended."""
    job.plan.updates += [UpdateObject(PODS, pod, released) for pod in pods if is_tracked(pod)]
    job.plan.deletes += [DeleteObject(PODS, pod) for pod in pods]


# ---- new pods


def _scale(job: _Job) -> None:
    active, parallelism = job.active, job.spec.get("parallelism", 1)
    completions = job.spec.get("completions")
    if completions is not None:
        wanted = min(parallelism, completions - job.all_succeeded)
    else:
        wanted = min(parallelism, len(active)) if job.all_succeeded else parallelism
    if len(active) > wanted:
        surplus = sorted(active, key=lambda pod: (is_ready(pod), created(pod)))
        _delete_uncounted(job, surplus[: len(active) - max(wanted, 0)])
        return
    # Of an index, or in its place, there is no second pod while the first one has to end.
    ending = job.terminating if job.waits_for_ends else []
    missing = min(wanted - len(active) - len(ending), BURST_MAX)
    if missing <= 0:
        return
    wait_s = _retry_in_s(job)
    if wait_s > 0:
        job.plan.look_again(wait_s)
        return
    if not job.is_indexed:
        job.plan.creates += [CreateObject(PODS, _new_pod(job, None)) for _ in range(missing)]
        return
    taken = {_index(pod) for pod in (*active, *ending)} | job.indexes
    free = (index for index in range(completions or 0) if index not in taken)
    job.plan.creates += [
        CreateObject(PODS, _new_pod(job, index)) for index, _ in zip(free, range(missing), strict=False)
    ]


def _retry_in_s(job: _Job) -> float:
    """Returns how long to wait for the next pod after a failure, which doubles with each one since a success.

    Failures that a failure policy ignores count here, too.
    Source of the rules: kubernetes, pkg/controller/job/backoff_utils.go.
    """
    failed_at = [_finished_at(pod) for pod in job.pods if _has_failed(job, pod)]
    last_success = max((_finished_at(pod) for pod in job.pods if phase_of(pod) == "Succeeded"), default=None)
    if last_success is not None:
        # Times have whole seconds: in the same one, either may have been the later.
        failed_at = [each for each in failed_at if each >= last_success]
    if not failed_at:
        return 0.0
    # Some may have been deleted since they failed.
    failures = len(failed_at) if last_success is not None else max(len(failed_at), job.all_failed)
    return max(failed_at) + doubled(RETRY_DELAY_S, failures, RETRY_DELAY_S_MAX) - job.now


def _has_failed(job: _Job, pod: Document) -> bool:
    return phase_of(pod) == "Failed" or (
        is_terminating(pod) and phase_of(pod) != "Succeeded" and not job.waits_for_ends
    )


def _finished_at(pod: Document) -> float:
    """Returns when a pod has ended: by its containers, its readiness, or its deletion."""
    meta, status = pod["metadata"], pod.get("status") or {}
    ended = [(each.get("state") or {}).get("terminated") for each in status.get("containerStatuses") or ()]
    texts = [(each or {}).get("finishedAt") or "" for each in ended]
    if texts and all(texts):
        return max(timestamps.from_text(each) or 0.0 for each in texts)
    ready = find_condition(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return timestamps.from_text(ready["lastTransitionTime"]) or 0.0
    if is_terminating(pod):
        ends_at = timestamps.from_text(meta["deletionTimestamp"]) or 0.0
        return ends_at - (meta.get("deletionGracePeriodSeconds") or 0)
    return timestamps.from_text(meta.get("creationTimestamp") or "") or 0.0


def _new_pod(job: _Job, index: int | None) -> Document:
    labels = {} if index is None else {INDEX: str(index)}
    pod = new_pod(job.owner, job.spec["template"], labels)
    meta, spec = pod["metadata"], pod["spec"]
    meta["finalizers"] = [*meta.get("finalizers", []), FINALIZER]
    if index is not None:
        name = f"{job.owner['metadata']['name']}-{index}"
        meta["generateName"] = f"{name}-"
        meta["annotations"] = {**meta.get("annotations", {}), INDEX: str(index)}
        spec["hostname"] = name
        value = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            env = container.get("env") or []
            if all(each["name"] != value["name"] for each in env):
                container["env"] = [*copy.deepcopy(env), value]
    return pod


# ---- status


def _status(job: _Job, end: _End | None) -> Document:
    owner, plan, now = job.owner, job.plan, timestamps.to_text(job.now)
    going = {each.found["metadata"]["uid"] for each in plan.deletes}
    active = [pod for pod in job.active if pod["metadata"]["uid"] not in going]
    terminating = sum(
        (is_terminating(pod) or pod["metadata"]["uid"] in going) and phase_of(pod) not in ENDED
        for pod in job.pods
    )
    conditions = conditions_of(owner)
    started = job.before.get("startTime")

    def put(kind: str, value: str, reason: str, message: str) -> None:
        nonlocal conditions
        found = find_condition(owner, kind)
        wanted: Document = {"type": kind, "status": value, "reason": reason, "message": message}
        if found is not None and all(found.get(name) == text for name, text in wanted.items()):
            return
        conditions = with_condition(conditions, {**wanted, "lastProbeTime": now}, now)

    if end is None and job.is_suspended:
        put("Suspended", "True", "JobSuspended", "Job suspended")
        started = None
    elif end is None and is_condition_true(owner, "Suspended"):
        put("Suspended", "False", "JobResumed", "Job resumed")
    if started is None and not (end is None and job.is_suspended):
        started = now
    status: Document = {
        "uncountedTerminatedPods": _uncounted(job),
        "ready": sum(map(is_ready, active)),
        "terminating": terminating,
    }
    counters = {
        "active": len(active),
        "succeeded": len(job.indexes) if job.is_indexed else job.succeeded,
        "failed": job.failed,
    }
    status |= {name: count for name, count in counters.items() if count}
    if job.indexes:
        status["completedIndexes"] = indexes_text(job.indexes)
    if started is not None:
        status["startTime"] = started
    if end is not None:
        put(end.interim, "True", end.reason, end.message)
        if not (active or terminating or job.succeeded_uids or job.failed_uids or plan.updates):
            put(end.final, "True", end.reason, end.message)
            if end.final == "Complete":
                status["completionTime"] = now
    if conditions:
        status["conditions"] = conditions
    return status


def _uncounted(job: _Job) -> Document:
    listed = {"succeeded": job.succeeded_uids, "failed": job.failed_uids}
    return {name: uids for name, uids in listed.items() if uids}
