"""The markers that say what keywords of a schema say: bounds, rules, and how lists and objects are merged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from apiserver.types.code_generation.tree import Marker

Document = dict[str, Any]

_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
# Bounds by the types that they are of.
_LENGTHS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_NUMBERS: Final = frozenset({"integer", "number"})
SHORTEST: Final = frozenset(shortest for shortest, _ in _LENGTHS.values())


def bounds(kind: str, rest: Document) -> Iterator[Marker]:
    """Yields the markers of bounds, patterns and formats of a type.

    Bounds are markers on the types that they limit only: Python cannot compare all values of other types.
    """
    for name, exclusive, markers in (
        ("minimum", "exclusiveMinimum", ("Ge", "Gt")),
        ("maximum", "exclusiveMaximum", ("Le", "Lt")),
    ):
        if name in rest and kind in _NUMBERS:
            yield Marker(markers[bool(rest.pop(exclusive, False))], (rest.pop(name),))
    shortest, longest = _LENGTHS.get(kind, ("", ""))
    for keyword, marker in (
        ("multipleOf" if kind in _NUMBERS else "", "MultipleOf"),
        (shortest, "MinLen"),
        (longest, "MaxLen"),
        ("pattern", "Pattern"),
        ("format", "Format"),
    ):
        if keyword in rest:
            yield Marker(marker, (rest.pop(keyword),))


def rule_marker(rule: Mapping[str, Any]) -> Marker:
    """Returns the marker of a validation rule."""
    names = {
        "message": "message",
        "messageExpression": "message_expression",
        "reason": "reason",
        "fieldPath": "field_path",
        "optionalOldSelf": "optional_old_self",
    }
    return Marker("Rule", (rule["rule"],), {names[key]: rule[key] for key in names if key in rule})


def merging(rest: Document, *, has_scalars: bool = False) -> Iterator[Marker]:
    """Yields the marker of how server-side apply merges lists and objects.

    has_scalars: whether the items of a list are texts, numbers or booleans.
    """
    map_type, list_type = rest.pop("x-kubernetes-map-type", ""), rest.get(_LIST_TYPE)
    keys = rest.get(_LIST_MAP_KEYS, ())
    if "atomic" in (map_type, list_type):
        yield Marker("atomic", None)
    elif list_type == "map" and keys:
        yield Marker("map_by", tuple(keys))
        del rest[_LIST_MAP_KEYS]
    elif list_type == "set" and has_scalars:
        yield Marker("set_list", None)
    else:
        return  # Sets of atomic objects are not markers.
    rest.pop(_LIST_TYPE, None)
