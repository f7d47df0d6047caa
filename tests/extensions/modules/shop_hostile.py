"""The extension shop with three versions, whose functions do what the note of an order says."""

from __future__ import annotations

import os
import time
from typing import Any

from apiserver.extensions import Extension
from tests.extensions.modules.orders import (
    NAME,
    V1,
    V2,
    V3,
    SpecV1,
    SpecV2,
    SpecV3,
    down,
    up,
    version,
)

app = Extension("shop", timeout_s=0.5)
app.crd(
    version(V1, SpecV1, storage=True), version(V2, SpecV2, storage=False), version(V3, SpecV3, storage=False)
)


@app.convert(NAME, "v1", "v2")
def grow(order: Any) -> Any:
    match order["spec"].get("note"):
        case "raises":
            raise LookupError("no such size")
        case "text":
            return "an order"
        case "kind":
            order["kind"] = "Invoice"
        case "version":
            order["apiVersion"] = "shop.example.com/v7"
        case "name":
            order["metadata"]["name"] = "other"
        case "uid":
            del order["metadata"]["uid"]
        case "metadata":
            del order["metadata"]
        case "cycle":
            order["spec"]["self"] = order
        case "late":
            time.sleep(60)
        case "ends":
            os._exit(3)
        case "server fields":
            order["metadata"] |= {"generation": 99, "labels": {"by": "shop"}, "finalizers": ["x.io/y"]}
    up(order)
    return order


@app.convert(NAME, "v2", "v1")
async def shrink(order: Any) -> Any:
    down(order)


@app.convert(NAME, "v2", "v3")
def rename(order: Any) -> Any:
    order["spec"]["width"] = order["spec"].pop("length")


@app.convert(NAME, "v3", "v2")
def rename_back(order: Any) -> Any:
    return {**order, "spec": {"length": order["spec"]["width"], "note": order["spec"].get("note", "")}}
