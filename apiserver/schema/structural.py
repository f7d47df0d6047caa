"""A schema as data: what Kubernetes calls structural."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


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
    EITHER = "either"  # an object of one schema, or another value of another


@dataclass(slots=True, eq=False)
class Schema:
    """The schema of one value. Nodes are shared and may be recursive, so they compare by identity.

    go_type: the type's name in messages, which clients know from Kubernetes, as `v1.Container`.
    definition: the schema's name among the definitions, if it has one.

    How values are merged, which a field may say of its own, whatever its type says:
    patch_strategy: in strategic merge patches: `merge` for lists whose items are merged, `replace` for
        objects that are not; empty is each kind's default.
    patch_merge_key: the field that tells the items of a merged list apart; empty for lists of scalars.
    list_type: in server-side apply: `atomic`, `set` or `map`; empty where it is not said, which is `atomic`.
    list_map_keys: the fields that tell the items of a `map` list apart.
    map_type: in server-side apply: `atomic` or `granular`, of objects; empty where it is not said, which is
        `granular`.
    default: what it means that a key of a list's items is absent.

    vendor: the word in the names of fields that are extensions, as `x-kubernetes-list-type`.
    """

    kind: Kind
    go_type: str
    fields: dict[str, Schema] = field(default_factory=dict)  # STRUCT
    required: frozenset[str] = frozenset()  # STRUCT: fields that are shown even when they are empty
    # MAP: of the values; LIST: of the items; EITHER: of an object; STRUCT: of more fields than it names
    element: Schema | None = None
    other: Schema | None = None  # EITHER: of what is no object
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
        """`v1.Container` -> `Container`."""
        return self.go_type.rpartition(".")[2]
