"""PodTemplates."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import CORE, BuiltinType
from apiserver.catalogue.common.columns import labels_cell
from apiserver.catalogue.pod_specs.templates import (
    container_columns,
    validate_template,
    with_template_warnings,
)
from apiserver.field_errors import Errors
from apiserver.meta.table import Column, columns
from apiserver.registry.strategy import Strategy
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "",
        "v1",
        "podtemplates",
        "PodTemplate",
        f"{CORE}PodTemplate",
        strategy=Strategy(
            validate=validate_pod_template,
            warn=with_template_warnings("template"),
            has_generation=True,
            returns_deleted=True,
        ),
        columns=_COLUMNS,
    )


_COLUMNS: Final = columns(
    *container_columns("template", priority=0),
    Column(
        "Pod Labels",
        labels_cell("template", "metadata", "labels"),
        description="The labels that pods made from the template have.",
    ),
)


def validate_pod_template(document: Document) -> Errors:
    return validate_template("template", document.get("template") or {})
