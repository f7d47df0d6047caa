"""CronJobs. Source: pkg/apis/batch/{v1,validation}."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from apiserver.catalogue.batch.cron_schedules import InvalidSchedule, check_schedule, is_zone
from apiserver.catalogue.batch.jobs.specs import validate_job_spec, warn_job_spec
from apiserver.catalogue.builtin_type import DEFAULT_GATES, STATUS_SUBRESOURCE, BuiltinType, clear_status
from apiserver.catalogue.common import workloads
from apiserver.catalogue.common.columns import list_length
from apiserver.catalogue.pod_specs.templates import pod_template_columns, with_template_warnings
from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.meta import names, table
from apiserver.meta.field_errors import Errors, invalid, not_supported, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import non_negative, one_of
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at

_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template")


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = rules_of(gates)
    return BuiltinType(
        "batch",
        "v1",
        "cronjobs",
        "CronJob",
        short_names=("cj",),
        categories=("all",),
        defaults={
            "CronJobSpec": setting(
                concurrencyPolicy="Allow",
                suspend=False,
                successfulJobsHistoryLimit=3,
                failedJobsHistoryLimit=1,
            )
        },
        subresources=(STATUS_SUBRESOURCE,),
        strategy=Strategy(
            prepare_create=clear_status,
            validate_ratcheting=partial(validate_cron_job, rules),
            warn=partial(
                warn_cron_job,
                with_template_warnings(rules, *_TEMPLATE, warn=workloads.warn_name, warn_spec=warn_job_spec),
            ),
            update=UpdateStrategy(prepare=keep_status),
            has_generation=True,
        ),
        columns=columns(
            Column("Schedule", field_cell("spec", "schedule"), "The schedule in cron format."),
            Column(
                "Timezone", field_cell("spec", "timeZone", default="<none>"), "The time zone of the schedule."
            ),
            Column("Suspend", _suspend, "Whether the creation of jobs is suspended.", type="boolean"),
            Column("Active", list_length("status", "active"), "The number of running jobs.", type="integer"),
            Column("Last Schedule", _last_schedule, "The time since the last job was created."),
            AGE,
            *pod_template_columns(*_TEMPLATE),
        ),
    )


# Names of its jobs are longer by 11 characters, and names of jobs are labels of pods.
NAME_MAX: Final = 63 - 11


def validate_cron_job(rules: PodSpecRules, document: Document, old: Document | None) -> Errors:
    spec, before = document["spec"], (old or {}).get("spec") or {}
    errors = _validate_schedule("spec.schedule", spec, may_have_zone="TZ" in before.get("schedule", ""))
    errors += non_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    if "timeZone" in spec and spec["timeZone"] != before.get("timeZone"):
        errors += _validate_time_zone("spec.timeZone", spec["timeZone"])
    errors += one_of("spec.concurrencyPolicy", spec["concurrencyPolicy"], ("Allow", "Forbid", "Replace"))
    errors += _validate_job_template(
        rules, "spec.jobTemplate.spec", spec["jobTemplate"]["spec"], at(old or {}, *_TEMPLATE)
    )
    errors += non_negative("spec.successfulJobsHistoryLimit", spec.get("successfulJobsHistoryLimit"))
    errors += non_negative("spec.failedJobsHistoryLimit", spec.get("failedJobsHistoryLimit"))
    if old is None and names.byte_length(name := document["metadata"].get("name", "")) > NAME_MAX:
        errors.append(invalid("metadata.name", name, f"must be no more than {NAME_MAX} characters"))
    return errors


def _validate_schedule(path: str, spec: Document, *, may_have_zone: bool) -> Errors:
    """Checks the schedule.

    may_have_zone: whether the schedule may have a time zone, since the stored one has, as older releases
        allowed.
    """
    schedule = spec.get("schedule", "")
    if not schedule:
        return [required(path)]
    errors: Errors = []
    try:
        check_schedule(schedule)
    except InvalidSchedule as error:
        errors.append(invalid(path, schedule, str(error)))
    if "TZ" in schedule and not may_have_zone:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid(path, schedule, text))
    elif "TZ" in schedule and "timeZone" in spec:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.append(invalid(path, schedule, text))
    return errors


def _validate_time_zone(path: str, zone: str) -> Errors:
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    unknown = f"unknown time zone {zone}"
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors = [invalid(path, zone, text)]
        return errors if zone == "Local" else [*errors, invalid(path, zone, unknown)]
    return [] if is_zone(zone) else [invalid(path, zone, unknown)]


def _validate_job_template(
    rules: PodSpecRules, path: str, spec: Document, old_template: Document | None
) -> Errors:
    errors = validate_job_spec(rules, path, spec, old_template)
    if "selector" in spec:
        errors.append(invalid(f"{path}.selector", spec["selector"], "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", True, ["nil", "false"]))
    return errors


def warn_cron_job(
    warn_template: Callable[[Document, Document | None], list[str]], new: Document, old: Document | None
) -> list[str]:
    warnings = warn_template(new, old)
    if old is not None and "TZ" in new["spec"].get("schedule", ""):
        warnings.append(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
    return warnings


# ---- columns


def _suspend(document: Document, now: float) -> str:
    value = document.get("spec", {}).get("suspend")
    return "<unset>" if value is None else str(value)


def _last_schedule(document: Document, now: float) -> str:
    moment = document.get("status", {}).get("lastScheduleTime")
    return table.age_of(moment, now) if moment else "<none>"
