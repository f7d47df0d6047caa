"""List types: how server-side apply merges lists and objects.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.types.errors import Unrepresentable
from apiserver.types.markers import ListType

Schema = dict[str, Any]
_SCALAR_TYPES: Final = frozenset({"boolean", "integer", "number", "string"})


def add_list_type(schema: Schema, list_type: ListType, path: str) -> None:
    """Say how server-side apply merges a list or an object. Raises Unrepresentable."""
    kind = schema.get("type")
    if kind == "object" and list_type.kind == "atomic":
        schema["x-kubernetes-map-type"] = "atomic"
        return
    if kind != "array":
        raise Unrepresentable(path, f"the marker for lists of type {list_type.kind} is not on a list")
    if list_type.kind == "set" and schema["items"].get("type") not in _SCALAR_TYPES:
        raise Unrepresentable(path, "the items of a set are strings, numbers or booleans", "use map_by")
    if list_type.kind != "atomic" and schema["items"].get("nullable"):
        raise Unrepresentable(path, f"null is not an item of a list of type {list_type.kind}", "remove None")
    schema["x-kubernetes-list-type"] = list_type.kind
    if list_type.keys:
        _require_keys(schema["items"], list_type.keys, path)
        schema["x-kubernetes-list-map-keys"] = list(list_type.keys)


def _require_keys(items: Schema, keys: tuple[str, ...], path: str) -> None:
    for key in keys:
        field = items.get("properties", {}).get(key)
        if field is None or field.get("type") not in _SCALAR_TYPES:
            reason = f"the key {key} is not a field of the items with one value"
            raise Unrepresentable(path, reason, "give the name that the field has in JSON")
        if field.get("nullable"):
            raise Unrepresentable(path, f"the key {key} can be null", "remove None from its type")
        if key not in items.get("required", ()) and "default" not in field:
            raise Unrepresentable(
                path, f"the key {key} can be absent", "make it required, or give it a default"
            )
