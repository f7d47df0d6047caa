"""Namespaces.

`label` is the deployment's label that holds a namespace's name. Source: pkg/registry/core/namespace,
strategy.go, and pkg/apis/core/validation, ValidateNamespace.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import CORE, BuiltinType, status_subresource
from apiserver.meta import names, object_meta
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_texts
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.defaults import setting


def builtin_type(brand: Brand) -> BuiltinType:
    label = brand.namespace_name_label
    return BuiltinType(
        "",
        "v1",
        "namespaces",
        "Namespace",
        is_namespaced=False,
        short_names=("ns",),
        # The writer of a namespace owns the label, as any default value.
        defaults={
            f"{CORE}Namespace": partial(_set_name_label, label=label),
            f"{CORE}NamespaceStatus": setting(phase="Active"),
        },
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=(
            status_subresource(validate_namespace_status),
            Subresource(
                "finalize",
                verbs=("update",),
                update=UpdateStrategy(
                    partial(prepare_namespace_finalize, label=label),
                    validate_namespace_finalize,
                    checks_object=False,
                ),
            ),
        ),
        strategy=Strategy(
            name_rule=names.dns_label,
            prepare_create=partial(prepare_namespace_create, label=label),
            validate=validate_namespace,
            update=UpdateStrategy(partial(prepare_namespace_update, label=label)),
            mark_deleted=mark_namespace_deleted,
            blockers=namespace_blockers,
        ),
        columns=columns(Column("Status", field_cell("status", "phase"), _PHASE_TEXT), AGE),
        selectable_fields=field_texts("status.phase"),
    )


_FINALIZER: Final = "kubernetes"


def prepare_namespace_create(document: Document, *, label: str) -> None:
    spec = document.setdefault("spec", {})
    if _FINALIZER not in spec.setdefault("finalizers", []):
        spec["finalizers"].append(_FINALIZER)
    document["status"] = {"phase": "Active"}
    _set_name_label(document, label=label)


def prepare_namespace_update(new: Document, old: Document, *, label: str) -> None:
    keep_status(new, old)
    new["spec"] = old.get("spec", {})
    _set_name_label(new, label=label)


def prepare_namespace_finalize(new: Document, old: Document, *, label: str) -> None:
    keep_status(new, old)
    _set_name_label(new, label=label)


def _set_name_label(document: Document, *, label: str) -> None:
    meta = document["metadata"]
    if name := meta.get("name"):
        meta["labels"] = {**meta.get("labels", {}), label: name}


def new_namespace(name: str, brand: Brand) -> Document:
    """Returns a new namespace, with defaults as on a client's create."""
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    _set_name_label(document, label=brand.namespace_name_label)
    return document


def validate_namespace(document: Document) -> Errors:
    return [
        error
        for name in document.get("spec", {}).get("finalizers") or ()
        for error in _validate_finalizer("spec.finalizers", name)
    ]


def validate_namespace_finalize(new: Document, old: Document) -> Errors:
    """Checks the finalizers like `validate_namespace`, but with the index in the errors."""
    return [
        error
        for index, name in enumerate(new.get("spec", {}).get("finalizers") or ())
        for error in _validate_finalizer(f"spec.finalizers[{index}]", name)
    ]


def _validate_finalizer(path: str, name: str) -> Errors:
    return [
        *(invalid(path, name, problem) for problem in names.qualified_name(name)),
        *object_meta.validate_finalizer_name(name, path),
    ]


def validate_namespace_status(new: Document, old: Document) -> Errors:
    """Checks that the phase is Terminating exactly if the namespace is being deleted."""
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


# ---- columns

_PHASE_TEXT: Final = "The phase of the namespace: Active, or Terminating while its contents are removed."
