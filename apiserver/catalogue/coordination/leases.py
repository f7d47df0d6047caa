"""Leases. Source: pkg/apis/coordination/validation, pkg/registry/coordination/lease."""

from __future__ import annotations

from apiserver.validation.checks import Errors, non_negative, positive
from apiserver.vocabulary import Document


def prepare_lease(new: Document, old: Document | None = None) -> None:
    """Coordinated leader election is alpha: what it says of a lease is not kept."""
    for field in ("strategy", "preferredHolder"):
        new.get("spec", {}).pop(field, None)


def validate_lease(document: Document) -> Errors:
    spec = document.get("spec", {})
    return [
        *positive("spec.leaseDurationSeconds", spec.get("leaseDurationSeconds")),
        *non_negative("spec.leaseTransitions", spec.get("leaseTransitions")),
    ]
