"""Validation of JobSpecs: those of Jobs, and in the templates of CronJobs."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from apiserver.catalogue.pod_specs.templates import validate_template
from apiserver.catalogue.pod_specs.validation import PodSpecRules
from apiserver.meta import names
from apiserver.meta.field_errors import (
    Errors,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    quote,
    required,
    too_long,
    too_many,
)
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import non_negative, one_of
from apiserver.schema.validation.documents import at, items, join

MANAGED_BY_MAX: Final = 63
RULES_MAX: Final = 20
EXIT_CODES_MAX: Final = 255
SUCCEEDED_INDEXES_BYTES_MAX: Final = 64 * 1024
# Bounds of indexed jobs: the list of indexes in their status must have room.
PARALLELISM_MAX: Final = 100_000
FAILED_INDEXES_MAX: Final = 100_000
MANY_COMPLETIONS: Final = 100_000
PARALLELISM_MAX_OF_MANY: Final = 10_000
FAILED_INDEXES_MAX_OF_MANY: Final = 10_000


def validate_job_spec(
    rules: PodSpecRules, path: str, spec: Document, old_template: Document | None
) -> Errors:
    """Checks a JobSpec: that of a Job, or of a CronJob's template."""
    errors: Errors = []
    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        errors += non_negative(join(path, field), spec.get(field))
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if "managedBy" in spec:
        errors += _validate_manager(f"{path}.managedBy", spec["managedBy"])
    errors += _validate_completion_mode(path, spec)
    if "podFailurePolicy" in spec:
        errors += _validate_failure_policy(f"{path}.podFailurePolicy.rules", spec)
    if "successPolicy" in spec:
        errors += _validate_success_policy(f"{path}.successPolicy", spec)
    if "podReplacementPolicy" in spec:
        supported = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
        errors += one_of(f"{path}.podReplacementPolicy", spec["podReplacementPolicy"], supported)
    errors += validate_template(f"{path}.template", spec["template"], rules, old_template)
    return errors + _validate_restart_policy(f"{path}.template.spec.restartPolicy", spec)


def _validate_restart_policy(path: str, spec: Document) -> Errors:
    policy = at(spec, "template", "spec", "restartPolicy")
    if policy in (None, "", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ["OnFailure", "Never"])]
    if "podFailurePolicy" in spec and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        return [invalid(path, policy, text)]
    return []


_PATH_PATTERN: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_path = re.compile(_PATH_PATTERN).fullmatch


def _validate_manager(path: str, manager: str) -> Errors:
    """Checks a name like `example.com/controller`. Source: apimachinery, validation.IsDomainPrefixedPath."""
    errors: Errors = []
    domain, _, rest = manager.partition("/")
    if not manager:
        errors.append(required(path))
    elif not domain or not rest:
        errors.append(invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        errors += [invalid(path, domain, problem) for problem in names.dns_subdomain(domain)]
        if not _is_path(rest):
            text = f"Invalid path (regex used for validation is '{_PATH_PATTERN}')"
            errors.append(invalid(path, rest, text))
    if names.byte_length(manager) > MANAGED_BY_MAX:
        errors.append(too_long(path, MANAGED_BY_MAX))
    return errors


def _validate_completion_mode(path: str, spec: Document) -> Errors:
    mode = spec.get("completionMode", "NonIndexed")
    if mode == "Indexed":
        return _validate_indexed(path, spec)
    errors = one_of(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "NonIndexed":
        errors += [
            invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
            for field in ("backoffLimitPerIndex", "maxFailedIndexes")
            if field in spec
        ]
    return errors


def _validate_indexed(path: str, spec: Document) -> Errors:
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 0)
    failed, failed_path = spec.get("maxFailedIndexes"), f"{path}.maxFailedIndexes"
    errors: Errors = []
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > PARALLELISM_MAX:
        text = f"must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, text))
    if failed is not None and completions is not None and failed > completions:
        errors.append(invalid(failed_path, failed, "must be less than or equal to completions"))
    if failed is not None and failed > FAILED_INDEXES_MAX:
        errors.append(invalid(failed_path, failed, f"must be less than or equal to {FAILED_INDEXES_MAX}"))
    if (completions or 0) > MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        if failed is None:
            text = f"must be specified when completions is above {MANY_COMPLETIONS}"
            errors.append(required(failed_path, text))
        for field, value, limit in (
            ("parallelism", parallelism, PARALLELISM_MAX_OF_MANY),
            ("maxFailedIndexes", failed or 0, FAILED_INDEXES_MAX_OF_MANY),
        ):
            if value > limit:
                text = (
                    f"must be less than or equal to {limit} when completions are above {MANY_COMPLETIONS} "
                    "and used with backoff limit per index"
                )
                errors.append(invalid(f"{path}.{field}", value, text))
    return errors


# ---- policies of failure and success


def _validate_failure_policy(path: str, spec: Document) -> Errors:
    rules = at(spec, "podFailurePolicy", "rules") or []
    pods = at(spec, "template", "spec") or {}
    containers = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in pods.get(field) or ()
    }
    errors: Errors = []
    if len(rules) > RULES_MAX:
        return [too_many(path, len(rules), RULES_MAX)]
    for index, rule in enumerate(rules):
        errors += _validate_failure_rule(
            f"{path}[{index}]", rule, containers, has_limit_per_index="backoffLimitPerIndex" in spec
        )
    return errors


