"""LimitRanges.

Source: pkg/apis/core/v1/defaults.go, and pkg/apis/core/validation, ValidateLimitRange.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from apiserver.catalogue.builtin_type import CORE, BuiltinType
from apiserver.catalogue.pod_specs.resource_requirements import (
    may_be_overcommitted,
    validate_container_resource_name,
    validate_resource_name,
)
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, duplicate, forbidden, invalid, required
from apiserver.meta.quantity import EXACT, ratio_text
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import quantity_of
from apiserver.schema.validation.defaults import in_turn, rounding
from apiserver.schema.validation.documents import items


def prepare_limit_range(document: Document) -> None:
    """Sets a random name if there is none."""
    meta = document["metadata"]
    if not meta.get("name"):
        meta["name"] = str(uuid.uuid4())


_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_AMOUNTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _default_item(item: Document) -> None:
    """Derives missing limits and requests of containers from the present ones."""
    if item.get("type") != "Container":
        return
    limits, requests = item.get("default") or {}, item.get("defaultRequest") or {}
    limits = {**(item.get("max") or {}), **limits}
    requests = {**(item.get("min") or {}), **limits, **requests}
    if limits:
        item["default"] = limits
    if requests:
        item["defaultRequest"] = requests


def validate_limit_range(document: Document) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for path, item in items(document.get("spec") or {}, "limits", "spec"):
        kind = item.get("type", "")
        errors += _validate_type(f"{path}.type", kind)
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        errors += _validate_names(path, item, kind)
        for name in dict.fromkeys(name for field in _AMOUNTS for name in _amounts(item, kind, field)):
            errors += _validate_order(
                path, name, {field: _amounts(item, kind, field).get(name) for field in _AMOUNTS}
            )
    return errors


def _amounts(item: Document, kind: str, field: str) -> Mapping[str, Any]:
    """Returns the amounts in a field; none from defaults for pods, which cause a single error."""
    return {} if kind == "Pod" and field.startswith("default") else item.get(field) or {}


def _validate_type(path: str, kind: str) -> Errors:
    errors = [invalid(path, kind, problem) for problem in names.qualified_name(kind)]
    if not errors and "/" not in kind and kind not in _TYPES:
        errors.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return errors


def _validate_names(path: str, item: Document, kind: str) -> Errors:
    check = validate_container_resource_name if kind in ("Pod", "Container") else validate_resource_name
    errors: Errors = []
    for field in _AMOUNTS:
        if kind == "Pod" and field.startswith("default") and item.get(field):
            errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
        if field == "maxLimitRequestRatio":
            errors += _validate_storage_bound(path, item, kind)
        for name in _amounts(item, kind, field):
            errors += check(f"{path}.{field}[{name}]", name)
    return errors


def _validate_storage_bound(path: str, item: Document, kind: str) -> Errors:
    if kind != "PersistentVolumeClaim" or any("storage" in (item.get(each) or ()) for each in ("min", "max")):
        return []
    text = "either minimum or maximum storage value is required, but neither was provided"
    return [required(f"{path}.limits", text)]


# Pairs of amounts of which the first may not be greater than the second: the field of the error, the amount
# that it shows, and what the two are called.
_ORDER: Final = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    (
        "defaultRequest", "default", "defaultRequest", "defaultRequest",
        "default request value", "default limit value",
    ),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)  # fmt: skip


def _validate_order(path: str, name: str, of: Mapping[str, Any]) -> Errors:
    """Checks that the amounts of one resource are consistent. of: by field, None if it is absent."""
    errors: Errors = []
    for low, high, field, shown, low_text, high_text in _ORDER:
        if of[low] is not None and of[high] is not None and quantity_of(of[low]) > quantity_of(of[high]):
            text = f"{low_text} {of[low]} is greater than {high_text} {of[high]}"
            errors.append(invalid(f"{path}.{field}[{name}]", of[shown], text))
    if of["maxLimitRequestRatio"] is not None:
        errors += _validate_ratio(f"{path}.maxLimitRequestRatio[{name}]", of)
    default, request = of["default"], of["defaultRequest"]
    if may_be_overcommitted(name) or default is None or request is None:
        return errors
    if quantity_of(default) != quantity_of(request):
        text = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", request, text))
    return errors


def _validate_ratio(path: str, of: Mapping[str, Any]) -> Errors:
    shown, ratio = of["maxLimitRequestRatio"], quantity_of(of["maxLimitRequestRatio"]).value
    errors: Errors = []
    if ratio < 1:
        errors.append(invalid(path, shown, f"ratio {shown} is less than 1"))
    if of["min"] is not None and of["max"] is not None:
        low, high = quantity_of(of["min"]).value, quantity_of(of["max"]).value
        product = EXACT.multiply(ratio, low)
        # The quotient by zero is infinite, and as `high` below or above all ratios.
        if product > high if low >= 0 else product < high:
            limit = ratio_text(high, low) if low else "-Inf"
            text = f"ratio {shown} is greater than max/min = {limit}"
            errors.append(invalid(path, shown, text))
    return errors


BUILTIN_TYPE: Final = BuiltinType(
    "",
    "v1",
    "limitranges",
    "LimitRange",
    short_names=("limits",),
    defaults={f"{CORE}LimitRangeItem": in_turn(_default_item, rounding(*_AMOUNTS))},
    strategy=Strategy(
        prepare_create=prepare_limit_range, validate=validate_limit_range, allows_create_on_update=True
    ),
)
