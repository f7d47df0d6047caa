"""An operator that decides about orders before they are stored. Run by test_kopf with `kopf run`."""

from __future__ import annotations

import os
from typing import Any

import kopf

ORDERS = ("shop.example.com", "v1", "orders")


@kopf.on.startup()
def configure(**told: Any) -> None:
    """The server that calls the webhooks is on this machine."""
    settings = told["settings"]
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        certfile=os.environ["CERTIFICATE"],
        pkeyfile=os.environ["KEY"],
        cafile=os.environ["CA"],
    )
    settings.admission.managed = "auto.kopf.dev"


@kopf.on.mutate(*ORDERS, operations=["CREATE"])
def priced(**told: Any) -> None:
    if "price" not in told["spec"]:
        told["patch"].spec["price"] = 5


@kopf.on.validate(*ORDERS)
def not_too_many(**told: Any) -> None:
    if told["spec"]["count"] > 100:
        raise kopf.AdmissionError("nobody needs so many", code=429)
    if told["spec"]["count"] > 50:
        told["warnings"].append("that is a lot")


@kopf.on.validate(*ORDERS, operations=["DELETE"])
def still_open(**told: Any) -> None:
    if told["spec"].get("price") == 0:
        raise kopf.AdmissionError("a gift stays")
