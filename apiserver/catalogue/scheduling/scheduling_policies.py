"""Scheduling policies of groups: each member separately, or several together."""

from __future__ import annotations

from typing import Final

from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import CLEARED, CREATED, at_least, exactly_one, immutable

# The field with the number of pods of a group, or of groups of a composite one, that are scheduled together.
MIN_COUNT: Final = "minCount"
MIN_GROUP_COUNT: Final = "minGroupCount"
_POLICIES: Final = ("basic", "gang")


def validate_policy(path: str, policy: Document, count: str = MIN_COUNT) -> Errors:
    """Checks that there is one policy. count: MIN_COUNT or MIN_GROUP_COUNT."""
    if errors := exactly_one(path, policy, _POLICIES):
        return errors
    if (gang := policy.get("gang")) is None:
        return []
    where, least = f"{path}.gang.{count}", gang.get(count) or 0
    return at_least(where, least, 1) if least else [required(where)]


def validate_policy_update(path: str, new: Document, old: Document) -> Errors:
    """Checks that the kind of policy does not change; its fields may (release 1.37)."""
    errors = immutable(f"{path}.basic", new.get("basic"), old.get("basic"))
    is_gang, was_gang = (each.get("gang") is not None for each in (new, old))
    if is_gang and not was_gang:
        errors.append(invalid(f"{path}.gang", None, CREATED))
    if was_gang and not is_gang:
        errors.append(invalid(f"{path}.gang", None, CLEARED))
    return errors
