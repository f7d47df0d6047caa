"""The group `apiextensions.k8s.io`."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.catalogue.apiextensions import custom_resource_definitions
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.brand import Brand
from apiserver.schema.structural import Schema


def types(
    brand: Brand, schema_of: Callable[[str], Schema], compatibility: CompatibilityVersion
) -> tuple[BuiltinType, ...]:
    """Returns the types. schema_of: finds built-in schemas. compatibility: the version that limits new
    expressions.
    """
    return (custom_resource_definitions.builtin_type(brand, schema_of, compatibility),)
