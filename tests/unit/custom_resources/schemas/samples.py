"""Short notations for schemas of custom resources."""

from __future__ import annotations

from typing import Any, Final

from apiserver.custom_resources.schemas.custom_schema import CustomSchema
from apiserver.meta.field_errors import FieldError
from apiserver.schema.builtin import BuiltinSchemas

META: Final = BuiltinSchemas((1, 34)).get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
VENDOR: Final = "acme"
LIST_TYPE, LIST_MAP_KEYS = f"x-{VENDOR}-list-type", f"x-{VENDOR}-list-map-keys"
KEEPS_UNKNOWN: Final = {f"x-{VENDOR}-preserve-unknown-fields": True}
RESOURCE: Final = {"type": "object", f"x-{VENDOR}-embedded-resource": True}
INT_OR_STRING: Final = {f"x-{VENDOR}-int-or-string": True}
TEXT: Final = {"type": "string"}
WHOLE: Final = {"type": "integer"}

Problem = tuple[str, str, str]


def of(**fields: Any) -> dict[str, Any]:
    """The schema of an object with these fields."""
    return {"type": "object", "properties": fields}


def items(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": schema, **more}


def by_key(schema: dict[str, Any], *keys: str) -> dict[str, Any]:
    return items(schema, **{LIST_TYPE: "map", LIST_MAP_KEYS: list(keys)})


def values(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema, **more}


def root(schema: dict[str, Any]) -> CustomSchema:
    return CustomSchema(schema, vendor=VENDOR, meta=META)


def field(schema: dict[str, Any]) -> CustomSchema:
    """Of objects with one field, `v`."""
    return root(of(v=schema))


def problems_of(errors: list[FieldError]) -> list[Problem]:
    return [(error.field, error.reason.removeprefix("FieldValue"), error.message) for error in errors]


def problems(schema: dict[str, Any], value: Any) -> list[Problem]:
    """What is wrong with a value of the field `v`."""
    return problems_of(field(schema).validate({"v": value}))
