"""RuntimeClasses. Source: pkg/apis/node/validation."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs import resource_requirements
from apiserver.catalogue.pod_specs.scheduling import validate_tolerations
from apiserver.field_errors import Errors, invalid
from apiserver.meta import names, object_meta
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.validation.checks import immutable
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "node.",
        "v1",
        "runtimeclasses",
        "RuntimeClass",
        "io.k8s.api.node.v1.RuntimeClass",
        is_namespaced=False,
        strategy=Strategy(
            allows_unconditional_update=False,
            allows_create_on_update=True,
            validate_create=validate_runtime_class_create,
            update=UpdateStrategy(validate=validate_runtime_class_update),
        ),
        columns=columns(
            Column("Handler", field_cell("handler"), description="What nodes call the runtime."), AGE
        ),
    )


def validate_runtime_class_create(document: Document) -> Errors:
    handler = document.get("handler", "")
    errors = [invalid("handler", handler, problem) for problem in names.dns_label(handler)]
    if overhead := document.get("overhead"):
        errors += resource_requirements.validate_overhead("overhead", overhead.get("podFixed") or {})
    if scheduling := document.get("scheduling"):
        errors += object_meta.validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        errors += validate_tolerations("scheduling.tolerations", scheduling.get("tolerations") or ())
    return errors


def validate_runtime_class_update(new: Document, old: Document) -> Errors:
    return immutable("handler", new.get("handler", ""), old.get("handler", ""))
