"""Functions get instances of classes, and arguments by the types of their parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import pytest

from apiserver.extensions import Api, AsyncApi, Extension, InvalidExtension
from apiserver.extensions.invocation import Invocation
from apiserver.extensions.outcomes import outcome
from tests.extensions.modules import typed
from tests.support.api import Api as Client
from tests.support.server_process import ServerProcess

MODULE: Final = "tests.extensions.modules.typed"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
ORDERS: Final = "/apis/typed.example.com/{}/namespaces/default/orders"
MODES: Final = ("worker", "inline")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    flags = [f"--extension={MODULE}:{each}" for each in ("app", "inline")]
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", *flags) as server, Client(server) as api:
        yield api


def order(name: str, *items: Any, version: str = "v1") -> dict[str, Any]:
    return {
        "apiVersion": f"typed.example.com/{version}",
        "kind": "Order",
        "metadata": {"name": name, "labels": {"team": "a"}},
        "spec": {"items": list(items)},
    }


def config_map(name: str, **data: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"team": "a"}},
        "data": {"color": "red", **data},
        "binaryData": {"raw": "aGk="},
    }


def test_a_function_changes_an_instance_of_its_class(api: Client) -> None:
    created = api.post(ORDERS.format("v1"), order("one", {"sku": "a", "count": 2}, {"sku": "b"})).ok()
    assert created["spec"]["total"] == 3
    assert created["metadata"]["labels"] == {"team": "a"}


def test_a_function_gets_the_version_of_its_class_whichever_the_client_uses(api: Client) -> None:
    old = order("old", {"sku": "a", "count": 2}, version="v1beta1")
    created = api.post(ORDERS.format("v1beta1"), old).ok()
    assert (created["apiVersion"], created["spec"]["total"]) == ("typed.example.com/v1beta1", 2)


def test_arguments_are_found_by_their_types(api: Client) -> None:
    created = api.post(ORDERS.format("v1"), order("less", {"sku": "a", "count": 2})).ok()
    created["spec"]["items"][0]["count"] = 1
    refused = api.put(f"{ORDERS.format('v1')}/less", created)
    cause = {"message": "fewer items", "field": "spec.items"}
    assert (refused.status, refused.json["details"]["causes"]) == (403, [cause])
    created["spec"]["items"][0]["count"] = 3
    changed = api.put(f"{ORDERS.format('v1')}/less", created)
    assert changed.status == 200
    assert changed.warnings == ["admin UPDATE"]
    refused = api.delete(f"{ORDERS.format('v1')}/less")
    assert (refused.status, refused.message.endswith("the namespace exists, and 3 items")) == (403, True)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_class_does_not_have_is_kept(api: Client, mode: str) -> None:
    created = api.post(CONFIG_MAPS, config_map(f"{mode}-kept", size="1")).ok()
    assert created["data"] == {"color": "RED", "size": "1"}
    assert created["binaryData"] == {"raw": "aGk="}
    assert created["metadata"]["labels"] == {"team": "a"}


@pytest.mark.parametrize("mode", MODES)
def test_the_old_object_is_an_instance_too(api: Client, mode: str) -> None:
    path = f"{CONFIG_MAPS}/{mode}-old"
    created = api.post(CONFIG_MAPS, config_map(f"{mode}-old")).ok()
    refused = api.put(path, {**created, "data": {"color": "blue"}})
    assert refused.status == 403
    assert refused.message.endswith("RED cannot become blue")


@pytest.mark.parametrize("mode", MODES)
def test_an_object_that_does_not_fit_is_a_failure_that_names_the_field(api: Client, mode: str) -> None:
    refused = api.post(CONFIG_MAPS, {**config_map(f"{mode}-wrong"), "data": None})
    assert (refused.status, refused.reason) == (500, "InternalError")
    assert re.search(r"paint \(typed.py:\d+\) failed: InvalidObject: data is required$", refused.message)


@dataclass
class Pod:
    spec: dict[str, Any]


class Typed(TypedDict):
    spec: dict[str, Any]


def takes_other(pod: int) -> None: ...


def takes_missing(pod: NoSuchClass) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def takes_api(pod: Pod, client: AsyncApi) -> None: ...


async def takes_async_api(pod: Pod, client: Api) -> None: ...


def converts(pod: Pod) -> None: ...


def converts_typed_dict(pod: Typed) -> None: ...


WRONG: Final[dict[str, tuple[Callable[[Extension], Any], str]]] = {
    "no class with fields": (
        lambda app: app.mutate("pods")(takes_other),
        r"takes_other \(test_typed_functions.py:\d+\): the parameter pod must be a dict, or a class with",
    ),
    "a class that does not exist": (
        lambda app: app.mutate("pods")(takes_missing),
        "the type 'NoSuchClass' is not defined",
    ),
    "a client of async functions": (
        lambda app: app.validate("pods")(takes_api),
        "the parameter client must be an Api, as the function is not async",
    ),
    "a client of other functions": (
        lambda app: app.validate("pods")(takes_async_api),
        "the parameter client must be an AsyncApi, as the function is async",
    ),
    "a conversion": (
        lambda app: app.convert("pods.example.com", "v1", "v2")(converts),
        "a conversion function gets a dict or a TypedDict, as objects can lack fields that Pod requires",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_annotations_that_nothing_fits_are_errors(case: str) -> None:
    declare, problem = WRONG[case]
    with pytest.raises(InvalidExtension, match=problem):
        declare(Extension("shop"))


def test_functions_with_a_typed_dict_get_documents() -> None:
    app = Extension("shop")
    app.convert("pods.example.com", "v1", "v2")(converts_typed_dict)
    assert app.hooks[0].parameters.subject_type is None


def test_a_reconciler_gets_instances_in_the_version_of_its_class() -> None:
    app = Extension("shop")

    @app.reconcile("orders.typed.example.com")
    def place(order: typed.Order) -> float:
        return float(order.spec.total or 0)

    assert app.hooks[0].options["resource"] == "orders.v1.typed.example.com"
    call = Invocation(app.hooks[0], lambda *_: None).begin({"object": {"spec": {"total": 7}}})
    assert outcome(call) == {"result": {"requeueAfterSeconds": 7.0}}
