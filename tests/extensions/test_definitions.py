"""The definitions of extensions: applied when the server starts, and served when it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.extensions.modules import shop_v1
from tests.support.api import Api
from tests.support.definitions import DEFINITIONS
from tests.support.etcd_process import wheel_etcd
from tests.support.server_process import ServerProcess

MODULES: Final = "--extension=tests.extensions.modules"
NAME: Final = "orders.shop.example.com"
PATH: Final = f"{DEFINITIONS}/{NAME}"
CONVERSION: Final = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"url": "https://shop.extension.invalid/convert"},
        "conversionReviewVersions": ["v1"],
    },
}


def orders(version: str) -> str:
    return f"/apis/shop.example.com/{version}/namespaces/default/orders"


def order(name: str, version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"shop.example.com/{version}",
        "kind": "Order",
        "metadata": {"name": name},
        "spec": spec,
    }


def restarted(server: ServerProcess, module: str) -> Api:
    """Returns a client of the server, after it has started again with another extension."""
    server.stop()
    server.flags = (f"{MODULES}.{module}",)
    return Api(server.start())


def versions_of(definition: dict[str, Any]) -> list[tuple[str, bool, bool]]:
    return [(each["name"], each["served"], each["storage"]) for each in definition["spec"]["versions"]]


def test_a_ready_server_serves_the_types_of_its_extension(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, f"{MODULES}.shop_v1").start() as server, Api(server) as api:
        assert api.get(orders("v1")).ok()["items"] == []
        ready = api.get("/readyz?verbose").body.decode()
        assert "[+]poststarthook/extension-definitions ok" in ready
        found = api.get(PATH).ok()
        assert [(each["manager"], each["operation"]) for each in found["metadata"]["managedFields"]] == [
            ("extension-shop", "Apply"),
            ("kube-apiserver", "Update"),
        ]


def test_a_server_without_definitions_has_no_hook_for_them(tmp_path: Path) -> None:
    with ServerProcess(tmp_path).start() as server, Api(server) as api:
        assert "extension-definitions" not in api.get("/readyz?verbose").body.decode()


def test_a_second_start_and_a_second_server_write_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, f"{MODULES}.shop_v2").start() as server:
        with Api(server) as api:
            before = api.get(PATH).ok()
        with restarted(server, "shop_v2") as api:
            assert api.get(PATH).ok() == before


@pytest.mark.etcd
def test_workers_apply_the_same_definitions(tmp_path: Path) -> None:
    flags = ("--workers=2", f"{MODULES}.shop_v2")
    with (
        wheel_etcd(tmp_path) as etcd,
        ServerProcess(tmp_path / "data", f"--etcd-servers={etcd.url}", *flags).start() as server,
        Api(server) as api,
    ):
        assert api.get(PATH).ok()["metadata"]["generation"] == 1
        api.post(orders("v1"), order("a", size=1)).ok()
        assert api.get(f"{orders('v2')}/a").ok()["spec"]["length"] == "1cm"


def test_fields_of_others_stay_and_changes_of_the_extensions_fields_are_undone(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, f"{MODULES}.shop_v1").start() as server:
        with Api(server) as api:
            names = {"shortNames": ["ord"], "singular": "other"}
            api.patch(PATH, {"metadata": {"labels": {"team": "a"}}, "spec": {"names": names}}).ok()
        with restarted(server, "shop_v1") as api:
            found = api.get(PATH).ok()
            assert found["metadata"]["labels"] == {"team": "a"}
            assert found["spec"]["names"]["shortNames"] == ["ord"]
            assert found["spec"]["names"]["singular"] == "order"


def test_an_upgrade_from_one_version_to_two_with_stored_objects(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, f"{MODULES}.shop_v1").start() as server:
        with Api(server) as api:
            api.post(orders("v1"), order("old", size=1)).ok()
            assert api.get(PATH).ok()["spec"]["conversion"] == {"strategy": "None"}
        with restarted(server, "shop_v2") as api:
            found = api.get(PATH).ok()
            assert found["spec"]["conversion"] == CONVERSION
            assert found["status"]["storedVersions"] == ["v1", "v2"]
            api.post(orders("v2"), order("new", "v2", length="2cm")).ok()
            assert [each["spec"]["size"] for each in api.get(orders("v1")).ok()["items"]] == [2, 1]
            assert [each["spec"]["length"] for each in api.get(orders("v2")).ok()["items"]] == ["2cm", "1cm"]


def test_a_version_stays_while_objects_may_be_stored_in_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, f"{MODULES}.shop_v1").start() as server:
        with Api(server) as api:
            api.post(orders("v1"), order("old", size=1)).ok()
            schema = api.get(PATH).ok()["spec"]["versions"][0]["schema"]
        with restarted(server, "shop_v2_only") as api:
            found = api.get(PATH).ok()
            assert versions_of(found) == [("v2", True, True), ("v1", False, False)]
            assert found["spec"]["versions"][1]["schema"] == schema
            assert 'extension "shop" no longer has the versions v1 of orders' in server.stderr
            assert api.get(orders("v1")).status == 404
            [old] = api.get(orders("v2")).ok()["items"]
            assert old["spec"]["length"] == "1cm"
            # Once no object is stored in it any more, it goes with the next start.
            api.put(f"{orders('v2')}/old", old).ok()
            api.patch(f"{PATH}/status", {"status": {"storedVersions": ["v2"]}}).ok()
        with restarted(server, "shop_v2_only") as api:
            assert versions_of(api.get(PATH).ok()) == [("v2", True, True)]


def test_objects_of_a_version_that_no_function_converts_are_not_damaged(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, f"{MODULES}.shop_v1").start() as server:
        with Api(server) as api:
            api.post(orders("v1"), order("old", size=1)).ok()
        with restarted(server, "shop_v2"):
            pass
        with restarted(server, "shop_v2_forgetful") as api:
            assert api.get(PATH).ok()["spec"]["conversion"] == CONVERSION
            refused = api.get(f"{orders('v2')}/old")
            assert refused.status == 503
            assert (
                'extension "shop" has no function that converts orders.shop.example.com from v1 to v2'
                in refused.message
            )
        with restarted(server, "shop_v2") as api:
            assert api.get(f"{orders('v2')}/old").ok()["spec"]["length"] == "1cm"


def test_a_definition_that_was_deleted_is_applied_again(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, f"{MODULES}.shop_v1").start() as server:
        with Api(server) as api:
            api.delete(PATH).ok()
        with restarted(server, "shop_v1") as api:
            api.post(orders("v1"), order("a", size=1)).ok()


REFUSED: Final = {
    "an invalid definition": (
        ["shop_invalid"],
        '"widgets.shop.example.com" is invalid: spec.validation.openAPIV3Schema.properties[spec].type: ',
    ),
    "an unknown field": (["shop_misspelled"], 'unknown field "spec.shortNames"'),
    "a built-in type": (["shop_builtin"], "the server has a built-in type of this name"),
    "a definition of two extensions": (
        ["shop_v1", "rival"],
        'extension "rival": CustomResourceDefinition orders.shop.example.com: extension "shop" has it, too',
    ),
    "a kind that is in use": (
        ["shop_v1", "names_in_use"],
        'otherorders.shop.example.com: its names are not accepted: "OrderList" is already in use',
    ),
    "versions that cannot be converted": (
        ["one_way"],
        "no function converts orders.shop.example.com from v2 to v1, or from v3 to v1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_does_not_start_with_a_definition_that_cannot_be_served(tmp_path: Path, case: str) -> None:
    modules, reason = REFUSED[case]
    refusal = ServerProcess(tmp_path, *(f"{MODULES}.{each}" for each in modules)).refusal()
    assert refusal.code == 1
    assert reason in refusal.stderr
    assert "ExceptionGroup" not in refusal.stderr


def test_a_definition_without_conversion_functions_is_the_one_of_its_classes() -> None:
    [definition] = shop_v1.app.describe()["definitions"]
    assert "conversion" not in definition["spec"]
