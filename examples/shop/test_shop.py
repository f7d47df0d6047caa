import json

import pytest
from shop import app

# Each test has its own fork of a server that runs the extension in the process of the tests, so that
# breakpoints work. No test sees the orders of another one.
pytestmark = pytest.mark.apiserver(extensions=[app])
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def path(version="v1"):
    return f"/apis/shop.example.com/{version}/namespaces/default/orders"


def order(version="v1", **spec):
    return {
        "apiVersion": f"shop.example.com/{version}",
        "kind": "Order",
        "metadata": {"name": "first"},
        "spec": {"fruit": "pear", **spec},
    }


def wait_for_invoice(kube, text):
    kube.wait_for(
        "ConfigMap", "first-invoice", "default", until=lambda it: it["data"]["text"] == text, timeout_s=60
    )


def test_the_price_and_the_currency_are_set(kube):
    code, created = kube.request("POST", path(), order(count=2))
    assert code == 201
    assert created["spec"] == {"fruit": "pear", "count": 2, "currency": "EUR", "price": 120}


def test_the_price_follows_the_count(kube):
    kube.request("POST", path(), order(count=2, currency="USD", price=1))
    _, changed = kube.request("PATCH", f"{path()}/first", {"spec": {"count": 3}}, headers=MERGE)
    assert changed["spec"] == {"fruit": "pear", "count": 3, "currency": "USD", "price": 180}


def test_a_namespace_can_have_another_currency(kube):
    labels = {"metadata": {"labels": {"shop.example.com/currency": "CHF"}}}
    kube.request("PATCH", "/api/v1/namespaces/default", labels, headers=MERGE)
    _, created = kube.request("POST", path(), order())
    assert created["spec"]["currency"] == "CHF"


def test_an_order_over_the_budget_is_rejected(kube):
    code, status = kube.request("POST", path(), order(count=17))
    assert (code, status["details"]["causes"][0]["field"]) == (403, "spec.count")
    assert "the price is 1020 cents, but the budget is 1000 cents" in status["message"]
    assert kube.request("GET", f"{path()}/first")[0] == 404


@pytest.mark.parametrize(
    ("field", "value"), [("fruit", "kiwi"), ("fruit", 7), ("count", 0), ("count", "two")]
)
def test_an_invalid_order_is_rejected(kube, field, value):
    code, status = kube.request("POST", path(), order(**{field: value}))
    assert (code, status["details"]["causes"][0]["field"]) == (422, f"spec.{field}")


def test_old_and_new_clients_share_an_order(kube):
    kube.request("POST", path("v1beta1"), order("v1beta1", pieces=2))
    _, new = kube.request("GET", f"{path('v1')}/first")
    assert new["spec"] == {"fruit": "pear", "count": 2, "currency": "EUR", "price": 120}
    _, old = kube.request("GET", f"{path('v1beta1')}/first")
    assert old["spec"] == {"fruit": "pear", "pieces": 2, "currency": "EUR", "price": 120}


def test_old_clients_have_the_same_budget(kube):
    assert kube.request("POST", path("v1beta1"), order("v1beta1", pieces=17))[0] == 403


def test_a_manager_can_apply_an_order_in_both_versions(kube):
    url = "{}/first?fieldManager=test"
    for version, spec in [("v1beta1", {"pieces": 2}), ("v1", {"count": 3}), ("v1beta1", {})]:
        applied = json.dumps(order(version, **spec)).encode()
        code, answer = kube.request("PATCH", url.format(path(version)), applied, headers=APPLY)
        assert code in (200, 201), answer
    assert answer["spec"]["pieces"] == 1


def test_an_order_has_an_invoice(kube):
    kube.request("POST", path(), order(count=2))
    wait_for_invoice(kube, "2 x pear: 120 cents (EUR)")
    kube.wait_for("Order", "first", "default", until=lambda it: it["status"]["invoice"], timeout_s=60)


def test_the_invoice_follows_its_order(kube):
    kube.request("POST", path(), order(count=2))
    wait_for_invoice(kube, "2 x pear: 120 cents (EUR)")
    kube.request("PATCH", f"{path()}/first", {"spec": {"count": 3}}, headers=MERGE)
    wait_for_invoice(kube, "3 x pear: 180 cents (EUR)")


def test_a_changed_invoice_is_restored(kube):
    kube.request("POST", path(), order(count=2))
    wait_for_invoice(kube, "2 x pear: 120 cents (EUR)")
    kube.request("PATCH", f"{CONFIG_MAPS}/first-invoice", {"data": {"text": "free"}}, headers=MERGE)
    wait_for_invoice(kube, "2 x pear: 120 cents (EUR)")


def test_the_invoice_is_deleted_with_its_order(kube):
    kube.request("POST", path(), order(count=2))
    wait_for_invoice(kube, "2 x pear: 120 cents (EUR)")
    kube.request("DELETE", f"{path()}/first")
    kube.wait_until_gone("ConfigMap", "first-invoice", "default")


def test_the_controller_comes_to_rest(kube):
    kube.request("POST", path(), order(count=2))
    wait_for_invoice(kube, "2 x pear: 120 cents (EUR)")
    kube.wait_for("Order", "first", "default", until=lambda it: it["status"]["invoice"], timeout_s=60)
    kube.assert_quiet("Order", "ConfigMap", namespace="default", seconds=1)


DEMANDS = "/apis/shop.example.com/v1/namespaces/default/demands"


def test_the_demand_counts_orders_and_pieces(kube):
    assert kube.request("GET", DEMANDS)[1]["items"] == []
    for name, fruit, count in [("a", "pear", 2), ("b", "pear", 1), ("c", "apple", 4)]:
        kube.request("POST", path(), {**order(fruit=fruit, count=count), "metadata": {"name": name}})
    _, found = kube.request("GET", DEMANDS)
    assert [(each["metadata"]["name"], each["spec"]) for each in found["items"]] == [
        ("apple", {"orders": 1, "pieces": 4}),
        ("pear", {"orders": 2, "pieces": 3}),
    ]


def test_the_demand_follows_the_orders_of_its_namespace(kube):
    kube.request("POST", path(), order(count=2))
    assert kube.request("GET", f"{DEMANDS}/pear")[1]["spec"] == {"orders": 1, "pieces": 2}
    elsewhere = DEMANDS.replace("default", "kube-public")
    assert kube.request("GET", f"{elsewhere}/pear")[0] == 404
    kube.request("DELETE", f"{path()}/first")
    assert kube.request("GET", f"{DEMANDS}/pear")[0] == 404
