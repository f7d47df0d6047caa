"""The group `storagemigration.k8s.io`: which resources are to be stored in their storage version."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import other_version
from apiserver.catalogue.storagemigration import storage_version_migrations


def types() -> tuple[BuiltinType, ...]:
    of_v1beta1 = storage_version_migrations.builtin_type()
    # They differ in their names only. The first is one that 1.36 has, too.
    return of_v1beta1, other_version(of_v1beta1, "v1")
