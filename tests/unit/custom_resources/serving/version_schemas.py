"""Schemas of versions: of a definition, and of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from apiserver.custom_resources.rules.rule_tree import NULL_TIMER
from apiserver.custom_resources.serving.version_schema import DefinitionSource, VersionSchema
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import StoredObject, encode, head_of
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.interface import Stored

META: Final = BuiltinSchemas((1, 34)).get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
HEAD: Final = head_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def version_schema(schema: dict[str, Any]) -> VersionSchema:
    """Returns the schema of the version `v1` of a definition."""
    spec = {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}
    definition = encode({"metadata": {"name": "widgets.example.com"}, "spec": spec}, HEAD)
    stored = StoredObject.of(Stored("/registry/definition", definition, 7, 7))
    return VersionSchema(DefinitionSource(stored), "v1", brand=Brand(), meta=lambda: META, timer=NULL_TIMER)


class FakeSchema(NamedTuple):
    """`VersionChanges` that are functions."""

    prune: Callable[[Document], bool]
    complete: Callable[[Document], bool]
    prune_unknown: Callable[[Document], bool]

    def default_bytes(self) -> int:
        return 0
