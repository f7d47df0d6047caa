"""Deployments, and the replica sets that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.catalogue.common import workloads
from apiserver.catalogue.pod_specs.templates import validate_template
from apiserver.field_errors import forbidden, invalid, not_supported, required
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, non_negative, setting
from apiserver.vocabulary import Document

_APPS: Final = "io.k8s.api.apps.v1."


def _complete_strategy(strategy: Document) -> None:
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        f"{_APPS}DeploymentSpec": setting(replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600),
        f"{_APPS}DeploymentStrategy": _complete_strategy,
        f"{_APPS}ReplicaSetSpec": setting(replicas=1),
    }
)

# ---- deployments


def prepare_deployment_update(new: Document, old: Document) -> None:
    """Annotations count as spec: they go on to the replica sets."""
    keep_status(new, old)
    meta, old_meta = new["metadata"], old["metadata"]
    if (meta.get("annotations") or {}) != (old_meta.get("annotations") or {}):
        meta["generation"] = old_meta.get("generation", 0) + 1


def validate_deployment(document: Document) -> Errors:
    spec = document["spec"]
    errors = non_negative("spec.replicas", spec.get("replicas"))
    errors += _validate_pods(spec)
    errors += _validate_strategy(spec["strategy"])
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += non_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline_s = spec.get("progressDeadlineSeconds")
    if deadline_s is not None:
        path = "spec.progressDeadlineSeconds"
        errors += non_negative(path, deadline_s)
        if deadline_s <= spec.get("minReadySeconds", 0):
            errors.append(invalid(path, deadline_s, "must be greater than minReadySeconds"))
    return errors


def _validate_strategy(strategy: Document) -> Errors:
    path, rolling = "spec.strategy", strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "Recreate":
            if rolling is not None:
                text = "may not be specified when strategy `type` is 'Recreate'"
                return [forbidden(f"{path}.rollingUpdate", text)]
            return []
        case "RollingUpdate":
            if rolling is None:
                return [required(f"{path}.rollingUpdate", "this should be defaulted and never be nil")]
            return _validate_rolling(f"{path}.rollingUpdate", rolling)
        case _:
            shown = workloads.as_go({"type": "", "rollingUpdate": None} | strategy)
            return [not_supported(path, shown, ["Recreate", "RollingUpdate"])]


def _validate_rolling(path: str, rolling: Document) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = workloads.validate_int_or_percent(f"{path}.maxUnavailable", unavailable)
    errors += workloads.validate_int_or_percent(f"{path}.maxSurge", surge)
    if workloads.amount(unavailable) == 0 and workloads.amount(surge) == 0:
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + workloads.validate_percent_at_most_100(f"{path}.maxUnavailable", unavailable)


def validate_deployment_status_update(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    errors = workloads.validate_counts(
        status,
        (
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ),
    )
    errors += validate_ready_counts(status, "updatedReplicas")
    return errors + workloads.validate_collision_count(new, old)


# ---- replica sets


def prepare_replica_set_create(document: Document) -> None:
    document["status"] = {"replicas": 0}


def validate_replica_set(document: Document) -> Errors:
    spec = document["spec"]
    errors = non_negative("spec.replicas", spec.get("replicas"))
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    return errors + _validate_pods(spec)


def validate_replica_set_status_update(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    errors = workloads.validate_counts(
        status,
        (
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "terminatingReplicas",
            "observedGeneration",
        ),
    )
    return errors + validate_ready_counts(status, "fullyLabeledReplicas")


# ---- both


def _validate_pods(spec: Document) -> Errors:
    # Replica sets, too, are told that it is invalid for deployments.
    errors = workloads.validate_selector(spec, kind="deployment")
    selector = spec.get("selector")
    if selector is not None and any(error.field != "spec.selector" for error in errors):
        return [*errors, invalid("spec.selector", selector, "invalid label selector")]
    if selector != {}:
        errors += workloads.validate_selector_matches_template(spec)
    errors += validate_template("spec.template", spec["template"])
    return errors + workloads.validate_always_restarts(spec["template"], kind="ReplicaSet")


def validate_ready_counts(status: Document, counted: str) -> Errors:
    fields = (counted, "readyReplicas", "availableReplicas")
    errors = workloads.validate_at_most(status, fields, "replicas", "cannot be greater than status.replicas")
    return errors + workloads.validate_at_most(
        status, ("availableReplicas",), "readyReplicas", "cannot be greater than readyReplicas"
    )


def warn_named_after(new: Document, old: Document | None) -> list[str]:
    """Of deployments and replica sets, whose names become those of pods."""
    return workloads.warn_name(new) if old is None else []
