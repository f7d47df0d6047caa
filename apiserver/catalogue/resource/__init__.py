"""The group `resource.k8s.io`: devices, and claims to them.

Releases 1.26 to 1.30 have different types (`classic_claims`, `named_resources`), which only share their names
with the current ones.
"""

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
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.releases.emulation import EmulatedRelease

# Off by default until 1.33, and locked from 1.35 on.
_GATE: Final = "DynamicResourceAllocation"
_CONTROLLER_GATE: Final = "DRAControlPlaneController"
# Releases, and the version in which they had what came before devices.
_CLASSIC: Final = {26: "v1alpha1", **dict.fromkeys(range(27, 31), "v1alpha2")}
_NAMED_RESOURCES_SINCE: Final = 30
# The first that has devices, and the last that had controllers of drivers.
_BOTH: Final = 31


def types(release: EmulatedRelease, compatibility: CompatibilityVersion) -> tuple[BuiltinType, ...]:
    """Returns the types of a release, and the versions of them that it reads.

    compatibility: the version that limits new expressions.
    """
    if (version := _CLASSIC.get(release.minor)) is not None:
        return _classic_types(version, release.minor)
    return (*_device_types(compatibility), *(_pod_scheduling() if release.minor == _BOTH else ()))


def _classic_types(version: str, minor: int) -> tuple[BuiltinType, ...]:
    # Hardly any server needs them.
    from apiserver.catalogue.resource import classic_claims, named_resources

    named = named_resources.TYPES if minor >= _NAMED_RESOURCES_SINCE else ()
    return tuple(replace(each, feature_gates=(_GATE,)) for each in (*classic_claims.types(version), *named))


def _pod_scheduling() -> tuple[BuiltinType, ...]:
    """Returns the type from before devices that 1.31 still has, with the same fields."""
    from apiserver.catalogue.resource import classic_claims

    kind = "PodSchedulingContext"
    return tuple(
        replace(classic_claims.pod_scheduling(version, kind), feature_gates=(_GATE, _CONTROLLER_GATE))
        for version in ("v1alpha3", "v1alpha2")
    )


def _device_types(compatibility: CompatibilityVersion) -> tuple[BuiltinType, ...]:
    current = tuple(
        replace(each, feature_gates=(_GATE,))
        for each in (
            device_classes.builtin_type(compatibility),
            resource_claims.builtin_type(compatibility),
            resource_claim_templates.builtin_type(compatibility),
            resource_slices.BUILTIN_TYPE,
        )
    )
    return (
        *current,
        *beta_versions.types(current),
        *device_taint_rules.TYPES,
        resource_pool_status_requests.BUILTIN_TYPE,
    )
