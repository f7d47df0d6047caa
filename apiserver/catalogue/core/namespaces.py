"""What is set and what is checked of Namespaces.

`label` is the deployment's label that holds a namespace's name. Source: pkg/registry/core/namespace,
strategy.go, and pkg/apis/core/validation, ValidateNamespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.field_errors import invalid
from apiserver.meta import names, object_meta
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors
from apiserver.vocabulary import Document

DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType({})

_FINALIZER: Final = "kubernetes"


def prepare_namespace_create(document: Document, *, label: str) -> None:
    spec = document.setdefault("spec", {})
    if _FINALIZER not in spec.setdefault("finalizers", []):
        spec["finalizers"].append(_FINALIZER)
    document["status"] = {"phase": "Active"}
    _set_name_label(document, label)


def prepare_namespace_update(new: Document, old: Document, *, label: str) -> None:
    keep_status(new, old)
    new["spec"] = old.get("spec", {})
    _set_name_label(new, label)


def prepare_namespace_finalize(new: Document, old: Document, *, label: str) -> None:
    keep_status(new, old)
    _set_name_label(new, label)


def _set_name_label(document: Document, label: str) -> None:
    meta = document["metadata"]
    if name := meta.get("name"):
        meta["labels"] = {**meta.get("labels", {}), label: name}


def validate_namespace(document: Document) -> Errors:
    errors: Errors = []
    for index, name in enumerate(document.get("spec", {}).get("finalizers") or ()):
        where = f"spec.finalizers[{index}]"
        errors += [invalid(where, name, problem) for problem in names.qualified_name(name)]
        errors += object_meta.validate_finalizer_name(name, where)
    return errors


def validate_namespace_status(new: Document, old: Document) -> Errors:
    """A namespace terminates if it is being deleted, and only then."""
    phase = new.get("status", {}).get("phase", "")
    is_deleted = "deletionTimestamp" in new["metadata"]
    expected, state = ("Terminating", "not empty") if is_deleted else ("Active", "empty")
    if phase == expected:
        return []
    return [invalid("status.Phase", phase, f"may only be '{expected}' if `deletionTimestamp` is {state}")]


def mark_namespace_deleted(document: Document, now: str) -> None:
    document["metadata"]["deletionTimestamp"] = now
    document["status"] = {**document.get("status", {}), "phase": "Terminating"}


def namespace_blockers(document: Document) -> list[str]:
    return [*object_meta.finalizers(document), *(document.get("spec", {}).get("finalizers") or ())]
