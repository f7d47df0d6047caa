"""Conditions of a status, by type."""

from __future__ import annotations

from apiserver.vocabulary import Document


def set_condition(document: Document, condition: Document, now: str) -> None:
    """Put a condition into the status. Its transition time is kept unless its status changes."""
    conditions = document.setdefault("status", {}).setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            is_as_before = old.get("status") == condition["status"]
            moment = old.get("lastTransitionTime") if is_as_before else now
            conditions[index] = {**old, **condition, "lastTransitionTime": moment}
            return
    conditions.append({**condition, "lastTransitionTime": now})


def is_condition_true(document: Document, kind: str) -> bool:
    """Whether the condition is there, and true."""
    conditions = document.get("status", {}).get("conditions") or ()
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)
