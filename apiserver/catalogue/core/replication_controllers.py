"""ReplicationControllers.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation, ValidateReplicationController.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common import workloads
from apiserver.catalogue.common.columns import labels_cell
from apiserver.catalogue.pod_specs.templates import (
    container_columns,
    validate_template,
    with_template_warnings,
)
from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.meta import table
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_text
from apiserver.registry.served_resource import ScaleFields
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.registry.subresources import scale
from apiserver.schema.validation.checks import non_negative
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at

_Warn: TypeAlias = Callable[[Document, Document | None], list[str]]


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = rules_of(gates)
    warn = with_template_warnings(rules, "spec", "template", warn=workloads.warn_name)
    return BuiltinType(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short_names=("rc",),
        categories=("all",),
        subresources=(_SCALE, status_subresource(validate_controller_status)),
        defaults={
            "ReplicationController": _default_controller,
            "ReplicationControllerSpec": setting(replicas=1),
        },
        strategy=Strategy(
            prepare_create=workloads.start_without_replicas,
            validate_ratcheting=partial(validate_controller, rules),
            warn=_about_stored_template(warn),
            update=UpdateStrategy(keep_status),
            has_generation=True,
            orphans_by_default=True,
        ),
        columns=columns(
            *workloads.REPLICA_COLUMNS,
            *container_columns("spec", "template", priority=1),
            Column(
                "Selector",
                labels_cell("spec", "selector"),
                "The label selector of the pods.",
                priority=1,
            ),
        ),
        selectable_fields={"status.replicas": field_text("status", "replicas", default="0")},
    )


def _default_controller(document: Document) -> None:
    """Labels a controller like its pods, and selects them by all their labels."""
    labels = at(document, "spec", "template", "metadata", "labels")
    if not labels:
        return
    if not document["spec"].get("selector"):
        document["spec"]["selector"] = dict(labels)
    if not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


def _about_stored_template(warn: _Warn) -> _Warn:
    """Returns warnings about the stored template on updates, as in Kubernetes."""
    return lambda new, old: warn(new, None) if old is None else warn(old, new)


def validate_controller(rules: PodSpecRules, document: Document, old: Document | None) -> Errors:
    spec = document.get("spec") or {}
    errors = non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    if not (selector := spec.get("selector") or {}):
        errors.append(required("spec.selector"))
    errors += non_negative("spec.replicas", spec.get("replicas"))
    if (template := spec.get("template")) is None:
        return [*errors, required("spec.template")]
    labels = at(template, "metadata", "labels") or {}
    if not selector.items() <= labels.items():
        text = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, text))
    errors += validate_template("spec.template", template, rules, at(old or {}, "spec", "template"))
    return errors + workloads.validate_always_restarts(template, kind="ReplicationController")


def validate_controller_status(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
    errors = workloads.validate_counts(status, counts)
    return errors + workloads.validate_ready_counts(status, "fullyLabeledReplicas")


# ---- the subresource scale, and columns


def _equalities(document: Document) -> str:
    labels = at(document, "spec", "selector")
    return table.selector_text({"matchLabels": labels}) if labels else ""


_SCALE: Final = scale(ScaleFields(_equalities))