def _validate_failure_rule(
    path: str, rule: Document, containers: Collection[str | None], *, has_limit_per_index: bool
) -> Errors:
    action, exit_codes = rule.get("action"), rule.get("onExitCodes")
    if action == "FailIndex":
        text = "requires the backoffLimitPerIndex to be set"
        errors = [] if has_limit_per_index else [invalid(f"{path}.action", action, text)]
    else:
        errors = _one_of_listed(f"{path}.action", action, ("Count", "FailIndex", "FailJob", "Ignore"))
    conditions = rule.get("onPodConditions") or []
    if exit_codes is not None:
        errors += _validate_exit_codes(f"{path}.onExitCodes", exit_codes, containers)
    if len(conditions) > RULES_MAX:
        return [*errors, too_many(f"{path}.onPodConditions", len(conditions), RULES_MAX)]
    for where, pattern in items(rule, "onPodConditions", path):
        kind = pattern.get("type", "")
        errors += [invalid(f"{where}.type", kind, problem) for problem in names.qualified_name(kind)]
        errors += _one_of_listed(f"{where}.status", pattern.get("status"), ("False", "True", "Unknown"))
    if exit_codes is not None and conditions:
        errors.append(
            invalid_structure(path, "specifying both OnExitCodes and OnPodConditions is not supported")
        )
    if exit_codes is None and not conditions:
        errors.append(
            invalid_structure(path, "specifying one of OnExitCodes and OnPodConditions is required")
        )
    return errors


