"""CronJobs. Source: pkg/apis/batch/{v1,validation} (release 1.34)."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import Changes, ServedKind, assert_texts_begin

PODS: Final[Document] = {
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
}
CRON_JOBS: Final = ServedKind("cronjobs.batch")
CRON_JOB: Final[Document] = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "c"},
    "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": PODS}},
}
_JOB: Final = "spec.jobTemplate.spec"
INVALID_CRON_JOBS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "it has a schedule": ({"spec.schedule": ""}, ["spec.schedule: Required value"]),
    "times of day are local to a zone": (
        {"spec.timeZone": "Mars/Olympus"},
        ['spec.timeZone: Invalid value: "Mars/Olympus": unknown time zone Mars/Olympus'],
    ),
    "a zone is no path": (
        {"spec.timeZone": "../UTC"},
        ['spec.timeZone: Invalid value: "../UTC": unknown time zone ../UTC'],
    ),
    "nor is it that of the machine": (
        {"spec.timeZone": "Local"},
        ['spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in '],
    ),
    "it leaves selectors to its jobs": (
        {f"{_JOB}.selector": {"matchLabels": {"a": "b"}}, f"{_JOB}.manualSelector": True},
        [
            f'{_JOB}.selector: Invalid value: {{"matchLabels":{{"a":"b"}}}}: `selector` will be auto-gen',
            f'{_JOB}.manualSelector: Unsupported value: true: supported values: "nil", "false"',
        ],
    ),
    "its jobs are jobs": (
        {f"{_JOB}.template.spec.restartPolicy": "Always"},
        [f"{_JOB}.template.spec.restartPolicy: Required value: "],
    ),
    "its name leaves room for those of jobs": (
        {"metadata.name": "c" * 53},
        [f'metadata.name: Invalid value: "{"c" * 53}": must be no more than 52 characters'],
    ),
    "history is not negative": (
        {"spec.failedJobsHistoryLimit": -1},
        ["spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID_CRON_JOBS.values(), ids=INVALID_CRON_JOBS)
def test_errors_in_cron_jobs(changes: Changes, texts: list[str]) -> None:
    assert_texts_begin(CRON_JOBS.created(CRON_JOB, changes).texts, texts)


def test_cron_jobs_are_completed_and_their_jobs_are_not() -> None:
    document, errors = CRON_JOBS.created(CRON_JOB, {"spec.timeZone": "Europe/Berlin"})
    assert errors == []
    spec = document["spec"]
    assert (spec["concurrencyPolicy"], spec["suspend"]) == ("Allow", False)
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (3, 1)
    assert spec["jobTemplate"]["spec"].keys() == {"template"}


def test_a_stored_schedule_may_keep_its_time_zone() -> None:
    old = CRON_JOBS.created(CRON_JOB).document
    old["spec"] |= {"schedule": "TZ=Europe/Berlin * * * * *", "timeZone": "Gone/Away"}
    assert CRON_JOBS.updated(old, {"spec.suspend": True, "spec.timeZone": None}).errors == []
    assert CRON_JOBS.updated(old, {"spec.suspend": True}).texts == [
        (
            'spec.schedule: Invalid value: "TZ=Europe/Berlin * * * * *": cannot use both timeZone field and '
            "TZ or CRON_TZ in schedule"
        )
    ]
    warnings = [
        (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
    ]
    assert CRON_JOBS.strategy.warn(old, old) == warnings
    assert CRON_JOBS.strategy.warn(old, None) == []


def test_rows_of_cron_jobs() -> None:
    cron_job = CRON_JOBS.created(CRON_JOB).document
    cells = CRON_JOBS.row(cron_job)
    shown = ("Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Containers", "Selector")
    assert [cells[name] for name in shown] == ["*/5 * * * *", "<none>", "False", 0, "<none>", "c", "<none>"]
