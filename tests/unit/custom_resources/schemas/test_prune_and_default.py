"""Pruning, defaulting and coercing of custom resources before their validation."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from apiserver.schema.compile import UNKNOWN_FIELDS_MAX, TypeMismatch

from .samples import INT_OR_STRING, KEEPS_UNKNOWN, RESOURCE, TEXT, WHOLE, field, items, of, root, values

# Rows E03, E05, E12. https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
# custom-resource-definitions/#field-pruning
PRUNED: Final[dict[str, tuple[dict[str, Any], Any, Any, list[str]]]] = {
    "known fields stay": (of(a=TEXT), {"a": "1"}, {"a": "1"}, []),
    "unknown ones go": (of(a=TEXT), {"a": "1", "z": {"y": 1}}, {"a": "1"}, ["v.z"]),
    "in lists": (items(of(a=TEXT)), [{"a": "1"}, {"z": 1}], [{"a": "1"}, {}], ["v[1].z"]),
    "in lists of lists": (items(items(of(a=TEXT))), [[{"z": 1}]], [[{}]], ["v[0][0].z"]),
    "in maps, whose keys are told as fields": (values(of(a=TEXT)), {"k": {"z": 1}}, {"k": {}}, ["v.k.z"]),
    "all of an object whose fields nobody knows": ({"type": "object"}, {"z": 1}, {}, ["v.z"]),
    "all in the values of a map of anything": (values(True), {"k": {"z": 1}}, {"k": {}}, ["v.k.z"]),
    "of a value that should be a text": (TEXT, {"z": 1}, {}, ["v.z"]),
    "of a list that should be an object": (of(a=TEXT), [{"a": 1}], [{}], ["v[0].a"]),
    "they are told in order": (of(a=TEXT), {"z": 1, "y": 1}, {}, ["v.y", "v.z"]),
    "kept where the schema says so": (of(a=TEXT) | KEEPS_UNKNOWN, {"z": {"y": [1]}}, {"z": {"y": [1]}}, []),
    "kept, but not in the fields it knows": (
        of(a=of(b=TEXT)) | KEEPS_UNKNOWN,
        {"a": {"z": 1}, "z": 1},
        {"a": {}, "z": 1},
        ["v.a.z"],
    ),
    "kept in a list, but not in what its items know": (
        items(of(a=of(b=TEXT))) | KEEPS_UNKNOWN,
        [{"z": 1, "a": {"z": 1}}],
        [{"z": 1, "a": {}}],
        ["v[0].a.z"],
    ),
    "null inside of what is kept is kept": (
        {**KEEPS_UNKNOWN},
        {"a": [1, {"x": None}]},
        {"a": [1, {"x": None}]},
        [],
    ),
    "the type of a resource is known": (
        RESOURCE | of(spec=of(a=TEXT)),
        {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": {"z": 1}, "z": 1},
        {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": {}},
        ["v.spec.z", "v.z"],
    ),
    "so is its metadata": (
        RESOURCE | of(a=TEXT),
        {"metadata": {"name": "a", "zz": 1, "creationTimestamp": None}},
        {"metadata": {"name": "a"}},
        ["v.metadata.zz"],
    ),
    "in maps of resources, whose keys are told as keys": (
        values(RESOURCE | KEEPS_UNKNOWN),
        {"k": {"metadata": {"zz": 1}, "x": 1}},
        {"k": {"metadata": {}, "x": 1}},
        ["v[k].metadata.zz"],
    ),
    "metadata of a resource may be null": (
        RESOURCE | KEEPS_UNKNOWN,
        {"metadata": None},
        {"metadata": {}},
        [],
    ),
}


@pytest.mark.parametrize(("schema", "value", "kept", "unknown"), PRUNED.values(), ids=PRUNED)
def test_unknown_fields(schema: dict[str, Any], value: Any, kept: Any, unknown: list[str]) -> None:
    document = {"v": copy.deepcopy(value)}
    assert field(schema).pruner(document) == unknown
    assert document == {"v": kept}


# Row E14. …/custom-resource-definitions/#defaulting and #defaulting-and-nullable
DEFAULTED: Final[dict[str, tuple[dict[str, Any], Any, Any]]] = {
    "an absent field": (of(a=TEXT | {"default": "x"}), {}, {"a": "x"}),
    "not one that is there": (of(a=TEXT | {"default": "x"}), {"a": ""}, {"a": ""}),
    "null is absent": (of(a=TEXT | {"default": "x"}), {"a": None}, {"a": "x"}),
    "null stays where it may be": (of(a=TEXT | {"default": "x", "nullable": True}), {"a": None}, {"a": None}),
    "null goes where it may not be": (of(a=TEXT), {"a": None}, {}),
    "null goes from maps": (values(TEXT), {"a": None, "b": "x"}, {"b": "x"}),
    "null becomes a map's default": (values(TEXT | {"default": "x"}), {"a": None}, {"a": "x"}),
    "null becomes a list's default": (items(TEXT | {"default": "x"}), [None, "a"], ["x", "a"]),
    "null stays in lists, to be refused": (items(TEXT), [None], [None]),
    "defaults in defaults": (of(a=of(b=WHOLE | {"default": 1}) | {"default": {}}), {}, {"a": {"b": 1}}),
    "no object appears for the defaults in it": (of(a=of(b=WHOLE | {"default": 1})), {}, {}),
    "in an object that is there": (of(a=of(b=WHOLE | {"default": 1})), {"a": {}}, {"a": {"b": 1}}),
    "in items of lists": (items(of(a=WHOLE | {"default": 1})), [{}, {"a": 2}], [{"a": 1}, {"a": 2}]),
    "in values of maps": (values(of(a=WHOLE | {"default": 1})), {"k": {}}, {"k": {"a": 1}}),
    "beside unknown fields": (of(a=WHOLE | {"default": 1}) | KEEPS_UNKNOWN, {"z": 2}, {"z": 2, "a": 1}),
    "false and zero are defaults": (
        of(a={"type": "boolean", "default": False}, b=WHOLE | {"default": 0}),
        {},
        {"a": False, "b": 0},
    ),
    "whole numbers lose their point, as Go writes them": (
        of(a=WHOLE, b=items({"type": "number"}), c=INT_OR_STRING),
        {"a": 5.0, "b": [2.0, 2.5, 1e300], "c": -1.0},
        {"a": 5, "b": [2, 2.5, 1e300], "c": -1},
    ),
    "so they do where no schema knows them": (
        of(a=KEEPS_UNKNOWN) | KEEPS_UNKNOWN,
        {"a": [1.0, {"b": -2.0}], "z": 3.0, "y": [[4.0, 0.5]]},
        {"a": [1, {"b": -2}], "z": 3, "y": [[4, 0.5]]},
    ),
}


@pytest.mark.parametrize(("schema", "value", "completed"), DEFAULTED.values(), ids=DEFAULTED)
def test_defaults_and_null(schema: dict[str, Any], value: Any, completed: Any) -> None:
    document = {"v": copy.deepcopy(value)}
    assert field(schema).pruner(document) == []
    assert document == {"v": completed}
    assert repr(document) == repr({"v": completed})  # 1 is not 1.0, and no other order


# Of an apply, whose null is a value: validation refuses it.
MERGED: Final[dict[str, tuple[dict[str, Any], Any, Any]]] = {
    "a field": (of(a=TEXT), {"a": None}, {"a": None}),
    "a value of a map": (values(TEXT), {"k": None}, {"k": None}),
    "a list and an object": (of(a=items(TEXT), b=of(c=TEXT)), {"a": None, "b": None}, {"a": None, "b": None}),
    "where null is allowed": (of(a=TEXT | {"nullable": True}), {"a": None}, {"a": None}),
    "a default replaces it": (of(a=TEXT | {"default": "x"}), {"a": None}, {"a": "x"}),
    "but not where null is allowed": (
        of(a=TEXT | {"default": "x", "nullable": True}),
        {"a": None},
        {"a": None},
    ),
    "the kind of a resource": (
        RESOURCE | KEEPS_UNKNOWN,
        {"kind": None, "z": None},
        {"kind": None, "z": None},
    ),
    "its metadata is completed": (RESOURCE | KEEPS_UNKNOWN, {"metadata": {"labels": None}}, {"metadata": {}}),
}


@pytest.mark.parametrize(("schema", "value", "kept"), MERGED.values(), ids=MERGED)
def test_null_is_kept_in_what_has_been_merged(schema: dict[str, Any], value: Any, kept: Any) -> None:
    document = {"v": copy.deepcopy(value)}
    assert field(schema).pruner(document, is_merged=True) == []
    assert document == {"v": kept}


def test_a_default_is_copied() -> None:
    custom = root(of(a=items(TEXT) | {"default": ["x"]}))
    one: dict[str, Any] = {}
    custom.pruner(one)
    one["a"].append("y")
    other: dict[str, Any] = {}
    custom.pruner(other)
    assert other == {"a": ["x"]}


# Row E01: only what says which object it is, is refused before validation.
MALFORMED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a kind that is no text": ({"kind": 5}, ".kind accessor error: 5 is of the type int64, expected string"),
    "metadata that is no object": (
        {"metadata": "x"},
        "json: cannot unmarshal string into Go value of type v1.ObjectMeta",
    ),
    "labels that are no texts": (
        {"metadata": {"labels": {"a": 1}}},
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
    ),
    "a kind inside": ({"v": {"kind": 5}}, "v.kind: Invalid value: 5: must be a string"),
    "metadata inside": (
        {"m": {"k": {"metadata": []}}},
        "m[k].metadata: Invalid value: []: json: cannot unmarshal array into Go value of type v1.ObjectMeta",
    ),
}


@pytest.mark.parametrize(("document", "message"), MALFORMED.values(), ids=MALFORMED)
def test_wrong_metadata(document: dict[str, Any], message: str) -> None:
    custom = root(of(v=RESOURCE | KEEPS_UNKNOWN, m=values(RESOURCE | KEEPS_UNKNOWN)))
    with pytest.raises(TypeMismatch) as refused:
        custom.pruner(document)
    assert str(refused.value) == message


def test_metadata_of_the_object_is_reported_once_and_first() -> None:
    document = {"metadata": {"name": "a", "zz": 1}, "a": 1, "spec": {}}
    custom = root(of(metadata=of(name=TEXT | {"maxLength": 3}), spec={"type": "object"}))
    assert custom.pruner(document) == ["metadata.zz", "a"]
    assert document == {"metadata": {"name": "a"}, "spec": {}}
    assert [error.field for error in custom.validate({"metadata": {"name": "long"}})] == ["metadata.name"]


def test_stored_objects_are_pruned_by_the_current_schema() -> None:
    custom = root(of(a=TEXT | {"default": "x"}, b=RESOURCE | of(c=TEXT)))
    stored = {"kind": 5, "metadata": {"zz": 1}, "z": 1, "b": {"metadata": {"zz": 1}, "z": 1}}
    assert custom.pruner.prune_and_default(stored)
    assert stored == {"kind": 5, "metadata": {"zz": 1}, "a": "x", "b": {"metadata": {"zz": 1}}}
    assert not custom.pruner.prune_and_default(stored)


def test_a_schema_without_defaults_says_so() -> None:
    assert not root(of(a=of(b=TEXT))).has_defaults
    assert root(of(a=values(items(TEXT | {"default": ""})))).has_defaults


# ---- bad input


def nested(depth: int, schema: bool) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = of(a=value) if schema else {"a": value}
    return value


def test_depth_is_refused() -> None:
    custom = root(nested(50_000, schema=True))
    with pytest.raises(TypeMismatch, match="json: exceeded max depth"):
        custom.pruner(nested(50_000, schema=False))
    told = custom.validate(nested(50_000, schema=False))
    assert [error.message for error in told] == ['Invalid value: "": the object is nested too deeply']
    assert custom.pruner(nested(100, schema=False)) == []


def test_defaults_do_not_blow_an_object_up() -> None:
    custom = field(items(of(a=TEXT | {"default": "x" * 10_000})))
    custom.pruner({"v": [{}] * 1})
    with pytest.raises(TypeMismatch, match="defaults of the object"):
        custom.pruner({"v": [{} for _ in range(100_000)]})


def test_the_number_of_reported_unknown_fields_is_bounded() -> None:
    document = {f"a{index}": 1 for index in range(UNKNOWN_FIELDS_MAX + 10)}
    assert len(root(of()).pruner(document)) == UNKNOWN_FIELDS_MAX
    assert document == {}
