"""The field sets of values that are added or removed as a whole. Rows F02, F16."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.registry.patch.apply.field_set import ITSELF, LEAF, FieldSet
from apiserver.registry.patch.apply.type_defs import (
    OUTLINE_NAMES_MAX,
    OUTLINE_TEXT_MAX,
    OUTLINES_MAX,
    TypeDef,
    TypeDefs,
)
from apiserver.registry.patch.apply.typed_value import Comparison, compare, whole_field_set
from apiserver.schema.structural import Schema, ValueKind
from tests.unit.registry.patch.apply.samples import STRING, TYPE_DEF

ITEM: Final = Schema(
    ValueKind.STRUCT,
    "v1.Item",
    fields={
        "name": STRING,
        "v": STRING,
        "labels": Schema(ValueKind.MAP, "map[string]string", element=STRING),
    },
)


def named(element: Schema = ITEM) -> TypeDef:
    """A list whose items are told apart by their names alone."""
    schema = Schema(ValueKind.LIST, "[]v1.Item", element=element, list_type="map", list_map_keys=("name",))
    return TypeDefs().of(schema)


def test_all_paths_are_in_the_set_and_in_order() -> None:
    items = [{"v": "1", "name": "b"}, {"name": "a", "labels": {"y": "1", "x": "2"}}]
    fields = whole_field_set(items, named())
    assert fields == {
        ITSELF: LEAF,
        'k:{"name":"a"}': {
            ITSELF: LEAF,
            "f:labels": {ITSELF: LEAF, "f:x": LEAF, "f:y": LEAF},
            "f:name": LEAF,
        },
        'k:{"name":"b"}': {ITSELF: LEAF, "f:name": LEAF, "f:v": LEAF},
    }
    assert list(fields) == [ITSELF, 'k:{"name":"a"}', 'k:{"name":"b"}']
    assert list(fields['k:{"name":"a"}']["f:labels"]) == [ITSELF, "f:x", "f:y"]


# The items' elements in order. Stored lists may have items that would be refused today.
LISTS: Final[dict[str, tuple[Any, list[str]]]] = {
    "by the text of the key, not by that of the element": (
        [{"name": "a b"}, {"name": "a!"}, {"name": "a"}],
        ['k:{"name":"a"}', 'k:{"name":"a b"}', 'k:{"name":"a!"}'],
    ),
    "a key with quotes": ([{"name": 'q"'}, {"name": "q!"}], ['k:{"name":"q!"}', r'k:{"name":"q\""}']),
    "numbers before texts": (
        [{"name": "1"}, {"name": 10}, {"name": 9}],
        [f'k:{{"name":{n}}}' for n in (9, 10, '"1"')],
    ),
    "truth is no number": ([{"name": True}, {"name": 1}], ['k:{"name":1}', 'k:{"name":true}']),
    "without a key by its place": ([{"v": "1"}, {"name": "a"}], ['k:{"name":"a"}', "i:0"]),
    "null and texts by their place": (["name", None], ["i:0", "i:1"]),
    "none": ([], []),
    "no list": ({"name": "a"}, []),
}


@pytest.mark.parametrize(("items", "expected"), LISTS.values(), ids=LISTS.keys())
def test_items_come_in_the_order_of_their_keys(items: Any, expected: list[str]) -> None:
    assert [element for element in whole_field_set(items, named()) if element != ITSELF] == expected


def test_items_with_one_key_are_owned_together_as_a_whole() -> None:
    items = [{"name": "a", "v": "1"}, {"name": "a"}, {"name": "b"}]
    assert whole_field_set(items, named()) == {
        ITSELF: LEAF,
        'k:{"name":"a"}': LEAF,
        'k:{"name":"b"}': {ITSELF: LEAF, "f:name": LEAF},
    }


def test_keys_that_python_takes_for_equal_are_distinguished() -> None:
    for key, text in ((1, "1"), (True, "true"), (1.0, "1.0"), ("1", '"1"'), (1, "1")):
        assert whole_field_set([{"name": key}], named()).keys() == {ITSELF, f'k:{{"name":{text}}}'}


def test_atomic_items_are_owned_as_a_whole() -> None:
    atomic = Schema(ValueKind.STRUCT, "v1.Item", fields={"name": STRING}, map_type="atomic")
    assert whole_field_set([{"name": "a"}], named(atomic)) == {ITSELF: LEAF, 'k:{"name":"a"}': LEAF}


def test_objects_with_the_same_names_have_what_is_in_them() -> None:
    """What objects have in common is worked out once; what they have in these places is their own."""
    type_def = named().element
    itself = {ITSELF: LEAF, "f:name": LEAF}
    values: list[tuple[Any, FieldSet]] = [
        ({"x": "1"}, {ITSELF: LEAF, "f:x": LEAF}),
        ({"y": "1", "z": "2"}, {ITSELF: LEAF, "f:y": LEAF, "f:z": LEAF}),
        ({}, LEAF),
        (None, LEAF),
        (["no map"], LEAF),
    ]
    for value, expected in values + values[::-1]:
        assert whole_field_set({"name": "a", "labels": value}, type_def) == itself | {"f:labels": expected}


def test_little_is_kept_of_names_that_never_come_again() -> None:
    type_def = TypeDefs().of(Schema(ValueKind.MAP, "map[string]string", element=STRING))
    for n in range(OUTLINES_MAX + 1):
        whole_field_set({f"name-{n}": "v"}, type_def)
    assert len(type_def.outlines) <= OUTLINES_MAX
    long = "x" * OUTLINE_TEXT_MAX + "x"
    assert whole_field_set({long: "v"}, type_def) == {ITSELF: LEAF, f"f:{long}": LEAF}
    assert (long,) not in type_def.outlines
    many = {chr(0x4E00 + n): "v" for n in range(OUTLINE_NAMES_MAX + 1)}
    assert len(whole_field_set(many, type_def)) == len(many) + 1  # and itself
    assert tuple(many) not in type_def.outlines


# Nothing was there, or is: what appears is owned by its parts, though the list or object was there itself.
A: Final = {'k:{"name":"a"}': {ITSELF: LEAF, "f:name": LEAF}}
FROM_NOTHING: Final[dict[str, tuple[Any, Any, FieldSet]]] = {
    "items in place of null": (None, [{"name": "a"}], {"f:items": A}),
    "items in an empty list": ([], [{"name": "a"}], {"f:items": A}),
    "an empty list in place of null": (None, [], {"f:items": LEAF}),
    "what is no list": (None, {"name": "a"}, {}),
}


@pytest.mark.parametrize(("empty", "filled", "fields"), FROM_NOTHING.values(), ids=FROM_NOTHING.keys())
def test_what_was_empty_is_not_owned_itself(empty: Any, filled: Any, fields: FieldSet) -> None:
    type_def = TypeDef("struct")
    type_def.fields = {"items": ("f:items", named())}
    assert compare({"items": empty}, {"items": filled}, type_def) == Comparison(fields, {})
    if filled:
        assert compare({"items": filled}, {"items": empty}, type_def) == Comparison({}, fields)


def test_an_object_that_was_empty_is_not_owned_itself() -> None:
    assert compare({"spec": {}}, {"spec": {"a": "1"}}, TYPE_DEF).changed == {"f:spec": {"f:a": LEAF}}
    assert compare({}, {"spec": {"a": "1"}}, TYPE_DEF).changed == {"f:spec": {ITSELF: LEAF, "f:a": LEAF}}
