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


def types() -> tuple[BuiltinType, ...]:
    return (
        csi_drivers.builtin_type(),
        csi_nodes.builtin_type(),
        csi_storage_capacities.builtin_type(),
        storage_classes.builtin_type(),
        volume_attachments.builtin_type(),
        *volume_attributes_classes.builtin_types(),
    )
