"""How the pods of a group are scheduled, each by itself, or some of them together, and disrupted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.field_errors import Errors, invalid, required
from apiserver.validation.checks import at_least, immutable
from apiserver.vocabulary import Document

_POLICIES: Final = ("basic", "gang")


def validate_policy(path: str, policy: Document) -> Errors:
    """Checks that there is one policy."""
    if errors := exactly_one(path, policy, _POLICIES):
        return errors
    if (gang := policy.get("gang")) is None:
        return []
    where, count = f"{path}.gang.minCount", gang.get("minCount") or 0
    return at_least(where, count, 1) if count else [required(where)]


def validate_policy_update(path: str, new: Document, old: Document) -> Errors:
    """The policy stays, and what it says may change (release 1.37)."""
    errors = immutable(f"{path}.basic", new.get("basic"), old.get("basic"))
    is_gang, was_gang = (each.get("gang") is not None for each in (new, old))
    if is_gang and not was_gang:
        errors.append(invalid(f"{path}.gang", None, "field cannot be set once created"))
    if was_gang and not is_gang:
        errors.append(invalid(f"{path}.gang", None, "field cannot be cleared once set"))
    return errors


def exactly_one(path: str, document: Document, fields: Sequence[str]) -> Errors:
    """Checks that one of some fields is set."""
    every = ", ".join(f"`{each}`" for each in fields)
    told = [f"`{each}`" for each in fields if document.get(each) is not None]
    if not told:
        return [invalid(path, "", f"must specify one of: {every}")]
    if len(told) > 1:
        text = f"exactly one of {every} is required, but multiple fields are set"
        return [invalid(path, f"{{{', '.join(told)}}}", text)]
    return []
