"""ReplicaSets. Source: pkg/apis/apps/validation, ValidateReplicaSet."""

from __future__ import annotations

from functools import partial

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common import workloads
from apiserver.catalogue.pod_specs.templates import (
    POD_TEMPLATE_COLUMNS,
    validate_template,
    with_template_warnings,
)
from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import non_negative
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = rules_of(gates)
    return BuiltinType(
        "apps",
        "v1",
        "replicasets",
        "ReplicaSet",
        short_names=("rs",),
        categories=("all",),
        defaults={"ReplicaSetSpec": setting(replicas=1)},
        strategy=Strategy(
            prepare_create=workloads.start_without_replicas,
            validate_ratcheting=partial(validate_replica_set, rules),
            warn=with_template_warnings(rules, "spec", "template", warn=workloads.warn_name),
            update=UpdateStrategy(prepare=keep_status),
            has_generation=True,
        ),
        subresources=(status_subresource(validate_replica_set_status_update), workloads.SCALE_SUBRESOURCE),
        columns=columns(*workloads.REPLICA_COLUMNS, *POD_TEMPLATE_COLUMNS),
    )


def validate_replica_set(rules: PodSpecRules, document: Document, old: Document | None) -> Errors:
    spec = document["spec"]
    errors = non_negative("spec.replicas", spec.get("replicas"))
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += validate_pods(rules, spec, at(old or {}, "spec", "template"))
    return errors + workloads.validate_selector_update(document, old)


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
    return errors + workloads.validate_ready_counts(status, "fullyLabeledReplicas")


def validate_pods(rules: PodSpecRules, spec: Document, old_template: Document | None) -> Errors:
    """Checks the selector and the template, also those of Deployments."""
    # An empty selector is called invalid for deployments in errors about ReplicaSets, too, as in Kubernetes.
    errors = workloads.validate_selector(spec, kind="deployment")
    selector = spec.get("selector")
    if selector is not None and any(error.field != "spec.selector" for error in errors):
        return [*errors, invalid("spec.selector", selector, "invalid label selector")]
    if selector != {}:
        errors += workloads.validate_selector_matches_template(spec)
    errors += validate_template("spec.template", spec["template"], rules, old_template)
    return errors + workloads.validate_always_restarts(spec["template"], kind="ReplicaSet")
