"""Merging an applied document into an object, and pruning it. Row F29."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.apply.field_set import ITSELF, FieldSet
from apiserver.registry.patch.apply.merge import merge, reconcile_with_schema, with_owned, without_fields
from apiserver.registry.patch.apply.type_defs import TypeDef, TypeDefs, path_element
from apiserver.registry.patch.apply.typed_value import DocumentTooDeep, to_field_set
from apiserver.schema.structural import Schema, ValueKind
from tests.unit.registry.patch.apply.samples import TYPE_DEF, thing_of


def item(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


MERGED: dict[str, tuple[Any, Any, Any]] = {
    "a scalar": ({"a": "x", "n": 1}, {"a": "y"}, {"a": "y", "n": 1}),
    "atomic values are replaced": (
        {"list": ["x"], "atom": {"a": "1"}}, {"list": ["y"], "atom": {"b": "1"}},
        {"list": ["y"], "atom": {"b": "1"}},
    ),
    "null replaces a scalar": ({"a": "x"}, {"a": None}, {"a": None}),
    "null and empty say nothing of what is inside": (
        {"items": [item("x")], "free": {"a": 1}}, {"items": [], "free": None},
        {"items": [item("x")], "free": {"a": 1}},
    ),
    "items are merged by their keys, also by one that has a default": (
        {"items": [item("x", proto="TCP", v=1)]}, {"items": [item("x", args=["q"])]},
        {"items": [{"name": "x", "proto": "TCP", "v": 1, "args": ["q"]}]},
    ),
    "new items come last": ({"tags": ["a", "b"]}, {"tags": ["b", "c"]}, {"tags": ["a", "b", "c"]}),
    "shared items come in the order in which they are applied": (
        {"tags": ["a", "b", "c"]}, {"tags": ["c", "a"]}, {"tags": ["b", "c", "a"]},
    ),
    "new items stay before what they are applied before": (
        {"tags": ["a", "b", "c"]}, {"tags": ["x", "c"]}, {"tags": ["a", "b", "x", "c"]},
    ),
    "what has no schema: objects are merged, all else is replaced": (
        {"free": {"a": {"b": 1}, "l": [1]}}, {"free": {"a": {"c": 2}, "l": [2]}},
        {"free": {"a": {"b": 1, "c": 2}, "l": [2]}},
    ),
    "null is an object without fields where there is no schema": (
        {"free": {"o": {"a": 1}, "n": None, "s": 1}}, {"free": {"o": None, "n": {"b": 2}, "s": None}},
        {"free": {"o": {"a": 1}, "n": {"b": 2}, "s": None}},
    ),
    "a quantity is compared as it is written": ({"size": "1"}, {"size": "1000m"}, {"size": "1000m"}),
}  # fmt: skip


@pytest.mark.parametrize(("live", "applied", "expected"), MERGED.values(), ids=MERGED.keys())
def test_merged(live: Any, applied: Any, expected: Any) -> None:
    document, patch = thing_of(spec=live), thing_of(spec=applied)
    kept = copy.deepcopy((document, patch))
    assert merge(document, patch, TYPE_DEF) == thing_of(spec=expected)
    assert (document, patch) == kept


NAMES = st.sampled_from("abcde")
ITEMS = st.lists(NAMES, unique=True).map(
    lambda names: [item(name, proto="TCP", v=ord(name)) for name in names]
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "a": NAMES,
        "tags": st.lists(NAMES, unique=True, min_size=1),
        "items": ITEMS.filter(bool),
        "list": st.lists(NAMES),
        "atom": st.dictionaries(NAMES, NAMES),
        "free": st.dictionaries(NAMES, st.dictionaries(NAMES, st.integers(), min_size=1), min_size=1),
    },
)


@given(SPECS, SPECS)
def test_merging_the_same_again_changes_nothing(live: Any, applied: Any) -> None:
    once = merge(thing_of(spec=live), thing_of(spec=applied), TYPE_DEF)
    assert merge(once, thing_of(spec=applied), TYPE_DEF) == once


def extract(document: Document, fields: FieldSet, type_def: TypeDef) -> Document:
    """The part of a document that is in a field set."""
    part = _extract(document, fields, type_def)
    return part if isinstance(part, dict) else {}


def _extract(value: Any, fields: FieldSet, type_def: TypeDef) -> Any:
    if not value or type_def.is_atomic or not fields.keys() - {ITSELF}:
        return value
    if isinstance(value, dict) and type_def.kind in ("struct", "map", "untyped"):
        part: Document = {}
        for name, each in value.items():
            below = fields.get(f"f:{name}")
            if below is not None:
                known = type_def.fields.get(name)
                part[name] = _extract(each, below, known[1] if known else type_def.element)
        return part
    if isinstance(value, list) and type_def.kind in ("map_list", "set_list"):
        return [
            _extract(each, below, type_def.element)
            for each in value
            if (below := fields.get(path_element(each, type_def))) is not None
        ]
    return value


@given(SPECS, SPECS.filter(bool))
def test_all_that_is_applied_is_in_the_result_and_can_be_extracted(live: Any, applied: Any) -> None:
    patch = thing_of(spec=applied)
    merged = merge(thing_of(spec=live), patch, TYPE_DEF)
    part = extract(merged, to_field_set(patch, TYPE_DEF), TYPE_DEF)
    assert to_field_set(thing_of(spec=part.get("spec", {})), TYPE_DEF) == to_field_set(patch, TYPE_DEF)
    order = [each for each in merged["spec"].get("tags", []) if each in applied.get("tags", [])]
    assert order == applied.get("tags", [])


def test_the_order_of_a_long_list_takes_linear_time() -> None:
    live = [f"a{n}" for n in range(20_000)]
    merged = merge(thing_of(spec={"tags": live}), thing_of(spec={"tags": live[::-1]}), TYPE_DEF)
    assert merged["spec"]["tags"] == live[::-1]


def test_too_deep_documents_are_refused() -> None:
    schema = Schema(ValueKind.STRUCT, "v1.Thing")
    schema.fields["a"] = schema
    live, deep = dict[str, Any](), dict[str, Any]()
    for _ in range(3000):
        live, deep = {"a": live, "b": "1"}, {"a": deep}
    with pytest.raises(DocumentTooDeep):
        merge(live, deep, TypeDefs().of(schema))


WITHOUT: dict[str, tuple[Any, FieldSet, Any]] = {
    "a scalar": ({"a": "x", "n": 1}, {"f:a": {}}, {"n": 1}),
    "an atomic value": ({"a": "x", "list": ["w"]}, {"f:list": {}}, {"a": "x"}),
    "a field of a struct, by a part of it": (
        {"a": "x", "tags": ["q", "r"]}, {"f:tags": {'v:"q"': {}}}, {"a": "x"},
    ),
    "an item, with what is not in the set": (
        {"a": "x", "items": [item("x", v=1), item("y")]},
        {"f:items": {'k:{"name":"x","proto":"TCP"}': {".": {}, "f:name": {}}}},
        {"a": "x"},
    ),
    "an empty list is in no set": ({"a": "x", "tags": []}, {"f:tags": {'v:"q"': {}}}, {"a": "x", "tags": []}),
    "an empty object is": ({"a": "x", "free": {}}, {"f:free": {}}, {"a": "x"}),
    "what is not there": ({"a": "x"}, {"f:n": {}, "f:free": {"f:k": {}}}, {"a": "x"}),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "fields", "expected"), WITHOUT.values(), ids=WITHOUT)
def test_without_fields(spec: Any, fields: FieldSet, expected: Any) -> None:
    whole = thing_of(spec=spec)
    found = without_fields(whole, {"f:spec": fields}, TYPE_DEF, left=thing_of(spec={}))
    assert found == thing_of(spec=expected)
    assert (found is whole) == (expected == spec)


LOST: dict[str, tuple[Any, Any, Any]] = {
    "what is left stays": ({"a": "x", "n": 1}, {"a": "x", "n": 1}, {"a": "x", "n": 1}),
    "a list that was emptied goes": ({"a": "x", "tags": ["q"]}, {"a": "x", "tags": []}, {"a": "x"}),
    "an item that is lacking goes": ({"tags": ["q", "r"]}, {"tags": ["r"]}, {"tags": ["r"]}),
    "a key that is lacking leaves an empty object": ({"free": {"k": 1}}, {"free": {}}, {"free": {}}),
}
ALL: FieldSet = {"f:a": {}, "f:n": {}, "f:tags": {'v:"q"': {}, 'v:"r"': {}}, "f:free": {".": {}, "f:k": {}}}


@pytest.mark.parametrize(("spec", "left", "expected"), LOST.values(), ids=LOST)
def test_without_fields_that_are_lacking(spec: Any, left: Any, expected: Any) -> None:
    found = without_fields(thing_of(spec=spec), {"f:spec": ALL}, TYPE_DEF, left=thing_of(spec=left))
    assert found == thing_of(spec=expected)


RETURNED: dict[str, tuple[Any, FieldSet, Any]] = {
    "nothing, where nobody owns anything that has gone": ({"a": "x"}, {"f:n": {}}, {"a": "w"}),
    "a scalar": ({}, {"f:a": {}}, {"a": "w"}),
    "an atomic value, as it was": ({}, {"f:list": {}}, {"list": ["w"]}),
    "a key": ({"free": {"l": 2}}, {"f:free": {"f:k": {}}}, {"free": {"k": {}, "l": 2}}),
    "an item in its place, with what is owned of it": (
        {"items": [item("z")]},
        {"f:items": {'k:{"name":"y","proto":"TCP"}': {".": {}, "f:name": {}}}},
        {"items": [item("y"), item("z")]},
    ),
    "no item of which another only owns a part": (
        {"items": [item("z")]},
        {"f:items": {'k:{"name":"y","proto":"TCP"}': {"f:v": {}}}},
        {"items": [item("z")]},
    ),
    "a part of an item that is still there": (
        {"items": [item("y"), item("z")]},
        {"f:items": {'k:{"name":"y","proto":"TCP"}': {"f:v": {}}}},
        {"items": [item("y", v=1), item("z")]},
    ),
    "an item of a set": ({"tags": ["q"]}, {"f:tags": {'v:"p"': {}}}, {"tags": ["p", "q"]}),
    "a list that is owned itself, with nothing in it": ({}, {"f:tags": {}}, {"tags": []}),
}
WHOLE: dict[str, Any] = {
    "a": "w",
    "list": ["w"],
    "free": {"k": {"x": 1}, "l": 2},
    "items": [item("y", v=1), item("z")],
    "tags": ["p", "q"],
}


@pytest.mark.parametrize(("left", "owned", "expected"), RETURNED.values(), ids=RETURNED)
def test_owned_fields_are_added_back(left: Any, owned: FieldSet, expected: Any) -> None:
    """Row F30."""
    found = with_owned(thing_of(spec=left), thing_of(spec=WHOLE), {"f:spec": owned}, TYPE_DEF)
    assert found == thing_of(spec=expected)


def test_items_with_the_same_keys_are_owned_together() -> None:
    twice = [item("y", v=1), item("y", v=2)]
    owned: FieldSet = {"f:spec": {"f:items": {'k:{"name":"y","proto":"TCP"}': {}}}}
    assert with_owned(thing_of(), thing_of(spec={"items": twice}), owned, TYPE_DEF) == thing_of(
        spec={"items": twice}
    )


def test_owners_of_parts_of_a_now_atomic_value_own_all_of_it() -> None:
    """Rows F19, F20."""
    before: FieldSet = {"f:spec": {"f:list": {"i:0": {}}, "f:atom": {"f:a": {}}, "f:items": {}, "f:a": {}}}
    assert reconcile_with_schema(before, TYPE_DEF) == {
        "f:spec": {"f:list": {}, "f:atom": {}, "f:items": {}, "f:a": {}}
    }
    same = {"f:spec": {"f:tags": {'v:"a"': {}}, "f:free": {"f:x": {"f:y": {}}}, "f:gone": {"f:x": {}}}}
    assert reconcile_with_schema(same, TYPE_DEF) is same
