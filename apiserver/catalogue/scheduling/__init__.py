"""The group `scheduling.k8s.io`."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.scheduling import pod_groups, priority_classes, release_37, workloads
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates

_NEW_FORMS_SINCE: Final = 37


def types(release: EmulatedRelease, gates: FeatureGates | None = None) -> tuple[BuiltinType, ...]:
    """Returns the types of a release, and the versions of them that it reads.

    gates: the gates of features that add fields; None if all are on.
    """
    if release.minor >= _NEW_FORMS_SINCE:
        return (priority_classes.BUILTIN_TYPE, *release_37.types(gates))
    return (priority_classes.BUILTIN_TYPE, pod_groups.BUILTIN_TYPE, *workloads.TYPES)
