"""Defaults and validation of horizontal pod autoscalers in v2, the version of their rules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from apiserver.catalogue.common import workloads
from apiserver.catalogue.pod_specs.resource_requirements import validate_container_resource_name
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import MINIMUM, at_least, named, one_of, quantity_of
from apiserver.schema.validation.documents import at, items

CPU_UTILIZATION: Final = 80
STABILIZATION_S_MAX: Final = 3600
PERIOD_S_MAX: Final = 1800

# ---- defaults

_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def cpu_metric(utilization: int) -> Document:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def complete_spec(spec: Document) -> None:
    complete_replicas(spec)
    complete_metrics(spec)


def complete_replicas(spec: Document) -> None:
    spec.setdefault("minReplicas", 1)


def complete_metrics(spec: Document) -> None:
    """Sets the defaults of metrics and behavior; the conversion does so for v1, whose annotations may have
    them.
    """
    if not spec.get("metrics"):
        spec["metrics"] = [cpu_metric(CPU_UTILIZATION)]
    behavior = spec.get("behavior")
    if behavior is not None:
        for direction, usual in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            behavior[direction] = copy.deepcopy(usual) | behavior.get(direction, {})


EMPTY_STATUS: Final[Mapping[str, Any]] = MappingProxyType({"desiredReplicas": 0, "currentMetrics": None})


def prepare_autoscaler_create(document: Document) -> None:
    document["status"] = dict(EMPTY_STATUS)


# ---- checks


def validate_autoscaler(document: Document, old: Document | None, *, scales_to_zero: bool) -> Errors:
    """Returns the errors in an autoscaler. scales_to_zero: whether the gate HPAScaleToZero is on."""
    spec, before = document["spec"], (old or {}).get("spec") or {}
    low, high = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    errors = at_least("spec.minReplicas", low, 0 if scales_to_zero or before.get("minReplicas") == 0 else 1)
    if high == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif high < 0:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to 1", origin=MINIMUM))
    if low is not None and high < low:
        text = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", high, text))
    errors += _validate_target_reference(spec["scaleTargetRef"], before.get("scaleTargetRef"))
    has_valid_versions = all(
        not _validate_version("", at(metric, "object", "describedObject", "apiVersion"), needs_group=False)
        for metric in before.get("metrics") or ()
        if metric.get("type") == "Object"
    )
    for path, metric in items(spec, "metrics", "spec"):
        errors += _validate_metric(path, metric, checks_version=has_valid_versions)
    types = {metric.get("type") for metric in spec.get("metrics") or ()}
    if low == 0 and types.isdisjoint({"Object", "External"}):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", text))
    for direction in ("scaleUp", "scaleDown"):
        rules = at(spec, "behavior", direction)
        if rules is not None:
            errors += _validate_rules(f"spec.behavior.{direction}", rules)
    return errors


def validate_autoscaler_status_update(new: Document, old: Document) -> Errors:
    return workloads.validate_counts(new.get("status") or {}, ("currentReplicas", "desiredReplicas"))


def _validate_target_reference(target: Document, before: Document | None) -> Errors:
    path = "spec.scaleTargetRef"
    errors = _validate_reference(path, target)
    kept = ("apiVersion", "kind")
    if before is not None and all(target.get(each) == before.get(each) for each in kept):
        return errors
    needs_group = target.get("kind") != "ReplicationController"
    return errors + _validate_version(path, target.get("apiVersion"), needs_group=needs_group)


def _validate_reference(path: str, reference: Document) -> Errors:
    errors = named(f"{path}.kind", reference.get("kind"), names.path_segment)
    return errors + named(f"{path}.name", reference.get("name"), names.path_segment)


def _validate_version(path: str, version: str | None, *, needs_group: bool) -> Errors:
    version = version or ""
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        return [invalid(f"{path}.apiVersion", version, text)]
    if needs_group and not version.rpartition("/")[0]:
        return [invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")]
    return []


# ---- behavior


def _validate_rules(path: str, rules: Document) -> Errors:
    errors: Errors = []
    window_s, window_path = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    if window_s is not None and window_s < 0:
        errors.append(invalid(window_path, window_s, "must be greater than or equal to zero"))
    if window_s is not None and window_s > STABILIZATION_S_MAX:
        text = f"must be less than or equal to {STABILIZATION_S_MAX}"
        errors.append(invalid(window_path, window_s, text))
    if "selectPolicy" in rules:
        errors += one_of(f"{path}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
    if not rules.get("policies"):
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for where, policy in items(rules, "policies", path):
        errors += one_of(f"{where}.type", policy.get("type"), ("Percent", "Pods"))
        value, period_s = policy.get("value", 0), policy.get("periodSeconds", 0)
        if value <= 0:
            errors.append(invalid(f"{where}.value", value, "must be greater than zero"))
        if period_s <= 0:
            errors.append(invalid(f"{where}.periodSeconds", period_s, "must be greater than zero"))
        if period_s > PERIOD_S_MAX:
            text = f"must be less than or equal to {PERIOD_S_MAX}"
            errors.append(invalid(f"{where}.periodSeconds", period_s, text))
    if quantity_of(rules.get("tolerance")).value < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid(f"{path}.tolerance", rules["tolerance"], text))
    return errors


# ---- metrics

# Sorted, as in Kubernetes' messages.
_TYPES: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")


def source_of(metric_type: str) -> str:
    """Returns the field that describes a metric of a type: `Resource` -> `resource`."""
    return metric_type[:1].lower() + metric_type[1:]


def _validate_metric(path: str, metric: Document, *, checks_version: bool) -> Errors:
    """Checks a metric.

    checks_version: whether to check the version of the object with the metric; stored ones are valid.
    """
    kind = metric.get("type", "")
    source = source_of(kind)
    present = [field for field in SOURCES if field in metric]
    errors: Errors = []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in _TYPES:
        errors.append(not_supported(f"{path}.type", kind, _TYPES))
    # If there are several, only one is checked.
    for field in present[:1]:
        errors += SOURCES[field](f"{path}.{field}", metric[field], checks_version)
    if kind not in _TYPES:
        errors.append(not_supported(f"{path}.type", kind, _TYPES))  # Kubernetes says it again here.
    elif source not in present:
        text = "must populate information for the given metric source"
        errors.append(required(f"{path}.{source}", text))
    if len(present) > 1:
        text = "must populate the given metric source only"
        errors += [forbidden(f"{path}.{field}", text) for field in present if field != source]
    return errors


def _validate_object(path: str, source: Document, checks_version: bool) -> Errors:
    described, where = source["describedObject"], f"{path}.describedObject"
    errors = _validate_reference(where, described)
    if checks_version:
        errors += _validate_version(where, described.get("apiVersion"), needs_group=False)
    errors += _validate_identified(path, source)
    if not _has_any(source["target"], "value", "averageValue"):
        text = "must set either a target value or averageValue"
        errors.append(required(f"{path}.target.averageValue", text))
    return errors


def _validate_external(path: str, source: Document, checks_version: bool) -> Errors:
    errors, target = _validate_identified(path, source), source["target"]
    if not _has_any(target, "value", "averageValue"):
        text = "must set either a target value for metric or a per-pod target"
        errors.append(required(f"{path}.target.averageValue", text))
    if "value" in target and "averageValue" in target:
        text = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{path}.target.value", text))
    return errors


def _validate_pods(path: str, source: Document, checks_version: bool) -> Errors:
    errors = _validate_identified(path, source)
    if not _has_any(source["target"], "averageValue"):
        text = "must specify a positive target averageValue"
        errors.append(required(f"{path}.target.averageValue", text))
    return errors


def _validate_resource(path: str, source: Document, checks_version: bool) -> Errors:
    errors = [] if source.get("name") else [required(f"{path}.name", "must specify a resource name")]
    return errors + _validate_utilization(f"{path}.target", source["target"])


def _validate_container_resource(path: str, source: Document, checks_version: bool) -> Errors:
    errors: Errors = []
    if not source.get("name"):
        errors.append(required(f"{path}.name", "must specify a resource name"))
    else:
        errors += validate_container_resource_name(f"{path}.name", source["name"])
    if not source.get("container"):
        errors.append(required(f"{path}.container", "must specify a container"))
    else:
        errors += named(f"{path}.container", source["container"], names.dns_label)
    return errors + _validate_utilization(f"{path}.target", source["target"])


# The fields that may describe a metric, and their checks.
SOURCES: Final[Mapping[str, Callable[[str, Document, bool], Errors]]] = MappingProxyType(
    {
        "object": _validate_object,
        "external": _validate_external,
        "pods": _validate_pods,
        "resource": _validate_resource,
        "containerResource": _validate_container_resource,
    }
)


def _validate_identified(path: str, source: Document) -> Errors:
    """Checks a metric that has a name, and its target."""
    name, where = source["metric"].get("name"), f"{path}.metric.name"
    if name:
        errors = named(where, name, names.path_segment)
    else:
        errors = [required(where, "must specify a metric name")]
    return errors + _validate_target(f"{path}.target", source["target"])


def _validate_utilization(path: str, target: Document) -> Errors:
    errors = _validate_target(path, target)
    if not _has_any(target, "averageUtilization", "averageValue"):
        text = "must set either a target raw value or a target utilization"
        errors.append(required(f"{path}.averageUtilization", text))
    if "averageUtilization" in target and "averageValue" in target:
        text = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(f"{path}.averageValue", text))
    return errors


def _validate_target(path: str, target: Document) -> Errors:
    kind = target.get("type", "")
    errors: Errors = []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        text = "must be either Utilization, Value, or AverageValue"
        errors.append(invalid(f"{path}.type", kind, text))
    for field in ("value", "averageValue"):
        if field in target and quantity_of(target[field]).value <= 0:
            errors.append(invalid(f"{path}.{field}", target[field], "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return errors


def _has_any(target: Document, *fields: str) -> bool:
    return any(field in target for field in fields)
