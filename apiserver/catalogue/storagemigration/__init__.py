"""The group `storagemigration.k8s.io`: which resources are to be stored in their storage version."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.storagemigration import storage_version_migrations


def types() -> tuple[BuiltinType, ...]:
    return (storage_version_migrations.builtin_type(),)
