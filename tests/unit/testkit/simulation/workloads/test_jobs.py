"""Jobs: pods until enough have succeeded, or too many have failed.

https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition, is_condition_true
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import JOBS, PODS
from apiserver.testkit.simulation.workloads.jobs import FINALIZER, INDEX, indexes_text, orphan_plan
from tests.unit.testkit.simulation.workloads.cluster import NOW_S, Cluster, running, template


def succeed(_: Document) -> tuple[str, bool]:
    return "Succeeded", False


def fail(_: Document) -> tuple[str, bool]:
    return "Failed", False


def add_job(cluster: Cluster, *, restart_policy: str = "Never", **spec: Any) -> Document:
    defaults = {"completions": 1, "parallelism": 1, "backoffLimit": 6}
    full = template(restartPolicy=restart_policy)
    return cluster.add(JOBS, "j", **{**defaults, "template": full, **spec})


def settled_job(
    run: Callable[[Document], tuple[str, bool]] = running, *, restart_policy: str = "Never", **spec: Any
) -> tuple[Cluster, Document]:
    cluster = Cluster(run=run)
    job = add_job(cluster, restart_policy=restart_policy, **spec)
    cluster.settle()
    return cluster, job


def condition_of(job: Document, kind: str) -> Document:
    found = find_condition(job, kind)
    assert found is not None
    return found


def let_all_end(cluster: Cluster, job: Document) -> None:
    for _ in range(30):
        cluster.settle()
        if is_condition_true(job, "Complete") or is_condition_true(job, "Failed"):
            return
        cluster.now += 60  # Longer than any delay of a retry.
    raise AssertionError(job["status"])


# The Job, what becomes of its pods, the condition at the end and its reason, how many succeeded and failed.
ENDS: Final[dict[str, tuple[dict[str, Any], Any, str, str, int, int]]] = {
    "one pod": ({}, succeed, "Complete", "CompletionsReached", 1, 0),
    "five, two at a time": (
        {"completions": 5, "parallelism": 2},
        succeed,
        "Complete",
        "CompletionsReached",
        5,
        0,
    ),
    "none": ({"completions": 0}, succeed, "Complete", "CompletionsReached", 0, 0),
    "a work queue": (
        {"completions": None, "parallelism": 3},
        succeed,
        "Complete",
        "CompletionsReached",
        3,
        0,
    ),
    "it fails": ({"backoffLimit": 0}, fail, "Failed", "BackoffLimitExceeded", 0, 1),
    "it fails again and again": ({"backoffLimit": 3}, fail, "Failed", "BackoffLimitExceeded", 0, 4),
    "indexed": (
        {"completions": 4, "parallelism": 4, "completionMode": "Indexed"},
        succeed,
        "Complete",
        "CompletionsReached",
        4,
        0,
    ),
}


@pytest.mark.parametrize(("spec", "run", "kind", "reason", "succeeded", "failed"), ENDS.values(), ids=ENDS)
def test_ends(spec: dict[str, Any], run: Any, kind: str, reason: str, succeeded: int, failed: int) -> None:
    cluster, job = settled_job(run, **spec)
    let_all_end(cluster, job)
    status = job["status"]
    condition = condition_of(job, kind)
    assert (condition["status"], condition["reason"]) == ("True", reason)
    assert (status.get("succeeded", 0), status.get("failed", 0)) == (succeeded, failed)
    assert ("completionTime" in status) == (kind == "Complete")
    assert status["uncountedTerminatedPods"] == {}
    assert len(cluster.pods()) == succeeded + failed
    assert not any(pod["metadata"]["finalizers"] for pod in cluster.pods())


def test_no_more_pods_at_a_time_than_are_allowed() -> None:
    cluster = Cluster(run=succeed)
    job = add_job(cluster, completions=7, parallelism=2)
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, sum(pod["status"]["phase"] in ("Pending", "Running") for pod in cluster.pods()))

    cluster.settle(look)
    assert most == 2
    assert job["status"]["succeeded"] == 7


def test_pods_carry_what_finds_them() -> None:
    cluster, _ = settled_job(
        lambda _: ("Pending", False), completions=2, parallelism=2, completionMode="Indexed"
    )
    pods = cluster.pods()
    assert [pod["metadata"]["annotations"][INDEX] for pod in pods] == ["0", "1"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["j-0", "j-1"]
    assert all(pod["metadata"]["finalizers"] == [FINALIZER] for pod in pods)
    assert pods[1]["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "1"}]


def test_an_index_that_failed_is_tried_again() -> None:
    failed = set[str]()

    def run(pod: Document) -> tuple[str, bool]:
        index = pod["metadata"]["annotations"][INDEX]
        if index == "1" and not failed:
            failed.add(index)
            return "Failed", False
        return "Succeeded", False

    cluster, job = settled_job(run, completions=3, parallelism=3, completionMode="Indexed")
    let_all_end(cluster, job)
    assert (job["status"]["completedIndexes"], job["status"]["failed"]) == ("0-2", 1)


def test_another_pod_comes_after_a_while() -> None:
    cluster, job = settled_job(fail)
    assert len(cluster.pods()) == 1
    assert cluster.plan(JOBS, job).again_s == pytest.approx(1)
    cluster.now += 1
    cluster.settle()
    assert len(cluster.pods()) == 2
    assert cluster.plan(JOBS, job).again_s == pytest.approx(2)


def test_a_suspended_job_has_no_pods_and_starts_anew() -> None:
    cluster, job = settled_job(completions=2, parallelism=2)
    assert (job["status"]["active"], len(cluster.pods())) == (2, 2)
    cluster.update(job, suspend=True)
    assert cluster.pods() == []
    suspended = condition_of(job, "Suspended")
    assert (suspended["status"], suspended["reason"]) == ("True", "JobSuspended")
    assert "startTime" not in job["status"]
    assert (job["status"].get("failed", 0), job["status"].get("active", 0)) == (0, 0)
    cluster.update(job, suspend=False)
    assert len(cluster.pods()) == 2
    assert not is_condition_true(job, "Suspended")
    assert "startTime" in job["status"]


def test_a_deadline_ends_what_runs() -> None:
    cluster, job = settled_job(activeDeadlineSeconds=30)
    assert cluster.plan(JOBS, job).again_s == pytest.approx(30)
    cluster.now += 30
    cluster.settle()
    condition = condition_of(job, "Failed")
    assert (condition["reason"], cluster.pods()) == ("DeadlineExceeded", [])


def test_restarts_count_as_failures() -> None:
    cluster, job = settled_job(restart_policy="OnFailure", backoffLimit=2)
    (pod,) = cluster.pods()
    pod["status"]["containerStatuses"][0]["restartCount"] = 2
    cluster.settle()
    condition = condition_of(job, "Failed")
    assert condition["reason"] == "BackoffLimitExceeded"


def test_fewer_pods_at_a_time() -> None:
    cluster, job = settled_job(completions=5, parallelism=3)
    cluster.update(job, parallelism=1)
    assert (len(cluster.pods()), job["status"].get("failed", 0)) == (1, 0)


def test_a_pod_that_somebody_deletes_has_failed() -> None:
    cluster, job = settled_job()
    cluster.pods()[0]["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    cluster.settle()
    assert job["status"]["failed"] == 1


# https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy
REPLACEMENTS: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "at once": ({}, 1),
    "when they have ended": ({"podReplacementPolicy": "Failed"}, 0),
    "likewise, with a failure policy": ({"podFailurePolicy": {"rules": []}}, 0),
}


@pytest.mark.parametrize(("spec", "failed"), REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_when_pods_that_are_being_deleted_have_failed(spec: dict[str, Any], failed: int) -> None:
    cluster, job = settled_job(**spec)
    pod = cluster.pods()[0]
    pod["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    plan = cluster.plan(JOBS, job)
    assert plan.status is not None
    assert plan.status["terminating"] == 1
    assert len(plan.status["uncountedTerminatedPods"].get("failed", [])) == failed
    assert len(plan.creates) == failed


CODE: Final = {"operator": "In", "values": [1]}
# The rules, the condition at the end and its reason.
POLICIES: Final = {
    "the job fails": ([{"action": "FailJob", "onExitCodes": CODE}], 1, "PodFailurePolicy"),
    "another exit code": (
        [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}}],
        2,
        "BackoffLimitExceeded",
    ),
    "the first rule that matches": (
        [{"action": "Count", "onExitCodes": CODE}, {"action": "FailJob", "onExitCodes": CODE}],
        2,
        "BackoffLimitExceeded",
    ),
    "another container": (
        [{"action": "FailJob", "onExitCodes": {**CODE, "containerName": "other"}}],
        2,
        "BackoffLimitExceeded",
    ),
}


@pytest.mark.parametrize(("rules", "pods", "reason"), POLICIES.values(), ids=POLICIES)
def test_failure_policies(rules: list[Document], pods: int, reason: str) -> None:
    cluster, job = settled_job(fail, backoffLimit=1, podFailurePolicy={"rules": rules})
    let_all_end(cluster, job)
    condition = condition_of(job, "Failed")
    assert (condition["reason"], len(cluster.pods())) == (reason, pods)


def test_a_failure_policy_tells_what_it_has_found() -> None:
    cluster = Cluster(run=fail)
    rules = [{"action": "Ignore", "onExitCodes": {**CODE, "containerName": "other"}}]
    job = add_job(cluster, podFailurePolicy={"rules": [*rules, {"action": "FailJob", "onExitCodes": CODE}]})
    let_all_end(cluster, job)
    condition = condition_of(job, "Failed")
    (name,) = cluster.names()
    what = f"Container c for pod default/{name} failed with exit code 1"
    assert condition["message"] == f"{what} matching FailJob rule at index 1"


def test_failures_that_are_ignored() -> None:
    cluster = Cluster(run=lambda _: ("Failed" if len(cluster.pods()) < 4 else "Succeeded", False))
    rules = [{"action": "Ignore", "onExitCodes": CODE}]
    job = add_job(cluster, backoffLimit=0, podFailurePolicy={"rules": rules})
    let_all_end(cluster, job)
    assert is_condition_true(job, "Complete")
    assert "failed" not in job["status"]


def test_a_job_of_another_controller_is_left_alone() -> None:
    cluster, job = settled_job(managedBy="example.com/queue")
    assert (cluster.pods(), "status" in job) == ([], False)


def test_pods_of_a_job_that_is_gone_are_released() -> None:
    cluster, _ = settled_job()
    (pod,) = cluster.pods()
    (update,) = orphan_plan(pod).updates
    assert update.change(pod)
    assert orphan_plan(pod).updates == []
    assert (update.resource, pod["metadata"]["finalizers"]) == (PODS, [])


def test_a_pod_that_was_adopted_meanwhile_is_not_released() -> None:
    orphan: Document = {"metadata": {"name": "p", "namespace": "default", "finalizers": [FINALIZER]}}
    (update,) = orphan_plan(orphan).updates
    orphan["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]
    assert not update.change(orphan)
    assert orphan["metadata"]["finalizers"] == [FINALIZER]


def test_a_pod_that_is_adopted_is_counted() -> None:
    cluster = Cluster()
    orphan = cluster.add(PODS, "p")
    orphan["metadata"]["labels"] = {"app": "a"}
    job = add_job(cluster)
    (adoption,) = cluster.plan(JOBS, job).adoptions
    assert adoption.change(orphan)
    assert orphan["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert orphan["metadata"]["finalizers"] == [FINALIZER]


def test_adopted_pods_are_enough_at_once_and_surplus_ones_have_not_failed() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.add(PODS, name)["metadata"]["labels"] = {"app": "a"}
    job = add_job(cluster, completions=2, parallelism=2)
    cluster.settle()
    assert [line for line in cluster.log if "Pod" in line] == [
        *(f"create Pod {name}" for name in ("a", "b", "c")),
        "delete Pod a",
    ]
    assert (job["status"]["active"], "failed" in job["status"]) == (2, False)


TEXTS: Final = {
    "none": (set[int](), ""),
    "one": ({3}, "3"),
    "two in a row": ({0, 1}, "0,1"),
    "three in a row": ({0, 1, 2}, "0-2"),
    "gaps": ({1, 3, 4, 5, 7}, "1,3-5,7"),
}


@pytest.mark.parametrize(("indexes", "text"), TEXTS.values(), ids=TEXTS)
def test_indexes(indexes: set[int], text: str) -> None:
    assert indexes_text(indexes) == text


def retries_of(cluster: Cluster, job: Document, count: int) -> list[float]:
    """Returns how long there is no other pod, each time that all that there are have failed."""
    waits = []
    for _ in range(count):
        cluster.settle()
        wait_s = cluster.plan(JOBS, job).again_s
        assert wait_s is not None
        waits.append(wait_s)
        cluster.now += wait_s
    return waits


def test_retries_come_less_and_less_often() -> None:
    cluster = Cluster(run=fail)
    job = add_job(cluster, backoffLimit=100)
    assert retries_of(cluster, job, 8) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_failures_that_are_ignored_are_waited_for_as_others() -> None:
    cluster = Cluster(run=fail)
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]
    job = add_job(cluster, podFailurePolicy={"rules": rules})
    assert retries_of(cluster, job, 4) == [1, 2, 4, 8]
    assert "failed" not in job["status"]


def test_a_success_ends_the_delays() -> None:
    outcomes = iter([fail, fail, succeed, fail, succeed])
    cluster = Cluster(run=lambda pod: next(outcomes)(pod))
    job = add_job(cluster, completions=2)
    assert retries_of(cluster, job, 2) == [1, 2]
    assert retries_of(cluster, job, 1) == [1]
    cluster.settle()
    assert is_condition_true(job, "SuccessCriteriaMet")


# The status of a pod that has failed now, and that has no time of its containers' end.
WITHOUT_END: Final[dict[str, Document]] = {
    "evicted": {"phase": "Failed", "reason": "Evicted"},
    "with a container that waits": {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {}}]},
    "without a state": {"phase": "Failed", "containerStatuses": [{"name": "c"}]},
    "not ready": {
        "phase": "Failed",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": timestamps.to_text(NOW_S)}],
    },
}


@pytest.mark.parametrize("status", WITHOUT_END.values(), ids=WITHOUT_END)
def test_a_pod_that_has_failed_without_its_containers_is_waited_for(status: Document) -> None:
    cluster, job = settled_job(lambda _: ("Pending", False))
    (pod,) = cluster.pods()
    pod["status"] = status
    pod["metadata"]["creationTimestamp"] = timestamps.to_text(NOW_S)
    cluster.settle()
    assert len(cluster.pods()) == 1
    assert cluster.plan(JOBS, job).again_s == 1
