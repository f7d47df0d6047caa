"""The group `internal.apiserver.k8s.io`: what API servers tell each other."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.apiserverinternal import storage_versions

TYPES: Final = (storage_versions.BUILTIN_TYPE,)
