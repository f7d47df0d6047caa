"""A virtual resource whose objects are in memory: each worker process has its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from apiserver.extensions import Denied, Extension
from apiserver.types import Column, Doc, Ge, Selectable, crd

app = Extension("stocks")


@dataclass
class StockSpec:
    fruit: Annotated[str, Selectable, Doc("The fruit in the warehouse.")]
    count: Annotated[int, Ge(0)] = 0


@crd(
    "shop.example.com/v1",
    short_names=["stk"],
    columns=[Column("Fruit", ".spec.fruit"), Column("Count", ".spec.count")],
)
@dataclass
class Stock:
    """How much of a fruit a warehouse has."""

    spec: StockSpec


NAMESPACES = {"default": ("apples", "pears"), "kube-system": ("melons",)}
stocks = app.resource(Stock)
_stored: dict[tuple[str, str], dict[str, Any]] = {
    (namespace, name): {
        "metadata": {"name": name, "namespace": namespace, "labels": {"size": str(len(name))}},
        "spec": {"fruit": name.removesuffix("s"), "count": len(name)},
    }
    for namespace, names in NAMESPACES.items()
    for name in names
}


@stocks.list
async def list_stocks() -> list[dict[str, Any]]:
    return list(_stored.values())


@stocks.get
def get_stock(name: str, namespace: str) -> dict[str, Any] | None:
    return _stored.get((namespace, name))


@stocks.create
def create_stock(stock: dict[str, Any], user: Any) -> dict[str, Any]:
    place = stock["metadata"]["namespace"], stock["metadata"]["name"]
    if place in _stored:
        raise Denied(f"there are {place[1]} already", reason="AlreadyExists", code=409)
    stock["metadata"]["annotations"] = {"created-by": user.name}
    _stored[place] = stock
    return stock


@stocks.update
def update_stock(stock: dict[str, Any], old: dict[str, Any], warn: Any) -> None:
    if stock["spec"]["count"] < old["spec"]["count"]:
        warn("there are fewer than before")
    _stored[stock["metadata"]["namespace"], stock["metadata"]["name"]] = stock


@stocks.delete
def delete_stock(name: str, namespace: str) -> None:
    del _stored[namespace, name]
