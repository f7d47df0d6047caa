"""Leases. Source: pkg/apis/coordination/validation (release 1.34); row T19."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

LEASE: Final = ServedKind("leases.coordination.k8s.io", {"spec": {"leaseDurationSeconds": 15}})

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a lease lasts": (
        {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
        [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ],
    )
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, texts: list[str]) -> None:
    assert LEASE.create().errors == []
    assert LEASE.create(changes).texts == texts


def test_a_lease_keeps_nothing_of_coordinated_election() -> None:
    """It is alpha, and off; a PUT creates leases (row A03)."""
    changes = {"spec.strategy": "OldestEmulationVersion", "spec.preferredHolder": "h"}
    assert LEASE.create(changes).document["spec"] == LEASE.valid["spec"]
    assert LEASE.update(changes).document["spec"] == LEASE.valid["spec"]
    assert LEASE.resource.strategy.allows_create_on_update


# Leases while CoordinatedLeaderElection is on.
ELECTED: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a strategy of Kubernetes": (
        {"spec.strategy": "OldestEmulationVersion", "spec.preferredHolder": "h"},
        [],
    ),
    "a strategy of somebody else": ({"spec.strategy": "example.com/Fair"}, []),
    "an unknown strategy of Kubernetes": (
        {"spec.strategy": "Fair"},
        ['spec.strategy.strategy: Unsupported value: "Fair": supported values: "OldestEmulationVersion"'],
    ),
    "a preferred holder without a strategy": (
        {"spec.preferredHolder": "h"},
        ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), ELECTED.values(), ids=ELECTED)
def test_leases_of_coordinated_election(changes: Changes, texts: list[str]) -> None:
    kind = ServedKind("leases.coordination.k8s.io", LEASE.valid, gates=("CoordinatedLeaderElection",))
    assert kind.create(changes).texts == texts
    assert kind.update(changes).texts == texts


ROWS: Final[dict[str, tuple[Changes, dict[str, Any]]]] = {
    "a lease": ({"spec.holderIdentity": "me"}, {"Holder": "me"})
}


@pytest.mark.parametrize(("changes", "cells"), ROWS.values(), ids=ROWS)
def test_rows(changes: Changes, cells: dict[str, Any]) -> None:
    assert cells.items() <= LEASE.cells(changes).items()
