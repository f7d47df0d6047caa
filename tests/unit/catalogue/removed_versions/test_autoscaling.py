"""Autoscalers of autoscaling/v2beta1 and autoscaling/v2beta2. Rows T05, T09.

Source: pkg/apis/autoscaling/{v2beta1,v2beta2} (release 1.24).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current

HPA: Final = "horizontalpodautoscalers.autoscaling"
TARGET: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
SPEC: Final = {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}}
V2BETA1: Final = OldKind(HPA, "v2beta1", 24, SPEC)
V2BETA2: Final = OldKind(HPA, "v2beta2", 25, SPEC)
V2: Final = OldKind(HPA, "v2", 36, SPEC)
KINDS: Final = {"T09 v2beta1": V2BETA1, "T05 v2beta2": V2BETA2}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
SELECTOR: Final = {"matchLabels": {"a": "b"}}
POD: Final = {"kind": "Pod", "name": "a"}

# A metric in v2beta1, and the same in v2.
METRICS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a part of a resource": (
        {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 5}},
        {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
        },
    ),
    "a quantity of a resource": (
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
        {
            "type": "Resource",
            "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
        },
    ),
    "a resource of a container": (
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "targetAverageUtilization": 5, "container": "c"},
        },
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "cpu",
                "container": "c",
                "target": {"type": "Utilization", "averageUtilization": 5},
            },
        },
    ),
    "of pods": (
        {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5", "selector": SELECTOR}},
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": "m", "selector": SELECTOR},
                "target": {"type": "AverageValue", "averageValue": "5"},
            },
        },
    ),
    "of an object": (
        {"type": "Object", "object": {"target": POD, "metricName": "m", "targetValue": "5"}},
        {
            "type": "Object",
            "object": {
                "describedObject": POD,
                "metric": {"name": "m"},
                "target": {"type": "Value", "value": "5"},
            },
        },
    ),
    "of an object, for each pod": (
        {
            "type": "Object",
            "object": {"target": POD, "metricName": "m", "targetValue": "0", "averageValue": "5"},
        },
        {
            "type": "Object",
            "object": {
                "describedObject": POD,
                "metric": {"name": "m"},
                "target": {"type": "AverageValue", "averageValue": "5"},
            },
        },
    ),
    "from elsewhere": (
        {"type": "External", "external": {"metricName": "m", "metricSelector": SELECTOR, "targetValue": "5"}},
        {
            "type": "External",
            "external": {
                "metric": {"name": "m", "selector": SELECTOR},
                "target": {"type": "Value", "value": "5"},
            },
        },
    ),
    "from elsewhere, for each pod": (
        {"type": "External", "external": {"metricName": "m", "targetAverageValue": "5"}},
        {
            "type": "External",
            "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}},
        },
    ),
}


@pytest.mark.parametrize(("beta", "current"), METRICS.values(), ids=METRICS)
def test_t09_metrics_have_another_form(beta: dict[str, Any], current: dict[str, Any]) -> None:
    document = V2BETA1.completed({"spec.metrics": [beta]})
    assert document["spec"]["metrics"] == [beta]
    assert V2BETA1.create({"spec.metrics": [beta]}).texts == []
    assert V2BETA1.to_hub(document)["spec"]["metrics"] == [current]
    assert V2BETA1.from_hub(V2BETA1.to_hub(document)) == document
    assert read_by_current(document) == V2BETA1.to_hub(document)


@each_kind
def test_defaults_are_those_of_v2(kind: OldKind) -> None:
    document, errors = kind.create()
    assert errors == []
    assert document["spec"] == V2.create().document["spec"]
    shown = kind.resource.columns.cells(kind.completed(), 0)
    assert shown == V2.resource.columns.cells(V2.completed(), 0)


@each_kind
def test_rules_are_those_of_v2(kind: OldKind) -> None:
    assert kind.create({"spec.maxReplicas": 0, "spec.minReplicas": 0}).texts == (
        V2.create({"spec.maxReplicas": 0, "spec.minReplicas": 0}).texts
    )


ANNOTATION: Final = "autoscaling.alpha.kubernetes.io/behavior"
RULES: Final = {
    "stabilizationWindowSeconds": 5,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}],
}


def test_t09_behavior_stands_in_an_annotation() -> None:
    current = V2.completed({"spec.behavior": {"scaleUp": RULES, "scaleDown": {**RULES, "tolerance": "100m"}}})
    shown = V2BETA1.from_hub(current)
    assert "behavior" not in shown["spec"]
    assert set(shown["metadata"]["annotations"]) == {ANNOTATION}
    assert V2BETA1.to_hub(shown) == current


@each_kind
@pytest.mark.parametrize("text", ["", "{", "[]", '{"ScaleUp":1}', "null"])
def test_a_behavior_that_cannot_be_read_is_none(kind: OldKind, text: str) -> None:
    document = kind.to_hub(kind.completed({"metadata.annotations": {ANNOTATION: text, "a": "b"}}))
    assert "behavior" not in document["spec"]
    assert document["metadata"]["annotations"] == {"a": "b"}


def test_t05_a_tolerance_stands_in_an_annotation() -> None:
    current = V2.completed({"spec.behavior": {"scaleUp": {**RULES, "tolerance": "100m"}, "scaleDown": RULES}})
    shown = V2BETA2.from_hub(current)
    assert shown["spec"]["behavior"] == {"scaleUp": RULES, "scaleDown": RULES}
    assert V2BETA2.resource.check(shown) == []
    assert V2BETA2.to_hub(shown) == current
    shown["spec"]["behavior"]["scaleUp"]["selectPolicy"] = "Min"
    changed = V2BETA2.to_hub(shown)["spec"]["behavior"]["scaleUp"]
    assert changed == {**RULES, "selectPolicy": "Min", "tolerance": "100m"}


@each_kind
def test_a_status_shows_what_there_is_none_of(kind: OldKind) -> None:
    created = kind.create().document
    shown = kind.from_hub(created)
    assert shown["status"] == {
        "currentReplicas": 0,
        "desiredReplicas": 0,
        "currentMetrics": None,
        "conditions": None,
    }
    assert kind.to_hub(shown)["status"] == created["status"]


CURRENT: Final = (
    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "5"}}},
    {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "5"}}},
    {
        "type": "Object",
        "object": {"describedObject": POD, "metric": {"name": "m"}, "current": {"value": "5"}},
    },
    {"type": "External", "external": {"metric": {"name": "m"}, "current": {"value": "5"}}},
)
STATUS: Final = st.fixed_dictionaries(
    {
        "desiredReplicas": st.integers(0, 3),
        "currentMetrics": st.none() | st.lists(st.sampled_from(CURRENT), min_size=1, max_size=3),
    },
    optional={
        "currentReplicas": st.integers(1, 3),
        "observedGeneration": st.integers(1, 3),
        "conditions": st.just([{"type": "a", "status": "True", "lastTransitionTime": None}]),
    },
)
FULL_RULES: Final = st.fixed_dictionaries(
    {name: st.just(value) for name, value in RULES.items()}, optional={"tolerance": st.just("100m")}
)
V2_SPEC: Final = st.fixed_dictionaries(
    {
        "scaleTargetRef": st.just(TARGET),
        "minReplicas": st.integers(1, 3),
        "maxReplicas": st.integers(1, 3),
        "metrics": st.lists(
            st.sampled_from([metric for _, metric in METRICS.values()]), min_size=1, max_size=3
        ),
    },
    optional={"behavior": st.fixed_dictionaries({"scaleUp": FULL_RULES, "scaleDown": FULL_RULES})},
)
META: Final = st.sampled_from(({"name": "a"}, {"name": "a", "annotations": {"b": "c"}}))


@each_kind
@given(spec=V2_SPEC, status=STATUS, meta=META)
def test_nothing_of_v2_is_lost(
    kind: OldKind, spec: dict[str, Any], status: dict[str, Any], meta: dict[str, Any]
) -> None:
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }
    assert kind.to_hub(kind.from_hub(document)) == document


@given(metrics=st.lists(st.sampled_from([metric for metric, _ in METRICS.values()]), max_size=3))
def test_nothing_of_v2beta1_is_lost(metrics: list[dict[str, Any]]) -> None:
    document = {**V2BETA1.valid, "spec": {"metrics": metrics, "maxReplicas": 3}}
    assert V2BETA1.from_hub(V2BETA1.to_hub(document)) == document
