"""The structural schemas of custom resources, as server-side apply uses them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.registry.patch.apply.field_set import ITSELF
from apiserver.registry.patch.apply.type_defs import TypeDefs
from apiserver.registry.patch.apply.typed_value import compare, to_field_set
from apiserver.schema.structural import ValueKind

from .samples import (
    INT_OR_STRING,
    KEEPS_UNKNOWN,
    LIST_TYPE,
    META,
    RESOURCE,
    TEXT,
    VENDOR,
    WHOLE,
    by_key,
    items,
    of,
    root,
    values,
)

PORTS: Final = by_key(of(name=TEXT, proto=TEXT | {"default": "TCP"}, v=WHOLE), "name", "proto")
OWN: Final[dict[str, Any]] = {ITSELF: {}}

# https://kubernetes.io/docs/reference/using-api/server-side-apply/#custom-resources-and-server-side-apply
OWNED: Final[dict[str, tuple[dict[str, Any], Any, dict[str, Any]]]] = {
    "an object by its fields": (of(a=TEXT), {"a": "1"}, {"f:v": {"f:a": {}}}),
    "an atomic object": (of(a=TEXT) | {f"x-{VENDOR}-map-type": "atomic"}, {"a": "1"}, {"f:v": {}}),
    "a map by its keys": (values(TEXT), {"a": "1"}, {"f:v": {"f:a": {}}}),
    "a list": (items(TEXT), ["a"], {"f:v": {}}),
    "a set by its items": (items(TEXT, **{LIST_TYPE: "set"}), ["a"], {"f:v": {'v:"a"': {}}}),
    "a keyed list by its items, whose keys have defaults": (
        PORTS,
        [{"name": "x", "v": 1}],
        {"f:v": {'k:{"name":"x","proto":"TCP"}': {**OWN, "f:name": {}, "f:v": {}}}},
    ),
    "a number or a text": (INT_OR_STRING, "5%", {"f:v": {}}),
    "anything": ({**KEEPS_UNKNOWN}, {"a": {"b": 1}}, {"f:v": {"f:a": {**OWN, "f:b": {}}}}),
    "anything that is no object": ({**KEEPS_UNKNOWN}, 5, {"f:v": {}}),
    "an object with anything": (
        {"type": "object", **KEEPS_UNKNOWN},
        {"a": {"b": 1}, "l": [1]},
        {"f:v": {"f:a": {**OWN, "f:b": {}}, "f:l": {}}},
    ),
    "an object with some known fields, which are not owned themselves": (
        of(known=of(a=TEXT), list=items(TEXT, **{LIST_TYPE: "set"})) | KEEPS_UNKNOWN,
        {"known": {"a": "1"}, "list": ["x"], "other": {"b": 1}, "plain": 1},
        {
            "f:v": {
                "f:known": {"f:a": {}},
                "f:list": {'v:"x"': {}},
                "f:other": {**OWN, "f:b": {}},
                "f:plain": {},
            }
        },
    ),
    "a resource": (
        RESOURCE | of(spec=of(a=TEXT)),
        {"apiVersion": "v1", "kind": "A", "metadata": {"labels": {"x": "y"}}, "spec": {"a": "1"}},
        {
            "f:v": {
                "f:apiVersion": {},
                "f:kind": {},
                "f:metadata": {"f:labels": {"f:x": {}}},
                "f:spec": {"f:a": {}},
            }
        },
    ),
}


@pytest.mark.parametrize(("schema", "value", "fields"), OWNED.values(), ids=OWNED)
def test_an_applier_owns_what_it_applies(schema: dict[str, Any], value: Any, fields: dict[str, Any]) -> None:
    type_def = TypeDefs().of_object(root(of(v=schema)).schema)
    document = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}, "v": value}
    assert to_field_set(document, type_def) == fields


def test_unknown_fields_at_the_top_have_owners() -> None:
    type_def = TypeDefs().of_object(root(of(a=TEXT) | KEEPS_UNKNOWN).schema)
    old = {"metadata": {"name": "a"}, "z": {"b": 1}}
    new = {"metadata": {"name": "a"}, "z": {"b": 2}, "y": 1}
    assert compare(old, new, type_def).changed == {"f:z": {"f:b": {}}, "f:y": {}}


def test_the_root() -> None:
    schema = root({"properties": {"spec": of(n={"type": "number"}, b={"type": "boolean"})}}).schema
    assert schema.kind is ValueKind.STRUCT
    assert schema.fields["metadata"] is META
    assert schema.fields["kind"].kind is ValueKind.STRING
    assert {name: each.kind for name, each in schema.fields["spec"].fields.items()} == {
        "n": ValueKind.NUMBER,
        "b": ValueKind.BOOLEAN,
    }


def test_a_deep_schema() -> None:
    schema: dict[str, Any] = TEXT
    for _ in range(20_000):
        schema = items(schema)
    assert root(of(a=schema)).schema.fields["a"].kind is ValueKind.LIST
