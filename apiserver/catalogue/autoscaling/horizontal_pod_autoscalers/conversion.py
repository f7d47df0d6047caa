"""Conversion of horizontal pod autoscalers between v1 and v2.

v1 has one metric, the utilization of the CPU. All others, and newer fields, are JSON in annotations, so that
clients of v1 lose nothing. Invalid annotations are ignored. Source: pkg/apis/autoscaling/v1, conversion.go.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from apiserver.catalogue.autoscaling.horizontal_pod_autoscalers.validation import (
    EMPTY_STATUS,
    complete_metrics,
    cpu_metric,
)
from apiserver.catalogue.common import annotation_values
from apiserver.catalogue.common.annotation_values import (
    UnreadableAnnotation,
    int32,
    int64,
    list_of,
    object_of,
    quantity,
    text,
)
from apiserver.golang.formatting import go_json
from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
METRICS: Final = f"{_PREFIX}metrics"
CURRENT_METRICS: Final = f"{_PREFIX}current-metrics"
BEHAVIOR: Final = f"{_PREFIX}behavior"
CONDITIONS: Final = f"{_PREFIX}conditions"

_COMMON_SPEC: Final = ("scaleTargetRef", "minReplicas", "maxReplicas")
_COMMON_STATUS: Final = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")


# ---- from v2 to v1


def to_v1(document: Document) -> None:
    """Converts the content of a v2 object to v1, in place."""
    spec, status = document["spec"], document.get("status") or {}
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    behavior, conditions = spec.get("behavior"), status.get("conditions") or []
    shown_spec = _only(spec, _COMMON_SPEC)
    utilization = _cpu_target(metrics)
    if utilization is not None:
        shown_spec["targetCPUUtilizationPercentage"] = utilization
    shown_status = {"currentReplicas": 0, "desiredReplicas": 0} | _only(status, _COMMON_STATUS)
    for metric in current:
        used = at(metric, "resource", "current", "averageUtilization")
        if _is_cpu(metric) and used is not None:
            shown_status["currentCPUUtilizationPercentage"] = used
    others = [metric for metric in metrics if not (_is_cpu(metric) and _utilization(metric) is not None)]
    hidden = {
        METRICS: [_flat(metric, _SPECS) for metric in others],
        CURRENT_METRICS: [_flat(metric, _STATUSES) for metric in current],
        BEHAVIOR: behavior and _flat_behavior(behavior),
        CONDITIONS: [_ordered(condition, _CONDITION) for condition in conditions],
    }
    _annotate(document, {name: go_json(value) for name, value in hidden.items() if value})
    document["spec"], document["status"] = shown_spec, shown_status


def _only(value: Document, fields: tuple[str, ...]) -> Document:
    return {field: value[field] for field in fields if value.get(field) is not None}


def _ordered(value: Document, fields: tuple[str, ...]) -> Document:
    """Returns a structure with its fields in Go's order, as annotations show it."""
    return {field: value[field] for field in fields if field in value}


def _is_cpu(metric: Document) -> bool:
    return metric.get("type") == "Resource" and at(metric, "resource", "name") == "cpu"


def _utilization(metric: Document) -> int | None:
    value: int | None = at(metric, "resource", "target", "averageUtilization")
    return value


def _cpu_target(metrics: list[Document]) -> int | None:
    return next((_utilization(metric) for metric in metrics if _is_cpu(metric)), None)


def _annotate(document: Document, hidden: dict[str, str]) -> None:
    """Replaces the annotations that hold fields by these."""
    meta = document["metadata"]
    kept = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in _HIDING}
    if kept or hidden:
        meta["annotations"] = kept | hidden
    else:
        meta.pop("annotations", None)


_HIDING: Final = frozenset({METRICS, CURRENT_METRICS, BEHAVIOR, CONDITIONS})

# ---- from v1 to v2


def to_v2(document: Document) -> None:
    """Converts the content of a v1 object that has passed its schema to v2, in place."""
    spec, status = document["spec"], document.get("status") or {}
    annotations = document["metadata"].get("annotations") or {}
    metrics = _read(annotations.get(METRICS), _metrics_of(_SPECS)) or []
    if "targetCPUUtilizationPercentage" in spec:
        metrics.append(cpu_metric(spec["targetCPUUtilizationPercentage"]))
    behavior = _read(annotations.get(BEHAVIOR), _behavior)
    full_spec = _only(spec, _COMMON_SPEC) | {"metrics": metrics}
    if behavior:
        full_spec["behavior"] = behavior
    complete_metrics(full_spec)
    full_status = dict(EMPTY_STATUS) | _only(status, _COMMON_STATUS)
    if not full_status.get("currentReplicas"):
        full_status.pop("currentReplicas", None)
    used = status.get("currentCPUUtilizationPercentage")
    if used is not None:
        current = {"name": "cpu", "current": {"averageUtilization": used}}
        full_status["currentMetrics"] = [{"type": "Resource", "resource": current}]
    statuses = _read(annotations.get(CURRENT_METRICS), _metrics_of(_STATUSES))
    if statuses:
        full_status["currentMetrics"] = statuses
    conditions = _read(annotations.get(CONDITIONS), _conditions)
    if conditions:
        full_status["conditions"] = conditions
    _annotate(document, {})
    document["spec"], document["status"] = full_spec, full_status


