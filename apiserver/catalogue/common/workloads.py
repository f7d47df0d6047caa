"""Rules that workloads share: checks of selectors, templates, counts and statuses, and the scale."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from apiserver.catalogue.common.columns import status_column
from apiserver.meta import names, table
from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.table import AGE, Column, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ScaleFields
from apiserver.registry.subresources import scale
from apiserver.schema.compile import Default
from apiserver.schema.validation.checks import immutable, non_negative
from apiserver.schema.validation.documents import at
from apiserver.schema.validation.label_selectors import label_selector, selects

# ---- numbers of pods, or percentages of them

_is_percent = re.compile(r"[0-9]+%", re.ASCII).fullmatch
_PERCENT_TEXT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
# More digits make a number that is as much out of range as this many.
_DIGITS_MAX: Final = 18
_NUMBER: Final = re.compile(r"(?P<sign>[+-])?(?P<digits>[0-9]+)(?(sign)|%?)", re.ASCII).fullmatch


def validate_int_or_percent(path: str, value: int | str | None) -> Errors:
    """Checks a number that may not be negative, or a percentage."""
    if isinstance(value, str):
        return [] if _is_percent(value) else [invalid(path, value, _PERCENT_TEXT)]
    return non_negative(path, value)


def validate_percent_at_most_100(path: str, value: int | str | None) -> Errors:
    """Checks that a percentage is not more than 100."""
    if isinstance(value, str) and _is_percent(value) and int_or_percent_value(value) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def int_or_percent_value(value: int | str | None) -> int:
    """Returns a number, or the one in a text, with a sign or a percent sign; 0 if there is none."""
    if not isinstance(value, str):
        return value or 0
    found = _NUMBER(value)
    if found is None:
        return 0
    return int(f"{found['sign'] or ''}{found['digits'].lstrip('0')[:_DIGITS_MAX] or '0'}")


def rolling_by_default(unavailable: int | str, surge: int | str) -> Default:
    """Returns the default of a strategy, a rolling update, which also sets its missing bounds."""

    def complete(strategy: Document) -> None:
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", unavailable)
            rolling.setdefault("maxSurge", surge)

    return complete


# ---- selector and template


def validate_selector(
    spec: Document, *, kind: str, is_required: bool = True, allows_invalid_values: bool = False
) -> Errors:
    """Checks that `spec.selector` is present, well-formed, and not empty."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")] if is_required else []
    errors = label_selector("spec.selector", selector, allows_invalid_values=allows_invalid_values)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return errors


def validate_selector_matches_template(spec: Document) -> Errors:
    """Checks that a well-formed selector selects the pods of the template."""
    labels = at(spec, "template", "metadata", "labels")
    selector = spec.get("selector")
    if selector is not None and selects(selector, labels or {}):
        return []
    text = "`selector` does not match template `labels`"
    return [invalid("spec.template.metadata.labels", labels, text)]


def validate_always_restarts(template: Document, *, kind: str) -> Errors:
    """Checks that the pods have the restart policy Always, and no deadline."""
    path, spec = "spec.template.spec", template.get("spec") or {}
    errors: Errors = []
    if spec.get("restartPolicy") != "Always":
        errors.append(not_supported(f"{path}.restartPolicy", spec.get("restartPolicy") or "", ["Always"]))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{path}.activeDeadlineSeconds", text))
    return errors


def validate_selector_update(new: Document, old: Document | None) -> Errors:
    if old is None:
        return []
    return immutable("spec.selector", at(new, "spec", "selector"), at(old, "spec", "selector"))


# ---- status


def start_without_replicas(document: Document) -> None:
    """Sets the status of a new object that has no pods yet."""
    document["status"] = {"replicas": 0}


def validate_counts(status: Document, fields: Iterable[str]) -> Errors:
    return [error for field in fields for error in non_negative(f"status.{field}", status.get(field))]


def validate_at_most(status: Document, fields: Iterable[str], limit: str, text: str) -> Errors:
    """Checks that none of the fields is greater than the field `limit`."""
    most = status.get(limit) or 0
    counts = {field: status.get(field) or 0 for field in fields}
    return [invalid(f"status.{field}", count, text) for field, count in counts.items() if count > most]


def validate_ready_counts(status: Document, counted: str) -> Errors:
    """Checks that no more pods are ready or available than exist.

    counted: the field of another count, which is checked first.
    """
    fields = (counted, "readyReplicas", "availableReplicas")
    errors = validate_at_most(status, fields, "replicas", "cannot be greater than status.replicas")
    text = "cannot be greater than readyReplicas"
    return errors + validate_at_most(status, ("availableReplicas",), "readyReplicas", text)


def validate_collision_count(new: Document, old: Document) -> Errors:
    count, before = at(new, "status", "collisionCount"), at(old, "status", "collisionCount")
    if before is not None and (count is None or count < before):
        return [invalid("status.collisionCount", count or 0, "cannot be decremented")]
    return []


# ---- warnings


def warn_name(new: Document, old: Document | None) -> list[str]:
    """Returns a warning, on create, about a name that is not a DNS label: pods and host names derive from
    it.
    """
    if old is not None or not (problems := names.dns_label(new["metadata"].get("name", ""))):
        return []
    text = (
        "this is used in Pod names and hostnames, which can result in surprising behavior; "
        "a DNS label is recommended"
    )
    return [f"metadata.name: {text}: [{' '.join(problems)}]"]


# ---- the subresource scale, and columns


REPLICA_COLUMNS: Final = (
    Column(
        "Desired", field_cell("spec", "replicas", default=1), "The number of desired pods.", type="integer"
    ),
    status_column("Current", "replicas", "The current number of pods."),
    status_column("Ready", "readyReplicas", "The number of ready pods."),
    AGE,
)


def ready_of_desired(document: Document, now: float) -> str:
    """Returns a cell that shows the number of ready pods, and of all: `2/3`."""
    ready = document.get("status", {}).get("readyReplicas", 0)
    return f"{ready}/{document.get('spec', {}).get('replicas', 1)}"


def _label_selector(document: Document) -> str:
    selector = at(document, "spec", "selector")
    return table.selector_text(selector) if selector else ""


SCALE_FIELDS: Final = ScaleFields(_label_selector)
SCALE_SUBRESOURCE: Final = scale(SCALE_FIELDS)
