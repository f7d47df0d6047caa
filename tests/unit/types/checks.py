"""Schemas of single types, and whether the server accepts definitions."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from apiserver.custom_resources.schemas.custom_schema import CustomSchema
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.types import crd, definition
from tests.unit.catalogue.served_kinds import ServedKind

META: Final = BuiltinSchemas((1, 36)).get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
DEFINITIONS: Final = ServedKind("customresourcedefinitions.apiextensions.k8s.io")


def problems(document: dict[str, Any]) -> list[str]:
    """What the server says about a definition when a client creates it."""
    return DEFINITIONS.created(document).texts


def schema_of(cls: type) -> dict[str, Any]:
    """The schema of a class with the decorator `crd`, in a definition that the server accepts."""
    document = definition(cls)
    assert problems(document) == []
    schema: dict[str, Any] = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def object_of(hint: Any, **options: Any) -> type:
    """A class with one field, `value`. options: of the field, such as its default."""
    field = dataclasses.field(**options)
    return crd("example.com/v1", kind="Widget")(
        dataclasses.make_dataclass("Widget", [("value", hint, field)])
    )


def field_schema(hint: Any, **options: Any) -> dict[str, Any]:
    """The schema of a field, in a definition that the server accepts. options: as in `object_of`."""
    schema: dict[str, Any] = schema_of(object_of(hint, **options))["properties"]["value"]
    return schema


def custom_schema(cls: type) -> CustomSchema:
    """The schema of a class, as the server uses it."""
    return CustomSchema(schema_of(cls), vendor="kubernetes", meta=META)
