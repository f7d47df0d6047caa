"""The group `coordination.k8s.io`."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.coordination import lease_candidates, leases

TYPES: Final = (leases.BUILTIN_TYPE, *lease_candidates.TYPES)
