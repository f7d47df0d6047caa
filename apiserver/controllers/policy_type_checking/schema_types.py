"""Makes the CEL types of the schemas of built-in and custom resources. Pure.

Source: k8s.io/apiserver, pkg/cel/common/schemas.go. The type of a quantity, a number or a string, is known
only in evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from apiserver.cel import types
from apiserver.cel.escaping import RESERVED, escape
from apiserver.cel.types import Field, Type
from apiserver.schema.structural import Schema, ValueKind

_SCALARS: Final[Mapping[ValueKind, Type]] = {
    ValueKind.STRING: types.STRING,
    ValueKind.BYTES: types.BYTES,
    ValueKind.TIME: types.TIMESTAMP,
    ValueKind.MICRO_TIME: types.TIMESTAMP,
    ValueKind.INTEGER: types.INT,
    ValueKind.NUMBER: types.DOUBLE,
    ValueKind.BOOLEAN: types.BOOL,
    ValueKind.INT_OR_STRING: types.DYN,
    ValueKind.QUANTITY: types.DYN,
}


def type_of(schema: Schema, name: str) -> Type | None:
    """Returns the type of values of a schema; None if expressions cannot access them.

    name: the unique name of the type, if it is an object's.
    """
    if (scalar := _SCALARS.get(schema.kind)) is not None:
        return scalar
    match schema.kind:
        case ValueKind.STRUCT | ValueKind.ANY_OBJECT:
            return types.object_of(name, _Fields(schema, name))
        case ValueKind.LIST | ValueKind.MAP if schema.element is not None:
            is_list = schema.kind is ValueKind.LIST
            element = type_of(schema.element, f"{name}.{'@idx' if is_list else '@elem'}")
            if element is None:
                return None
            return types.list_of(element) if is_list else types.map_of(types.STRING, element)
    return None


class _Fields(Mapping[str, Field]):
    """The fields of an object, each made on first use, as schemas refer to themselves."""

    def __init__(self, schema: Schema, name: str) -> None:
        self._name = name
        self._keys: dict[str, str] = {}
        for key in schema.fields:
            if (escaped := escape(key)) is not None:
                self._keys[escaped] = key
            if key in RESERVED:  # as it is after a dot, too
                self._keys.setdefault(key, key)
        self._schemas = schema.fields
        self._made: dict[str, Field | None] = {}

    def __getitem__(self, escaped: str) -> Field:
        if escaped not in self._made:
            key = self._keys[escaped]
            type_ = type_of(self._schemas[key], f"{self._name}.{key}")
            self._made[escaped] = None if type_ is None else Field(key, type_)
        found = self._made[escaped]
        if found is None:
            raise KeyError(escaped)
        return found

    def __iter__(self) -> Iterator[str]:
        return (each for each in self._keys if self.get(each) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
