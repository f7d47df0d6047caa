"""The fields that the scale of custom resources shows are validated with the resource. Row I13."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.custom_resources.serving.strategies import CustomResourceStrategies, ScalePaths
from tests.unit.custom_resources.serving.version_schemas import version_schema

ANYTHING: Final = {"x-kubernetes-preserve-unknown-fields": True}
SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}
REPLICAS: Final = ".spec.pods.count"
STATUS_REPLICAS: Final = ".status.pods.count"
SELECTOR: Final = ".status.selector"

Documented = dict[str, Any]


def strategies() -> CustomResourceStrategies:
    paths = ScalePaths(*(tuple(path[1:].split(".")) for path in (REPLICAS, STATUS_REPLICAS, SELECTOR)))
    return CustomResourceStrategies(version_schema(SCHEMA), has_status=True, scale=paths)


def document(fields: Documented) -> Documented:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, **fields}


def no_map(path: str, field: str, value: str, go_type: str, shown: str = "0") -> str:
    text = f"{value} is of the type {go_type}, expected map[string]interface{{}}"
    return f"{path}: Invalid value: {shown}: {field} accessor error: {text}"


def no_count(path: str, value: str, go_type: str) -> str:
    return (
        f"{path}: Invalid value: 0: {path} accessor error: {value} is of the type {go_type}, expected int64"
    )


def no_text(value: str, go_type: str) -> str:
    text = f"{value} is of the type {go_type}, expected string"
    return f'{SELECTOR}: Invalid value: "": {SELECTOR} accessor error: {text}'


def pods(count: Any) -> Documented:
    return {"pods": {"count": count}}


# Fields, and the errors of the whole object.
CASES: Final[dict[str, tuple[Documented, list[str]]]] = {
    "absent": ({}, []),
    "a parent is absent": ({"spec": {}, "status": {}}, []),
    "a parent is null": ({"spec": {"pods": None}, "status": None}, []),
    "numbers and a text": ({"spec": pods(0), "status": {**pods((1 << 31) - 1), "selector": ""}}, []),
    "negative": ({"spec": pods(-1)}, [f"{REPLICAS}: Invalid value: -1: should be a non-negative integer"]),
    "too large": (
        {"spec": pods(1 << 31)},
        [f"{REPLICAS}: Invalid value: 2147483648: should be less than or equal to 2147483647"],
    ),
    "null is no number": ({"spec": pods(None)}, [no_count(REPLICAS, "<nil>", "<nil>")]),
    "a fraction": ({"spec": pods(1.5)}, [no_count(REPLICAS, "1.5", "float64")]),
    "more than 64 bits": ({"spec": pods(1 << 63)}, [no_count(REPLICAS, "9.223372036854776e+18", "float64")]),
    "a bool": ({"spec": pods(True)}, [no_count(REPLICAS, "true", "bool")]),
    "a text": ({"spec": pods("3")}, [no_count(REPLICAS, "3", "string")]),
    "a list": ({"spec": pods([1, None])}, [no_count(REPLICAS, "[1 <nil>]", "[]interface {}")]),
    "an object": ({"spec": pods({"a": 1})}, [no_count(REPLICAS, "map[a:1]", "map[string]interface {}")]),
    "a parent is no object": ({"spec": {"pods": 5}}, [no_map(REPLICAS, REPLICAS, "5", "int64")]),
    "its parent is no object": ({"spec": "x"}, [no_map(REPLICAS, ".spec.pods", "x", "string")]),
    "the status, too": (
        {"status": {**pods("3"), "selector": None}},
        [no_count(STATUS_REPLICAS, "3", "string"), no_text("<nil>", "<nil>")],
    ),
    "a selector that is a number": ({"status": {"selector": 1}}, [no_text("1", "int64")]),
    "a status that is no object": (
        {"status": []},
        [
            no_map(STATUS_REPLICAS, ".status.pods", "[]", "[]interface {}"),
            no_map(SELECTOR, SELECTOR, "[]", "[]interface {}", shown='""'),
        ],
    ),
}


@pytest.mark.parametrize(("fields", "expected"), CASES.values(), ids=CASES)
def test_fields_of_the_scale(fields: Documented, expected: list[str]) -> None:
    of_resource, of_status = strategies().of_resource(is_costly=False), strategies().of_status()
    new, old = document(fields), document({})
    in_status = [error for error in expected if error.startswith(".status")]
    for validate, before, errors in (
        (of_resource.expressions, None, expected),
        (of_resource.update.expressions, old, expected),
        (of_status.expressions, old, in_status),
    ):
        assert validate is not None
        assert [str(error) for error in validate(new, before, (), True).errors] == errors
