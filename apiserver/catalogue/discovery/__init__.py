"""The group `discovery.k8s.io`: where services are found, not what the server serves."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.discovery import endpoint_slices


def types() -> tuple[BuiltinType, ...]:
    return (endpoint_slices.builtin_type(),)
