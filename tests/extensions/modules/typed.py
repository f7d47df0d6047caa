"""Functions whose parameters have types: `app` in a worker, `inline` in the server's process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apiserver.extensions import Api, Denied, Extension, Request, User
from apiserver.types import crd

if TYPE_CHECKING:
    from collections.abc import Callable

app = Extension("typed")
inline = Extension("typed-inline")


@dataclass
class Item:
    sku: str
    count: int = 1


@dataclass
class OrderSpec:
    items: list[Item] = field(default_factory=list)
    total: int | None = None


@crd("typed.example.com/v1")
@dataclass
class Order:
    spec: OrderSpec


@crd("typed.example.com/v1beta1", kind="Order", storage=False)
@dataclass
class OldOrder:
    spec: dict[str, Any] = field(default_factory=dict)


@dataclass
class Data:
    color: str = "red"


@dataclass
class ConfigMap:
    """Only a part of a ConfigMap."""

    data: Data


app.crd(Order, OldOrder)


@app.convert("orders.typed.example.com", "v1beta1", "v1")
def to_v1(order: dict[str, Any]) -> None: ...


@app.convert("orders.typed.example.com", "v1", "v1beta1")
def to_v1beta1(order: dict[str, Any]) -> None: ...


@app.mutate("orders.typed.example.com")
def count(order: Order) -> None:
    order.spec.total = sum(each.count for each in order.spec.items)


@app.validate("orders.typed.example.com", on="update")
def only_more(new: Order, old: Order, warn: Callable[[str], None], who: User, write: Request) -> None:
    warn(f"{who.name} {write.operation}")
    if (new.spec.total or 0) < (old.spec.total or 0):
        raise Denied("fewer items", field="spec.items")


@app.validate("orders.typed.example.com", on="delete")
def stays(order: Order, client: Api) -> None:
    if client.get("namespaces", "default"):
        raise Denied(f"the namespace exists, and {order.spec.total} items")


def paint(config_map: ConfigMap) -> None:
    config_map.data.color = config_map.data.color.upper()


def deny_blue(config_map: ConfigMap, old: ConfigMap | None) -> None:
    if config_map.data.color == "BLUE" and old is not None:
        raise Denied(f"{old.data.color} cannot become blue")


for extension, is_inline, name in ((app, False, "worker"), (inline, True, "inline")):
    where = f"object.metadata.name.startsWith('{name}')"
    extension.mutate("configmaps", where=where, inline=is_inline)(paint)
    extension.validate("configmaps", where=where, inline=is_inline)(deny_blue)
