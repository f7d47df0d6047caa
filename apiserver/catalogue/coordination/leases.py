"""Leases. Source: pkg/apis/coordination/validation, pkg/registry/coordination/lease."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.field_errors import Errors
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.validation.checks import non_negative, positive
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "coordination.",
        "v1",
        "leases",
        "Lease",
        "io.k8s.api.coordination.v1.Lease",
        strategy=Strategy(
            prepare_create=prepare_lease,
            validate=validate_lease,
            update=UpdateStrategy(prepare=prepare_lease),
            allows_create_on_update=True,
        ),
        columns=columns(
            Column("Holder", field_cell("spec", "holderIdentity"), description="Who holds the lease."), AGE
        ),
    )


def prepare_lease(new: Document, old: Document | None = None) -> None:
    """Drops the fields of coordinated leader election, which is alpha."""
    for field in ("strategy", "preferredHolder"):
        new.get("spec", {}).pop(field, None)


def validate_lease(document: Document) -> Errors:
    spec = document.get("spec", {})
    return [
        *positive("spec.leaseDurationSeconds", spec.get("leaseDurationSeconds")),
        *non_negative("spec.leaseTransitions", spec.get("leaseTransitions")),
    ]
