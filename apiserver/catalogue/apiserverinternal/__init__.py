"""The group `internal.apiserver.k8s.io`: what API servers tell each other."""

from __future__ import annotations

from apiserver.catalogue.apiserverinternal import storage_versions
from apiserver.catalogue.builtin_type import BuiltinType


def types() -> tuple[BuiltinType, ...]:
    return (storage_versions.builtin_type(),)
