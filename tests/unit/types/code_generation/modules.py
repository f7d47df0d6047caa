"""Definitions of schemas, and modules that are generated from them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from apiserver.types import definitions

Document = dict[str, Any]


@contextmanager
def imported(source: str) -> Iterator[ModuleType]:
    """Within it, there is the module. Libraries look for the types of annotations in `sys.modules`."""
    module = ModuleType("generated_types")
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, module.__name__, "exec", dont_inherit=True), vars(module))
        yield module
    finally:
        del sys.modules[module.__name__]


def definition_of(source: str) -> Document:
    """Returns the definition of the classes in a module."""
    with imported(source) as module:
        (found,) = definitions(module)
    return found


def definition_with(schema: Any, kind: str = "Thing") -> dict[str, Any]:
    """The definition of a type with a schema."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": "things"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]},
    }
