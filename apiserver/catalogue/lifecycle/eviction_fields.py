"""Validation of the fields that EvictionRequests and Evictions have in common.

Source: the declarative rules of k8s.io/api/lifecycle/v1alpha1; k8s.io/apimachinery, pkg/api/validate (release
1.37).
"""

from __future__ import annotations

import re
from typing import Final

from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import CLEARED, at_least, exactly_one, max_items, named
from apiserver.schema.validation.conditions import validate_conditions

GATE: Final = "EvictionRequestAPI"
# What a requester wants, in the order of error messages.
INTENTS: Final = ("Eviction", "Withdrawn")
_CONDITIONS_MAX: Final = 100
_is_uuid = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def validate_target(path: str, target: Document) -> Errors:
    errors = exactly_one(path, target, ("pod",))
    if (pod := target.get("pod")) is not None:
        errors += named(f"{path}.pod.name", pod.get("name"), names.dns_subdomain)
        errors += named(f"{path}.pod.uid", pod.get("uid"), _uuid)
    return errors


def _uuid(text: str) -> list[str]:
    return [] if _is_uuid(text) else ["must be a lowercase UUID in 8-4-4-4-12 format"]


def validate_progress(status: Document, before: Document) -> Errors:
    """Checks the observed generation and conditions. before: the old status."""
    errors = _validate_observed_generation(status.get("observedGeneration"), before.get("observedGeneration"))
    excess = max_items("status.conditions", status.get("conditions"), _CONDITIONS_MAX)
    return errors + (excess or validate_conditions(status, "status"))


def _validate_observed_generation(generation: int | None, before: int | None) -> Errors:
    path = "status.observedGeneration"
    if generation is None:
        return [] if before is None else [invalid(path, None, CLEARED)]
    errors = at_least(path, generation, 1)
    if before is not None and generation < before:
        errors.append(invalid(path, generation, f"may not be decreased from {before}"))
    return errors
