"""Validation of status updates of Jobs, which controllers other than Kubernetes' may write.

Errors are only reported for changes, so that a status that was invalid before can still be written. Source:
pkg/registry/batch/job/strategy.go, getStatusValidationOptions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from apiserver.catalogue.batch.jobs.specs import (
    InvalidIndexes,
    invalid_structure,
    parse_indexes,
    parse_interval,
)
from apiserver.catalogue.common import workloads
from apiserver.golang.formatting import go_struct_fields
from apiserver.meta.field_errors import Errors, duplicate, invalid, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import IMMUTABLE

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_SUCCESS_CRITERIA_SINCE: Final = 30


class StatusRules(NamedTuple):
    """The rules for status updates of Jobs that depend on feature gates and the release.

    are_others_checked: whether updates of other controllers are checked (gate JobManagedBy).
    may_always_succeed: whether Jobs without a success policy may meet its criteria, too.
    """

    are_others_checked: bool
    may_always_succeed: bool

    @classmethod
    def of(cls, gates: FeatureGates) -> StatusRules:
        are_others_checked = gates.is_on("JobManagedBy")
        may_always_succeed = are_others_checked or gates.is_on("JobPodReplacementPolicy")
        # Before 1.30 the condition meant nothing to Kubernetes, which did not check it.
        return cls(are_others_checked, may_always_succeed or gates.minor < _SUCCESS_CRITERIA_SINCE)


def validate_job_status_update(rules: StatusRules, new: Document, old: Document) -> Errors:
    status, before = new.get("status") or {}, old.get("status") or {}
    held, held_before = held_conditions(status), held_conditions(before)
    errors = workloads.validate_counts(status, _COUNTS)
    errors += _validate_uncounted(status.get("uncountedTerminatedPods") or {})
    if rules.are_others_checked:
        errors += _validate_conditions(status, before)
        errors += _validate_end(new["spec"], status, before)
        errors += _validate_indexes(new["spec"], status, before)
        errors += _validate_pods(status, before)
    may_succeed = rules.may_always_succeed or "SuccessCriteriaMet" in held_before
    errors += _validate_success(new["spec"], held, may_succeed=may_succeed)
    if rules.are_others_checked:
        errors += _validate_change(new["spec"], status, before)
    texts: list[str] = []
    if "SuccessCriteriaMet" in held_before - held:
        texts.append("cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in held_before and "SuccessCriteriaMet" in held - held_before:
        texts.append("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
    return errors + _of_conditions(texts)


def _of_conditions(texts: Iterable[str]) -> Errors:
    return [invalid_structure("status.conditions", text) for text in texts]


def held_conditions(status: Document) -> frozenset[str]:
    """Returns the types of the conditions that are true."""
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


def _validate_conditions(status: Document, before: Document) -> Errors:
    """Checks the conditions and times of a job's end, where these are new."""
    held, is_new = held_conditions(status), held_conditions(status) ^ held_conditions(before)
    errors = _of_conditions(
        f"cannot set Complete=True and {other}=true conditions"
        for other in ("Failed", "FailureTarget")
        if {"Complete", other} <= held and not is_new.isdisjoint({"Complete", other})
    )
    started, completed = status.get("startTime"), status.get("completionTime")
    path, is_complete = "status.completionTime", "Complete" in held
    # A time that is null was written as Go's zero time, and is set.
    has_started, has_completed = "startTime" in status, "completionTime" in status
    is_time_new = completed != before.get("completionTime") or (has_completed and completed is None)
    if is_time_new or "Complete" in is_new:
        if has_completed and not is_complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid(path, completed, text))
        if is_complete and not has_completed:
            errors.append(required(path, "completionTime is required for Complete jobs"))
    # Times in UTC compare as texts.
    is_either_new = is_time_new or started != before.get("startTime")
    if is_either_new and has_started and has_completed and (completed or "") < (started or ""):
        errors.append(invalid(path, completed, "must be equal to or after `startTime`"))
    is_failure_new = "Failed" in is_new or status.get("failedIndexes") != before.get("failedIndexes")
    if is_failure_new and "Failed" in held and "FailureTarget" not in held:
        errors += _of_conditions(
            ["cannot set Failed=True condition without the FailureTarget=true condition"]
        )
    is_success_new = not is_new.isdisjoint({"Complete", "SuccessCriteriaMet"})
    if is_success_new and is_complete and "SuccessCriteriaMet" not in held:
        errors += _of_conditions(
            ["cannot set Complete=True condition without the SuccessCriteriaMet=true condition"]
        )
    return errors


_ENDS: Final = frozenset({"Complete", "Failed"})


def _is_finished(status: Document) -> bool:
    return not held_conditions(status).isdisjoint(_ENDS)


def _is_end_new(status: Document, before: Document, field: str) -> bool:
    """Returns whether a job has ended and that, or the field, is new."""
    is_changed = status.get(field) != before.get(field) or not _is_finished(before)
    return _is_finished(status) and is_changed


