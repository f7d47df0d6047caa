"""The group `batch`."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.batch import cron_jobs, jobs
from apiserver.catalogue.batch.jobs import statuses
from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType, field
from apiserver.catalogue.pod_specs.templates import (
    POD_TEMPLATE_COLUMNS,
    clear_status,
    pod_template_columns,
    with_template_warnings,
)
from apiserver.meta import table, timestamps
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status
from apiserver.vocabulary import Document

# Jobs were deleted without their pods before there was a policy, and clients rely on it.
_ORPHANS_TEXT: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)


def types() -> tuple[BuiltinType, ...]:
    return (_cron_jobs(), _jobs())


def _cron_jobs() -> BuiltinType:
    template = ("spec", "jobTemplate", "spec", "template")
    return BuiltinType(
        "batch",
        "v1",
        "cronjobs",
        "CronJob",
        "io.k8s.api.batch.v1.CronJob",
        short_names=("cj",),
        categories=("all",),
        subresources=(STATUS_SUBRESOURCE,),
        strategy=Strategy(
            prepare_create=clear_status,
            validate=cron_jobs.validate_cron_job,
            validate_create=cron_jobs.validate_cron_job_create,
            warn=with_template_warnings(*template, warn=cron_jobs.warn_cron_job),
            update=UpdateStrategy(prepare=keep_status),
            has_generation=True,
        ),
        columns=columns(
            Column(
                "Schedule", field_cell("spec", "schedule"), description="When jobs are made, as cron has it."
            ),
            Column(
                "Timezone",
                field_cell("spec", "timeZone", default="<none>"),
                description="The time zone of the schedule.",
            ),
            Column("Suspend", _suspend, type="boolean", description="Whether no jobs are made for now."),
            Column(
                "Active",
                lambda document, now: len(document.get("status", {}).get("active") or ()),
                type="integer",
                description="How many of its jobs are running.",
            ),
            Column("Last Schedule", _last_schedule, description="How long ago a job was made."),
            AGE,
            *pod_template_columns(*template),
        ),
    )


def _jobs() -> BuiltinType:
    return BuiltinType(
        "batch",
        "v1",
        "jobs",
        "Job",
        "io.k8s.api.batch.v1.Job",
        categories=("all",),
        subresources=(
            Subresource(
                "status",
                update=UpdateStrategy(prepare=only_status, validate=statuses.validate_job_status_update),
            ),
        ),
        strategy=Strategy(
            prepare_create=jobs.prepare_job_create,
            validate=jobs.validate_job,
            validate_create=jobs.validate_job_create,
            warn=with_template_warnings("spec", "template", warn=jobs.warn_job),
            update=UpdateStrategy(prepare=jobs.prepare_job_update, validate=jobs.validate_job_update),
            has_generation=True,
            orphans_dependents=True,
            delete_warning=_ORPHANS_TEXT,
        ),
        columns=columns(
            Column("Status", _status, description="Whether the job is running, or how it ended."),
            Column(
                "Completions",
                _completions,
                description="How many pods have succeeded, of how many wanted.",
            ),
            Column("Duration", _duration, description="How long the job ran, or has been running."),
            AGE,
            *POD_TEMPLATE_COLUMNS,
        ),
        selectable_fields={"status.successful": field("status", "succeeded", default="0")},
    )


# ---- cells of cron jobs


def _suspend(document: Document, now: float) -> str:
    value = document.get("spec", {}).get("suspend")
    return "<unset>" if value is None else str(value)


def _last_schedule(document: Document, now: float) -> str:
    moment = document.get("status", {}).get("lastScheduleTime")
    return table.age_of(moment, now) if moment else "<none>"


# ---- cells of jobs


def _status(document: Document, now: float) -> str:
    conditions = document.get("status", {}).get("conditions") or ()
    held = {c.get("type") for c in conditions if c.get("status") == "True"}
    if document["metadata"].get("deletionTimestamp"):
        held.add("Terminating")
    return next((outcome for outcome in _OUTCOMES if outcome in held), "Running")


# The first that holds is told.
_OUTCOMES: Final = (
    "Complete",
    "Failed",
    "Terminating",
    "Suspended",
    "FailureTarget",
    "SuccessCriteriaMet",
)


def _completions(document: Document, now: float) -> str:
    spec, succeeded = document.get("spec", {}), document.get("status", {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(document: Document, now: float) -> str:
    status = document.get("status", {})
    began = timestamps.from_text(status.get("startTime") or "")
    ended = timestamps.from_text(status.get("completionTime") or "")
    return table.duration((ended or now) - began) if began is not None else ""
