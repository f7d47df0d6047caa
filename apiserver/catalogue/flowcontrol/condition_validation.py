"""Conditions in the status of FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

from apiserver.meta.field_errors import Errors, duplicate, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import items


def validate_conditions(document: Document, old: Document | None = None) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for where, condition in items(document.get("status", {}), "conditions", "status"):
        kind = condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(f"{where}.type", kind))
        seen.add(kind)
        if not kind:
            errors.append(required(f"{where}.type"))
    return errors
