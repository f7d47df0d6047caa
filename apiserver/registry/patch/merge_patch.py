"""JSON Merge Patch, RFC 7386."""

from __future__ import annotations

from typing import Any


def apply(target: Any, patch: Any) -> Any:
    """Returns the target with the patch merged in. It may change the target, and shares parts with the
    patch.
    """
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    # No recursion: clients choose the depth of patches.
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
