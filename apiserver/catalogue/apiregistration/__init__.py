"""The group `apiregistration.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.apiregistration import api_services
from apiserver.catalogue.builtin_type import BuiltinType


def types() -> tuple[BuiltinType, ...]:
    return (api_services.builtin_type(),)
