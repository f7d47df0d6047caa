"""Cron jobs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.catalogue.batch.cron_schedules import InvalidSchedule, check_schedule, is_zone
from apiserver.catalogue.batch.jobs.specs import validate_job_spec, warn_job_spec
from apiserver.catalogue.common import workloads
from apiserver.field_errors import invalid, not_supported, required
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, non_negative, one_of, setting
from apiserver.vocabulary import Document

DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        "io.k8s.api.batch.v1.CronJobSpec": setting(
            concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1
        ),
    }
)

# Names of its jobs are longer by 11 characters, and names of jobs are labels of pods.
NAME_MAX: Final = 63 - 11


def validate_cron_job(document: Document) -> Errors:
    spec = document["spec"]
    errors = _validate_schedule("spec.schedule", spec.get("schedule", ""))
    errors += non_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    if "timeZone" in spec:
        errors += _validate_time_zone("spec.timeZone", spec["timeZone"])
    errors += one_of("spec.concurrencyPolicy", spec["concurrencyPolicy"], ("Allow", "Forbid", "Replace"))
    errors += _validate_job_template("spec.jobTemplate.spec", spec["jobTemplate"]["spec"])
    errors += non_negative("spec.successfulJobsHistoryLimit", spec.get("successfulJobsHistoryLimit"))
    return errors + non_negative("spec.failedJobsHistoryLimit", spec.get("failedJobsHistoryLimit"))


def validate_cron_job_create(document: Document) -> Errors:
    name = document["metadata"].get("name", "")
    if len(name) <= NAME_MAX:
        return []
    return [invalid("metadata.name", name, f"must be no more than {NAME_MAX} characters")]


def _validate_schedule(path: str, schedule: str) -> Errors:
    if not schedule:
        return [required(path)]
    errors: Errors = []
    try:
        check_schedule(schedule)
    except InvalidSchedule as error:
        errors.append(invalid(path, schedule, str(error)))
    if "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid(path, schedule, text))
    return errors


def _validate_time_zone(path: str, zone: str) -> Errors:
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid(path, zone, text)]
    return [] if is_zone(zone) else [invalid(path, zone, f"unknown time zone {zone}")]


def _validate_job_template(path: str, spec: Document) -> Errors:
    errors = validate_job_spec(path, spec)
    if "selector" in spec:
        errors.append(invalid(f"{path}.selector", spec["selector"], "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", True, ["nil", "false"]))
    return errors


def warn_cron_job(new: Document, old: Document | None) -> list[str]:
    warnings = workloads.warn_name(new) if old is None else []
    return warnings + warn_job_spec("spec.jobTemplate.spec", new["spec"]["jobTemplate"]["spec"])
