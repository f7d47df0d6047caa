"""PriorityClasses. Source: pkg/apis/scheduling/validation, pkg/apis/scheduling/v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta.field_errors import Errors, forbidden
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import immutable, one_of
from apiserver.schema.validation.defaults import setting

_USER_VALUE_MAX: Final = 1_000_000_000
_SYSTEM_PREFIX: Final = "system-"
# Name and value of the classes that only the system's own pods have.
SYSTEM_CLASSES: Final[Mapping[str, int]] = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
_POLICIES: Final = ("PreemptLowerPriority", "Never")


def prepare_priority_class_create(document: Document) -> None:
    """Sets the generation, which never changes, since the class does not."""
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
    return errors + one_of("preemptionPolicy", document.get("preemptionPolicy"), _POLICIES, required_text="")


def validate_priority_class_update(new: Document, old: Document) -> Errors:
    errors: Errors = []
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    policy = new.get("preemptionPolicy")
    return errors + immutable("preemptionPolicy", policy, old.get("preemptionPolicy"))


def refuse_deletion_of_system_classes(name: str) -> str:
    return "this is a system priority class and cannot be deleted" if name in SYSTEM_CLASSES else ""


def _system_class_problem(document: Document, name: str, value: int) -> str:
    """Returns the reason why a class is not a system class; empty if it is one."""
    expected = SYSTEM_CLASSES.get(name)
    if expected is None:
        return f"{name} is not a known system priority class"
    if value != expected:
        return f"value of {name} PriorityClass must be {expected}"
    if document.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


BUILTIN_TYPE: Final = BuiltinType(
    "scheduling.",
    "v1",
    "priorityclasses",
    "PriorityClass",
    is_namespaced=False,
    short_names=("pc",),
    defaults={"io.k8s.api.scheduling.v1.PriorityClass": setting(preemptionPolicy="PreemptLowerPriority")},
    strategy=Strategy(
        prepare_create=prepare_priority_class_create,
        validate_create=validate_priority_class_create,
        update=UpdateStrategy(validate=validate_priority_class_update),
        delete_refusal=refuse_deletion_of_system_classes,
    ),
    columns=columns(
        Column(
            "Value",
            field_cell("value", default=0),
            "The priority of pods in the class; a higher one is scheduled first.",
            type="integer",
        ),
        Column(
            "Global-Default",
            field_cell("globalDefault", default=False),
            "Whether this is the default class.",
            type="boolean",
        ),
        AGE,
        Column(
            "PreemptionPolicy",
            field_cell("preemptionPolicy"),
            "Whether pods of the class preempt other pods.",
        ),
    ),
)
