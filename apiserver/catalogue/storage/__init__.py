"""The group `storage.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.storage import (
    csi_drivers,
    csi_nodes,
    csi_storage_capacities,
    storage_classes,
    volume_attachments,
    volume_attributes_classes,
)
from apiserver.meta.releases.emulation import DEFAULT_RELEASE, EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates, gates_of


def types(
    release: EmulatedRelease = DEFAULT_RELEASE, gates: FeatureGates | None = None
) -> tuple[BuiltinType, ...]:
    """Returns the types of a release. gates: None if all that add fields are on."""
    states = gates if gates is not None else gates_of(release.minor, ())
    return (
        csi_drivers.builtin_type(states),
        csi_nodes.builtin_type(release, gates, states),
        csi_storage_capacities.BUILTIN_TYPE,
        storage_classes.BUILTIN_TYPE,
        volume_attachments.BUILTIN_TYPE,
        *volume_attributes_classes.TYPES,
    )
