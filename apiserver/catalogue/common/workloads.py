"""Checks that the kinds which run pods share: their selectors, templates, and numbers of pods."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from apiserver.field_errors import forbidden, invalid, not_supported, required
from apiserver.meta import names
from apiserver.validation.checks import Errors, at, immutable, label_selector, non_negative, selects
from apiserver.vocabulary import Document

# ---- numbers of pods, or percentages of them

_is_percent = re.compile(r"[0-9]+%", re.ASCII).fullmatch
_PERCENT_TEXT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
# More digits make a number that is as much out of range as this many.
_DIGITS_MAX: Final = 18


def validate_int_or_percent(path: str, value: int | str | None) -> Errors:
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        return [] if _is_percent(value) else [invalid(path, value, _PERCENT_TEXT)]
    return non_negative(path, value)


def validate_percent_at_most_100(path: str, value: int | str | None) -> Errors:
    """A percentage is not more than all."""
    if isinstance(value, str) and _is_percent(value) and amount(value) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def amount(value: int | str | None) -> int:
    """The number itself, or that before the percent sign; 0 if there is none."""
    if not isinstance(value, str):
        return value or 0
    digits = value.removesuffix("%").lstrip("0")[:_DIGITS_MAX]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def as_go(value: Any) -> Any:
    """A structure as Kubernetes' messages show those that have no names in JSON of their own."""
    if isinstance(value, dict):
        return {key[:1].upper() + key[1:]: as_go(child) for key, child in value.items()}
    return [as_go(child) for child in value] if isinstance(value, list) else value


# ---- selector and template


def validate_selector(spec: Document, *, kind: str, is_required: bool = True) -> Errors:
    """`spec.selector`: there, well-formed, and not empty."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")] if is_required else []
    errors = label_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return errors


def validate_selector_matches_template(spec: Document) -> Errors:
    """The selector, which is well-formed if it is there, selects the pods of the template."""
    labels = at(spec, "template", "metadata", "labels")
    selector = spec.get("selector")
    if selector is not None and selects(selector, labels or {}):
        return []
    text = "`selector` does not match template `labels`"
    return [invalid("spec.template.metadata.labels", labels, text)]


def validate_always_restarts(template: Document, *, kind: str) -> Errors:
    """Pods are started again whenever they end, and have no deadline."""
    path, spec = "spec.template.spec", template.get("spec") or {}
    errors: Errors = []
    if spec.get("restartPolicy") != "Always":
        errors.append(not_supported(f"{path}.restartPolicy", spec.get("restartPolicy") or "", ["Always"]))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{path}.activeDeadlineSeconds", text))
    return errors


def validate_selector_update(new: Document, old: Document) -> Errors:
    return immutable("spec.selector", at(new, "spec", "selector"), at(old, "spec", "selector"))


# ---- status


def validate_counts(status: Document, fields: Iterable[str]) -> Errors:
    return [error for field in fields for error in non_negative(f"status.{field}", status.get(field))]


def validate_at_most(status: Document, fields: Iterable[str], limit: str, text: str) -> Errors:
    """None of the fields has more than the field `limit` has."""
    most = status.get(limit) or 0
    counts = {field: status.get(field) or 0 for field in fields}
    return [invalid(f"status.{field}", count, text) for field, count in counts.items() if count > most]


def validate_collision_count(new: Document, old: Document) -> Errors:
    count, before = at(new, "status", "collisionCount"), at(old, "status", "collisionCount")
    if before is not None and (count is None or count < before):
        return [invalid("status.collisionCount", count or 0, "cannot be decremented")]
    return []


# ---- warnings


def warn_name(document: Document) -> list[str]:
    """Pods are called after the object, and hosts after the pods."""
    problems = names.dns_label(document["metadata"].get("name", ""))
    if not problems:
        return []
    text = (
        "this is used in Pod names and hostnames, which can result in surprising behavior; "
        "a DNS label is recommended"
    )
    return [f"metadata.name: {text}: [{' '.join(problems)}]"]
