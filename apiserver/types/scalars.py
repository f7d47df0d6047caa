"""The schemas of types without parts: numbers, texts, times, enumerations."""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apiserver.types.errors import Unrepresentable
from apiserver.types.markers import QUANTITY
from apiserver.types.models.model import description_of

Schema = dict[str, Any]

# The formats are those that the server checks.
# Source: k8s.io/apiextensions-apiserver, pkg/apiserver/validation/formats.go.
_SCHEMAS: Final[Mapping[type, Schema]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    str: {"type": "string"},
    bytes: {"type": "string", "format": "byte"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    decimal.Decimal: QUANTITY.schema,
    uuid.UUID: {"type": "string", "format": "uuid"},
    ipaddress.IPv4Address: {"type": "string", "format": "ipv4"},
    ipaddress.IPv6Address: {"type": "string", "format": "ipv6"},
    ipaddress.IPv4Network: {"type": "string", "format": "cidr"},
    ipaddress.IPv6Network: {"type": "string", "format": "cidr"},
}
# Classes of pydantic, which this package does not import, by module and name.
_BY_NAME: Final[Mapping[tuple[str, str], Schema]] = {
    ("pydantic.networks", "EmailStr"): {"type": "string", "format": "email"},
    ("pydantic.networks", "_BaseUrl"): {"type": "string", "format": "uri"},
    ("pydantic.networks", "AnyUrl"): {"type": "string", "format": "uri"},
    ("pydantic.types", "SecretStr"): {"type": "string", "format": "password"},
    ("pydantic.types", "AwareDatetime"): {"type": "string", "format": "date-time"},
    ("pydantic.types", "FutureDatetime"): {"type": "string", "format": "date-time"},
    ("pydantic.types", "PastDatetime"): {"type": "string", "format": "date-time"},
    ("pydantic.types", "FutureDate"): {"type": "string", "format": "date"},
    ("pydantic.types", "PastDate"): {"type": "string", "format": "date"},
}
_NO_JSON: Final[Mapping[type, str]] = {
    complex: "use two numbers, or a str",
    datetime.time: "use a str with a Pattern",
    type: "use a str",
}
_ENUM_TYPES: Final = {str: "string", int: "integer", bool: "boolean", float: "number"}


def scalar_schema(cls: type, path: str) -> Schema | None:
    """Returns the schema of a class or of its nearest base; None if it is no scalar.

    Raises Unrepresentable for classes whose values JSON does not have.
    """
    if issubclass(cls, enum.Enum):
        values = enum_schema([member.value for member in cls], path)
        return {"description": description, **values} if (description := description_of(cls)) else values
    for base in cls.__mro__:
        if (schema := _SCHEMAS.get(base) or _BY_NAME.get((base.__module__, base.__name__))) is not None:
            return dict(schema)
        if base in _NO_JSON:
            raise Unrepresentable(path, f"JSON has no values of type {base.__name__}", _NO_JSON[base])
    return None


def enum_schema(values: Sequence[Any], path: str) -> Schema:
    """Returns the schema of the values of an Enum or a Literal. Raises Unrepresentable."""
    values = [value.value if isinstance(value, enum.Enum) else value for value in values]
    types = {type(value) for value in values}
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        raise Unrepresentable(path, "JSON has no infinity and no NaN", "use other values")
    for cls, name in _ENUM_TYPES.items():
        if types and all(issubclass(each, cls) for each in types) and (cls is not int or bool not in types):
            return {"type": name, "enum": [*dict.fromkeys(values)]}
    found = ", ".join(sorted(each.__name__ for each in types)) or "nothing"
    raise Unrepresentable(path, f"an enumeration of {found}", "use values that all are str, or all are int")
