"""JSON Merge Patch, RFC 7386."""

from __future__ import annotations

from typing import Any

import orjson


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


def between(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Returns the patch that makes `after` of `before`. It shares parts with `after`.

    A merge patch cannot set a field to null, so a field that is null counts as absent.
    """
    patch: dict[str, Any] = {}
    # No recursion, as above.
    pending: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [(patch, before, after)]
    while pending:
        into, old, new = pending.pop()
        into |= {key: None for key, value in old.items() if value is not None and new.get(key) is None}
        for key, value in new.items():
            if value is None or (key in old and is_same(old[key], value)):
                continue
            if isinstance(value, dict):
                below = old.get(key)
                into[key] = {}
                pending.append((into[key], below if isinstance(below, dict) else {}, value))
            else:
                into[key] = value
    return patch


def is_same(one: Any, other: Any) -> bool:
    """Returns whether two values are the same in JSON, in which 1, 1.0 and true differ."""
    if one != other:
        return False
    if isinstance(one, str) or one is None:
        return True
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)
