"""The types of the language, and those of schemas."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class TypeKind(enum.Enum):
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
    ERROR = "error"  # of an erroneous node; it fits everywhere, so that an error is reported once


@dataclass(frozen=True, slots=True)
class Type:
    """A type. Types are equal if the language treats them as the same.

    name: that of an object, opaque type or parameter; for others that of the kind.
    parameters: a list's element, a map's key and value, the parameter of an optional or type.
    fields: those of an object, by the names in expressions (escaped where they are not identifiers).
    size_max: the maximum of code points, bytes, items or entries of a schema's values; None if they are not
        limited. For worst-case estimates only.
    size_min: the minimum of bytes that a value takes in JSON, likewise.
    """

    kind: TypeKind
    name: str = ""
    parameters: tuple[Type, ...] = ()
    fields: Mapping[str, Field] = field(default_factory=dict, compare=False, repr=False)
    size_max: int | None = field(default=None, compare=False, repr=False)
    size_min: int | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Returns the type as messages show it: `list(int)`, `map(string, dyn)`, `timestamp`."""
        if self.kind in _SHORT:
            return _SHORT[self.kind]
        name = self.name or self.kind.value
        if not self.parameters:
            return name
        return f"{name}({', '.join(map(str, self.parameters))})"

    @property
    def element(self) -> Type:
        """The type of the items of a list, or of an optional's value."""
        return self.parameters[0]

    @property
    def key(self) -> Type:
        return self.parameters[0]

    @property
    def value(self) -> Type:
        """The type of a map's values."""
        return self.parameters[1]


class Field(NamedTuple):
    """A field of an object type. key: its name in documents.

    since, gate: the requirements of new expressions for using it, see `CompatibilityVersion.has`.
    """

    key: str
    type: Type
    since: tuple[int, int] = (1, 0)
    gate: str = ""


_SHORT: Final = {
    TypeKind.TIMESTAMP: "timestamp",
    TypeKind.DURATION: "duration",
    TypeKind.NULL: "null",
    TypeKind.ERROR: "!error!",
}

DYN: Final = Type(TypeKind.DYN)
NULL: Final = Type(TypeKind.NULL)
BOOL: Final = Type(TypeKind.BOOL)
INT: Final = Type(TypeKind.INT)
UINT: Final = Type(TypeKind.UINT)
DOUBLE: Final = Type(TypeKind.DOUBLE)
STRING: Final = Type(TypeKind.STRING)
BYTES: Final = Type(TypeKind.BYTES)
TIMESTAMP: Final = Type(TypeKind.TIMESTAMP)
DURATION: Final = Type(TypeKind.DURATION)
ERROR: Final = Type(TypeKind.ERROR)
TYPE: Final = Type(TypeKind.TYPE)  # of which nothing more is known
ANY_NAME: Final = "any"
ANY: Final = Type(TypeKind.DYN, ANY_NAME)  # as `DYN`, but nothing iterates over it


def list_of(element: Type, *, size_max: int | None = None) -> Type:
    return Type(TypeKind.LIST, parameters=(element,), size_max=size_max)


def map_of(key: Type, value: Type, *, size_max: int | None = None) -> Type:
    return Type(TypeKind.MAP, parameters=(key, value), size_max=size_max)


def optional_of(type_: Type) -> Type:
    return Type(TypeKind.OPTIONAL, parameters=(type_,))


def type_of_type(type_: Type) -> Type:
    return Type(TypeKind.TYPE, parameters=(type_,))


def parameter(name: str) -> Type:
    """Returns a type parameter, as `parameter("A")`: any type, but the same one throughout a declaration."""
    return Type(TypeKind.PARAMETER, name)


def opaque(name: str, *parameters: Type) -> Type:
    """Returns an opaque type, as `opaque("kubernetes.Quantity")`."""
    return Type(TypeKind.OPAQUE, name, parameters)


def object_of(name: str, fields: Mapping[str, Field], *, size_min: int | None = None) -> Type:
    """Returns an object type with known fields. name: unique within an environment."""
    return Type(TypeKind.OBJECT, name, fields=fields, size_min=size_min)


class _AnyFields(Mapping[str, Field]):
    def __getitem__(self, name: str) -> Field:
        return Field(name, DYN)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_ANY_FIELDS: Final = _AnyFields()


def open_object(name: str) -> Type:
    """Returns an object type that may have any fields."""
    return Type(TypeKind.OBJECT, name, fields=_ANY_FIELDS)


LIST_DYN: Final = list_of(DYN)
MAP_DYN: Final = map_of(DYN, DYN)
A: Final = parameter("A")
B: Final = parameter("B")
LIST_A: Final = list_of(A)
MAP_A_B: Final = map_of(A, B)
