"""The group `apiextensions.k8s.io`."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.brand import Brand
from apiserver.catalogue.apiextensions import custom_resource_definitions
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.schema.structural import Schema


def types(
    brand: Brand, schema_of: Callable[[str], Schema], compatibility: CompatibilityVersion
) -> tuple[BuiltinType, ...]:
    """schema_of: returns the built-in schema of a definition. compatibility: what new expressions may use."""
    return (custom_resource_definitions.builtin_type(brand, schema_of, compatibility),)
