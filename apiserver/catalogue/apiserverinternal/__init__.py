"""The group `internal.apiserver.k8s.io`: information that API servers share with each other."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.apiserverinternal import storage_versions

TYPES: Final = (storage_versions.BUILTIN_TYPE,)
