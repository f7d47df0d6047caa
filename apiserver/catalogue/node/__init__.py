"""The group `node.k8s.io`."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.node import runtime_classes

TYPES: Final = (runtime_classes.BUILTIN_TYPE,)
