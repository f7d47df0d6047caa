"""Validation of device taints and tolerations.

Source: pkg/apis/resource/validation, validateDeviceTaint and validateDeviceToleration.
"""

from __future__ import annotations

from typing import Final

from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import follows, named, one_of

_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_OPERATORS: Final = ("Equal", "Exists")


def validate_taint(path: str, taint: Document, old_effect: str | None = None) -> Errors:
    """Checks a taint. old_effect: the stored effect; an unchanged one may be of a later release."""
    key, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
    errors = follows(f"{path}.key", key, names.qualified_name)
    errors += _value(path, value)
    if effect == old_effect:
        return errors
    return errors + one_of(f"{path}.effect", effect, _EFFECTS, required_text="")


def validate_toleration(path: str, toleration: Document) -> Errors:
    value, operator, effect = (toleration.get(field) or "" for field in ("value", "operator", "effect"))
    errors = named(f"{path}.key", toleration.get("key"), names.qualified_name, is_required=False)
    if operator == "Equal":
        errors += _value(path, value)
    elif operator != "Exists":
        errors += one_of(f"{path}.operator", operator, _OPERATORS, required_text="")
    elif value:
        errors.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    return errors + (one_of(f"{path}.effect", effect, _EFFECTS) if effect else [])


def _value(path: str, value: str) -> Errors:
    return follows(f"{path}.value", value, names.label_value)
