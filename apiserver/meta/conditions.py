"""Conditions in the status of an object. Source: apimachinery, pkg/api/meta/conditions.go."""

from __future__ import annotations

from apiserver.meta.vocabulary import Document


def find_condition(document: Document, kind: str) -> Document | None:
    """Returns the condition of this type; None if there is none."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), None)


def is_condition_true(document: Document, kind: str) -> bool:
    """Returns whether there is a condition of this type with the status `True`."""
    condition = find_condition(document, kind)
    return condition is not None and condition.get("status") == "True"


def applied_condition(document: Document, kind: str) -> Document:
    """Returns the apply configuration for the condition of this type: its fields that are not empty."""
    condition = find_condition(document, kind)
    if condition is None:
        return {}
    said = {name: value for name, value in condition.items() if value not in ("", None)}
    return {"status": {"conditions": [said]}}


def set_condition(document: Document, condition: Document, now: str) -> None:
    """Set the condition of this type. Its transition time only changes with its status.

    Fields that `condition` lacks are kept, too.
    """
    replace_condition(document, {**(find_condition(document, condition["type"]) or {}), **condition}, now)


def replace_condition(document: Document, condition: Document, now: str) -> None:
    """Set a condition as `set_condition` does, but drop fields that `condition` lacks.

    Source: pkg/api/pod, UpdatePodCondition.
    """
    conditions = document.setdefault("status", {}).setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            is_unchanged = old.get("status") == condition["status"]
            time = old.get("lastTransitionTime") if is_unchanged else now
            conditions[index] = {**condition, "lastTransitionTime": time}
            return
    conditions.append({**condition, "lastTransitionTime": now})
