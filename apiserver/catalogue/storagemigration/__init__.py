"""The group `storagemigration.k8s.io`: migrations of stored objects to their storage version."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.common.other_versions import other_version
from apiserver.catalogue.storagemigration import storage_version_migrations

# They differ in their names only. The first is one that 1.36 has, too.
TYPES: Final = (
    storage_version_migrations.BUILTIN_TYPE,
    other_version(storage_version_migrations.BUILTIN_TYPE, "v1"),
)