def _read(annotation: str | None, decode: Callable[[Any], Any]) -> Any:
    """Returns the value in an annotation, or None."""
    if annotation is None:
        return None
    try:
        return annotation_values.read(annotation, decode)
    except UnreadableAnnotation:
        return None


# ---- values of annotations; all raise UnreadableAnnotation


def _reference(value: Any) -> Document:
    value = object_of(value)
    read = {"kind": text(value.get("kind", "")), "name": text(value.get("name", ""))}
    version = text(value.get("apiVersion", ""))
    return read | {"apiVersion": version} if version else read


def _selector(value: Any) -> Document:
    value, read = object_of(value), {}
    labels = {key: text(label) for key, label in object_of(value.get("matchLabels") or {}).items()}
    if labels:
        read["matchLabels"] = labels
    requirements: list[Any] = []
    for requirement in list_of(value.get("matchExpressions") or []):
        requirement = object_of(requirement)
        values = [text(each) for each in list_of(requirement.get("values") or [])]
        one = {field: text(requirement.get(field, "")) for field in ("key", "operator")}
        requirements.append(one | ({"values": values} if values else {}))
    return read | ({"matchExpressions": requirements} if requirements else {})


_CONDITION: Final = ("type", "status", "lastTransitionTime", "reason", "message", "observedGeneration")


def _conditions(value: Any) -> list[Document]:
    read = []
    for condition in list_of(value):
        condition = object_of(condition)
        one: Document = {field: text(condition.get(field, "")) for field in ("type", "status")}
        one["lastTransitionTime"] = None
        for field in ("lastTransitionTime", "reason", "message"):
            if condition.get(field):
                one[field] = text(condition[field])
        if condition.get("observedGeneration") is not None:
            one["observedGeneration"] = int64(condition["observedGeneration"])
        if one["lastTransitionTime"] and timestamps.from_text(one["lastTransitionTime"]) is None:
            raise UnreadableAnnotation
        read.append(one)
    return read


# ---- metrics


def _ordered_reference(reference: Document) -> Document:
    return _ordered(reference, ("kind", "name", "apiVersion"))


def _ordered_selector(selector: Document) -> Document:
    shown = _ordered(selector, ("matchLabels", "matchExpressions"))
    if labels := shown.get("matchLabels"):
        shown["matchLabels"] = dict(sorted(labels.items()))
    if requirements := shown.get("matchExpressions"):
        shown["matchExpressions"] = [_ordered(each, ("key", "operator", "values")) for each in requirements]
    return shown


class _Part(NamedTuple):
    """A field of a metric's source.

    name: that in v1. path: that in v2. read: checks and completes the value. empty: the value that v1 shows
        if it is absent.
    order: puts its fields into Go's order.
    """

    name: str
    path: tuple[str, ...]
    read: Callable[[Any], Any]
    empty: Any = None
    order: Callable[[Any], Any] | None = None


_Sources = Mapping[str, tuple[_Part, ...]]

_METRIC: Final = _Part("metricName", ("metric", "name"), text, "")
_SELECTOR: Final = _Part("selector", ("metric", "selector"), _selector, order=_ordered_selector)
_DESCRIBED: Final = _Part(
    "target", ("describedObject",), _reference, {"kind": "", "name": ""}, _ordered_reference
)
_RESOURCE: Final = _Part("name", ("name",), text, "")
_CONTAINER: Final = _Part("container", ("container",), text, "")


def _sources(side: str, *, shows_zero: bool) -> _Sources:
    """Returns the sources of metrics of a spec, whose `side` is `target`, or of a status, whose `side` is
    `current`.

    shows_zero: whether v1 shows 0 for an absent amount of a resource, or value of an external metric.
    """
    empty = "0" if shows_zero else None
    value = _Part(f"{side}Value", (side, "value"), quantity, "0")
    average = _Part(f"{side}AverageValue", (side, "averageValue"), quantity)
    utilization = _Part(f"{side}AverageUtilization", (side, "averageUtilization"), int32)
    of_resource = (_RESOURCE, utilization, average._replace(empty=empty))
    selector = _SELECTOR._replace(name="metricSelector")
    return {
        "object": (_DESCRIBED, _METRIC, value, _SELECTOR, average._replace(name="averageValue")),
        "pods": (_METRIC, average._replace(empty="0"), _SELECTOR),
        "resource": of_resource,
        "containerResource": (*of_resource, _CONTAINER),
        "external": (_METRIC, selector, value._replace(empty=empty), average),
    }


_SPECS: Final = _sources("target", shows_zero=False)
_STATUSES: Final = _sources("current", shows_zero=True)


