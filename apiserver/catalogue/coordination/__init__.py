"""The group `coordination.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.coordination import lease_candidates, leases


def types() -> tuple[BuiltinType, ...]:
    return (leases.builtin_type(), *lease_candidates.types())
