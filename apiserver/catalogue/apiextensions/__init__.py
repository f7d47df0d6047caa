"""The group `apiextensions.k8s.io`."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.brand import Brand
from apiserver.catalogue.apiextensions import custom_resource_definitions
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.schema.structural import Schema


def types(brand: Brand, schema_of: Callable[[str], Schema]) -> tuple[BuiltinType, ...]:
    return (custom_resource_definitions.builtin_type(brand, schema_of),)
