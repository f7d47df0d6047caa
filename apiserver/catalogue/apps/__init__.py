"""The group `apps`: what runs pods, and keeps them running."""

from __future__ import annotations

from apiserver.catalogue.apps import (
    controller_revisions,
    daemon_sets,
    deployments,
    replica_sets,
    stateful_sets,
)
from apiserver.catalogue.builtin_type import BuiltinType


def types() -> tuple[BuiltinType, ...]:
    return (
        controller_revisions.builtin_type(),
        daemon_sets.builtin_type(),
        deployments.builtin_type(),
        replica_sets.builtin_type(),
        stateful_sets.builtin_type(),
    )
