"""Bindings, which assign pods to nodes. Nothing of them is stored."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.registry import subresources

BUILTIN_TYPE: Final = BuiltinType("", "v1", "bindings", "Binding", subresources.BINDING, verbs=("create",))
