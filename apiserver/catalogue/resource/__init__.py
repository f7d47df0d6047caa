"""The group `resource.k8s.io`: devices, and who needs them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.resource import (
    beta_versions,
    device_classes,
    device_taint_rules,
    resource_claim_templates,
    resource_claims,
    resource_pool_status_requests,
    resource_slices,
)

# Off by default until 1.33, and locked from 1.35 on.
_GATE: Final = "DynamicResourceAllocation"


def types() -> tuple[BuiltinType, ...]:
    current = tuple(
        replace(each, feature_gates=(_GATE,))
        for each in (
            device_classes.builtin_type(),
            resource_claims.builtin_type(),
            resource_claim_templates.builtin_type(),
            resource_slices.builtin_type(),
        )
    )
    return (
        *current,
        *beta_versions.types(current),
        *device_taint_rules.types(),
        resource_pool_status_requests.builtin_type(),
    )
