"""JSON Merge Patch, RFC 7386."""

from __future__ import annotations

from typing import Any


def apply(target: Any, patch: Any) -> Any:
    """The target with the patch merged in; the target may be changed, the patch becomes part of it."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    # A list of what is to do, not recursion: how deep a patch goes is the client's choice.
    pending: list[tuple[dict[str, Any], dict[str, Any]]] = [(target, patch)]
    while pending:
        into, changes = pending.pop()
        for key, value in changes.items():
            if value is None:
                into.pop(key, None)
            elif isinstance(value, dict):
                below = into.get(key)
                if not isinstance(below, dict):
                    below = into[key] = {}
                pending.append((below, value))
            else:
                into[key] = value
    return target
