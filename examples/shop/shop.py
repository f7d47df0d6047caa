"""An API for the orders of a fruit shop: the type, its rules and its controller."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from apiserver.extensions import AsyncApi, Denied, Extension, controller_reference
from apiserver.types import Column, Doc, Ge, Le, crd

ORDERS = "orders.v1.shop.example.com"
PRICES = {"apple": 40, "pear": 60}
BUDGET = 1000

app = Extension("shop")


@dataclass
class OrderSpec:
    """What the customer wants."""

    fruit: Annotated[Literal["apple", "pear"], Doc("The fruit to deliver.")]
    count: Annotated[int, Ge(1), Le(100), Doc("The number of pieces.")] = 1
    currency: Annotated[str | None, Doc("The currency of the price.")] = None
    price: Annotated[int | None, Doc("The price in cents. The server sets it.")] = None


@dataclass
class OrderStatus:
    invoice: Annotated[str | None, Doc("The ConfigMap that contains the invoice.")] = None


@crd(
    "shop.example.com/v1",
    short_names=["ord"],
    columns=[
        Column("Fruit", ".spec.fruit"),
        Column("Count", ".spec.count"),
        Column("Price", ".spec.price"),
        Column("Invoice", ".status.invoice"),
    ],
)
@dataclass
class Order:
    """An order of a customer."""

    spec: OrderSpec
    status: OrderStatus | None = None


@app.mutate(ORDERS)
def set_price(order: dict[str, Any], namespace_labels: dict[str, str]) -> None:
    """The server validates the order later, so fields may be missing or invalid."""
    match order:
        case {"spec": {"fruit": str(fruit), "count": int(count)} as spec} if fruit in PRICES:
            spec.setdefault("currency", namespace_labels.get("shop.example.com/currency", "EUR"))
            spec["price"] = count * PRICES[fruit]


@app.validate(ORDERS)
def check_budget(order: dict[str, Any]) -> None:
    price = order["spec"]["price"]
    if price > BUDGET:
        raise Denied(f"the price is {price} cents, but the budget is {BUDGET} cents", field="spec.count")


@app.reconcile(ORDERS, owns=["configmaps"])
async def write_invoice(order: dict[str, Any], api: AsyncApi) -> None:
    """Apply a ConfigMap with the invoice. The server deletes it together with the order."""
    metadata, spec = order["metadata"], order["spec"]
    if "deletionTimestamp" in metadata:
        return
    name, namespace = f"{metadata['name']}-invoice", metadata["namespace"]
    owner = controller_reference(order)
    text = f"{spec['count']} x {spec['fruit']}: {spec['price']} cents ({spec['currency']})"
    invoice = {"metadata": {"name": name, "ownerReferences": [owner]}, "data": {"text": text}}
    await api.apply("configmaps", invoice, namespace)
    await api.patch(f"{ORDERS}/status", metadata["name"], {"status": {"invoice": name}}, namespace)


@dataclass
class OrderSpecV1Beta1:
    fruit: Literal["apple", "pear"]
    pieces: Annotated[int, Ge(1), Le(100)] = 1
    currency: str | None = None
    price: int | None = None


@crd("shop.example.com/v1beta1", kind="Order", storage=False)
@dataclass
class OrderV1Beta1:
    spec: OrderSpecV1Beta1
    status: OrderStatus | None = None


app.crd(Order, OrderV1Beta1)


@app.convert("orders.shop.example.com", "v1beta1", "v1")
def to_v1(order: dict[str, Any]) -> None:
    rename(order, "pieces", "count")


@app.convert("orders.shop.example.com", "v1", "v1beta1")
def to_v1beta1(order: dict[str, Any]) -> None:
    rename(order, "count", "pieces")


def rename(order: dict[str, Any], old: str, new: str) -> None:
    """For server-side apply, the server also converts objects that have only some of their fields."""
    spec = order.get("spec", {})
    if old in spec:
        spec[new] = spec.pop(old)


@dataclass
class DemandSpec:
    orders: Annotated[int, Doc("The number of orders.")]
    pieces: Annotated[int, Doc("The number of pieces in these orders.")]


@crd("shop.example.com/v1", columns=[Column("Orders", ".spec.orders"), Column("Pieces", ".spec.pieces")])
@dataclass
class Demand:
    """How many pieces of a fruit the customers have ordered."""

    spec: DemandSpec


demands = app.resource(Demand)


@demands.list
async def list_demands(namespace: str, api: AsyncApi) -> list[dict[str, Any]]:
    """Without a namespace, the demands of all namespaces."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for order in await api.list(ORDERS, namespace):
        key = order["metadata"]["namespace"], order["spec"]["fruit"]
        spec = found.setdefault(key, {"orders": 0, "pieces": 0})
        spec["orders"] += 1
        spec["pieces"] += order["spec"]["count"]
    return [{"metadata": {"namespace": key[0], "name": key[1]}, "spec": spec} for key, spec in found.items()]
