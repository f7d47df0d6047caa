"""What an expression may be: the types of the language, and those of schemas."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


class Kind(enum.Enum):
    DYN = "dyn"  # known only when it is evaluated
    NULL = "null_type"
    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"
    TIMESTAMP = "google.protobuf.Timestamp"
    DURATION = "google.protobuf.Duration"
    LIST = "list"
    MAP = "map"
    TYPE = "type"
    OPTIONAL = "optional_type"
    OBJECT = "object"  # known fields, of a schema
    OPAQUE = "opaque"  # of a library: quantities, addresses
    PARAMETER = "parameter"  # stands for any one type in a function's declaration
    ERROR = "error"  # of what is wrong; it fits everywhere, so that one mistake is told once


@dataclass(frozen=True, slots=True)
class Type:
    """One type. Types are equal if they are the same to the language.

    name: of objects, opaque types and parameters; of others their kind's.
    parameters: a list's element, a map's key and value, an optional's or type's own.
    fields: of an object, by the name that expressions use (which is escaped where the real one is no
        identifier).
    size_max: the most code points, bytes, items or entries that values of a schema may have; None if
        nothing is said. For worst-case estimates only.
    size_min: the fewest bytes that a value takes in JSON, likewise.
    """

    kind: Kind
    name: str = ""
    parameters: tuple[Type, ...] = ()
    fields: Mapping[str, Field] = field(default_factory=dict, compare=False, repr=False)
    size_max: int | None = field(default=None, compare=False, repr=False)
    size_min: int | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """As messages show it: `list(int)`, `map(string, dyn)`, `timestamp`."""
        if self.kind in _SHORT:
            return _SHORT[self.kind]
        name = self.name or self.kind.value
        if not self.parameters:
            return name
        return f"{name}({', '.join(map(str, self.parameters))})"

    @property
    def element(self) -> Type:
        """Of a list or an optional: what is in it."""
        return self.parameters[0]

    @property
    def key(self) -> Type:
        return self.parameters[0]

    @property
    def value(self) -> Type:
        """Of a map."""
        return self.parameters[1]


@dataclass(frozen=True, slots=True)
class Field:
    """key: the field's real name, by which documents have it."""

    key: str
    type: Type


_SHORT: Final = {
    Kind.TIMESTAMP: "timestamp",
    Kind.DURATION: "duration",
    Kind.NULL: "null",
    Kind.ERROR: "!error!",
}

DYN: Final = Type(Kind.DYN)
NULL: Final = Type(Kind.NULL)
BOOL: Final = Type(Kind.BOOL)
INT: Final = Type(Kind.INT)
UINT: Final = Type(Kind.UINT)
DOUBLE: Final = Type(Kind.DOUBLE)
STRING: Final = Type(Kind.STRING)
BYTES: Final = Type(Kind.BYTES)
TIMESTAMP: Final = Type(Kind.TIMESTAMP)
DURATION: Final = Type(Kind.DURATION)
ERROR: Final = Type(Kind.ERROR)
TYPE: Final = Type(Kind.TYPE)  # of which nothing more is known


def list_of(element: Type, *, size_max: int | None = None) -> Type:
    return Type(Kind.LIST, parameters=(element,), size_max=size_max)


def map_of(key: Type, value: Type, *, size_max: int | None = None) -> Type:
    return Type(Kind.MAP, parameters=(key, value), size_max=size_max)


def optional_of(type_: Type) -> Type:
    return Type(Kind.OPTIONAL, parameters=(type_,))


def type_of_type(type_: Type) -> Type:
    return Type(Kind.TYPE, parameters=(type_,))


def parameter(name: str) -> Type:
    """`parameter("A")`: any type, but the same one wherever A stands in a declaration."""
    return Type(Kind.PARAMETER, name)


def opaque(name: str, *parameters: Type) -> Type:
    """`opaque("kubernetes.Quantity")`."""
    return Type(Kind.OPAQUE, name, parameters)


def object_of(name: str, fields: Mapping[str, Field], *, size_min: int | None = None) -> Type:
    """An object with known fields. name: tells it from all others of an environment."""
    return Type(Kind.OBJECT, name, fields=fields, size_min=size_min)


LIST_DYN: Final = list_of(DYN)
MAP_DYN: Final = map_of(DYN, DYN)
A: Final = parameter("A")
B: Final = parameter("B")
LIST_A: Final = list_of(A)
MAP_A_B: Final = map_of(A, B)
