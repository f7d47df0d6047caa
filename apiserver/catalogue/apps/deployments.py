"""Deployments. Source: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation, ValidateDeployment."""

from __future__ import annotations

from functools import partial

from apiserver.catalogue.apps.replica_sets import validate_pods
from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, clear_status, status_subresource
from apiserver.catalogue.common import workloads
from apiserver.catalogue.common.columns import status_count
from apiserver.catalogue.pod_specs.templates import POD_TEMPLATE_COLUMNS, with_template_warnings
from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.golang.formatting import go_struct_fields
from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import (
    STATUS_RESETS,
    Strategy,
    UpdateStrategy,
    keep_metadata,
    keep_status,
    only_status,
)
from apiserver.schema.validation.checks import non_negative
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = rules_of(gates)
    return BuiltinType(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        short_names=("deploy",),
        categories=("all",),
        defaults={
            "DeploymentSpec": setting(replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600),
            "DeploymentStrategy": workloads.rolling_by_default("25%", "25%"),
        },
        strategy=Strategy(
            prepare_create=clear_status,
            validate_ratcheting=partial(validate_deployment, rules),
            warn=with_template_warnings(rules, "spec", "template", warn=workloads.warn_name),
            update=UpdateStrategy(prepare=prepare_deployment_update),
            has_generation=True,
        ),
        subresources=(
            status_subresource(
                validate_deployment_status_update,
                prepare=prepare_deployment_status_update,
                resets=(*STATUS_RESETS, "metadata.labels"),
            ),
            workloads.SCALE_SUBRESOURCE,
        ),
        columns=columns(
            Column("Ready", workloads.ready_of_desired, "The numbers of ready pods and of desired pods."),
            Column(
                "Up-to-date",
                status_count("updatedReplicas"),
                "The number of pods with the current template.",
            ),
            Column(
                "Available",
                status_count("availableReplicas"),
                "The number of available pods.",
            ),
            AGE,
            *POD_TEMPLATE_COLUMNS,
        ),
    )


def prepare_deployment_update(new: Document, old: Document) -> None:
    """Increases the generation for a change of the spec or of annotations, which ReplicaSets copy."""
    keep_status(new, old)
    meta, old_meta = new["metadata"], old["metadata"]
    if (meta.get("annotations") or {}) != (old_meta.get("annotations") or {}):
        meta["generation"] = old_meta.get("generation", 0) + 1


def prepare_deployment_status_update(new: Document, old: Document) -> None:
    """Keeps the old labels, too, which the status of other kinds may change."""
    only_status(new, old)
    keep_metadata(new, old, "labels")


def validate_deployment(rules: PodSpecRules, document: Document, old: Document | None) -> Errors:
    spec = document["spec"]
    errors = non_negative("spec.replicas", spec.get("replicas"))
    errors += validate_pods(rules, spec, at(old or {}, "spec", "template"))
    errors += _validate_strategy(spec["strategy"])
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += non_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline_s = spec.get("progressDeadlineSeconds")
    if deadline_s is not None:
        path = "spec.progressDeadlineSeconds"
        errors += non_negative(path, deadline_s)
        if deadline_s <= spec.get("minReadySeconds", 0):
            errors.append(invalid(path, deadline_s, "must be greater than minReadySeconds"))
    return errors + workloads.validate_selector_update(document, old)


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
            shown = go_struct_fields({"type": "", "rollingUpdate": None} | strategy)
            return [not_supported(path, shown, ["Recreate", "RollingUpdate"])]


def _validate_rolling(path: str, rolling: Document) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = workloads.validate_int_or_percent(f"{path}.maxUnavailable", unavailable)
    errors += workloads.validate_int_or_percent(f"{path}.maxSurge", surge)
    if workloads.int_or_percent_value(unavailable) == 0 and workloads.int_or_percent_value(surge) == 0:
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
    errors += workloads.validate_ready_counts(status, "updatedReplicas")
    return errors + workloads.validate_collision_count(new, old)
