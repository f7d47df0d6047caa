"""The group `coordination.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.coordination import leases
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "coordination.",
            "v1",
            "leases",
            "Lease",
            "io.k8s.api.coordination.v1.Lease",
            strategy=Strategy(
                prepare_create=leases.prepare_lease,
                validate=leases.validate_lease,
                update=UpdateStrategy(prepare=leases.prepare_lease),
                allows_create_on_update=True,
            ),
            columns=columns(
                Column("Holder", field_cell("spec", "holderIdentity"), description="Who holds the lease."),
                AGE,
            ),
        ),
    )
