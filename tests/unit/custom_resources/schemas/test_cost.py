"""Unused schemas cost nothing, and hostile ones little."""

from __future__ import annotations

import copy
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest

from .samples import TEXT, WHOLE, by_key, field, items, of, root, values

# Thirty fields, as definitions have them.
SPEC: Final = of(
    **{f"text{index}": TEXT | {"maxLength": 64} for index in range(10)},
    **{f"number{index}": WHOLE | {"minimum": 0, "maximum": 1000} for index in range(8)},
    **{f"pattern{index}": TEXT | {"pattern": "^[a-z0-9-]+$"} for index in range(4)},
    **{f"flag{index}": {"type": "boolean", "default": True} for index in range(4)},
    labels=values(TEXT),
    ports=by_key(of(name=TEXT, port=WHOLE, protocol=TEXT | {"default": "TCP"}), "name"),
    choice=TEXT | {"enum": ["A", "B"]},
    inner=of(a=of(b=TEXT)),
)
DOCUMENT: Final = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "a"},
    "spec": {
        **{f"text{index}": "x" * 30 for index in range(10)},
        **{f"number{index}": index for index in range(8)},
        **{f"pattern{index}": "abc-123" for index in range(4)},
        "labels": {"a": "b"},
        "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        "choice": "A",
        "inner": {"a": {"b": "c"}},
    },
}
KB: Final = 1024


def taken(make: Callable[[], Any]) -> int:
    """The bytes that stay in use."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = make()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return after - before


def test_memory() -> None:
    root(of(spec=SPEC)).pruner(copy.deepcopy(DOCUMENT))  # what all share

    def used() -> list[Any]:
        schemas = [root(of(spec=SPEC)) for _ in range(10)]
        for schema in schemas:
            document = copy.deepcopy(DOCUMENT)
            assert schema.pruner(document) == []
            assert schema.validate(document, document) == []
        return schemas

    assert taken(lambda: [root(of(spec=SPEC)) for _ in range(100)]) / 100 < 2 * KB
    assert taken(used) / 10 < 120 * KB


def nested_logic(word: str, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"minimum": 10}
    for _ in range(depth):
        schema = {"not": schema} if word == "not" else {word: [schema, {"minimum": 11}]}
    return schema


HOSTILE: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    **{
        f"{word} in {word}, {depth} times": (WHOLE | nested_logic(word, depth), 1)
        for word in ("anyOf", "oneOf", "allOf", "not")
        for depth in (100, 5_000)
    },
    "many alternatives": (
        items(WHOLE | {"anyOf": [{"minimum": each} for each in range(10, 100)]}),
        [1] * 10_000,
    ),
    "a pattern that others take for ever on": (TEXT | {"pattern": "^(a+)+$"}, "a" * 200_000 + "!"),
    "a great number": (WHOLE | {"multipleOf": 7}, 10**400),
    "many lists in lists": (items(items(WHOLE)), [[1]] * 100_000),
}


@pytest.mark.parametrize(("schema", "value"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_schemas_are_done_soon(schema: dict[str, Any], value: Any) -> None:
    start = time.process_time()
    custom = field(schema)
    custom.pruner({"v": copy.copy(value)})
    custom.validate({"v": value})
    custom.validate({"v": value}, {"v": 5})
    assert time.process_time() - start < 3


def test_the_schema_can_be_compiled_before_the_first_request() -> None:
    custom = root(of(spec=SPEC))
    custom.compile()
    assert custom.validate(copy.deepcopy(DOCUMENT)) == []
