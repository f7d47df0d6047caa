"""JSON Merge Patch, RFC 7386."""

from __future__ import annotations

from typing import Any


def apply(target: Any, patch: Any) -> Any:
    """The target with the patch merged in; the target may be changed, the patch becomes part of it."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = apply(target.get(key), value)
    return target
