"""A small schema with every kind of list, map and struct, and its type definition."""

from __future__ import annotations

from typing import Any, Final

from apiserver.registry.patch.apply.type_defs import TypeDef, TypeDefs
from apiserver.registry.patch.apply.updater import TypeVersion
from apiserver.schema.structural import Schema, ValueKind

STRING: Final = Schema(ValueKind.STRING, "string")
NUMBER: Final = Schema(ValueKind.INTEGER, "int64")
ITEM: Final = Schema(
    ValueKind.STRUCT,
    "v1.Item",
    fields={
        "name": STRING,
        "proto": STRING,
        "v": NUMBER,
        "args": Schema(ValueKind.LIST, "[]string", element=STRING),
        "tags": Schema(ValueKind.LIST, "[]string", element=STRING, list_type="set"),
    },
    definition="Item",
)
SPEC: Final = Schema(
    ValueKind.STRUCT,
    "v1.Spec",
    fields={
        "a": STRING,
        "n": NUMBER,
        "on": Schema(ValueKind.BOOLEAN, "bool"),
        "size": Schema(ValueKind.QUANTITY, "resource.Quantity"),
        "items": Schema(
            ValueKind.LIST, "[]v1.Item", element=ITEM, list_type="map", list_map_keys=("name", "proto")
        ),
        "tags": Schema(ValueKind.LIST, "[]string", element=STRING, list_type="set"),
        "list": Schema(ValueKind.LIST, "[]string", element=STRING),
        "atom": Schema(ValueKind.MAP, "map[string]string", element=STRING, map_type="atomic"),
        "free": Schema(ValueKind.ANY_OBJECT, "map[string]interface {}"),
    },
)
META: Final = Schema(
    ValueKind.STRUCT,
    "v1.ObjectMeta",
    fields={
        "name": STRING,
        "uid": STRING,
        "resourceVersion": STRING,
        "managedFields": Schema(
            ValueKind.LIST, "[]v1.ManagedFieldsEntry", element=Schema(ValueKind.ANY, "any")
        ),
        "labels": Schema(ValueKind.MAP, "map[string]string", element=STRING),
        "annotations": Schema(ValueKind.MAP, "map[string]string", element=STRING),
        "finalizers": Schema(ValueKind.LIST, "[]string", element=STRING, list_type="set"),
    },
)
OBJECT: Final = Schema(
    ValueKind.STRUCT,
    "v1.Thing",
    fields={
        "apiVersion": STRING,
        "kind": STRING,
        "metadata": META,
        "data": Schema(ValueKind.MAP, "map[string]string", element=STRING),
        "spec": SPEC,
        "status": Schema(ValueKind.STRUCT, "v1.Status", fields={"n": NUMBER}),
    },
)
TYPE_DEF: Final[TypeDef] = TypeDefs({"Item": {"proto": "TCP"}}).of_object(OBJECT)
VERSION: Final = TypeVersion("v1", TYPE_DEF, {"apiVersion": "v1", "kind": "Thing", "metadata": {}})


def thing_of(**fields: Any) -> dict[str, Any]:
    """A Thing with these fields at its top."""
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, **fields}
