"""Sets of field paths: their algebra, their form, their order. Rows F02, F03."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.registry.patch.apply import field_set
from apiserver.registry.patch.apply.field_set import (
    FieldSet,
    InvalidFieldSet,
    difference,
    intersection,
    union,
)
from apiserver.registry.patch.apply.typed_value import (
    DocumentTooDeep,
    SchemaMismatch,
    UnknownField,
    compare,
    to_field_set,
)
from tests.unit.registry.patch.apply.samples import TYPE_DEF, thing_of

Path = tuple[str, ...]
ELEMENTS = ["f:a", "f:b", 'k:{"name":"x"}', 'v:"a"', "v:2", "i:0"]
PATHS = st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=4).map(tuple)
SETS = st.frozensets(PATHS, max_size=12)


def trie(paths: frozenset[Path]) -> FieldSet:
    """The obvious way to the compact form."""
    made: FieldSet = {}
    for element in sorted({path[0] for path in paths}):
        below = trie(frozenset(path[1:] for path in paths if path[0] == element and len(path) > 1))
        made[element] = {".": {}, **below} if below and (element,) in paths else below
    return made


@given(SETS, SETS)
def test_the_operations_are_those_of_sets(a: frozenset[Path], b: frozenset[Path]) -> None:
    assert union(trie(a), trie(b)) == trie(a | b)
    assert intersection(trie(a), trie(b)) == trie(a & b)
    assert difference(trie(a), trie(b)) == trie(a - b)


@given(SETS, SETS)
def test_no_operation_changes_its_sets_and_nothing_to_take_away_gives_the_set_itself(
    a: frozenset[Path], b: frozenset[Path]
) -> None:
    left, right = trie(a), trie(b)
    union(left, right), intersection(left, right), difference(left, right)
    assert (left, right) == (trie(a), trie(b))
    assert difference(left, trie(b - a)) is left


@given(SETS)
def test_encoded_sets_are_parsed_as_the_same(a: frozenset[Path]) -> None:
    assert field_set.parse(orjson.loads(orjson.dumps(field_set.ordered(trie(a))))) == trie(a)


def test_the_order_is_itself_fields_keys_values_indexes_and_numbers_before_texts() -> None:
    keys = [
        'k:{"n":"a"}',
        'k:{"n":2}',
        'k:{"n":10}',
        'v:"b"',
        "v:3",
        "v:true",
        "i:10",
        "i:9",
        "f:z",
        "f:B",
        "f:a",
        ".",
    ]
    assert list(field_set.ordered({key: {} for key in keys})) == [
        ".", "f:B", "f:a", "f:z", 'k:{"n":2}', 'k:{"n":10}', 'k:{"n":"a"}',
        "v:3", 'v:"b"', "v:true", "i:9", "i:10",
    ]  # fmt: skip


READ: dict[str, tuple[Any, FieldSet]] = {
    "keys of an item come in order": ({'k:{"b":1, "a":"x"}': {}}, {'k:{"a":"x","b":1}': {}}),
    "the same item twice is one": (
        {'k:{"b":1,"a":2}': {"f:x": {}}, 'k:{"a":2,"b":1}': {"f:y": {}}},
        {'k:{"a":2,"b":1}': {"f:x": {}, "f:y": {}}},
    ),
    "an element that is only itself": ({"f:a": {".": {}}}, {"f:a": {}}),
    "kinds that nobody knows": ({"z:a": {}, "f:a": {}}, {"f:a": {}}),
    "the root is in no set": ({".": {}, "f:a": {}}, {"f:a": {}}),
}


@pytest.mark.parametrize(("written", "expected"), READ.values(), ids=READ.keys())
def test_sets_of_others_are_brought_into_one_form(written: Any, expected: FieldSet) -> None:
    assert field_set.parse(written) == expected


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"f:a": value}
    return value


UNREADABLE: dict[str, Any] = {
    "a list": [],
    "a text below": {"f:a": "x"},
    "keys that are no object": {"k:[1]": {}},
    "keys that are no JSON": {"k:{": {}},
    "a value that is no JSON": {"v:x": {}},
    "an index that is no number": {"i:x": {}},
    "no kind at all": {"a": {}},
    "an empty element": {"": {}},
    "too many levels": deep(field_set.DEPTH_MAX + 2),
}


@pytest.mark.parametrize("written", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_invalid_sets_are_refused(written: Any) -> None:
    with pytest.raises(InvalidFieldSet):
        field_set.parse(written)


def test_paths_are_formatted_as_in_kubernetes() -> None:
    fields: FieldSet = {"f:m": {'k:{"n":"x","p":80}': {".": {}, "f:v": {}}, 'v:"a"': {}, "i:0": {}}}
    assert list(field_set.paths(fields)) == ['.m[n="x",p=80]', '.m[="a"]', ".m[0]", '.m[n="x",p=80].v']


def test_paths_that_end_come_before_those_that_go_on() -> None:
    """As structured-merge-diff iterates over a set: members, and then children."""
    fields: FieldSet = {"f:a": {"f:z": {}}, "f:b": {}, "f:c": {".": {}, "f:y": {"f:x": {}}, "f:z": {}}}
    assert list(field_set.paths(fields)) == [".b", ".c", ".a.z", ".c.z", ".c.y.x"]


# ---- what a document states

STATED: dict[str, tuple[dict[str, Any], FieldSet]] = {
    "scalars": ({"a": "x", "n": 1, "on": False}, {"f:a": {}, "f:n": {}, "f:on": {}}),
    "null": ({"a": None, "items": None}, {"f:a": {}, "f:items": {}}),
    "an atomic list and map": ({"list": ["x"], "atom": {"k": "v"}}, {"f:list": {}, "f:atom": {}}),
    "a set": ({"tags": ["x", "y"]}, {"f:tags": {'v:"x"': {}, 'v:"y"': {}}}),
    "an empty list of owned items says nothing": ({"items": [], "tags": []}, {}),
    "items by keys, of which one has a default": (
        {"items": [{"name": "x", "v": 1}]},
        {"f:items": {'k:{"name":"x","proto":"TCP"}': {".": {}, "f:name": {}, "f:v": {}}}},
    ),
    "what has no schema": (
        {"free": {"a": {"b": 1}, "l": [1], "e": {}}},
        {"f:free": {"f:a": {".": {}, "f:b": {}}, "f:l": {}, "f:e": {}}},
    ),
}


@pytest.mark.parametrize(("spec", "expected"), STATED.values(), ids=STATED.keys())
def test_a_document_states(spec: dict[str, Any], expected: FieldSet) -> None:
    assert to_field_set(thing_of(spec=spec), TYPE_DEF) == ({"f:spec": expected} if expected else {})


def test_an_empty_struct_is_in_the_set_and_the_servers_metadata_is_not() -> None:
    meta = {"name": "a", "uid": "u", "resourceVersion": "1", "labels": {"l": "1"}}
    document = thing_of(spec={}) | {"metadata": meta}
    assert to_field_set(document, TYPE_DEF) == {"f:spec": {}, "f:metadata": {"f:labels": {"f:l": {}}}}


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "a wrong scalar": ({"a": 5}, ".spec.a: expected string, got &value.valueUnstructured{Value:5}"),
    "no number": ({"n": "x"}, ".spec.n: expected numeric (int or float), got string"),
    "a list for a number": ({"n": [1]}, ".spec.n: expected numeric (int or float), got []interface {}"),
    "a number that is no text": (
        {"a": 1.5},
        ".spec.a: expected string, got &value.valueUnstructured{Value:1.5}",
    ),
    "no boolean": ({"on": 1}, ".spec.on: expected boolean, got &{1}"),
    "no list": ({"items": {}}, ".spec.items: expected list, got &{map[...]}"),
    "no map": ({"atom": "x"}, ".spec.atom: expected map, got &{x}"),
    "wrong inside of what is atomic": (
        {"list": [1]},
        ".spec.list[0]: expected string, got &value.valueUnstructured{Value:1}",
    ),
    "an item twice": (
        {"items": [{"name": "x"}, {"name": "x", "proto": "TCP"}]},
        '.spec.items: duplicate entries for key [name="x",proto="TCP"]',
    ),
    "a set's item twice": ({"tags": ["a", "a"]}, '.spec.tags: duplicate entries for key [="a"]'),
    "null in a set": (
        {"tags": [None]},
        ".spec.tags: element 0: associative list without keys has an element that's an explicit null",
    ),
    "an object in a set": (
        {"tags": [{}]},
        ".spec.tags: element 0: associative list without keys has an element that's a map type",
    ),
    "a list in a set": (
        {"tags": [[]]},
        ".spec.tags: element 0: not supported: associative list with lists as elements",
    ),
    "a key that is null": (
        {"items": [{"name": None, "proto": 5}]},
        ".spec.items[name=null,proto=5].proto: expected string, got &value.valueUnstructured{Value:5}",
    ),
    "a null item": (
        {"items": [None]},
        ".spec.items: element 0: associative list with keys may not have a null element",
    ),
    "an item that is no object": (
        {"items": ["x"]},
        ".spec.items: element 0: associative list with keys may not have non-map elements",
    ),
}


@pytest.mark.parametrize(("spec", "text"), MISFITS.values(), ids=MISFITS.keys())
def test_a_document_that_does_not_fit_is_refused_by_path(spec: dict[str, Any], text: str) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        to_field_set(thing_of(spec=spec), TYPE_DEF)
    assert str(refused.value) == text


METADATA: dict[str, tuple[Any, str]] = {
    "no object": ("x", ".metadata: expected map, got &{x}"),
    "a name": ({"name": 123}, ".metadata.name: expected string, got &value.valueUnstructured{Value:123}"),
    "a uid": ({"uid": True}, ".metadata.uid: expected string, got &value.valueUnstructured{Value:true}"),
    "a list of entries": ({"managedFields": "x"}, ".metadata.managedFields: expected list, got &{x}"),
}


@pytest.mark.parametrize(("meta", "text"), METADATA.values(), ids=METADATA)
def test_metadata_of_a_wrong_type_is_refused_even_without_owners(meta: Any, text: str) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        to_field_set(thing_of() | {"metadata": meta}, TYPE_DEF)
    assert str(refused.value) == text


# Each makes the document that has an integer in its place, and owns the same.
WHOLE: dict[str, tuple[Any, Any]] = {
    "a number": ({"n": 3.0}, {"n": 3}),
    "with an exponent": ({"n": 1e2}, {"n": 100}),
    "a quantity": ({"size": 2.0}, {"size": 2}),
    "where there is no schema": ({"free": {"k": 1.0, "l": [2.0]}}, {"free": {"k": 1, "l": [2]}}),
    "a list without a schema": ({"free": {"l": [{"m": 2.0}]}}, {"free": {"l": [{"m": 2}]}}),
    "a field of an item": ({"items": [{"name": "x", "v": 1.0}]}, {"items": [{"name": "x", "v": 1}]}),
    "a fraction stays": ({"n": 3.5}, {"n": 3.5}),
}


@pytest.mark.parametrize(("spec", "expected"), WHOLE.values(), ids=WHOLE)
def test_a_whole_number_is_an_integer_however_it_is_written(spec: Any, expected: Any) -> None:
    document = thing_of(spec=spec)
    fields = to_field_set(document, TYPE_DEF)
    assert repr(document) == repr(thing_of(spec=expected))
    assert fields == to_field_set(thing_of(spec=expected), TYPE_DEF)


def test_unknown_fields_are_distinguished_from_wrong_values() -> None:
    with pytest.raises(
        UnknownField, match=r"^\.spec\.items\[name=\"x\",proto=\"TCP\"\]\.bogus: field not declared"
    ):
        to_field_set(thing_of(spec={"items": [{"name": "x", "bogus": 1}]}), TYPE_DEF)


def nested(levels: int, leaf: Any = 1) -> Any:
    value: Any = leaf
    for _ in range(levels):
        value = {"a": value}
    return value


def test_deep_documents_end_in_a_whole_value_or_are_refused() -> None:
    fields = to_field_set(thing_of(spec={"free": nested(200)}), TYPE_DEF)
    assert fields == to_field_set(thing_of(spec={"free": nested(150)}), TYPE_DEF)
    assert compare(
        thing_of(spec={"free": nested(200)}), thing_of(spec={"free": nested(200, 2)}), TYPE_DEF
    ).changed
    with pytest.raises(DocumentTooDeep):
        to_field_set(thing_of(spec={"free": nested(5000)}), TYPE_DEF)


# ---- in what documents differ

X = {"name": "x", "v": 1}
X_KEY = 'k:{"name":"x","proto":"TCP"}'
ADDED_ITEM: FieldSet = {".": {}, "f:name": {}, "f:v": {}}
DIFFERENCES: dict[str, tuple[Any, Any, FieldSet, FieldSet]] = {
    "nothing": ({"a": "x"}, {"a": "x"}, {}, {}),
    "a value": ({"a": "x"}, {"a": "y"}, {"f:a": {}}, {}),
    "a new value": ({"a": "x"}, {"a": "x", "n": 1}, {"f:n": {}}, {}),
    "a value that goes": ({"a": "x", "n": 1}, {"a": "x"}, {}, {"f:n": {}}),
    "an atomic list": ({"list": ["a"]}, {"list": ["b"]}, {"f:list": {}}, {}),
    "a new list of items": ({}, {"items": [X]}, {"f:items": {".": {}, X_KEY: ADDED_ITEM}}, {}),
    "a new item": ({"items": []}, {"items": [X]}, {"f:items": {X_KEY: ADDED_ITEM}}, {}),
    "a changed item": (
        {"items": [X]}, {"items": [{"name": "x", "v": 2}]}, {"f:items": {X_KEY: {"f:v": {}}}}, {},
    ),
    "the order of items is nobody's": (
        {"items": [{"name": "x"}, {"name": "y"}], "tags": ["a", "b"]},
        {"items": [{"name": "y"}, {"name": "x"}], "tags": ["b", "a"]}, {}, {},
    ),
    "an item that goes": ({"tags": ["a", "b"]}, {"tags": ["b"]}, {}, {"f:tags": {'v:"a"': {}}}),
    "null becomes empty": ({"items": None}, {"items": []}, {"f:items": {}}, {}),
    "a value becomes an object": (
        {"free": {"a": 1}}, {"free": {"a": {"b": 1}}}, {"f:free": {"f:a": {".": {}, "f:b": {}}}}, {},
    ),
    "an object becomes a value": (
        {"free": {"a": {"b": 1}}}, {"free": {"a": 1}},
        {"f:free": {"f:a": {}}}, {"f:free": {"f:a": {"f:b": {}}}},
    ),
    "stored items with one key are one": (
        {"tags": ["a", "a"]}, {"tags": ["a", "a", "b"]}, {"f:tags": {'v:"b"': {}}}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "changed", "removed"), DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_two_documents_differ_in(old: Any, new: Any, changed: FieldSet, removed: FieldSet) -> None:
    # Something else is there, too, that the specs are never empty.
    found = compare(thing_of(spec={"size": "1", **old}), thing_of(spec={"size": "1", **new}), TYPE_DEF)
    assert found.changed == ({"f:spec": changed} if changed else {})
    assert found.removed == ({"f:spec": removed} if removed else {})
