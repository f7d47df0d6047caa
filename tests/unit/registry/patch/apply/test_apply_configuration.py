"""Merges of what policies make: k8s.io/apiserver, pkg/admission/plugin/policy/mutating/patch/smd.go."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.registry.patch.apply.apply_configuration import InvalidApplyConfiguration, apply_configuration
from apiserver.registry.patch.apply.type_defs import KEY_DEFAULTS, TypeDefs
from apiserver.schema.builtin import BuiltinSchemas

DEPLOYMENT: Final = TypeDefs(KEY_DEFAULTS).of(BuiltinSchemas((1, 34)).get("io.k8s.api.apps.v1.Deployment"))


def deployment(**pod: Any) -> dict[str, Any]:
    return {"metadata": {"name": "d"}, "spec": {"replicas": 1, "template": {"spec": pod}}}


def of_pod(**pod: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": pod}}}


MERGED: Final[dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]] = {
    "items of a list by their keys": (
        deployment(volumes=[{"name": "x"}]),
        of_pod(volumes=[{"name": "y"}]),
        deployment(volumes=[{"name": "x"}, {"name": "y"}]),
    ),
    "what is in an item": (
        deployment(volumes=[{"name": "x"}, {"name": "y"}]),
        of_pod(volumes=[{"name": "y", "hostPath": {"path": "a"}}]),
        deployment(volumes=[{"name": "x"}, {"name": "y", "hostPath": {"path": "a"}}]),
    ),
    "duplicates become one": (
        deployment(containers=[{"name": "c", "env": [{"name": "a", "value": value} for value in "12"]}]),
        of_pod(containers=[{"name": "c", "env": [{"name": "a", "value": "3"}]}]),
        deployment(containers=[{"name": "c", "env": [{"name": "a", "value": "3"}]}]),
    ),
    "the name": (
        deployment(),
        {"metadata": {"name": "other"}},
        {**deployment(), "metadata": {"name": "other"}},
    ),
}


@pytest.mark.parametrize(("live", "configuration", "merged"), MERGED.values(), ids=MERGED)
def test_what_is_merged(live: dict[str, Any], configuration: dict[str, Any], merged: dict[str, Any]) -> None:
    assert apply_configuration(live, configuration, DEPLOYMENT) == merged


def test_what_changes_nothing() -> None:
    live = deployment(volumes=[{"name": "x"}])
    assert apply_configuration(live, of_pod(volumes=[{"name": "x"}]), DEPLOYMENT) is live
    assert apply_configuration(live, {}, DEPLOYMENT) is live


REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a field that there is not": (
        {"spec": {"replicasx": 1}},
        "failed to convert patch object to typed object: .spec.replicasx: field not declared in schema",
    ),
    "a wrong type of what the server sets": (
        {"metadata": {"name": 5}},
        (
            "failed to convert patch object to typed object: .metadata.name: expected string, got "
            "&value.valueUnstructured{Value:5}"
        ),
    ),
    "a struct that is owned as a whole": (
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector",
    ),
    "several lists and maps": (
        of_pod(containers=[{"name": "c", "args": []}], nodeSelector={}, tolerations=[{}]),
        (
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            ".spec.template.spec.containers[0].args, .spec.template.spec.nodeSelector, "
            ".spec.template.spec.tolerations"
        ),
    ),
}


@pytest.mark.parametrize(("configuration", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(configuration: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidApplyConfiguration) as refused:
        apply_configuration(deployment(), configuration, DEPLOYMENT)
    assert str(refused.value) == why


def test_many_paths_are_told_in_part() -> None:
    containers = [{"name": f"c{number}", "args": []} for number in range(1_000)]
    with pytest.raises(InvalidApplyConfiguration) as refused:
        apply_configuration(deployment(), of_pod(containers=containers), DEPLOYMENT)
    assert len(str(refused.value)) < 2_000
