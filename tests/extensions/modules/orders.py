"""Versions of a type, for extensions that define it: `Order`, whose size is a number in v1 and a text in v2.

v3 has the text in another field. Functions of tests spoil an object if its note says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from apiserver.extensions import Extension
from apiserver.types import crd

NAME: Final = "orders.shop.example.com"
V1: Final = "shop.example.com/v1"
V2: Final = "shop.example.com/v2"
V3: Final = "shop.example.com/v3"


@dataclass
class SpecV1:
    size: int = 0
    note: str = ""


@dataclass
class SpecV2:
    length: str = ""
    note: str = ""


@dataclass
class SpecV3:
    width: str = ""
    note: str = ""


def version(api_version: str, spec: type, *, storage: bool) -> type:
    """Returns a class of the type in one version."""
    order: type = dataclass(type("Order", (), {"__annotations__": {"spec": spec}}))
    return crd(api_version, kind="Order", storage=storage)(order)


def up(order: Any) -> None:
    order["spec"]["length"] = f"{order['spec'].pop('size')}cm"


def down(order: Any) -> None:
    order["spec"]["size"] = int(order["spec"].pop("length").removesuffix("cm"))


def convert_between(app: Extension, *pairs: tuple[str, str, Any]) -> None:
    for source, target, function in pairs:
        app.convert(NAME, source, target)(function)
