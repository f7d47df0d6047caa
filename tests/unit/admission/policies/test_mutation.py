"""What mutating policies make of an object: k8s.io/apiserver, pkg/admission/plugin/policy/mutating."""

from __future__ import annotations

import itertools
from typing import Any, Final

import orjson
import pytest

from apiserver.admission.policies.mutation import MutationOutcome, MutationTarget, mutated
from apiserver.admission.policies.policy import MutatingPolicy
from apiserver.load.size_class import TakesLong
from apiserver.registry.patch.apply.type_defs import KEY_DEFAULTS, TypeDefs
from tests.support.in_process import resource

CONFIG_MAPS: Final = resource("configmaps", "")
TYPE_DEF: Final = TypeDefs(KEY_DEFAULTS).of(CONFIG_MAPS.schema())
OBJECT: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a"},
    "data": {"k": "v"},
}


def apply(text: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}


def patch(text: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}


def outcome(*mutations: dict[str, Any], is_bounded: bool = False, **spec: Any) -> MutationOutcome:
    spec = {"mutations": mutations, **spec}
    policy = MutatingPolicy.of({"metadata": {"name": "p"}, "spec": spec})
    before = orjson.dumps(OBJECT)
    variables = {"oldObject": None, "request": {"operation": "CREATE"}}
    times = itertools.count()
    found = mutated(
        policy,
        variables,
        None,
        MutationTarget(OBJECT, CONFIG_MAPS, TYPE_DEF),
        lambda: float(next(times)),
        is_bounded,
    )
    assert orjson.dumps(OBJECT) == before, "the object itself stays as it is"
    return found


def test_each_mutation_sees_those_before() -> None:
    found = outcome(
        apply('Object{data: {"a": object.data.k + "1"}}'),
        patch('[JSONPatch{op: "add", path: "/data/b", value: object.data.a + "2"}]'),
        apply('Object{data: {"c": variables.b}}'),
        variables=[{"name": "b", "expression": "object.data.b + '3'"}],
    )
    assert found.document["data"] == {"k": "v", "a": "v1", "b": "v12", "c": "v123"}
    assert found.checks == [("no_error", 1.0)] * 3


NOTHING: Final = {
    "an empty configuration": apply("Object{}"),
    "what is there already": apply('Object{data: {"k": "v"}}'),
    "a patch of nothing": patch('object.data.k == "x" ? [JSONPatch{op: "remove", path: "/data"}] : []'),
    "a patch whose test fails": patch(
        '[JSONPatch{op: "remove", path: "/data/k"}, JSONPatch{op: "test", path: "/data/k", value: "v"}]'
    ),
    "a patch that takes itself back": patch(
        '[JSONPatch{op: "add", path: "/data/b", value: "1"}, JSONPatch{op: "remove", path: "/data/b"}]'
    ),
}


@pytest.mark.parametrize("mutation", NOTHING.values(), ids=NOTHING)
def test_what_changes_nothing(mutation: dict[str, Any]) -> None:
    found = outcome(mutation)
    assert found.document is OBJECT
    assert found.errors == []


def test_an_error_leaves_out_its_mutation_alone() -> None:
    found = outcome(
        apply('Object{data: {"a": "1"}}'),
        apply('Object{data: {"b": object.data.none}}'),
        apply('Object{data: {"c": "3"}}'),
    )
    assert found.document["data"] == {"k": "v", "a": "1", "c": "3"}
    (error,) = found.errors
    assert error.endswith("resulted in error: no such key: none")
    assert [each for each, _ in found.checks] == ["no_error", "invalid_error", "no_error"]


def test_expressions_that_are_stored_and_do_not_compile() -> None:
    """An earlier version of the server may have accepted them."""
    found = outcome(apply("Object{data: nothing}"))
    assert found.errors[0].startswith("compilation failed: ERROR: <input>:1:14: undeclared reference")
    assert found.checks == [("compile_error", 1.0)]


def test_conditions() -> None:
    change = apply('Object{data: {"a": "1"}}')
    false = [{"name": "c", "expression": "object.data.k == 'x'"}]
    failing = [{"name": "c", "expression": "object.data.none == 'x'"}]
    assert outcome(change, matchConditions=false) == MutationOutcome(OBJECT)
    assert outcome(change, matchConditions=failing).errors == [
        "expression 'object.data.none == 'x'' resulted in error: no such key: none"
    ]
    assert outcome(change, matchConditions=failing, failurePolicy="Ignore") == MutationOutcome(OBJECT)
    for conditions, errors in ((false, 0), (failing, 1)):
        check = outcome(change, matchConditions=conditions).conditions
        assert check is not None
        assert (check.errors, check.is_met) == (errors, False)
    assert outcome(change).conditions is None


TAKE_LONG: Final = {
    "an expression that costs much": apply(
        'Object{data: {"n": string([0,1,2,3,4,5,6,7,8,9].map(a, [0,1,2,3,4,5,6,7,8,9].map(b, '
        "[0,1,2,3,4,5,6,7,8,9].map(c, [0,1,2,3,4,5,6,7,8,9].map(d, a)))).size())}}"
    ),
    "a large patch": apply(f"Object{{data: {{'a': '{'x' * 20_000}'}}}}"),
    "a patch that may multiply": patch(
        '[JSONPatch{op: "copy", from: "/data", path: "/a"}, JSONPatch{op: "copy", from: "/data", path: "/b"}]'
    ),
}


@pytest.mark.parametrize("mutation", TAKE_LONG.values(), ids=TAKE_LONG)
def test_what_takes_long_is_not_done_where_others_wait(mutation: dict[str, Any]) -> None:
    with pytest.raises(TakesLong):
        outcome(mutation, is_bounded=True)
