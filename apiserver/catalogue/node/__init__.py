"""The group `node.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.node import runtime_classes


def types() -> tuple[BuiltinType, ...]:
    return (runtime_classes.builtin_type(),)
