"""The conditions in the status of a CustomResourceDefinition.

Source: k8s.io/apiextensions-apiserver, pkg/apihelpers.
"""

from __future__ import annotations

from typing import Final

from apiserver.meta.conditions import find_condition
from apiserver.meta.vocabulary import Document

ESTABLISHED: Final = "Established"
TERMINATING: Final = "Terminating"
NAMES_ACCEPTED: Final = "NamesAccepted"
NON_STRUCTURAL: Final = "NonStructuralSchema"
STORAGE_MIGRATING: Final = "StorageMigrating"
API_APPROVED: Final = "KubernetesAPIApprovalPolicyConformant"


def condition(kind: str, *, holds: bool, reason: str, message: str) -> Document:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def set_definition_condition(definition: Document, new: Document, now: str) -> None:
    """Sets a condition, keeping the transition time of the last one of its type while the status is the same.

    Unlike `meta.conditions.set_condition` it keeps no other field.
    now: the transition time if the status changes.
    """
    status = definition.setdefault("status", {})
    conditions = status.get("conditions") or []
    before = find_condition(definition, new["type"])
    time = now
    if before is not None and before.get("status") == new["status"]:
        time = before.get("lastTransitionTime") or now
    words = {key: new[key] for key in ("reason", "message", "observedGeneration") if new.get(key)}
    placed = {"type": new["type"], "status": new["status"], "lastTransitionTime": time, **words}
    if before is None:
        conditions = [*conditions, placed]
    else:
        conditions = [placed if each is before else each for each in conditions]
    status["conditions"] = conditions


def remove_definition_condition(definition: Document, kind: str) -> None:
    if find_condition(definition, kind) is not None:
        status = definition["status"]
        status["conditions"] = [each for each in status["conditions"] if each.get("type") != kind]
