"""HorizontalPodAutoscalers of autoscaling/v2beta1 and autoscaling/v2beta2. Rows T05, T09.

v2beta2 has the form of v2, except that rules of scaling have no tolerance. v2beta1 has a metric's target in
fields of the metric, and no behavior. Missing fields are in an annotation, the same as in v1.
Source: pkg/apis/autoscaling/{v2beta1,v2beta2} (conversion.go, defaults.go; release 1.24).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers.conversion import (
    BEHAVIOR,
    behavior_of_text,
    behavior_text,
    flat_metrics,
    full_metrics,
)
from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers.validation import (
    CPU_UTILIZATION,
    complete_spec,
)
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.annotation_values import annotate, take_annotation
from apiserver.catalogue.common.other_versions import CurrentTypes, columns_of_hub, hub_of, other_version
from apiserver.meta.vocabulary import Document

_SPEC_OF_V2BETA1: Final = "io.k8s.api.autoscaling.v2beta1.HorizontalPodAutoscalerSpec"


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    v2 = current["autoscaling", "horizontalpodautoscalers"]
    return (
        other_version(v2, "v2beta2", hub=hub_of(v2, v2beta2_to_v2, v2_to_v2beta2)),
        other_version(
            v2,
            "v2beta1",
            defaults={_SPEC_OF_V2BETA1: complete_spec_of_v2beta1},
            columns=columns_of_hub(v2.columns, v2beta1_to_v2),
            hub=hub_of(v2, v2beta1_to_v2, v2_to_v2beta1),
        ),
    )


def complete_spec_of_v2beta1(spec: Document) -> None:
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        cpu = {"name": "cpu", "targetAverageUtilization": CPU_UTILIZATION}
        spec["metrics"] = [{"type": "Resource", "resource": cpu}]


# ---- v2beta2


def v2beta2_to_v2(document: Document) -> None:
    kept = behavior_of_text(take_annotation(document, BEHAVIOR)) or {}
    behavior = document["spec"].get("behavior") or {}
    for direction, rules in kept.items():
        if "tolerance" in rules and direction in behavior:
            behavior[direction]["tolerance"] = rules["tolerance"]
    _short_status(document)


def v2_to_v2beta2(document: Document) -> None:
    behavior = document["spec"].get("behavior") or {}
    if any("tolerance" in rules for rules in behavior.values()):
        annotate(document, BEHAVIOR, behavior_text(behavior))
        for rules in behavior.values():
            rules.pop("tolerance", None)
    _full_status(document)


# ---- v2beta1


def v2beta1_to_v2(document: Document) -> None:
    spec, status = document["spec"], document.get("status") or {}
    if spec.get("metrics"):
        spec["metrics"] = full_metrics(spec["metrics"])
    behavior = behavior_of_text(take_annotation(document, BEHAVIOR))
    if behavior:
        spec["behavior"] = behavior
        complete_spec(spec)
    if status.get("currentMetrics"):
        status["currentMetrics"] = full_metrics(status["currentMetrics"], are_current=True)
    _short_status(document)


def v2_to_v2beta1(document: Document) -> None:
    spec, status = document["spec"], document.get("status") or {}
    if spec.get("metrics"):
        spec["metrics"] = flat_metrics(spec["metrics"])
    if behavior := spec.pop("behavior", None):
        annotate(document, BEHAVIOR, behavior_text(behavior))
    if status.get("currentMetrics"):
        status["currentMetrics"] = flat_metrics(status["currentMetrics"], are_current=True)
    _full_status(document)


# ---- both


def _full_status(document: Document) -> None:
    """Adds the fields that these versions show even if they are unset."""
    status = document.get("status")
    if status is not None:
        status.setdefault("currentReplicas", 0)
        status.setdefault("conditions", None)


def _short_status(document: Document) -> None:
    status = document.get("status") or {}
    for field in ("currentReplicas", "conditions"):
        if not status.get(field):
            status.pop(field, None)
