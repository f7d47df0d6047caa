"""PodTemplates."""

from __future__ import annotations

from functools import partial

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.catalogue.common.columns import labels_cell
from apiserver.catalogue.pod_specs.templates import (
    container_columns,
    validate_template,
    with_template_warnings,
)
from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.meta.field_errors import Errors
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = rules_of(gates)
    return BuiltinType(
        "",
        "v1",
        "podtemplates",
        "PodTemplate",
        strategy=Strategy(
            validate_ratcheting=partial(validate_pod_template, rules),
            warn=with_template_warnings(rules, "template"),
            has_generation=True,
            returns_deleted=True,
        ),
        columns=columns(
            *container_columns("template", priority=0),
            Column(
                "Pod Labels",
                labels_cell("template", "metadata", "labels"),
                "The labels of pods from the template.",
            ),
        ),
    )


def validate_pod_template(rules: PodSpecRules, document: Document, old: Document | None) -> Errors:
    return validate_template("template", document.get("template") or {}, rules, (old or {}).get("template"))
