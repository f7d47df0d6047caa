"""The group `autoscaling`."""

from __future__ import annotations

from apiserver.catalogue.autoscaling import horizontal_pod_autoscalers
from apiserver.catalogue.builtin_type import BuiltinType


def types() -> tuple[BuiltinType, ...]:
    return horizontal_pod_autoscalers.builtin_types()
