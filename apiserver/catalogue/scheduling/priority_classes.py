"""PriorityClasses. Source: pkg/apis/scheduling/validation, pkg/apis/scheduling/v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.field_errors import forbidden
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, immutable, one_of, setting
from apiserver.vocabulary import Document

_USER_VALUE_MAX: Final = 1_000_000_000
_SYSTEM_PREFIX: Final = "system-"
# Name and value of the classes that only the system's own pods have.
SYSTEM_CLASSES: Final[Mapping[str, int]] = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
_POLICIES: Final = ("PreemptLowerPriority", "Never")

DEFAULTS: Final[Mapping[str, Default]] = {
    "io.k8s.api.scheduling.v1.PriorityClass": setting(preemptionPolicy="PreemptLowerPriority")
}


def prepare_priority_class_create(document: Document) -> None:
    """What a class says never changes, so this is its only generation."""
    document["metadata"]["generation"] = 1


def validate_priority_class_create(document: Document) -> Errors:
    name, value = document["metadata"].get("name", ""), document.get("value", 0)
    errors: Errors = []
    if name.startswith(_SYSTEM_PREFIX):
        if problem := _system_class_problem(document, name, value):
            text = (
                f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. "
                f"error: {problem}"
            )
            errors.append(forbidden("metadata.name", text))
    elif value > _USER_VALUE_MAX:
        text = f"maximum allowed value of a user defined priority is {_USER_VALUE_MAX}"
        errors.append(forbidden("value", text))
    return errors + one_of("preemptionPolicy", document.get("preemptionPolicy"), _POLICIES)


def validate_priority_class_update(new: Document, old: Document) -> Errors:
    errors: Errors = []
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    policy = new.get("preemptionPolicy")
    return errors + immutable("preemptionPolicy", policy, old.get("preemptionPolicy"))


def _system_class_problem(document: Document, name: str, value: int) -> str:
    """Why it is not one of the system's own classes; empty if it is."""
    expected = SYSTEM_CLASSES.get(name)
    if expected is None:
        return f"{name} is not a known system priority class"
    if value != expected:
        return f"value of {name} PriorityClass must be {expected}"
    if document.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""
