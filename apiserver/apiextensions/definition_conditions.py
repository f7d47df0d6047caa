"""The conditions of CustomResourceDefinitions, and how their deletion begins.

Source: k8s.io/apiextensions-apiserver, pkg/registry/customresourcedefinition/etcd.go and pkg/apihelpers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from apiserver.brand import Brand
from apiserver.meta import object_meta
from apiserver.vocabulary import Document

ESTABLISHED: Final = "Established"
TERMINATING: Final = "Terminating"


def cleanup_finalizer(brand: Brand) -> str:
    """Whoever removes the objects of a definition takes it off."""
    return f"customresourcecleanup.{brand.group('apiextensions')}"


def condition(definition: Document, kind: str) -> Document | None:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), None)


def is_condition_true(definition: Document, kind: str) -> bool:
    """It is there, and true."""
    found = condition(definition, kind)
    return found is not None and found.get("status") == "True"


def set_condition(definition: Document, new: Document, now: str) -> None:
    """Put a condition in place of the one of its type; it keeps its time while its status stays."""
    status = definition.setdefault("status", {})
    conditions = status.get("conditions") or []
    before = condition(definition, new["type"])
    time = now
    if before is not None and before.get("status") == new["status"]:
        time = before.get("lastTransitionTime") or now
    words = {key: new[key] for key in ("reason", "message") if new.get(key)}
    placed = {"type": new["type"], "status": new["status"], "lastTransitionTime": time, **words}
    if before is None:
        conditions = [*conditions, placed]
    else:
        conditions = [placed if each is before else each for each in conditions]
    status["conditions"] = conditions


def remove_definition_condition(definition: Document, kind: str) -> None:
    if condition(definition, kind) is not None:
        status = definition["status"]
        status["conditions"] = [each for each in status["conditions"] if each.get("type") != kind]


# ---- deletion


def blockers(definition: Document) -> Sequence[str]:
    """What must be gone before a definition is: every deletion begins with the objects."""
    if "deletionTimestamp" not in definition["metadata"]:
        return ("objects",)
    return object_meta.finalizers(definition)


def mark_deleted(brand: Brand) -> Callable[[Document, str], None]:
    """What changes when a deletion begins."""
    finalizer = cleanup_finalizer(brand)

    def mark(definition: Document, now: str) -> None:
        meta = definition["metadata"]
        meta["deletionTimestamp"] = now
        finalizers = meta.get("finalizers") or []
        if finalizer not in finalizers:
            meta["finalizers"] = [*finalizers, finalizer]
        set_condition(
            definition,
            {
                "type": TERMINATING,
                "status": "True",
                "reason": "InstanceDeletionPending",
                "message": (
                    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
                ),
            },
            now,
        )

    return mark
