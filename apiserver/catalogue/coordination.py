"""The group `coordination`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta.table import AGE, Column, columns, path
from apiserver.registry.strategy import Strategy


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "coordination.",
            "v1",
            "leases",
            "Lease",
            "io.k8s.api.coordination.v1.Lease",
            strategy=Strategy(creates_on_update=True),
            columns=columns(
                Column("Holder", path("spec", "holderIdentity"), description="Who holds the lease."), AGE
            ),
        ),
    )
