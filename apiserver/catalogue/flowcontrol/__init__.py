"""The group `flowcontrol.apiserver.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.flowcontrol import flow_schemas, priority_level_configurations


def types() -> tuple[BuiltinType, ...]:
    return (flow_schemas.builtin_type(), priority_level_configurations.builtin_type())
