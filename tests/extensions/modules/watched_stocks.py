"""A virtual resource with a watch, whose functions do what the namespace says."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

from apiserver.extensions import Denied, Extension
from apiserver.types import Column, Selectable, crd

# An event of 17 MiB takes half a second on a busy machine.
app = Extension("watched", timeout_s=2)


@dataclass
class StockSpec:
    fruit: Annotated[str, Selectable] = ""
    count: int = 0


@crd("watched.example.com/v1", columns=[Column("Count", ".spec.count")])
@dataclass
class Stock:
    spec: StockSpec


stocks = app.resource(Stock)


def stock(name: str, namespace: str = "", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"name": name}, "namespace": namespace}, "spec": spec}


class TextFails(Exception):
    def __str__(self) -> str:
        raise KeyError("text")


# The functions that run, to be counted.
running: list[str] = []
INITIAL: Final = 2


@stocks.list
def list_stocks(namespace: str) -> list[dict[str, Any]]:
    if namespace == "running":
        return [stock("running", "running", count=len(running))]
    return [stock("apples", namespace or "default", count=INITIAL)]


@stocks.watch
async def watch_stocks(namespace: str) -> AsyncIterator[Any]:
    running.append(namespace)
    try:
        async for each in _events(namespace):
            yield each
    finally:
        running.remove(namespace)


async def _events(namespace: str) -> AsyncIterator[Any]:
    match namespace:
        case "" | "default":
            yield "ADDED", stock("pears", "default", fruit="pear", count=1)
            yield "ADDED", stock("melons", "kube-system")
            yield "MODIFIED", stock("pears", "default", fruit="fig", count=2)
            yield "DELETED", stock("pears", "default", fruit="fig", count=2)
            await asyncio.sleep(60)
        case "ends":
            yield "MODIFIED", stock("apples")
        case "counts":
            for number in range(1_000):
                yield "MODIFIED", stock("apples", count=number)
        case "floods":
            while True:
                yield "MODIFIED", stock("apples", fruit="x" * 10_000)
        case "fails":
            yield "MODIFIED", stock("apples")
            raise KeyError("warehouse")
        case "fails-early":
            raise KeyError("warehouse")
        case "denies":
            yield "MODIFIED", stock("apples")
            raise Denied("closed")
        case "number":
            yield 7
        case "type":
            yield "CHANGED", stock("apples")
        case "bookmark":
            yield "BOOKMARK", stock("apples")
        case "object":
            yield "ADDED", 7
        case "invalid":
            yield "ADDED", stock("apples", count="many")
        case "nameless":
            yield "ADDED", {"metadata": {}, "spec": {}}
        case "set":
            yield "ADDED", stock("apples", count={1})
        case "huge":
            yield "ADDED", stock("apples", fruit="x" * (17 << 20))
        case "text-fails":
            raise TextFails
        case "surrogate":
            raise ValueError("\ud800")
        case "huge-refusal":
            raise Denied("x" * (17 << 20))
        case "leaves":
            await asyncio.sleep(0.2)
            os._exit(3)
        case "loops":
            await asyncio.sleep(0.1)
            while True:
                pass
        case "stays":
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)
        case _:
            await asyncio.sleep(60)
