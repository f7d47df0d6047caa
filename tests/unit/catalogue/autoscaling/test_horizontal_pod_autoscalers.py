"""Horizontal pod autoscalers, in both versions.

Source: k8s.io/kubernetes, pkg/apis/autoscaling/{v1,v2,validation} (release 1.34).
"""

from __future__ import annotations

import copy
from typing import Any, Final

import orjson
import pytest

from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers import conversion as versions
from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import Changes, ServedKind, changed

V2: Final = ServedKind("horizontalpodautoscalers.autoscaling", version="v2")
V1: Final = ServedKind("horizontalpodautoscalers.autoscaling")

AUTOSCALER: Final[Document] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "h"},
    "spec": {
        "maxReplicas": 5,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
    },
}


def _cpu(utilization: int) -> Document:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


# ---- defaults


def test_the_cpu_is_kept_at_80_percent() -> None:
    document, errors = V2.created(AUTOSCALER)
    assert errors == []
    assert document["spec"]["minReplicas"] == 1
    assert document["spec"]["metrics"] == [_cpu(80)]
    assert document["status"] == {"desiredReplicas": 0, "currentMetrics": None}


def test_behavior_that_is_told_in_part_is_completed() -> None:
    policies = [{"type": "Pods", "value": 1, "periodSeconds": 60}]
    behavior = {"scaleUp": {"policies": policies}}
    document, errors = V2.created(AUTOSCALER, {"spec.behavior": behavior})
    assert errors == []
    assert document["spec"]["behavior"] == {
        "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policies},
        "scaleDown": {
            "selectPolicy": "Max",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
        },
    }


# ---- what is wrong

_OBJECT: Final = {"metric": {"name": "m"}, "describedObject": {"kind": "Service", "name": "s"}}
_METRIC: Final = "spec.metrics[0]"

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "there is a highest number": (
        {"spec.maxReplicas": None},
        [
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        ],
    ),
    "it never scales to nothing": (
        {"spec.minReplicas": 0},
        [
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            (
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support "
                "scaling to zero replicas"
            ),
        ],
    ),
    "there is one at most": (
        {"spec.minReplicas": None, "spec.maxReplicas": -1},
        [
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
        ],
    ),
    "policies that are empty are no default": (
        {"spec.behavior": {"scaleUp": {"policies": []}}},
        ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"],
    ),
    "a container's resource has a known name": (
        {
            "spec.metrics": [
                {
                    "type": "ContainerResource",
                    "containerResource": {
                        "name": "foo",
                        "container": "c",
                        "target": _cpu(5)["resource"]["target"],
                    },
                }
            ]
        },
        [
            f'{_METRIC}.containerResource.name: Invalid value: "foo": must be a standard resource {rest}'
            for rest in ("type or fully qualified", "for containers")
        ],
    ),
    "what it scales is of a group": (
        {"spec.scaleTargetRef.apiVersion": "v1"},
        ['spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group'],
    ),
    "unless that is a replication controller": (
        {"spec.scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController", "name": "r"}},
        [],
    ),
    "names fit into a path": (
        {"spec.scaleTargetRef.name": "a/b"},
        ["spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'"],
    ),
    "a metric is of a kind": (
        {"spec.metrics": [{"type": "X"}]},
        [
            (
                f'{_METRIC}.type: Unsupported value: "X": supported values: '
                '"ContainerResource", "External", "Object", "Pods", "Resource"'
            )
        ]
        * 2,  # Kubernetes says it when it reads the type, and when no source fits it.
    ),
    "and told as such": (
        {"spec.metrics": [{"type": "Pods"}]},
        [f"{_METRIC}.pods: Required value: must populate information for the given metric source"],
    ),
    "and nothing else": (
        {"spec.metrics": [_cpu(50) | {"object": {**_OBJECT, "target": {"type": "Value", "value": "1"}}}]},
        [f"{_METRIC}.object: Forbidden: must populate the given metric source only"],
    ),
    "a target is positive": (
        {"spec.metrics": [_cpu(0)]},
        [f"{_METRIC}.resource.target.averageUtilization: Invalid value: 0: must be greater than 0"],
    ),
    "a resource has one target": (
        {"spec.metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value"}}}]},
        [
            (
                f"{_METRIC}.resource.target.averageUtilization: "
                "Required value: must set either a target raw value or a target utilization"
            )
        ],
    ),
    "quantities are positive": (
        {
            "spec.metrics": [
                {"type": "Object", "object": {**_OBJECT, "target": {"type": "Value", "value": "0"}}}
            ]
        },
        [f'{_METRIC}.object.target.value: Invalid value: "0": must be positive'],
    ),
    "waiting has an end": (
        {"spec.behavior.scaleDown": {"stabilizationWindowSeconds": 3601, "selectPolicy": "X"}},
        [
            (
                "spec.behavior.scaleDown.stabilizationWindowSeconds: "
                "Invalid value: 3601: must be less than or equal to 3600"
            ),
            (
                'spec.behavior.scaleDown.selectPolicy: Unsupported value: "X": '
                'supported values: "Disabled", "Max", "Min"'
            ),
        ],
    ),
    "a policy does something": (
        {"spec.behavior.scaleUp.policies": [{"type": "Pods", "value": 0, "periodSeconds": 1801}]},
        [
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
            (
                "spec.behavior.scaleUp.policies[0].periodSeconds: "
                "Invalid value: 1801: must be less than or equal to 1800"
            ),
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_errors(changes: Changes, texts: list[str]) -> None:
    assert V2.created(AUTOSCALER, changes).texts == texts


def test_counts_of_a_status_are_not_negative() -> None:
    old = V2.created(AUTOSCALER).document
    (error,) = V2.updated(old, {"status.desiredReplicas": -1}, "status").errors
    assert error.field == "status.desiredReplicas"


_OF_QUEUE: Final = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}},
}


