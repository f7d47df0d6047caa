"""JSON patches of a few kilobytes that make much work. Row L03."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Api
from tests.support.schema_values import nested

_LIST: Final = {"op": "add", "path": "/x", "value": [[]]}
_DOUBLE: Final = {"op": "copy", "from": "/x", "path": "/x/-"}
_DEPTH: Final = 150


_DEEP: Final = {"op": "add", "path": "/x", "value": nested(_DEPTH)}
_DEEP_CHANGE: Final = {"op": "replace", "path": f"/x{'/a' * _DEPTH}", "value": 1}
_FIRST: Final = {"op": "add", "path": "/x/0", "value": 0}

# What is sent, and the status of the answer.
PATCHES: Final[dict[str, tuple[list[dict[str, Any]], int]]] = {
    # Of no use, but within the bounds: 65,536 values.
    "15 copies, each of which doubles values": ([_LIST, *[_DOUBLE] * 15], 200),
    "18 copies": ([_LIST, *[_DOUBLE] * 18], 422),
    "200 copies, in 11 kB": ([_LIST, *[_DOUBLE] * 200], 422),
    "400 copies": ([_LIST, *[_DOUBLE] * 400], 422),
    "items before 100,000 others": (
        [{"op": "add", "path": "/x", "value": [0] * 100_000}, *[_FIRST] * 9_999],
        422,
    ),
    "8,000 deep paths": ([_DEEP, *[_DEEP_CHANGE] * 8_000], 200),
    "tests of large values": (
        [{"op": op, "path": "/x", "value": [{}] * 10_000} for op in ("add", *["test"] * 10)],
        200,
    ),
}


@pytest.mark.parametrize(("operations", "status"), PATCHES.values(), ids=PATCHES)
def test_json_patches_do_not_hold_the_loop(
    api: Api, namespace: str, operations: list[dict[str, Any]], status: int
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.post(path, {"metadata": {"name": "a"}}).ok()
    with longest_turn(api) as turn:
        for _ in range(3):
            answer = api.patch(f"{path}/a", operations, "json-patch")
            assert answer.status == status, answer.body[:300]
    assert turn.thread_cpu_s <= 0.05
