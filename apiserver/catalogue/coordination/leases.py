"""Leases. Source: pkg/apis/coordination/validation, pkg/registry/coordination/lease."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.coordination.lease_candidates import validate_strategy
from apiserver.meta.field_errors import Errors, forbidden
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import non_negative, positive


def validate_lease(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors = [
        *positive("spec.leaseDurationSeconds", spec.get("leaseDurationSeconds")),
        *non_negative("spec.leaseTransitions", spec.get("leaseTransitions")),
    ]
    strategy = spec.get("strategy")
    if strategy is not None:
        errors += validate_strategy("spec.strategy", strategy)
    if spec.get("preferredHolder") and not strategy:
        errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


BUILTIN_TYPE: Final = BuiltinType(
    "coordination.",
    "v1",
    "leases",
    "Lease",
    strategy=Strategy(
        allows_unconditional_update=False, validate=validate_lease, allows_create_on_update=True
    ),
    columns=columns(Column("Holder", field_cell("spec", "holderIdentity"), "The holder of the lease."), AGE),
)
