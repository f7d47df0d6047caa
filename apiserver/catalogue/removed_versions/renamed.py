"""Versions that differ from those that have replaced them in their names alone.

Later versions may have more fields; these are kept in what is stored, and clients of the old version do not
write them. Rows T03, T12, T15, T19, T22, T23 and T24.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import other_version
from apiserver.catalogue.removed_versions.current_types import CurrentTypes

# Group, version and resources.
_RENAMED: Final = (
    ("apiregistration.", "v1beta1", ("apiservices",)),
    ("coordination.", "v1beta1", ("leases",)),
    ("networking.", "v1alpha1", ("ipaddresses", "servicecidrs")),
    ("node.", "v1beta1", ("runtimeclasses",)),
    (
        "rbac.authorization.",
        "v1beta1",
        ("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
    ),
    ("scheduling.", "v1beta1", ("priorityclasses",)),
    ("scheduling.", "v1alpha1", ("priorityclasses",)),
    (
        "storage.",
        "v1beta1",
        ("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
    ),
    ("storage.", "v1alpha1", ("csistoragecapacities", "volumeattachments", "volumeattributesclasses")),
)


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    return tuple(
        other_version(current.find(group, resource), version)
        for group, version, resources in _RENAMED
        for resource in resources
    )
