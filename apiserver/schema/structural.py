"""A schema as data: what Kubernetes calls structural."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Kind(enum.Enum):
    STRUCT = "struct"  # an object with known fields
    MAP = "map"  # an object with any keys and values of one schema
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    BYTES = "bytes"  # base64 text
    TIME = "time"  # RFC 3339, kept in whole seconds
    MICRO_TIME = "micro time"  # RFC 3339, kept in microseconds
    INT_OR_STRING = "int or string"
    QUANTITY = "quantity"  # text or a number
    ANY = "any"  # nothing is known of it
    ANY_OBJECT = "any object"


@dataclass(slots=True, eq=False)
class Schema:
    """The schema of one value. Nodes are shared and may be recursive, so they compare by identity.

    go_type: the type's name in messages, which clients know from Kubernetes, as `v1.Container`.
    definition: the schema's name among the definitions, if it has one.
    """

    kind: Kind
    go_type: str
    fields: dict[str, Schema] = field(default_factory=dict)  # STRUCT
    required: frozenset[str] = frozenset()  # STRUCT: fields that are shown even when they are empty
    element: Schema | None = None  # MAP: of the values; LIST: of the items
    bits: int = 64  # INTEGER
    definition: str = ""

    @property
    def struct_name(self) -> str:
        """`v1.Container` -> `Container`."""
        return self.go_type.rpartition(".")[2]
