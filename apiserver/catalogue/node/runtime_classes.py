"""RuntimeClasses. Source: pkg/apis/node/validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.node_labels import DEPRECATED_NODE_LABELS
from apiserver.catalogue.pod_specs import resource_requirements
from apiserver.catalogue.pod_specs.scheduling import validate_tolerations
from apiserver.meta import names, object_meta
from apiserver.meta.field_errors import Errors, duplicate
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import immutable, named
from apiserver.schema.validation.documents import at


def validate_runtime_class(document: Document, old: Document | None) -> Errors:
    handler = document.get("handler", "")
    errors = named("handler", handler, names.dns_label)
    if overhead := document.get("overhead"):
        errors += resource_requirements.validate_overhead("overhead", overhead.get("podFixed") or {})
    if scheduling := document.get("scheduling"):
        errors += object_meta.validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        errors += _tolerations("scheduling.tolerations", scheduling.get("tolerations") or ())
    if old is not None:
        errors += immutable("handler", handler, old.get("handler", ""))
    return errors


_TOLERATION_KEY: Final = ("key", "operator", "value", "effect")
_IN_GO: Final = ("Key", "Operator", "Value", "Effect", "TolerationSeconds")


def _tolerations(path: str, tolerations: Sequence[Document]) -> Errors:
    """Checks tolerations, and that none is repeated."""
    errors = validate_tolerations(path, tolerations)
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        identity = tuple(toleration.get(field, "") for field in _TOLERATION_KEY)
        if identity in seen:
            shown = dict(zip(_IN_GO, (*identity, toleration.get("tolerationSeconds")), strict=True))
            errors.append(duplicate(f"{path}[{index}]", shown))
        seen.add(identity)
    return errors


def warn_runtime_class(new: Document, old: Document | None) -> list[str]:
    selector = at(new, "scheduling", "nodeSelector") or {}
    return [
        f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[label]}"
        for label in sorted(selector)
        if label in DEPRECATED_NODE_LABELS
    ]


BUILTIN_TYPE: Final = BuiltinType(
    "node.",
    "v1",
    "runtimeclasses",
    "RuntimeClass",
    is_namespaced=False,
    strategy=Strategy(
        allows_unconditional_update=False,
        allows_create_on_update=True,
        validate_ratcheting=validate_runtime_class,
        warn=warn_runtime_class,
    ),
    columns=columns(Column("Handler", field_cell("handler"), "The name of the runtime on nodes."), AGE),
)