def _validate_end(spec: Document, status: Document, before: Document) -> Errors:
    """Checks that a job that has ended was started, and has no pods left to run or to count."""
    errors: Errors = []
    if status.get("active", 0) > 0 and _is_end_new(status, before, "active"):
        errors.append(invalid("status.active", status["active"], "active>0 is invalid for finished job"))
    wants_nothing = bool(spec.get("suspend")) and spec.get("completions") == 0
    if "startTime" not in status and not wants_nothing and _is_end_new(status, before, "startTime"):
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()) and _is_end_new(status, before, "uncountedTerminatedPods"):
        shown = go_struct_fields({"succeeded": None, "failed": None} | uncounted)
        errors.append(invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job"))
    return errors


def _validate_pods(status: Document, before: Document) -> Errors:
    errors: Errors = []
    if (status.get("terminating") or 0) > 0 and _is_end_new(status, before, "terminating"):
        text = "terminating>0 is invalid for finished job"
        errors.append(invalid("status.terminating", status["terminating"], text))
    ready, active = status.get("ready"), status.get("active", 0)
    is_new = ready != before.get("ready") or active != before.get("active", 0)
    if is_new and ready is not None and ready > active:
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    return errors


def _validate_success(spec: Document, held: frozenset[str], *, may_succeed: bool) -> Errors:
    """Checks the condition SuccessCriteriaMet."""
    is_met, texts = "SuccessCriteriaMet" in held, []
    if is_met and not may_succeed and spec.get("completionMode") != "Indexed":
        texts.append("cannot set SuccessCriteriaMet to NonIndexed Job")
    texts += [
        f"cannot set SuccessCriteriaMet=True and {other}=true conditions"
        for other in ("Failed", "FailureTarget")
        if is_met and other in held
    ]
    if is_met and not may_succeed and "successPolicy" not in spec:
        texts.append("cannot set SuccessCriteriaMet=True for Job without SuccessPolicy")
    if not is_met and "Complete" in held and "successPolicy" in spec:
        texts.append("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    return _of_conditions(texts)


def _validate_indexes(spec: Document, status: Document, before: Document) -> Errors:
    completed, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    is_completed_new = completed != before.get("completedIndexes", "")
    is_failed_new = failed != before.get("failedIndexes")
    completions, has_limit = spec.get("completions"), "backoffLimitPerIndex" in spec
    errors: Errors = []
    if is_completed_new:
        errors += _validate_list("completedIndexes", completed, completions)
    if is_failed_new and failed is not None and has_limit:
        errors += _validate_list("failedIndexes", failed, completions)
    if is_completed_new and completed and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", completed, text))
    if is_failed_new and failed is not None and not has_limit:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, text))
    if (is_completed_new or is_failed_new) and completions is not None and failed is not None:
        common = _first_common(completed, failed, completions)
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
    """Returns the first index that is in both lists. Parts that cannot be parsed have none."""
    left, right = _intervals(one, completions), _intervals(other, completions)
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        if a[0] <= b[1] and b[0] <= a[1]:
            return max(a[0], b[0])
        if a[0] <= b[0]:
            a = next(left, None)
        else:
            b = next(right, None)
    return None


def _intervals(text: str, completions: int) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        with contextlib.suppress(InvalidIndexes):
            yield parse_interval(part, completions)


def _validate_change(spec: Document, status: Document, before: Document) -> Errors:
    """Checks that ends stay, that times stay, and that numbers of ended pods do not fall.

    Indexed jobs that run all their pods at once may get smaller.
    """
    gone = held_conditions(before) - held_conditions(status)
    errors = _of_conditions(
        f"cannot disable the terminal {condition}=True condition"
        for condition in ("Failed", "Complete", "FailureTarget")
        if condition in gone
    )
    is_elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get(
        "parallelism"
    )
    for field in ("failed",) if is_elastic else ("failed", "succeeded"):
        count = status.get(field, 0)
        if count < before.get(field, 0):
            errors.append(invalid(f"status.{field}", count, f"cannot decrease the {field} counter"))
    completed, completed_before = status.get("completionTime"), before.get("completionTime")
    if "completionTime" in status and completed_before and completed != completed_before:
        errors.append(invalid("status.completionTime", completed, IMMUTABLE))
    started, started_before = status.get("startTime"), before.get("startTime")
    resumes = _is_suspended(before) is True and _is_suspended(status) is False
    if started_before and started != started_before and not resumes and not spec.get("suspend"):
        text = f"{IMMUTABLE} for unsuspended job once set"
        errors.append(invalid("status.startTime", started, text))
    return errors


def _is_suspended(status: Document) -> bool | None:
    """Returns the state of the condition Suspended. None if there is no condition."""
    conditions = status.get("conditions") or ()
    said = {each.get("status") for each in conditions if each.get("type") == "Suspended"}
    return True if "True" in said else False if "False" in said else None
