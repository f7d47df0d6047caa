"""Ratcheting: an update may keep invalid values that it does not change.

https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4008-crd-ratcheting
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from .samples import KEEPS_UNKNOWN, LIST_TYPE, TEXT, WHOLE, by_key, field, items, of, root, values

SHORT: Final = TEXT | {"maxLength": 3}
LONG: Final = "long text"
KEYED: Final = by_key(of(k=TEXT, v=SHORT), "k")

# schema, old, new, the fields with errors
UPDATES: Final[dict[str, tuple[dict[str, Any], Any, Any, list[str]]]] = {
    "unchanged": (of(a=SHORT, n=WHOLE), {"a": LONG, "n": 1}, {"a": LONG, "n": 2}, []),
    "changed": (of(a=SHORT), {"a": LONG}, {"a": LONG + "er"}, ["v.a"]),
    "new": (of(a=SHORT), {}, {"a": LONG}, ["v.a"]),
    "one of two": (of(a=SHORT, b=SHORT), {"a": LONG, "b": "x"}, {"a": LONG, "b": LONG}, ["v.b"]),
    "keys of maps": (values(SHORT), {"a": LONG}, {"a": LONG, "b": LONG}, ["v.b"]),
    "an object that lacks something": (
        of(o=of() | {"required": ["r"]}, n=WHOLE),
        {"o": {}, "n": 1},
        {"o": {}, "n": 2},
        [],
    ),
    "an object that has changed and still lacks it": (
        of(o=of(a=WHOLE) | {"required": ["r"]}),
        {"o": {"a": 1}},
        {"o": {"a": 2}},
        ["v.o.r"],
    ),
    "items by their keys, wherever they are": (
        KEYED,
        [{"k": "1", "v": LONG}, {"k": "2", "v": "x"}],
        [{"k": "0"}, {"k": "2", "v": "y"}, {"k": "1", "v": LONG}],
        [],
    ),
    "the same with another key": (KEYED, [{"k": "1", "v": LONG}], [{"k": "2", "v": LONG}], ["v[0].v"]),
    "the first of two with one key": (
        KEYED,
        [{"k": "1", "v": LONG}, {"k": "1", "v": "x"}],
        [{"k": "1", "v": LONG}],
        [],
    ),
    "items of a list without a type": (items(SHORT), [LONG, "x"], [LONG, "y"], ["v[0]"]),
    "a list without a type as a whole": (
        of(l=items(SHORT), n=WHOLE),
        {"l": [LONG], "n": 1},
        {"l": [LONG], "n": 2},
        [],
    ),
    "a keyed list with an item that lacks the key": (
        of(l=KEYED | {"maxItems": 0}, n=WHOLE),
        {"l": [{"v": "x"}], "n": 1},
        {"l": [{"v": "x"}], "n": 2},
        ["v.l"],
    ),
    "items of an atomic list": (items(SHORT, **{LIST_TYPE: "atomic"}), [LONG, "x"], [LONG, "y"], ["v[0]"]),
    "items of a set": (items(SHORT, **{LIST_TYPE: "set"}), [LONG, "x"], [LONG, "y"], ["v[0]"]),
    "an atomic list as a whole": (
        of(l=items(SHORT, **{LIST_TYPE: "atomic"}), n=WHOLE),
        {"l": [LONG], "n": 1},
        {"l": [LONG], "n": 2},
        [],
    ),
    "a keyed list in another order is the same": (
        of(l=KEYED | {"maxItems": 1}),
        {"l": [{"k": "1"}, {"k": "2"}]},
        {"l": [{"k": "2"}, {"k": "1"}]},
        [],
    ),
    "1 is not true": (of(a={"type": "boolean"}), {"a": 1}, {"a": True}, []),
    "true is not 1, though both are wrong": (of(a=TEXT), {"a": 1}, {"a": True}, ["v.a"]),
    "alternatives": (
        of(o=of(a=WHOLE, b=WHOLE) | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, n=WHOLE),
        {"o": {"a": 1, "b": 1}, "n": 1},
        {"o": {"a": 1, "b": 1}, "n": 2},
        [],
    ),
    "fields below alternatives": (
        of(a=TEXT, n=WHOLE) | {"allOf": [{"properties": {"a": {"maxLength": 3}}}]},
        {"a": LONG, "n": 1},
        {"a": LONG, "n": 2},
        [],
    ),
    "an object with a field that has no schema": (
        of(o=of(a=WHOLE) | KEEPS_UNKNOWN | {"required": ["r"]}, n=WHOLE),
        {"o": {"z": 1}, "n": 1},
        {"o": {"z": 1}, "n": 2},
        ["v.o.r"],
    ),
    "below it, objects without such fields": (
        of(o=of(a=of() | {"required": ["r"]}) | KEEPS_UNKNOWN, n=WHOLE),
        {"o": {"a": {}, "z": 1}, "n": 1},
        {"o": {"a": {}, "z": 1}, "n": 2},
        [],
    ),
    "values of a map that have no schema": (
        of(o={"type": "object", "additionalProperties": True, "maxProperties": 0}, n=WHOLE),
        {"o": {"z": 1}, "n": 1},
        {"o": {"z": 1}, "n": 2},
        ["v.o"],
    ),
    "a list of objects with such fields, as a whole": (
        of(l=items(of() | KEEPS_UNKNOWN | {"required": ["r"]}), n=WHOLE),
        {"l": [{"z": 1}], "n": 1},
        {"l": [{"z": 1}], "n": 2},
        [],
    ),
}


@pytest.mark.parametrize(("schema", "old", "new", "fields"), UPDATES.values(), ids=UPDATES)
def test_update(schema: dict[str, Any], old: Any, new: Any, fields: list[str]) -> None:
    assert [error.field for error in field(schema).validate_values({"v": new}, {"v": old})] == fields


def test_all_errors_of_a_new_object_are_reported() -> None:
    assert [error.field for error in field(of(a=SHORT)).validate({"v": {"a": LONG}})] == ["v.a"]


def test_changes_by_conversion_are_not_seen() -> None:
    custom = root(of(apiVersion=SHORT, n=WHOLE))
    errors = custom.validate({"apiVersion": LONG, "n": 2}, {"apiVersion": LONG, "n": 1})
    assert [error.field for error in errors] == ["apiVersion"]


def test_correlation() -> None:
    custom = root(
        of(keyed=by_key(of(a=WHOLE, b=WHOLE, c=WHOLE), "a", "b"), plain=items(WHOLE), o=values(WHOLE))
    )
    new = {"keyed": [{"a": 1, "b": 2, "c": 3}, {"a": 1}], "plain": [1, 2], "o": {"x": 1, "y": 2}, "z": 1}
    old = {"keyed": [{"a": 1}, {"b": 2, "a": 1, "c": 4}], "plain": [1], "o": {"y": 3}, "z": 1}
    whole = custom.correlate(new, old)
    keyed = whole.field("keyed")
    assert keyed is not None
    found = keyed.item(0)
    assert found is not None
    assert found.old == {"b": 2, "a": 1, "c": 4}
    assert not found.is_unchanged
    assert keyed.item(1) is None  # it has no second key
    plain = whole.field("plain")
    assert plain is not None
    assert plain.item(0) is None
    other = whole.field("o")
    assert other is not None
    assert other.field("x") is None
    assert (below := other.field("y")) is not None
    assert (below.new, below.old) == (2, 3)
    assert whole.field("z") is None  # no schema knows it
    assert other.field("y") is below  # remembered
