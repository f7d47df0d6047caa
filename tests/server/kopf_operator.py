"""An operator as people write them with kopf. Run by test_kopf with `kopf run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import kopf

ORDERS = ("shop.example.com", "v1", "orders")
TICK_S = 0.3


@kopf.on.create(*ORDERS)
def created(**told: Any) -> dict[str, Any]:
    """What a handler returns, kopf writes into the status."""
    spec = told["spec"]
    return {"total": spec["price"] * spec["count"]}


@kopf.on.update(*ORDERS, field="spec.count")
def counted(**told: Any) -> dict[str, Any]:
    return {"from": told["old"], "to": told["new"]}


@kopf.timer(*ORDERS, interval=TICK_S)
def tick(**told: Any) -> None:
    told["patch"].status["ticks"] = told["status"].get("ticks", 0) + 1


@kopf.on.delete(*ORDERS)
def deleted(**told: Any) -> None:
    """The object is there until this has been done: kopf put a finalizer on it."""
    Path(os.environ["DELETED"]).joinpath(told["name"]).touch()
