"""Metrics whose functions return what they should."""

from __future__ import annotations

from typing import Any

from apiserver.extensions import Extension

app = Extension("shop-metrics")
_calls = [0]


@app.metric("shop_calls_total", help="The calls of this function \\ of all.", kind="counter")
def count_calls() -> int:
    _calls[0] += 1
    return _calls[0]


@app.metric("shop_orders_open", labels=["fruit"])
async def open_orders() -> dict[str, float]:
    return {'"apple"\n': 2, "pear": 0.5}


@app.metric("shop_orders_by_place", labels=["shop", "fruit"])
def orders_by_place() -> dict[tuple[str, str], int]:
    return {("east", "apple"): 1, ("west", "pear"): -2}


@app.metric("shop_namespaces")
def count_namespaces(api: Any) -> int:
    return len(api.list("namespaces"))
