"""The group `apps`: controllers of pods that run continuously."""

from __future__ import annotations

from apiserver.catalogue.apps import (
    controller_revisions,
    daemon_sets,
    deployments,
    replica_sets,
    stateful_sets,
)
from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.meta.releases.gates import FeatureGates


def types(gates: FeatureGates = DEFAULT_GATES) -> tuple[BuiltinType, ...]:
    return (
        controller_revisions.BUILTIN_TYPE,
        daemon_sets.builtin_type(gates),
        deployments.builtin_type(gates),
        replica_sets.builtin_type(gates),
        stateful_sets.builtin_type(gates),
    )