def test_autoscalers_scale_to_zero_by_external_metrics_if_the_gate_is_on() -> None:
    """HPAScaleToZero, which is not on by default in any release; who has scaled to nothing may go on."""
    gated = ServedKind("horizontalpodautoscalers.autoscaling", version="v2", gates=("HPAScaleToZero",))
    to_zero: Changes = {"spec.minReplicas": 0, "spec.metrics": [_OF_QUEUE]}
    document, errors = gated.created(AUTOSCALER, to_zero)
    assert errors == []
    assert V2.updated(document, {"spec.maxReplicas": 7}).errors == []
    assert V2.created(AUTOSCALER, to_zero).texts == [
        "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"
    ]
    assert gated.created(AUTOSCALER, {"spec.minReplicas": 0}).texts == [
        (
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling "
            "to zero replicas"
        )
    ]


def test_a_stored_api_version_may_be_invalid() -> None:
    """Of what is scaled, while version and kind stay; of what is measured, while there was a wrong one."""
    described = {"kind": "K", "name": "n", "apiVersion": "a/b/c"}
    of_object = {
        "type": "Object",
        "object": {
            "metric": {"name": "m"},
            "describedObject": described,
            "target": {"type": "Value", "value": "1"},
        },
    }
    document = V2.created(AUTOSCALER).document
    stored = changed(document, {"spec.scaleTargetRef.apiVersion": "v1", "spec.metrics": [of_object]})
    renamed = {"spec.scaleTargetRef.name": "e", "spec.metrics.0.object.metric.name": "o"}
    assert V2.updated(stored, renamed).errors == []
    assert V2.updated(stored, {"spec.scaleTargetRef.kind": "E"}).texts == [
        'spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group'
    ]
    assert V2.updated(document, {"spec.metrics": [of_object]}).texts == [
        (
            f'{_METRIC}.object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion '
            "string: a/b/c"
        )
    ]


# ---- versions

METRICS: Final[dict[str, Document]] = {
    "memory": {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
    },
    "a container's resource": {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 60},
        },
    },
    "pods": {
        "type": "Pods",
        "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}},
    },
    "an object": {"type": "Object", "object": {**_OBJECT, "target": {"type": "Value", "value": "10"}}},
    "an object, for each pod": {
        "type": "Object",
        "object": {**_OBJECT, "target": {"type": "AverageValue", "averageValue": "10"}},
    },
    "something else": {
        "type": "External",
        "external": {
            "metric": {
                "name": "m",
                "selector": {
                    "matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}],
                },
            },
            "target": {"type": "Value", "value": "10"},
        },
    },
}


def _there_and_back(document: Document) -> tuple[Document, Document]:
    """As v1 shows it, and as it is when that is written."""
    shown = copy.deepcopy(document)
    versions.to_v1(shown)
    shown["apiVersion"] = "autoscaling/v1"
    stored = V1.completed(shown)
    assert stored == shown
    versions.to_v2(stored)
    stored["apiVersion"] = "autoscaling/v2"
    return shown, stored


