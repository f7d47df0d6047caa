"""The group `scheduling.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.scheduling import pod_groups, priority_classes, workloads


def types() -> tuple[BuiltinType, ...]:
    return (priority_classes.builtin_type(), pod_groups.builtin_type(), *workloads.types())
