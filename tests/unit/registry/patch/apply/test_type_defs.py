"""The parts of a type definition are made when something is written there."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.registry.patch.apply.type_defs import KEY_DEFAULTS, NoPathElement, TypeDefs, path_element
from apiserver.registry.patch.apply.typed_value import compare
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.structural import Schema, ValueKind


def nested(levels: int) -> Schema:
    """The schema of a struct in a struct, and so on, with a number in each."""
    schema = Schema(ValueKind.ANY_OBJECT, "map[string]interface {}")
    for _ in range(levels):
        fields = {"below": schema, "number": Schema(ValueKind.INTEGER, "int64")}
        schema = Schema(ValueKind.STRUCT, "v1.Level", fields=fields)
    return schema


def test_what_nobody_writes_costs_nothing() -> None:
    """To make all parts of this type would take more levels of recursion than there are."""
    type_def = TypeDefs().of_object(nested(20_000))
    new = {"below": {"below": {"number": 1}}}
    changed = compare({}, new, type_def).changed
    assert changed == {"f:below": {".": {}, "f:below": {".": {}, "f:number": {}}}}


def test_whether_anything_below_has_no_schema_is_told_when_it_matters() -> None:
    """Python takes true for 1: only where a value has no schema may one replace the other."""
    type_def = TypeDefs().of_object(nested(3))
    old = {"below": {"below": {"below": {"a": 1}}}}
    new = {"below": {"below": {"below": {"a": True}}}}
    changed = compare(old, new, type_def).changed
    assert changed == {"f:below": {"f:below": {"f:below": {"f:a": {}}}}}
    assert compare({"number": 1}, {"number": 1}, type_def) == ({}, {})


# A list, an item of it, and its path element. What Go always encodes has its zero value for a default, as in
# the schemas of k8s.io/client-go, applyconfigurations/internal.
KEYS: Final[dict[str, tuple[str, str, dict[str, Any], str]]] = {
    "a name": ("core.v1.PodSpec", "containers", {"image": "i"}, 'k:{"name":""}'),
    "a number": ("core.v1.Container", "ports", {"name": "x"}, 'k:{"containerPort":0,"protocol":"TCP"}'),
    "a marker's default": ("core.v1.ServiceSpec", "ports", {"port": 1}, 'k:{"port":1,"protocol":"TCP"}'),
    "a marker's empty default": ("core.v1.PodSpec", "imagePullSecrets", {}, 'k:{"name":""}'),
    "two names": (
        "core.v1.PodSpec",
        "topologySpreadConstraints",
        {},
        'k:{"topologyKey":"","whenUnsatisfiable":""}',
    ),
    "a type": ("apps.v1.DeploymentStatus", "conditions", {}, 'k:{"type":""}'),
    "a null that is there": ("core.v1.PodSpec", "containers", {"name": None}, 'k:{"name":null}'),
}
SCHEMAS: Final = BuiltinSchemas((1, 36))


@pytest.mark.parametrize(("definition", "field", "item", "element"), KEYS.values(), ids=KEYS)
def test_f29_absent_keys_have_their_defaults(
    definition: str, field: str, item: dict[str, Any], element: str
) -> None:
    type_def = TypeDefs(KEY_DEFAULTS).of(SCHEMAS.get(f"io.k8s.api.{definition}"))
    assert path_element(item, type_def.fields[field][1]) == element


def test_f29_a_key_that_go_omits_has_no_default() -> None:
    type_def = TypeDefs(KEY_DEFAULTS).of(SCHEMAS.get("io.k8s.api.core.v1.ServiceAccount"))
    with pytest.raises(NoPathElement, match="omits all key fields"):
        path_element({}, type_def.fields["secrets"][1])