def _flat(metric: Document, sources: _Sources) -> Document:
    """Returns a metric of v2 in the form of v1."""
    shown: Document = {"type": metric.get("type", "")}
    for source, parts in sources.items():
        if source in metric:
            values = {part.name: _shown(part, at(metric[source], *part.path)) for part in parts}
            empty = {part.name: copy.copy(part.empty) for part in parts if part.empty is not None}
            shown[source] = {
                name: value if value is not None else empty[name]
                for name, value in values.items()
                if value is not None or name in empty
            }
    return shown


def _shown(part: _Part, value: Any) -> Any:
    return value if value is None or part.order is None else part.order(value)


def flat_metrics(metrics: list[Document], *, are_current: bool = False) -> list[Document]:
    """Returns metrics of v2 in the form of v1's annotations, and of v2beta1.

    are_current: whether they are those of a status.
    """
    return [_flat(metric, _STATUSES if are_current else _SPECS) for metric in metrics]


def full_metrics(metrics: list[Document], *, are_current: bool = False) -> list[Document]:
    """Returns metrics of v2beta1, which have passed their schema, in the form of v2. See `flat_metrics`."""
    return [_full(metric, _STATUSES if are_current else _SPECS) for metric in metrics]


def _metrics_of(sources: _Sources) -> Callable[[Any], list[Document]]:
    def read(value: Any) -> list[Document]:
        return [_full(object_of(metric), sources) for metric in list_of(value)]

    return read


def _full(metric: Document, sources: _Sources) -> Document:
    """Returns a metric of v1 in the form of v2; the inverse of `_flat`. Raises UnreadableAnnotation."""
    full: Document = {"type": text(metric.get("type", ""))}
    for source, parts in sources.items():
        if metric.get(source) is None:
            continue
        flat = object_of(metric[source])
        read: Document = {}
        for part in parts:
            value = flat.get(part.name)
            value = copy.copy(part.empty) if value is None else part.read(value)
            if value is None:
                continue
            inner = read
            for step in part.path[:-1]:
                inner = inner.setdefault(step, {})
            inner[part.path[-1]] = value
        if sources is _SPECS:
            read["target"] = _typed(source, read.get("target", {}))
        else:
            read.setdefault("current", {})
        full[source] = read
    return full


def _typed(source: str, target: Document) -> Document:
    """Returns a target with its type, which v1 lacks."""
    if "averageUtilization" in target:
        kind = "Utilization"
    elif "averageValue" not in target and source in ("object", "external"):
        kind = "Value"
    else:
        kind = "AverageValue"
    if source == "external" and "value" in target:
        kind = "Value"
    if kind == "AverageValue" and target.get("value") == "0":
        # v1 cannot say that there is none, and no target is zero.
        del target["value"]
    return {"type": kind, **target}


# ---- behavior, under the names that the structures have in Go

_DIRECTIONS: Final = {"ScaleUp": "scaleUp", "ScaleDown": "scaleDown"}
_RULES: Final = {
    "StabilizationWindowSeconds": ("stabilizationWindowSeconds", int32),
    "SelectPolicy": ("selectPolicy", text),
    "Tolerance": ("tolerance", quantity),
}
_POLICY: Final = {
    "Type": ("type", text, ""),
    "Value": ("value", int32, 0),
    "PeriodSeconds": ("periodSeconds", int32, 0),
}


def behavior_text(behavior: Document) -> str:
    """Returns the text of the annotation that holds the behavior in older versions."""
    return go_json(_flat_behavior(behavior))


def behavior_of_text(annotation: str | None) -> Document | None:
    """Returns the behavior in an annotation, or None."""
    behavior: Document | None = _read(annotation, _behavior)
    return behavior


def _flat_behavior(behavior: Document) -> Document:
    return {name: _flat_rules(behavior.get(key)) for name, key in _DIRECTIONS.items()}


def _flat_rules(rules: Document | None) -> Document | None:
    if rules is None:
        return None
    policies = [
        {name: policy.get(key, empty) for name, (key, _, empty) in _POLICY.items()}
        for policy in rules.get("policies") or ()
    ]
    has_policies = rules.get("policies") is not None
    flat = {name: rules.get(key) for name, (key, _) in _RULES.items()}
    tolerance = flat.pop("Tolerance")
    return flat | {"Policies": policies if has_policies else None, "Tolerance": tolerance}


def _behavior(value: Any) -> Document:
    value = object_of(value)
    return {key: _rules(value[name]) for name, key in _DIRECTIONS.items() if value.get(name) is not None}


def _rules(value: Any) -> Document:
    value = object_of(value)
    read = {key: decode(value[name]) for name, (key, decode) in _RULES.items() if value.get(name) is not None}
    if value.get("Policies") is None:
        return read
    policies = [
        {key: decode(object_of(policy).get(name, empty)) for name, (key, decode, empty) in _POLICY.items()}
        for policy in list_of(value["Policies"])
    ]
    return read | {"policies": policies}
