"""Conditions in the status of FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

from apiserver.meta.field_errors import Errors, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import uniqueness
from apiserver.schema.validation.documents import items


def validate_conditions(document: Document, old: Document | None = None) -> Errors:
    errors: Errors = []
    unique = uniqueness()
    for where, condition in items(document.get("status", {}), "conditions", "status"):
        kind = condition.get("type", "")
        errors += unique(f"{where}.type", kind)
        if not kind:
            errors.append(required(f"{where}.type"))
    return errors
