"""What is set, checked and told of ReplicationControllers and PodTemplates.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation, ValidateReplicationController.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.catalogue.common import workloads
from apiserver.catalogue.pod_specs.templates import validate_template, warn_template
from apiserver.field_errors import invalid, required
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.validation.checks import CORE, Errors, at, non_negative, setting
from apiserver.vocabulary import Document


def _default_controller(document: Document) -> None:
    """A controller is labelled as its pods are, and selects them by all their labels."""
    labels = at(document, "spec", "template", "metadata", "labels")
    if not labels:
        return
    if not document["spec"].get("selector"):
        document["spec"]["selector"] = dict(labels)
    if not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        f"{CORE}ReplicationController": _default_controller,
        f"{CORE}ReplicationControllerSpec": setting(replicas=1),
    }
)


def prepare_controller_create(document: Document) -> None:
    document["status"] = {"replicas": 0}


prepare_controller_update: Final = keep_status


def validate_controller(document: Document) -> Errors:
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
    errors += validate_template("spec.template", template)
    return errors + workloads.validate_always_restarts(template, kind="ReplicationController")


_COUNTS: Final = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def validate_controller_status(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    errors = workloads.validate_counts(status, ("replicas", *_COUNTS, "observedGeneration"))
    text = "cannot be greater than status.replicas"
    errors += workloads.validate_at_most(status, _COUNTS, "replicas", text)
    text = "cannot be greater than readyReplicas"
    return errors + workloads.validate_at_most(status, ("availableReplicas",), "readyReplicas", text)


def warn_controller(new: Document, old: Document | None) -> list[str]:
    told = workloads.warn_name(new) if old is None else []
    template = at(new, "spec", "template")
    if template is not None and (old is None or template != at(old, "spec", "template")):
        told += warn_template("spec.template", template)
    return told


# ---- PodTemplate


def validate_pod_template(document: Document) -> Errors:
    return validate_template("template", document.get("template") or {})


def warn_pod_template(new: Document, old: Document | None) -> list[str]:
    if old is not None and new.get("template") == old.get("template"):
        return []
    return warn_template("template", new.get("template") or {})
