"""Types whose definitions are made from Python classes, in a running server."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver import types
from tests.support.api import Api
from tests.support.definitions import DEFINITIONS, is_established
from tests.support.eventually import until
from tests.unit.types.shop import dataclass_shop

DEFINITION: Final = types.definition(dataclass_shop.Order)
DEFINITION_PATH: Final = f"{DEFINITIONS}/orders.shop.example.com"
AS_TABLE: Final = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
ORDERS: Final = "/apis/shop.example.com/v1/namespaces/default/orders"
ORDER: Final[dict[str, Any]] = {
    "apiVersion": "shop.example.com/v1",
    "kind": "Order",
    "metadata": {"name": "first"},
    "spec": {
        "owner": "ann",
        "items": [{"sku": "pear", "price": "1.50"}],
        "target": {"kind": "address", "street": "Main Street"},
        "days": {"first": "2026-01-02"},
    },
}


@pytest.fixture
def shop(api: Api) -> Api:
    """A server with the type Order, without orders."""
    api.apply(f"{DEFINITION_PATH}?fieldManager=shop", DEFINITION).ok()
    until(lambda: api.get(DEFINITION_PATH), is_established, "Established")
    until(lambda: api.get(ORDERS), lambda answer: answer.status == 200, "served")
    api.delete(ORDERS).ok()
    return api


def order(**spec: Any) -> dict[str, Any]:
    return {**ORDER, "spec": {**ORDER["spec"], **spec}}


def test_a_second_apply_of_the_definition_changes_nothing(shop: Api) -> None:
    before = shop.get(DEFINITION_PATH).ok()
    assert shop.apply(f"{DEFINITION_PATH}?fieldManager=shop", DEFINITION).ok() == before


def test_defaults_are_set(shop: Api) -> None:
    created = shop.post(ORDERS, ORDER).ok()
    assert created["spec"] == {
        **ORDER["spec"],
        "items": [{"sku": "pear", "price": "1.50", "labels": {}}],
        "least": 1,
        "port": 80,
        "memory": "1Gi",
        "state": "New",
        "tags": [],
        "ipFamily": "IPv4",
    }
    assert created["policy"] == {"limits": {"rate": 0.5, "burst": 20}, "strict": False}


def test_two_appliers_merge_the_items_of_a_list(shop: Api) -> None:
    path = f"{ORDERS}/merged?fieldManager="
    metadata = {"name": "merged"}
    shop.apply(f"{path}one", {**ORDER, "metadata": metadata}).ok()
    other = {"items": [{"sku": "plum", "price": 2}]}
    kind = {"apiVersion": ORDER["apiVersion"], "kind": ORDER["kind"], "metadata": metadata}
    shop.apply(f"{path}two", {**kind, "spec": other}).ok()
    again = shop.apply(f"{path}one", {**ORDER, "metadata": metadata}).ok()
    assert [item["sku"] for item in again["spec"]["items"]] == ["pear", "plum"]
    conflict = {"items": [{"sku": "pear", "price": 3}]}
    assert shop.apply(f"{path}two", {**kind, "spec": conflict}).status == 409
    left = shop.apply(f"{path}two", kind).ok()
    assert [item["sku"] for item in left["spec"]["items"]] == ["pear"]


INVALID: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a rule": (order(least=3, most=2), "spec: Invalid value: least must not be more than most"),
    "a rule of a class in a union": (
        order(target={"kind": "address", "street": ""}),
        "spec.target: Invalid value: a street needs a name",
    ),
    "a class in a union without its field": (
        order(target={"kind": "locker"}),
        '"spec.target" must validate one and only one schema (oneOf). Found none valid',
    ),
    "a bound": (order(least=100), "spec.least: Invalid value: 100: spec.least in body should be less than"),
    "an enumeration": (order(state="Lost"), 'spec.state: Unsupported value: "Lost"'),
    "a key of a list twice": (
        order(items=[{"sku": "a", "price": 1}, {"sku": "a", "price": 2}]),
        'spec.items[1]: Duplicate value: {"sku":"a"}',
    ),
    "a set": (order(tags=["a", "a"]), 'spec.tags[1]: Duplicate value: "a"'),
}


@pytest.mark.parametrize(("body", "problem"), INVALID.values(), ids=INVALID)
def test_the_server_rejects_an_invalid_order(shop: Api, body: dict[str, Any], problem: str) -> None:
    answer = shop.post(ORDERS, body)
    assert answer.status == 422
    assert problem in answer.json["message"]


def test_an_immutable_field(shop: Api) -> None:
    shop.post(ORDERS, ORDER).ok()
    answer = shop.patch(f"{ORDERS}/first", {"spec": {"owner": "bob"}})
    assert answer.status == 422
    assert 'spec.owner: Invalid value: "bob": field is immutable' in answer.json["message"]


def test_the_status_columns_scale_and_field_selectors(shop: Api) -> None:
    shop.post(ORDERS, ORDER).ok()
    shop.patch(f"{ORDERS}/first/status", {"status": {"state": "Sent"}}).ok()
    shop.patch(f"{ORDERS}/first", {"status": {"state": "Lost"}}).ok()
    table = shop.get(ORDERS, headers=AS_TABLE).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Least"]
    assert table["rows"][0]["cells"] == ["first", "Sent", 1]
    shop.patch(f"{ORDERS}/first/scale", {"spec": {"replicas": 5}}).ok()
    assert shop.get(f"{ORDERS}/first").ok()["spec"]["least"] == 5
    for state, count in {"Sent": 1, "New": 0}.items():
        found = shop.get(f"{ORDERS}?fieldSelector=status.state={state}").ok()
        assert len(found["items"]) == count
