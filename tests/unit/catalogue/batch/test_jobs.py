"""Jobs: defaults, generated selectors, what they may not be and may not become.

Source: k8s.io/kubernetes, pkg/apis/batch/v1/defaults.go, pkg/apis/batch/validation and
pkg/registry/batch/job/strategy.go (release 1.34).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.catalogue.batch.jobs.specs import InvalidIndexes, parse_indexes
from apiserver.golang.times import ZERO_TIME
from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import UID, Changes, ServedKind, assert_texts_begin

JOBS: Final = ServedKind("jobs.batch")

_PODS: Final[Document] = {
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
}
JOB: Final[Document] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": _PODS}
INDEXED: Final[Changes] = {"spec.completionMode": "Indexed", "spec.completions": 5}
GENERATED: Final = {
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": UID,
    "job-name": "j",
}

# ---- defaults


DEFAULTS: Final[dict[str, tuple[Changes, dict[str, Any]]]] = {
    "one pod, once": ({}, {"parallelism": 1, "completions": 1, "backoffLimit": 6}),
    "a job that counts no completions is a queue": (
        {"spec.parallelism": 2},
        {"parallelism": 2, "completions": None},
    ),
    "limits of each index stand for the limit of all": (
        {**INDEXED, "spec.backoffLimitPerIndex": 1},
        {"backoffLimit": 2_147_483_647},
    ),
    "nothing is replaced twice": (
        {},
        {"podReplacementPolicy": "TerminatingOrFailed", "completionMode": "NonIndexed", "suspend": False},
    ),
    "a policy about failures waits for pods to fail": (
        {"spec.podFailurePolicy.rules": [{"action": "Ignore", "onPodConditions": [{"type": "A"}]}]},
        {
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "A", "status": "True"}]}]
            },
        },
    ),
}


@pytest.mark.parametrize(("changes", "expected"), DEFAULTS.values(), ids=DEFAULTS)
def test_jobs_are_completed(changes: Changes, expected: dict[str, Any]) -> None:
    document, errors = JOBS.created(JOB, changes)
    assert errors == []
    assert {field: document["spec"].get(field) for field in expected} == expected


LABELS: Final[dict[str, tuple[Changes, dict[str, str], dict[str, str]]]] = {
    "a job without labels has those of its pods": ({}, GENERATED, GENERATED),
    "so it has if only the pods have some": (
        {"spec.template.metadata.labels": {"a": "b"}},
        GENERATED | {"a": "b"},
        GENERATED | {"a": "b"},
    ),
    "a job with labels keeps to them": ({"metadata.labels": {"a": "b"}}, {"a": "b"}, GENERATED),
    "even if the pods have the same": (
        {"metadata.labels": {"a": "b"}, "spec.template.metadata.labels": {"a": "b"}},
        {"a": "b"},
        GENERATED | {"a": "b"},
    ),
}


@pytest.mark.parametrize(("changes", "of_job", "of_pods"), LABELS.values(), ids=LABELS)
def test_a_selector_is_generated(changes: Changes, of_job: dict[str, str], of_pods: dict[str, str]) -> None:
    document, errors = JOBS.created(JOB, changes)
    assert errors == []
    assert document["metadata"]["labels"] == of_job
    assert document["spec"]["template"]["metadata"]["labels"] == of_pods
    assert document["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}


def test_a_manual_selector_is_left_alone() -> None:
    changes = {
        "spec.manualSelector": True,
        "spec.selector": {"matchLabels": {"a": "b"}},
        "spec.template.metadata.labels": {"a": "b"},
    }
    document, errors = JOBS.created(JOB, changes)
    assert errors == []
    assert document["spec"]["template"]["metadata"]["labels"] == {"a": "b"}


# ---- jobs that are wrong

_RULES: Final = "spec.podFailurePolicy.rules"

INVALID_JOBS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "numbers are not negative": (
        {"spec.parallelism": -1, "spec.backoffLimit": -2},
        [
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.backoffLimit: Invalid value: -2: must be greater than or equal to 0",
        ],
    ),
    "a job ends": (
        {"spec.template.spec.restartPolicy": None},
        ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
    ),
    "somebody else's labels are no generated ones": (
        {"spec.template.metadata.labels": {"job-name": "x"}},
        ["spec.template.metadata.labels[job-name]: Invalid value: {"],
    ),
    "a selector of one's own must be called so": (
        {"spec.selector": {"matchLabels": {"a": "b"}}, "spec.template.metadata.labels": {"a": "b"}},
        ["spec.selector: Invalid value: {"],
    ),
    "an indexed job has so many indexes": (
        {"spec.completionMode": "Indexed", "spec.parallelism": 1},
        ["spec.completions: Required value: when completion mode is Indexed"],
    ),
    "its pods are called after them": (
        {**INDEXED, "metadata.name": "j" * 63},
        [f'metadata.name: Invalid value: "{"j" * 63}": will not able to create pod with invalid DNS label: '],
    ),
    "limits of indexes need indexes": (
        {"spec.backoffLimitPerIndex": 1},
        ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
    ),
    "not more indexes fail than there are": (
        {**INDEXED, "spec.backoffLimitPerIndex": 1, "spec.maxFailedIndexes": 6},
        ["spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions"],
    ),
    "many indexes need a limit": (
        {**INDEXED, "spec.completions": 100_001, "spec.backoffLimitPerIndex": 1},
        ["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"],
    ),
    "a manager has a domain": (
        {"spec.managedBy": "me"},
        ['spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    "a rule about failures is about something": (
        {_RULES: [{"action": "FailJob"}]},
        [f"{_RULES}[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"],
    ),
    "exit codes are in order and no success": (
        {_RULES: [{"action": "X", "onExitCodes": {"operator": "In", "values": [3, 0, 3]}}]},
        [
            f'{_RULES}[0].action: Unsupported value: "X": ',
            f"{_RULES}[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
            f"{_RULES}[0].onExitCodes.values[2]: Duplicate value: 3",
            f"{_RULES}[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
        ],
    ),
    "also without rules": (
        {"spec.successPolicy": {}},
        ['spec.successPolicy: Invalid value: {"Rules":null}: requires indexed completion mode'],
    ),
    "a job succeeds early only by its indexes": (
        {"spec.successPolicy.rules": [{"succeededCount": 1}]},
        [
            (
                'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}'
                ": requires indexed completion"
            )
        ],
    ),
    "indexes that count are there": (
        {**INDEXED, "spec.successPolicy.rules": [{"succeededIndexes": "0-9"}]},
        [
            (
                'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-9": '
                'error parsing succeededIndexes: too large index: "9"'
            )
        ],
    ),
    "not more of them succeed": (
        {**INDEXED, "spec.successPolicy.rules": [{"succeededIndexes": "0-1", "succeededCount": 3}]},
        [
            (
                "spec.successPolicy.rules[0].succeededCount: "
                "Invalid value: 3: must be less than or equal to 2 "
                "(the number of indexes in the specified succeededIndexes field)"
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID_JOBS.values(), ids=INVALID_JOBS)
def test_errors_in_jobs(changes: Changes, texts: list[str]) -> None:
    assert_texts_begin(JOBS.created(JOB, changes).texts, texts)


# ---- changes of jobs

SCHEDULING: Final[Changes] = {
    "spec.template.spec.nodeSelector": {"a": "b"},
    "spec.template.spec.tolerations": [{"operator": "Exists"}],
    "spec.template.metadata.annotations": {"a": "b"},
}
JOB_CHANGES: Final[dict[str, tuple[Changes, Changes, list[str]]]] = {
    "parallelism changes": ({}, {"spec.parallelism": 3}, []),
    "completions do not": ({}, {"spec.completions": 2}, ["spec.completions"]),
    "but do with the parallelism of an indexed job": (
        INDEXED,
        {"spec.completions": 3, "spec.parallelism": 3},
        [],
    ),
    "and only so": (INDEXED, {"spec.completions": 3}, ["spec.completions"]),
    "pods stay as they are": ({}, {"spec.template.spec.containers.0.image": "other"}, ["spec.template"]),
    "a running job stays where it is": ({}, SCHEDULING, ["spec.template"]),
    "a suspended one may be sent elsewhere": ({"spec.suspend": True}, SCHEDULING, []),
    "but is no other job": (
        {"spec.suspend": True},
        {"spec.template.spec.containers.0.image": "other"},
        ["spec.template.spec"],
    ),
    "all of a spec is checked, twice": (
        {},
        {"spec.backoffLimit": -1},
        ["spec.backoffLimit", "spec.backoffLimit"],
    ),
    "its manager stays": ({"spec.managedBy": "e.com/a"}, {"spec.managedBy": "e.com/b"}, ["spec.managedBy"]),
}


@pytest.mark.parametrize(("before", "changes", "fields"), JOB_CHANGES.values(), ids=JOB_CHANGES)
def test_changes_of_jobs(before: Changes, changes: Changes, fields: list[str]) -> None:
    old = JOBS.created(JOB, before).document
    assert [error.field for error in JOBS.updated(old, changes).errors] == fields


def _held(*types: str) -> list[Document]:
    return [{"type": each, "status": "True"} for each in types]


STARTED: Final = "2026-01-01T00:00:00Z"
ENDED: Final = "2026-01-01T00:01:00Z"
FAILED: Final = _held("Failed", "FailureTarget")
STATUSES: Final[dict[str, tuple[Changes, Changes, list[str]]]] = {
    "a job that is complete": (
        {},
        {
            "conditions": _held("SuccessCriteriaMet", "Complete"),
            "startTime": STARTED,
            "completionTime": ENDED,
            "succeeded": 1,
        },
        [],
    ),
    "is not failed too, and has ended": (
        {},
        {
            "conditions": _held("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"),
            "startTime": STARTED,
        },
        [*["status.conditions"] * 2, "status.completionTime", *["status.conditions"] * 2],
    ),
    "has met its criteria": (
        {},
        {"conditions": _held("Complete"), "startTime": STARTED, "completionTime": ENDED},
        ["status.conditions"],
    ),
    "or was to fail": ({}, {"conditions": _held("Failed"), "startTime": STARTED}, ["status.conditions"]),
    "has no pods": (
        {},
        {"conditions": FAILED, "startTime": STARTED, "active": 1, "terminating": 1},
        ["status.active", "status.terminating"],
    ),
    "has been started": ({}, {"conditions": FAILED}, ["status.startTime"]),
    "has none to count": (
        {},
        {"conditions": FAILED, "startTime": STARTED, "uncountedTerminatedPods": {"failed": ["a"]}},
        ["status.uncountedTerminatedPods"],
    ),
    "ended once": (
        {"completionTime": STARTED},
        {"completionTime": ENDED},
        ["status.completionTime", "status.completionTime"],
    ),
    "Go's zero time is a time, when it comes": (
        {},
        {
            "conditions": _held("Complete", "SuccessCriteriaMet"),
            "startTime": ZERO_TIME,
            "completionTime": ZERO_TIME,
        },
        [],
    ),
    "and one that a job has not that goes on": ({}, {"completionTime": ZERO_TIME}, ["status.completionTime"]),
    "began once": ({"startTime": STARTED}, {"startTime": ENDED}, ["status.startTime"]),
    "or again, when it goes on": (
        {"startTime": STARTED, "conditions": _held("Suspended")},
        {"startTime": ENDED, "conditions": [{"type": "Suspended", "status": "False"}]},
        [],
    ),
    "is not as ready as it is active": ({}, {"ready": 1}, ["status.ready"]),
    "counts pods once": (
        {},
        {"uncountedTerminatedPods": {"failed": ["a"], "succeeded": ["a", ""]}},
        ["status.uncountedTerminatedPods.succeeded[1]", "status.uncountedTerminatedPods.failed[0]"],
    ),
    "does not begin again": (
        {"conditions": FAILED, "startTime": STARTED},
        {"conditions": [], "startTime": STARTED},
        ["status.conditions", "status.conditions"],
    ),
    "meets its criteria for good, and not after the end": (
        {"conditions": _held("SuccessCriteriaMet")},
        {},
        ["status.conditions"],
    ),
    "counts only up": ({"failed": 2}, {"failed": 1}, ["status.failed"]),
    "completes indexes only if it has some": ({}, {"completedIndexes": "0"}, ["status.completedIndexes"]),
    "what was wrong before may stay": (
        {"completedIndexes": "0", "active": 0},
        {"completedIndexes": "0", "active": 1},
        [],
    ),
    "ends after it began": (
        {},
        {
            "conditions": _held("Complete", "SuccessCriteriaMet"),
            "startTime": ENDED,
            "completionTime": STARTED,
        },
        ["status.completionTime"],
    ),
}


@pytest.mark.parametrize(("before", "status", "fields"), STATUSES.values(), ids=STATUSES)
def test_statuses_of_jobs(before: Changes, status: Changes, fields: list[str]) -> None:
    old = JOBS.created(JOB).document
    old["status"] = dict(before)
    assert [error.field for error in JOBS.updated(old, {"status": status}, "status").errors] == fields


def test_a_suspended_job_without_completions_ends_without_a_start_time() -> None:
    old = JOBS.created(JOB, {"spec.suspend": True, "spec.completions": 0}).document
    status = {"conditions": _held("Complete", "SuccessCriteriaMet"), "completionTime": ENDED}
    assert JOBS.updated(old, {"status": status}, "status").errors == []


def test_without_job_managed_by_few_fields_of_a_job_status_are_checked() -> None:
    older = ServedKind("jobs.batch", minor=29)
    old = older.created(JOB).document
    status = {"conditions": _held("Complete", "Failed"), "active": 1, "completedIndexes": "x"}
    assert older.updated(old, {"status": status}, "status").errors == []


@pytest.mark.parametrize("minor", [27, 28, 29, 30])
def test_success_criteria_of_jobs_without_a_success_policy(minor: int) -> None:
    """Up to 1.28 the condition has no meaning; later it tells that the Job ends."""
    older = ServedKind("jobs.batch", minor=minor)
    old = older.created(JOB).document
    met = {"conditions": _held("SuccessCriteriaMet")}
    assert older.updated(old, {"status": met}, "status").errors == []


IDLE: Final = {"conditions": _held("Suspended"), "startTime": STARTED}
RESOURCES: Final[Changes] = {"spec.template.spec.containers.0.resources": {"requests": {"cpu": "1"}}}
BOTH: Final[Changes] = {**SCHEDULING, **RESOURCES}
GATES_OFF: Final = (
    "MutablePodResourcesForSuspendedJobs=false",
    "MutableSchedulingDirectivesForSuspendedJobs=false",
)
# Gates, the status of a suspended job, changes, and the fields that are wrong.
SUSPENDED: Final[dict[str, tuple[tuple[str, ...], Document, Changes, list[str]]]] = {
    "never started": ((), {}, BOTH, []),
    "started once": ((), IDLE, BOTH, []),
    "without saying so": ((), {"startTime": STARTED}, BOTH, ["spec.template"]),
    "whose pods still run": ((), {**IDLE, "active": 1}, BOTH, ["spec.template"]),
    "that never started, and whose pods run": ((), {"active": 1}, BOTH, ["spec.template"]),
    "by another image": ((), IDLE, {"spec.template.spec.containers.0.image": "b"}, ["spec.template.spec"]),
    "by another container": (
        (),
        IDLE,
        {
            "spec.template.spec.containers.0": {
                "name": "z",
                "image": "i",
                "resources": {"limits": {"cpu": "1"}},
            }
        },
        ["spec.template.spec"],
    ),
    "by affinity to nodes": ((), IDLE, {"spec.template.spec.affinity": {"nodeAffinity": {}}}, []),
    "by affinity to pods": (
        (),
        IDLE,
        {"spec.template.spec.affinity": {"podAffinity": {}}},
        ["spec.template.spec"],
    ),
    "started once, without the gates": (GATES_OFF, IDLE, SCHEDULING, ["spec.template"]),
    "never started, without the gates": (GATES_OFF, {}, SCHEDULING, []),
    "its resources, without the gates": (GATES_OFF, {}, RESOURCES, ["spec.template"]),
    "resources only": (GATES_OFF[1:], IDLE, RESOURCES, []),
    "and nothing else": (GATES_OFF[1:], IDLE, BOTH, ["spec.template.spec"]),
}


@pytest.mark.parametrize(("gates", "status", "changes", "fields"), SUSPENDED.values(), ids=SUSPENDED)
def test_suspended_jobs_change_where_pods_run_and_what_they_ask_for(
    gates: tuple[str, ...], status: Document, changes: Changes, fields: list[str]
) -> None:
    jobs = ServedKind("jobs.batch", gates=gates)
    old = jobs.created(JOB, {"spec.suspend": True}).document
    old["status"] = dict(status)
    assert [error.field for error in jobs.updated(old, changes).errors] == fields


def test_indexes_never_fail_and_complete() -> None:
    changes = {**INDEXED, "spec.backoffLimitPerIndex": 1}
    old = JOBS.created(JOB, changes).document
    status = {"completedIndexes": "0,2-3", "failedIndexes": "1,3"}
    assert JOBS.updated(old, {"status": status}, "status").texts == [
        'status.failedIndexes: Invalid value: "1,3": failedIndexes and completedIndexes overlap at index: 3'
    ]


@given(st.sets(st.integers(0, 60)))
def test_lists_of_indexes_are_read_as_they_are_written(indexes: set[int]) -> None:
    text = ",".join(map(str, sorted(indexes)))
    assert parse_indexes(text, 61) == [(index, index) for index in sorted(indexes)]
    if indexes:
        with pytest.raises(InvalidIndexes, match="too large index"):
            parse_indexes(text, max(indexes))


@pytest.mark.parametrize("text", ["1,1", "2,1", "3-3", "3-1", "0-3,3", "1-2-3", "a", "1,,2", "-1"])
def test_invalid_lists_of_indexes(text: str) -> None:
    with pytest.raises(InvalidIndexes):
        parse_indexes(text, 10)


def test_rows_of_jobs() -> None:
    job = JOBS.created(JOB).document
    assert [JOBS.row(job)[name] for name in ("Status", "Completions", "Duration")] == ["Running", "0/1", ""]
    job["status"] = {"conditions": _held("SuccessCriteriaMet", "Complete")}
    assert JOBS.row(job)["Status"] == "Complete"


def test_huge_jobs_come_with_a_warning() -> None:
    many = {**INDEXED, "spec.completions": 100_001, "spec.parallelism": 10_001}
    (warning,) = JOBS.strategy.warn(JOBS.created(JOB, many).document, None)
    assert warning.startswith("spec: In Indexed Jobs with a number of completions higher than 10^5")
