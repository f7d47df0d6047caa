"""The group `scheduling.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.scheduling import priority_classes


def types() -> tuple[BuiltinType, ...]:
    return (priority_classes.builtin_type(),)