def test_the_utilization_of_the_cpu_is_a_field_of_v1() -> None:
    document = V2.created(AUTOSCALER, {"spec.metrics": [_cpu(70)]}).document
    shown, stored = _there_and_back(document)
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 70
    assert shown["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert "annotations" not in shown["metadata"]
    assert stored == document


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_other_metrics_go_through_v1_unharmed(metric: Document) -> None:
    document, errors = V2.created(AUTOSCALER, {"spec.metrics": [metric, _cpu(70)]})
    assert errors == []
    shown, stored = _there_and_back(document)
    assert len(orjson.loads(shown["metadata"]["annotations"][versions.METRICS])) == 1
    assert stored == document


def test_behavior_and_status_go_through_v1_unharmed() -> None:
    changes = {"spec.behavior": {"scaleUp": {"tolerance": "0.5"}}, "metadata.annotations": {"a": "b"}}
    document = V2.created(AUTOSCALER, changes).document
    condition = {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    current = {"name": "cpu", "current": {"averageUtilization": 12, "averageValue": "30m"}}
    document["status"] = {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentMetrics": [{"type": "Resource", "resource": current}],
        "conditions": [condition],
    }
    shown, stored = _there_and_back(document)
    assert shown["status"]["currentCPUUtilizationPercentage"] == 12
    assert shown["metadata"]["annotations"].keys() == {
        "a",
        versions.BEHAVIOR,
        versions.CONDITIONS,
        versions.CURRENT_METRICS,
    }
    scale_up = orjson.loads(shown["metadata"]["annotations"][versions.BEHAVIOR])["ScaleUp"]
    assert list(scale_up) == ["StabilizationWindowSeconds", "SelectPolicy", "Policies", "Tolerance"]
    assert stored == document


UNREADABLE: Final[dict[str, tuple[str, Any]]] = {
    "no JSON": (versions.METRICS, "{"),
    "no list": (versions.METRICS, "{}"),
    "a wrong type": (versions.METRICS, '[{"type":"Pods","pods":{"metricName":1}}]'),
    "no quantity": (versions.METRICS, '[{"type":"Pods","pods":{"targetAverageValue":"x"}}]'),
    "no structure": (versions.BEHAVIOR, '{"ScaleUp":[]}'),
    "a number too large": (versions.BEHAVIOR, '{"ScaleUp":{"StabilizationWindowSeconds":1e99}}'),
    "no time": (versions.CONDITIONS, '[{"type":"A","status":"True","lastTransitionTime":"now"}]'),
    "no statuses": (versions.CURRENT_METRICS, "[1]"),
}


@pytest.mark.parametrize(("annotation", "text"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_annotation_that_cannot_be_read_counts_as_none(annotation: str, text: str) -> None:
    document = {**AUTOSCALER, "apiVersion": "autoscaling/v1", "metadata": {"name": "h"}}
    document["metadata"]["annotations"] = {annotation: text}
    stored = V1.completed(document)
    versions.to_v2(stored)
    assert stored["metadata"] == {"name": "h"}
    assert stored["spec"] == V2.completed(AUTOSCALER)["spec"]


def test_rows_are_the_same_in_both_versions() -> None:
    changes = {"spec.metrics": [*list(METRICS.values())[:2], _cpu(70)]}
    document = V2.created(AUTOSCALER, changes).document
    cells = V2.row(document)
    assert cells == V1.row(_there_and_back(document)[0])
    assert cells == {
        "Name": "h",
        "Reference": "Deployment/d",
        "Targets": "memory: <unknown>/1Gi, cpu: <unknown>/60% + 1 more...",
        "MinPods": "1",
        "MaxPods": 5,
        "Replicas": 0,
        "Age": "60s",
    }


def test_annotations_of_v1_have_the_order_and_the_escapes_of_gos_encoder() -> None:
    """So that clients who compare texts see no change. The values are those of a kube-apiserver 1.36."""
    selector = {
        "matchExpressions": [{"values": ["q", "p"], "operator": "In", "key": "z"}],
        "matchLabels": {"b": "1", "a": "2"},
    }
    metric = {
        "type": "Object",
        "object": {
            "describedObject": {"name": "n", "apiVersion": "a/v1", "kind": "K"},
            "metric": {"selector": selector, "name": "m"},
            "target": {"value": "2k", "type": "Value"},
        },
    }
    conditions = [
        {"message": "a <b> & c", "status": "True", "type": "A", "lastTransitionTime": None, "reason": "r"}
    ]
    document = V2.created(AUTOSCALER, {"spec.metrics": [metric]}).document
    document["status"]["conditions"] = conditions
    versions.to_v1(document)
    annotations = document["metadata"]["annotations"]
    assert annotations[versions.METRICS] == (
        '[{"type":"Object","object":{"target":{"kind":"K","name":"n","apiVersion":"a/v1"},"metricName":"m",'
        '"targetValue":"2k","selector":{"matchLabels":{"a":"2","b":"1"},"matchExpressions":[{"key":"z",'
        '"operator":"In","values":["q","p"]}]}}}]'
    )
    assert annotations[versions.CONDITIONS] == (
        '[{"type":"A","status":"True","lastTransitionTime":null,"reason":"r",'
        '"message":"a \\u003cb\\u003e \\u0026 c"}]'
    )
