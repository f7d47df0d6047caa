"""Updates of the status of Jobs, which other controllers than Kubernetes' own may write.

What is wrong counts only where it is new, so that a status that was wrong before can still be written.
Source: pkg/registry/batch/job/strategy.go, getStatusValidationOptions.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.catalogue.batch.jobs.specs import InvalidIndexes, invalid_structure, parse_indexes
from apiserver.catalogue.common import workloads
from apiserver.field_errors import Errors, duplicate, invalid, required
from apiserver.golang.formatting import go_struct_fields
from apiserver.vocabulary import Document

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_NEVER_TOGETHER: Final = (
    ("Complete", "Failed", "Complete=True and Failed=true"),
    ("Complete", "FailureTarget", "Complete=True and FailureTarget=true"),
    ("SuccessCriteriaMet", "Failed", "SuccessCriteriaMet=True and Failed=true"),
    ("SuccessCriteriaMet", "FailureTarget", "SuccessCriteriaMet=True and FailureTarget=true"),
)


def validate_job_status_update(new: Document, old: Document) -> Errors:
    status, before = new.get("status") or {}, old.get("status") or {}
    held, held_before = _held(status), _held(before)
    errors = workloads.validate_counts(status, _COUNTS)
    errors += _validate_uncounted(status.get("uncountedTerminatedPods") or {})
    errors += _validate_conditions(held, held_before, new["spec"])
    errors += _validate_times(new, status, before, held, held_before)
    errors += _validate_end(status, before, held, held_before)
    errors += _validate_indexes(new["spec"], status, before)
    return errors + _validate_counters(new["spec"], status, before)


def _held(status: Document) -> frozenset[str]:
    conditions = status.get("conditions") or ()
    return frozenset(c.get("type", "") for c in conditions if c.get("status") == "True")


def _validate_uncounted(uncounted: Document) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(field) or ()):
            path = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, uid))
            seen.add(uid)
    return errors


def _validate_conditions(held: frozenset[str], before: frozenset[str], spec: Document) -> Errors:
    texts = [
        f"cannot set {text} conditions"
        for one, other, text in _NEVER_TOGETHER
        if {one, other} <= held and not {one, other} <= before
    ]
    texts += [
        f"cannot disable the terminal {condition}=True condition"
        for condition in ("Failed", "Complete", "FailureTarget")
        if condition in before - held
    ]
    if "SuccessCriteriaMet" in before - held:
        texts.append("cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in before and "SuccessCriteriaMet" in held - before:
        texts.append("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
    if "successPolicy" in spec and "Complete" in held and "SuccessCriteriaMet" not in held:
        texts.append("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    return [invalid_structure("status.conditions", text) for text in texts]


def _validate_times(
    job: Document, status: Document, before: Document, held: frozenset[str], held_before: frozenset[str]
) -> Errors:
    started, completed = status.get("startTime"), status.get("completionTime")
    is_complete = "Complete" in held
    path = "status.completionTime"
    errors: Errors = []
    is_new = completed != before.get("completionTime")
    if is_new or is_complete != ("Complete" in held_before):
        if completed and not is_complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid(path, completed, text))
        if is_complete and not completed:
            errors.append(required(path, "completionTime is required for Complete jobs"))
    # Times in UTC compare as texts.
    is_either_new = is_new or started != before.get("startTime")
    if is_either_new and started and completed and completed < started:
        errors.append(invalid(path, completed, "completionTime cannot be set before startTime"))
    if is_new and completed and before.get("completionTime"):
        errors.append(invalid(path, completed, "completionTime cannot be mutated"))
    if before.get("startTime") not in (None, started) and not job["spec"].get("suspend"):
        errors.append(required("status.startTime", "startTime cannot be removed for unsuspended job"))
    return errors


def _validate_end(
    status: Document, before: Document, held: frozenset[str], held_before: frozenset[str]
) -> Errors:
    """A job that has ended has no pods running."""
    ended = {"Complete", "Failed"}
    if not held & ended:
        return []
    is_new = not held_before & ended

    def is_changed(field: str) -> bool:
        return is_new or status.get(field) != before.get(field)

    errors: Errors = []
    if status.get("active", 0) > 0 and is_changed("active"):
        errors.append(invalid("status.active", status["active"], "active>0 is invalid for finished job"))
    if not status.get("startTime") and is_changed("startTime"):
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()) and is_changed("uncountedTerminatedPods"):
        text = "uncountedTerminatedPods needs to be empty for finished job"
        errors.append(invalid("status.uncountedTerminatedPods", go_struct_fields(uncounted), text))
    if (status.get("terminating") or 0) > 0 and is_changed("terminating"):
        text = "terminating>0 is invalid for finished job"
        errors.append(invalid("status.terminating", status["terminating"], text))
    return errors


def _validate_indexes(spec: Document, status: Document, before: Document) -> Errors:
    completed, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    is_completed_new = completed != before.get("completedIndexes", "")
    is_failed_new = failed != before.get("failedIndexes")
    completions, has_limit = spec.get("completions"), "backoffLimitPerIndex" in spec
    errors: Errors = []
    if is_completed_new:
        errors += _validate_list("completedIndexes", completed, completions)
        if completed and spec.get("completionMode") != "Indexed":
            text = "cannot set non-empty completedIndexes when non-indexed completion mode"
            errors.append(invalid("status.completedIndexes", completed, text))
    if is_failed_new and failed is not None:
        if has_limit:
            errors += _validate_list("failedIndexes", failed, completions)
        else:
            text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            errors.append(invalid("status.failedIndexes", failed, text))
    if (is_completed_new or is_failed_new) and completions is not None and not errors:
        common = _first_common(completed, failed or "", completions)
        if common is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {common}"
            errors.append(invalid("status.failedIndexes", failed, text))
    return errors


def _validate_list(field: str, indexes: str, completions: int | None) -> Errors:
    try:
        if completions is not None:
            parse_indexes(indexes, completions)
    except InvalidIndexes as error:
        return [invalid(f"status.{field}", indexes, f"error parsing {field}: {error}")]
    return []


def _first_common(one: str, other: str, completions: int) -> int | None:
    """Returns the first index that is in both lists. A list that cannot be parsed has none."""
    try:
        intervals, others = parse_indexes(one, completions), parse_indexes(other, completions)
    except InvalidIndexes:
        return None
    left, right = iter(intervals), iter(others)
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        if a[0] <= b[1] and b[0] <= a[1]:
            return max(a[0], b[0])
        if a[0] <= b[0]:
            a = next(left, None)
        else:
            b = next(right, None)
    return None


def _validate_counters(spec: Document, status: Document, before: Document) -> Errors:
    """The numbers of ended pods do not fall, unless the job itself gets smaller."""
    is_elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get(
        "parallelism"
    )
    errors: Errors = []
    for field in ("failed",) if is_elastic else ("failed", "succeeded"):
        count: Any = status.get(field, 0)
        if count < before.get(field, 0):
            errors.append(invalid(f"status.{field}", count, f"cannot decrease the {field} counter"))
    ready, active = status.get("ready") or 0, status.get("active", 0)
    is_new = ready != (before.get("ready") or 0) or active != before.get("active", 0)
    if is_new and ready > active:
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    return errors
