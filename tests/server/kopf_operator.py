"""An operator as people write them with kopf. Run by test_kopf with `kopf run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import kopf  # type: ignore[import-untyped]

ORDERS = ("shop.example.com", "v1", "orders")
TICK_S = 0.3


@kopf.on.create(*ORDERS)
def created(spec: dict[str, Any], **_: Any) -> dict[str, Any]:
    """What a handler returns, kopf writes into the status."""
    return {"total": spec["price"] * spec["count"]}


@kopf.on.update(*ORDERS, field="spec.count")
def counted(old: int, new: int, **_: Any) -> dict[str, Any]:
    return {"from": old, "to": new}


@kopf.timer(*ORDERS, interval=TICK_S)
def tick(status: dict[str, Any], patch: Any, **_: Any) -> None:
    patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.on.delete(*ORDERS)
def deleted(name: str, **_: Any) -> None:
    """The object is there until this has been done: kopf put a finalizer on it."""
    Path(os.environ["DELETED"]).joinpath(name).touch()
