"""Structural schemas as data."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class ValueKind(enum.Enum):
    """The kind of a value, like Go's reflect.Kind of a type; not the kind of an object."""

    STRUCT = "struct"  # an object with known fields
    MAP = "map"  # an object with any keys and values of one schema
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    BYTES = "bytes"  # a string in base64
    TIME = "time"  # RFC 3339, stored in whole seconds
    MICRO_TIME = "micro time"  # RFC 3339, stored in microseconds
    INT_OR_STRING = "int or string"
    QUANTITY = "quantity"  # a string or a number
    ANY = "any"  # a value without a schema
    ANY_OBJECT = "any object"
    EITHER = "either"  # an object of one schema, or a value of another


@dataclass(slots=True, eq=False, repr=False)
class Schema:
    """The schema of one value. Nodes are shared and may be recursive, so they compare by identity.

    go_type: the type's name in messages, which clients know from Kubernetes, as `v1.Container`.
    definition: the schema's name among the definitions, if it has one.

    The rules for merging; a field may override those of its type:
    patch_strategy: in strategic merge patches: `merge` for lists whose items are merged, `replace` for
        objects that are not; empty is the default of each kind.
    patch_merge_key: the field that identifies the items of a merged list; empty for lists of scalars.
    list_type: in server-side apply: `atomic`, `set` or `map`; empty means `atomic`.
    list_map_keys: the fields that identify the items of a `map` list.
    map_type: in server-side apply, for objects: `atomic` or `granular`; empty means `granular`.
    default: the value of an absent key of a `map` list's items.

    vendor: as in the extension key `x-kubernetes-list-type`.
    """

    kind: ValueKind
    go_type: str
    fields: dict[str, Schema] = field(default_factory=dict)  # STRUCT
    required: frozenset[str] = frozenset()  # STRUCT: fields that are encoded even if empty
    # MAP: of the values; LIST: of the items; EITHER: of an object; STRUCT: of fields that are not declared
    element: Schema | None = None
    other: Schema | None = None  # EITHER: of a value that is no object
    bits: int = 64  # INTEGER
    definition: str = ""
    patch_strategy: str = ""
    patch_merge_key: str = ""
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    default: Any = None
    vendor: str = "kubernetes"

    @property
    def struct_name(self) -> str:
        """The name of the Go type without its package: `v1.Container` -> `Container`."""
        return self.go_type.rpartition(".")[2]
