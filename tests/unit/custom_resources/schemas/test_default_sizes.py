"""How much defaults may add: never less than they do."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from apiserver.custom_resources.schemas.default_sizes import default_bytes
from apiserver.custom_resources.schemas.prune_and_default import DEFAULTS_BYTES_MAX, Pruner
from apiserver.schema.extensions import Extensions
from apiserver.schema.structural import Schema as Structural
from apiserver.schema.structural import ValueKind

Schema = dict[str, Any]


def struct(*, default: Any = None, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({} if default is None else {"default": default})}


def array(items: Schema, *, default: Any = None) -> Schema:
    return {"type": "array", "items": items, **({} if default is None else {"default": default})}


def text(default: str | None = None) -> Schema:
    return {"type": "string", **({} if default is None else {"default": default})}


def lists_in_lists(levels: int) -> Schema:
    inner = text("x") if levels == 1 else lists_in_lists(levels - 1)
    return array(struct(inner=inner), default=[{}, {}, {}])


# Schemas, a document that gets most, and how many objects and nulls that has.
SCHEMAS: Final[dict[str, tuple[Schema, Any, int]]] = {
    "no defaults": (struct(a=text(), b=struct(c=text())), {}, 1),
    "a text": (struct(a=text("value")), {}, 1),
    "a text that is escaped": (struct(a=text('"\n"')), {}, 1),
    "one that is there already": (struct(a=text("value")), {"a": "b"}, 1),
    "numbers, and others": (
        struct(a={"default": 10**15}, b={"default": 0.1}, c={"default": True}, d={"default": [1, 2]}),
        {},
        1,
    ),
    "in items": (struct(a=array(struct(b=text("value")))), {"a": [{}] * 10}, 11),
    "in a map": (
        struct(a={"type": "object", "additionalProperties": struct(b=text("value"))}),
        {"a": {"x": {}, "y": {}}},
        4,
    ),
    "of items that are null": (struct(a=array(text("value"))), {"a": [None] * 10}, 11),
    "of fields that are null": (struct(a=text("value")), {"a": None}, 2),
    "in defaults": (struct(a=struct(b=struct(c=text("x"), default={}), default={})), {}, 1),
    "in the items of defaults": (struct(a=lists_in_lists(4)), {}, 1),
    "in the members of defaults": (
        struct(a={"type": "object", "additionalProperties": struct(b=text("x")), "default": {"k": {}}}),
        {},
        1,
    ),
    "of nulls in defaults": (struct(a=array(text("value"), default=[None] * 5)), {}, 1),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "document", "places"), SCHEMAS.values(), ids=SCHEMAS)
def test_defaults_add_no_more(schema: Schema, document: Any, places: int) -> None:
    before = len(orjson.dumps(document))
    meta = Structural(ValueKind.STRUCT, "v1.ObjectMeta", fields={})
    Pruner(schema, Extensions("kubernetes.io"), meta).prune_and_default(document)
    added = len(orjson.dumps(document)) - before
    assert added <= places * default_bytes(schema)


def test_without_defaults_there_is_nothing() -> None:
    assert default_bytes(SCHEMAS["no defaults"][0]) == 0


def test_it_is_not_much_more() -> None:
    """`"a":"value",`."""
    assert default_bytes(SCHEMAS["a text"][0]) == 12


def test_defaults_multiply() -> None:
    assert default_bytes(lists_in_lists(20)) > 3**20


def test_a_schema_that_is_nested_deeply() -> None:
    schema = text("x")
    for _ in range(1_000):
        schema = array(schema, default=[None])
    assert default_bytes(schema) == DEFAULTS_BYTES_MAX