def _validate_exit_codes(path: str, requirement: Document, containers: Collection[str | None]) -> Errors:
    operator, values = requirement.get("operator"), requirement.get("values") or []
    errors = _one_of_listed(f"{path}.operator", operator, ("In", "NotIn"))
    container = requirement.get("containerName")
    if container is not None and container not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, text))
    values_path = f"{path}.values"
    if not values:
        errors.append(invalid(values_path, requirement.get("values"), "at least one value is required"))
    elif len(values) > EXIT_CODES_MAX:
        return [*errors, too_many(values_path, len(values), EXIT_CODES_MAX)]
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            text = "must not be 0 for the In operator"
            errors.append(invalid(f"{values_path}[{index}]", value, text))
        if value in seen:
            errors.append(duplicate(f"{values_path}[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        errors.append(invalid(values_path, values, "must be ordered"))
    return errors


def _validate_success_policy(path: str, spec: Document) -> Errors:
    policy = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        rules = policy.get("rules")
        shown = rules and [
            {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
            for rule in rules
        ]
        return [invalid(path, {"Rules": shown}, "requires indexed completion mode")]
    rules, path = policy.get("rules") or [], f"{path}.rules"
    errors: Errors = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(path, text))
    if len(rules) > RULES_MAX:
        return [too_many(path, len(rules), RULES_MAX)]
    for index, rule in enumerate(rules):
        errors += _validate_success_rule(f"{path}[{index}]", rule, spec.get("completions") or 0)
    return errors


def _validate_success_rule(path: str, rule: Document, completions: int) -> Errors:
    count, indexes, total = rule.get("succeededCount"), rule.get("succeededIndexes"), 0
    errors: Errors = []
    if count is None and indexes is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(required(path, text))
    if indexes is not None:
        where = f"{path}.succeededIndexes"
        if names.byte_length(indexes) > SUCCEEDED_INDEXES_BYTES_MAX:
            return [*errors, too_long(where, SUCCEEDED_INDEXES_BYTES_MAX)]
        try:
            total = sum(last - first + 1 for first, last in parse_indexes(indexes, completions))
        except InvalidIndexes as error:
            errors.append(invalid(where, indexes, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        where = f"{path}.succeededCount"
        errors += non_negative(where, count)
        if count > completions:
            text = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(invalid(where, count, text))
        if indexes is not None and count > total:
            text = (
                f"must be less than or equal to {total} "
                "(the number of indexes in the specified succeededIndexes field)"
            )
            errors.append(invalid(where, count, text))
    return errors


def _one_of_listed(path: str, value: str | None, supported: tuple[str, ...]) -> Errors:
    listed = " ".join(f'"{each}"' for each in supported)
    return one_of(path, value, supported, required_text=f"valid values: [{listed}]")


def invalid_structure(path: str, text: str) -> FieldError:
    """Returns an error about a structure, whose message does not show its value."""
    return FieldError(path, "FieldValueInvalid", f"Invalid value: {text}")


# ---- lists of indexes


class InvalidIndexes(ValueError):
    """A text that is not a list of indexes. The message is for the client."""


_is_integer = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII).fullmatch


def parse_indexes(text: str, completions: int) -> list[tuple[int, int]]:
    """Returns the first and the last index of each part of a list like `1,3-5`. Raises InvalidIndexes.

    completions: the exclusive limit of indexes, which must increase.
    """
    intervals: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        first, last = parse_interval(part, completions)
        if intervals:
            _check_increase(intervals[-1][1], first)
        intervals.append((first, last))
    return intervals


def parse_interval(text: str, completions: int) -> tuple[int, int]:
    """Returns the first and the last index of a part of a list. Raises InvalidIndexes."""
    limits = text.split("-")
    if len(limits) > 2:
        raise InvalidIndexes(
            f"the fragment {quote(text)} violates the requirement that an index interval can have at "
            "most two parts separated by '-'"
        )
    first = _parse_index(limits[0], completions)
    last = _parse_index(limits[-1], completions)
    if len(limits) == 2:
        _check_increase(first, last)
    return first, last


def _check_increase(previous: int, current: int) -> None:
    if previous >= current:
        raise InvalidIndexes(f"non-increasing order, previous: {previous}, current: {current}")


def _parse_index(text: str, completions: int) -> int:
    if not _is_integer(text):
        raise InvalidIndexes(f"cannot convert string to integer for index: {quote(text)}")
    if int(text) >= completions:
        raise InvalidIndexes(f"too large index: {quote(text)}")
    return int(text)


# ---- warnings


def warn_job_spec(path: str, spec: Document) -> list[str]:
    if (
        spec.get("completionMode") == "Indexed"
        and spec.get("completions", 0) > MANY_COMPLETIONS
        and spec.get("parallelism", 0) > PARALLELISM_MAX_OF_MANY
    ):
        text = (
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
            "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
        return [f"{path}: {text}"]
    return []
