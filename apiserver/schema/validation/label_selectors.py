"""Checks and applies LabelSelectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.meta import names, object_meta
from apiserver.meta.field_errors import Errors, forbidden, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import follows
from apiserver.schema.validation.documents import items, join

LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def label_selector(path: str, selector: Document | None, *, allows_invalid_values: bool = False) -> Errors:
    """Checks a LabelSelector. Source: apimachinery, pkg/apis/meta/v1/validation, ValidateLabelSelector."""
    if selector is None:
        return []
    errors = object_meta.validate_labels(selector.get("matchLabels"), join(path, "matchLabels"))
    for where, requirement in items(selector, "matchExpressions", path):
        errors += label_requirement(where, requirement, allows_invalid_values=allows_invalid_values)
    return errors


def label_requirement(
    path: str,
    requirement: Document,
    *,
    allows_invalid_values: bool = False,
    allows_unknown_operators: bool = False,
) -> Errors:
    """Checks one requirement of a LabelSelector. Source: as above, ValidateLabelSelectorRequirement."""
    errors: Errors = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", text))
    elif not allows_unknown_operators:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    errors += follows(f"{path}.key", key, names.qualified_name)
    if not allows_invalid_values:
        for index, value in enumerate(values):
            errors += follows(f"{path}.values[{index}]", value, names.label_value)
    return errors


def selects(selector: Document, labels: Mapping[str, str]) -> bool:
    """Returns whether a LabelSelector that has passed its check selects an object with these labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def _meets(requirement: Document, labels: Mapping[str, str]) -> bool:
    key, values = requirement.get("key", ""), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
