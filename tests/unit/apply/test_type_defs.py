"""The parts of a type definition are made when something is written there."""

from __future__ import annotations

from apiserver.apply.type_defs import TypeDefs
from apiserver.apply.typed_value import compare
from apiserver.schema.structural import Kind, Schema


def nested(levels: int) -> Schema:
    """The schema of a struct in a struct, and so on, with a number in each."""
    schema = Schema(Kind.ANY_OBJECT, "map[string]interface {}")
    for _ in range(levels):
        fields = {"below": schema, "number": Schema(Kind.INTEGER, "int64")}
        schema = Schema(Kind.STRUCT, "v1.Level", fields=fields)
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
    assert not compare({"number": 1}, {"number": 1}, type_def)
