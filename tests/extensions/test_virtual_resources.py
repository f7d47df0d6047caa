"""Virtual resources: functions make their objects, and clients see them as if they were stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.extensions import Extension, InvalidExtension
from apiserver.extensions.virtual_resources import VirtualResource
from apiserver.testing import ApiServer
from tests.extensions.modules import stocks, watched_stocks
from tests.support.api import Api
from tests.support.definitions import DEFINITIONS, define, definition, version
from tests.support.kubectl import Kubectl, each_version, program
from tests.support.server_process import ServerProcess

MODULES: Final = "tests.extensions.modules"
EXTENSIONS: Final[dict[str, Sequence[Extension | str]]] = {
    "in the process of the test": [stocks.app],
    "in a worker": [f"{MODULES}.stocks"],
}
ALL: Final = "/apis/shop.example.com/v1/stocks"
DEFAULT: Final = "/apis/shop.example.com/v1/namespaces/default/stocks"


@pytest.fixture(scope="module", params=EXTENSIONS.values(), ids=list(EXTENSIONS))
def server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    with ApiServer(extensions=request.param) as server:
        yield server


def stock(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "shop.example.com/v1",
        "kind": "Stock",
        "metadata": {"name": name},
        "spec": {"fruit": "fig", **spec},
    }


def names(found: dict[str, Any]) -> list[str]:
    return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in found["items"]]


# ---- reads


SELECTED: Final = {
    "all namespaces": (ALL, ["default/apples", "default/pears", "kube-system/melons"]),
    "a namespace": (DEFAULT, ["default/apples", "default/pears"]),
    "an empty namespace": (DEFAULT.replace("default", "kube-public"), []),
    "a label": (f"{ALL}?labelSelector=size=6", ["default/apples", "kube-system/melons"]),
    "a label that is absent": (f"{ALL}?labelSelector=!size", []),
    "a name": (f"{ALL}?fieldSelector=metadata.name=pears", ["default/pears"]),
    "a namespace as a field": (f"{ALL}?fieldSelector=metadata.namespace!=default", ["kube-system/melons"]),
    "a selectable field": (f"{ALL}?fieldSelector=spec.fruit=melon", ["kube-system/melons"]),
    "a limit, which has no effect": (f"{DEFAULT}?limit=1", ["default/apples", "default/pears"]),
}


@pytest.mark.parametrize("case", SELECTED)
def test_lists_have_the_objects_that_are_selected(server: ApiServer, case: str) -> None:
    path, expected = SELECTED[case]
    code, found = server.request("GET", path)
    assert (code, names(found)) == (200, expected)


def test_a_list_has_no_revision_and_complete_objects(server: ApiServer) -> None:
    _, found = server.request("GET", f"{DEFAULT}?fieldSelector=metadata.name=pears")
    assert found == {
        "apiVersion": "shop.example.com/v1",
        "kind": "StockList",
        "metadata": {"continue": "", "resourceVersion": ""},
        "items": [
            {
                "apiVersion": "shop.example.com/v1",
                "kind": "Stock",
                "metadata": {"name": "pears", "namespace": "default", "labels": {"size": "5"}},
                "spec": {"fruit": "pear", "count": 5},
            }
        ],
    }


def test_a_field_that_is_not_selectable_is_refused(server: ApiServer) -> None:
    code, status = server.request("GET", f"{ALL}?fieldSelector=spec.count=5")
    assert (code, status["reason"]) == (400, "BadRequest")


def test_one_object(server: ApiServer) -> None:
    code, found = server.request("GET", f"{DEFAULT}/apples")
    assert (code, found["spec"]) == (200, {"fruit": "apple", "count": 6})


def test_an_object_that_does_not_exist(server: ApiServer) -> None:
    code, status = server.request("GET", f"{DEFAULT}/melons")
    assert (code, status["message"]) == (404, 'stocks.shop.example.com "melons" not found')


def test_an_object_is_looked_for_in_the_list_without_a_function_to_get_it() -> None:
    app = Extension("lists")

    def list_stocks(namespace: str, field_selector: str) -> list[dict[str, Any]]:
        found = {"metadata": {"name": "a", "annotations": {"asked": f"{namespace} {field_selector}"}}}
        return [{**found, "spec": {"fruit": "fig"}}]

    app.resource(stocks.Stock).list(list_stocks)
    with ApiServer(extensions=[app]) as server:
        _, found = server.request("GET", f"{DEFAULT}/a")
        assert found["metadata"]["annotations"] == {"asked": "default metadata.name=a"}
        assert server.request("GET", f"{DEFAULT}/b")[0] == 404


# ---- writes


def test_an_object_is_created_by_the_function(server: ApiServer) -> None:
    code, created = server.request("POST", DEFAULT, stock("figs"))
    assert (code, created["metadata"]["annotations"]) == (201, {"created-by": "admin"})
    assert server.request("GET", f"{DEFAULT}/figs") == (200, created)
    code, status = server.request("POST", DEFAULT, stock("figs"))
    assert (code, status["reason"], status["message"]) == (409, "AlreadyExists", "there are figs already")
    assert server.request("DELETE", f"{DEFAULT}/figs")[0] == 200


def test_the_generation_counts_changes_if_functions_keep_it(server: ApiServer) -> None:
    path = f"{DEFAULT}/figs"
    _, created = server.request(
        "POST", DEFAULT, stock("figs") | {"metadata": {"name": "figs", "generation": 7}}
    )
    assert created["metadata"]["generation"] == 1
    headers = {"Content-Type": MERGE_PATCH}
    changes = ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"count": 8}}, {"spec": {"count": 9}})
    patched = [server.request("PATCH", path, each, headers=headers)[1] for each in changes]
    assert [each["metadata"]["generation"] for each in patched] == [1, 2, 3]
    assert server.request("DELETE", path)[0] == 200
    # Its function keeps no generation.
    _, apples = server.request("GET", f"{DEFAULT}/apples")
    apples["metadata"]["generation"] = 5
    _, updated = server.request("PUT", f"{DEFAULT}/apples", apples | {"spec": {"fruit": "apple", "count": 6}})
    assert "generation" not in updated["metadata"]


LISTS: Final = {
    "without a function to watch": ("shop.example.com/v1", [stocks.app], "list objects of kind Stock"),
    "with one": ("watched.example.com/v1", [watched_stocks.app], "list or watch objects of kind Stock"),
}


@pytest.mark.parametrize("case", LISTS)
def test_openapi_says_whether_a_list_can_be_watched(case: str) -> None:
    group_version, extensions, description = LISTS[case]
    with ApiServer(extensions=extensions) as server:
        _, found = server.request("GET", f"/openapi/v3/apis/{group_version}")
    operation = found["paths"][f"/apis/{group_version}/namespaces/{{namespace}}/stocks"]["get"]
    assert operation["description"] == description
    assert {"watch", "allowWatchBookmarks"} <= {each["name"] for each in operation["parameters"]}


def test_the_server_generates_names(server: ApiServer) -> None:
    posted = {**stock(""), "metadata": {"generateName": "fig-"}}
    _, created = server.request("POST", DEFAULT, posted)
    name = created["metadata"]["name"]
    assert name.startswith("fig-")
    assert len(name) > len("fig-")
    assert server.request("DELETE", f"{DEFAULT}/{name}")[0] == 200


REFUSED: Final = {
    "a wrong type": ("POST", DEFAULT, stock("bad", count="x"), 422, "spec.count: Invalid value"),
    "a value out of bounds": ("POST", DEFAULT, stock("bad", count=-1), 422, "spec.count: Invalid value: -1"),
    "a wrong name": ("POST", DEFAULT, stock("Bad"), 422, "metadata.name: Invalid value"),
    "a namespace that does not exist": (
        "POST",
        DEFAULT.replace("default", "nowhere"),
        stock("bad"),
        404,
        'namespaces "nowhere" not found',
    ),
    "an update of nothing": ("PUT", f"{DEFAULT}/bad", stock("bad"), 404, '"bad" not found'),
    "an update to a wrong value": ("PUT", f"{DEFAULT}/pears", stock("pears", count=-1), 422, "spec.count"),
    "a deletion of nothing": ("DELETE", f"{DEFAULT}/bad", None, 404, '"bad" not found'),
    "a precondition": (
        "DELETE",
        f"{DEFAULT}/pears",
        {"preconditions": {"uid": "other"}},
        409,
        "the UID in the precondition (other) does not match the UID in record (). The object",
    ),
    "a deletion of all": ("DELETE", DEFAULT, None, 405, "does not allow this method"),
    "a watch": ("GET", f"{DEFAULT}?watch=1", None, 405, "watch is not supported on resources of kind"),
    "a subresource": ("GET", f"{DEFAULT}/pears/status", None, 404, "not found"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_requests(server: ApiServer, case: str) -> None:
    method, path, body, code, message = REFUSED[case]
    refused, status = server.request(method, path, body)
    assert (refused, status["code"]) == (code, code)
    assert message in status["message"]


def test_an_update_gets_the_old_object_and_can_warn(server: ApiServer) -> None:
    server.request("POST", DEFAULT, stock("dates", count=7))
    answer = server.request("PUT", f"{DEFAULT}/dates", stock("dates", count=5))
    assert (answer[0], answer[1]["spec"]["count"]) == (200, 5)
    stale = {**stock("dates"), "metadata": {"name": "dates", "resourceVersion": "3"}}
    assert server.request("PUT", f"{DEFAULT}/dates", stale)[0] == 409
    code, status = server.request("DELETE", f"{DEFAULT}/dates")
    assert (code, status["status"], status["details"]["name"]) == (200, "Success", "dates")


def test_an_update_that_changes_nothing_is_not_passed_on(server: ApiServer) -> None:
    _, before = server.request("GET", f"{DEFAULT}/apples")
    # Otherwise, the function would have replaced it by an object without labels.
    assert server.request("PUT", f"{DEFAULT}/apples", before) == (200, before)


JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
# The media type and the patch → the status code, and the count of the object or a part of the message.
PATCHES: Final[dict[str, tuple[str, Any, int, int | str]]] = {
    "a merge patch": (MERGE_PATCH, {"spec": {"count": 9}}, 200, 9),
    "a JSON patch": (JSON_PATCH, [{"op": "replace", "path": "/spec/count", "value": 8}], 200, 8),
    "a field that does not exist": (
        JSON_PATCH,
        [{"op": "remove", "path": "/spec/color"}],
        422,
        "the server rejected our request due to an error in our request",
    ),
    "a wrong value": (MERGE_PATCH, {"spec": {"count": -1}}, 422, "spec.count: Invalid value: -1"),
    "another version": (MERGE_PATCH, {"metadata": {"resourceVersion": "3"}}, 409, "has been modified"),
    "another name": (MERGE_PATCH, {"metadata": {"name": "b"}}, 400, "does not match the name on the URL"),
    "a strategic merge patch": (
        "application/strategic-merge-patch+json",
        {},
        415,
        f"accepted media types include: {JSON_PATCH}, {MERGE_PATCH}",
    ),
    "a server-side apply": (
        "application/apply-patch+yaml",
        {},
        415,
        f"accepted media types include: {JSON_PATCH}, {MERGE_PATCH}",
    ),
}


@pytest.mark.parametrize("case", PATCHES)
def test_patches_are_updates_by_the_function(server: ApiServer, case: str) -> None:
    media_type, patch, code, expected = PATCHES[case]
    server.request("POST", DEFAULT, stock("limes", count=5))
    answer = server.request("PATCH", f"{DEFAULT}/limes", patch, headers={"Content-Type": media_type})
    assert server.request("DELETE", f"{DEFAULT}/limes")[0] == 200
    assert answer[0] == code
    if isinstance(expected, int):
        assert answer[1]["spec"]["count"] == expected
    else:
        assert expected in answer[1]["message"]


def test_a_patch_keeps_the_version_that_functions_give() -> None:
    app = Extension("versions")
    resource = app.resource(stocks.Stock)
    kept: dict[str, Any] = {"metadata": {"name": "a", "resourceVersion": "v7"}, "spec": {"fruit": "fig"}}
    updates: list[tuple[str, str]] = []

    @resource.list
    def found() -> list[dict[str, Any]]:
        return [kept]

    @resource.update
    def update(stock: dict[str, Any], old: dict[str, Any]) -> None:
        updates.append((stock["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]))

    merge = {"Content-Type": MERGE_PATCH}
    versions = {"v7": 200, "v6": 409}
    with ApiServer(extensions=[app]) as server:
        assert server.request("PATCH", f"{DEFAULT}/a", {"spec": {"count": 2}}, headers=merge)[0] == 200
        for version, code in versions.items():
            patch = {"metadata": {"resourceVersion": version}, "spec": {"count": 2}}
            assert server.request("PATCH", f"{DEFAULT}/a", patch, headers=merge)[0] == code
    assert updates == [("v7", "v7")] * 2


def test_functions_can_take_instances_of_the_class() -> None:
    app = Extension("typed")
    resource = app.resource(stocks.Stock)
    kept: dict[str, Any] = {}

    @resource.create
    def create(stock: stocks.Stock, name: str) -> None:
        stock.spec.count += 1
        kept[name] = stock.spec.count

    @resource.update
    def update(stock: stocks.Stock, old: stocks.Stock) -> None:
        stock.spec.count += old.spec.count

    @resource.get
    def get(name: str, namespace: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"fruit": "fig", "count": kept[name]}}

    with ApiServer(extensions=[app]) as server:
        assert server.request("POST", DEFAULT, stock("a", count=1))[1]["spec"]["count"] == 2
        assert server.request("PUT", f"{DEFAULT}/a", stock("a", count=5))[1]["spec"]["count"] == 7


def test_functions_that_know_no_dry_run_are_not_called_for_one(server: ApiServer) -> None:
    code, created = server.request("POST", f"{DEFAULT}?dryRun=All", stock("nuts"))
    assert (code, "annotations" in created["metadata"]) == (201, False)
    assert server.request("GET", f"{DEFAULT}/nuts")[0] == 404
    code, updated = server.request("PUT", f"{DEFAULT}/pears?dryRun=All", stock("pears", count=9))
    assert (code, updated["spec"]["count"]) == (200, 9)
    assert server.request("DELETE", f"{DEFAULT}/pears?dryRun=All")[0] == 200
    assert server.request("GET", f"{DEFAULT}/pears")[1]["spec"]["count"] == 5


def test_admission_runs_before_the_functions() -> None:
    app = Extension("admission")

    @app.mutate("stocks.shop.example.com", on="create")
    def add_count(found: dict[str, Any]) -> None:
        found["spec"]["count"] = 42

    @app.validate("stocks.shop.example.com", on="delete")
    def keep(found: dict[str, Any]) -> None:
        assert found["metadata"]["name"] != "pears", "they stay"

    with ApiServer(extensions=[stocks.app, app]) as server:
        assert server.request("POST", DEFAULT, stock("kiwis"))[1]["spec"]["count"] == 42
        assert server.request("DELETE", f"{DEFAULT}/kiwis")[0] == 200
        code, status = server.request("DELETE", f"{DEFAULT}/pears")
        assert code == 500
        assert "keep (test_virtual_resources.py:" in status["message"]
        assert server.request("GET", f"{DEFAULT}/pears")[0] == 200


# ---- discovery, schemas and access


def test_discovery_has_the_verbs_of_the_functions(server: ApiServer) -> None:
    _, found = server.request("GET", "/apis/shop.example.com/v1")
    assert found["resources"] == [
        {
            "name": "stocks",
            "singularName": "stock",
            "shortNames": ["stk"],
            "namespaced": True,
            "kind": "Stock",
            "verbs": ["delete", "get", "list", "patch", "create", "update"],
        }
    ]
    aggregated = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    _, groups = server.request("GET", "/apis", headers=aggregated)
    [group] = [each for each in groups["items"] if each["metadata"]["name"] == "shop.example.com"]
    [resource] = group["versions"][0]["resources"]
    assert (resource["resource"], resource["verbs"]) == ("stocks", found["resources"][0]["verbs"])


def test_openapi_has_the_schema_and_the_operations(server: ApiServer) -> None:
    _, v3 = server.request("GET", "/openapi/v3/apis/shop.example.com/v1")
    spec = v3["components"]["schemas"]["com.example.shop.v1.Stock"]["properties"]["spec"]
    assert spec["properties"]["fruit"]["description"] == "The fruit in the warehouse."
    item = v3["paths"]["/apis/shop.example.com/v1/namespaces/{namespace}/stocks/{name}"]
    assert item.keys() == {"get", "put", "patch", "delete", "parameters"}
    assert set(item["patch"]["requestBody"]["content"]) == {JSON_PATCH, MERGE_PATCH}
    _, v2 = server.request("GET", "/openapi/v2")
    assert "com.example.shop.v1.Stock" in v2["definitions"]


def test_tables_have_the_columns_of_the_class(server: ApiServer) -> None:
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    _, found = server.request("GET", DEFAULT, headers=table)
    assert [each["name"] for each in found["columnDefinitions"]] == ["Name", "Fruit", "Count"]
    assert [each["cells"] for each in found["rows"]] == [["apples", "apple", 6], ["pears", "pear", 5]]


def test_users_need_permission() -> None:
    with ApiServer(extensions=[stocks.app]) as server:
        alice = {"Impersonate-User": "alice"}
        code, status = server.request("GET", DEFAULT, headers=alice)
        assert (code, status["reason"]) == (403, "Forbidden")
        role = {
            "metadata": {"name": "see"},
            "rules": [{"apiGroups": ["shop.example.com"], "resources": ["stocks"], "verbs": ["list"]}],
        }
        binding = {
            "metadata": {"name": "see"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "see"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }
        rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        assert server.request("POST", f"{rbac}/roles", role)[0] == 201
        assert server.request("POST", f"{rbac}/rolebindings", binding)[0] == 201
        server.wait_for("RoleBinding", "see", "default", until=lambda _: True)
        assert server.request("GET", DEFAULT, headers=alice)[0] == 200
        assert server.request("GET", f"{DEFAULT}/pears", headers=alice)[0] == 403


@pytest.mark.kubectl
@pytest.mark.parametrize("kubectl_version", each_version(-1))
def test_kubectl_works_with_virtual_resources(
    server: ApiServer, tmp_path: Path, kubectl_version: str
) -> None:
    kubectl = Kubectl(program(kubectl_version), Path(server.kubeconfig), "default", tmp_path)
    shown = kubectl("get", "stk", "-A").splitlines()
    assert [line.split() for line in shown] == [
        ["NAMESPACE", "NAME", "FRUIT", "COUNT"],
        ["default", "apples", "apple", "6"],
        ["default", "pears", "pear", "5"],
        ["kube-system", "melons", "melon", "6"],
    ]
    assert "The fruit in the warehouse." in kubectl("explain", "stocks.spec.fruit")
    assert kubectl("get", "stock", "pears", "-o", "jsonpath={.spec.count}") == "5"
    limes = tmp_path / "limes.yaml"
    limes.write_text(json.dumps(stock("limes")))
    assert kubectl("create", "-f", str(limes)) == "stock.shop.example.com/limes created\n"
    assert kubectl("delete", "stock", "limes").startswith('stock.shop.example.com "limes" deleted')


# ---- groups, collisions


def test_a_group_has_virtual_and_custom_resources() -> None:
    with ApiServer(extensions=[stocks.app, f"{MODULES}.shop_v1"]) as server:
        _, found = server.request("GET", "/apis/shop.example.com/v1")
        assert {each["name"] for each in found["resources"]} >= {"orders", "stocks"}
        assert server.request("GET", DEFAULT)[0] == 200
        assert server.request("GET", DEFAULT.replace("stocks", "orders"))[0] == 200
        _, service = server.request("GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1.shop.example.com")
        assert service["status"]["conditions"][0]["reason"] == "Local"


def test_a_definition_cannot_take_the_names_of_a_virtual_resource() -> None:
    with ApiServer(extensions=[stocks.app]) as server:
        later = definition("shop.example.com", version("v1"), plural="stocks", kind="Stock")
        assert server.request("POST", DEFINITIONS, later)[0] == 201
        found = server.wait_for(
            "CustomResourceDefinition",
            "stocks.shop.example.com",
            until=lambda it: it.get("status", {}).get("conditions"),
        )
        conditions = {each["type"]: each for each in found["status"]["conditions"]}
        assert conditions["NamesAccepted"]["reason"] in ("PluralConflict", "KindConflict", "ListKindConflict")
        assert '"StockList" is already in use' in conditions["NamesAccepted"]["message"]
        assert conditions["Established"]["status"] == "False"
        assert names(server.request("GET", DEFAULT)[1]) == ["default/apples", "default/pears"]


def extension_file(directory: Path, name: str, **crd: str) -> str:
    """Write an extension with a virtual resource. Returns its module. crd: arguments of the decorator."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in crd.items() if key != "version")
    (directory / f"{name}_collides.py").write_text(
        "from dataclasses import dataclass\n"
        "from apiserver.extensions import Extension\n"
        "from apiserver.types import crd\n"
        f"app = Extension({name!r})\n"
        f"@crd({crd['version']!r}, {arguments})\n"
        "@dataclass\n"
        "class Thing:\n"
        "    spec: str = ''\n"
        "@app.resource(Thing).list\n"
        "def list_things(): return []\n"
    )
    return f"{name}_collides"


COLLISIONS: Final = {
    "with a resource of another extension": (
        {"one": {"version": "batch.example.com/v1"}, "two": {"version": "batch.example.com/v1"}},
        (
            'extension "two": the virtual resource things.v1.batch.example.com collides with '
            'things.v1.batch.example.com of extension "one"'
        ),
    ),
    "with the kind of another": (
        {
            "one": {"version": "batch.example.com/v1"},
            "two": {"version": "batch.example.com/v2", "plural": "thingies"},
        },
        (
            'extension "two": the virtual resource thingies.v2.batch.example.com collides with '
            'things.v1.batch.example.com of extension "one"'
        ),
    ),
    "an invalid definition": (
        {"one": {"version": "batch.example.com/v1", "singular": "No_Name"}},
        'extension "one": the virtual resource things.batch.example.com: spec.names.singular: Invalid value',
    ),
}


@pytest.mark.parametrize("case", COLLISIONS)
def test_a_server_with_resources_that_cannot_be_served_does_not_start(tmp_path: Path, case: str) -> None:
    extensions, reason = COLLISIONS[case]
    modules = [extension_file(tmp_path, name, **crd) for name, crd in extensions.items()]
    flags = [f"--extension={each}" for each in modules]
    environment = {"PYTHONPATH": str(tmp_path)}
    refusal = ServerProcess(tmp_path / "data", *flags, module="apiserver", environment=environment).refusal()
    assert refusal.code == 1
    assert reason in refusal.stderr


def test_a_server_whose_store_has_a_definition_of_the_same_name_does_not_start(tmp_path: Path) -> None:
    with ServerProcess(tmp_path).start() as server:
        with Api(server) as api:
            define(api, definition("shop.example.com", version("v1"), plural="stocks", kind="Stock"))
        server.stop()
        server.flags = (f"--extension={MODULES}.stocks",)
        refusal = server.refusal()
    assert (
        'extension "stocks": the virtual resource stocks.v1.shop.example.com collides with the '
        "CustomResourceDefinition stocks.shop.example.com"
    ) in refusal.stderr


# ---- declarations


def undecorated(name: str) -> None: ...


WRONG: Final = {
    "no class": (lambda app: app.resource("stocks"), "resource takes a CustomResourceDefinition, or classes"),
    "no function": (lambda app: app.resource(stocks.Stock), "stocks.shop.example.com has no function"),
    "a deletion of what cannot be read": (
        lambda app: app.resource(stocks.Stock).delete(undecorated),
        "has a function for delete, but none for get or list",
    ),
    "two functions for a verb": (
        lambda app: _twice(app.resource(stocks.Stock)),
        "has two functions for get: undecorated is one",
    ),
    "the same resource twice": (
        lambda app: [app.resource(stocks.Stock).get(undecorated) for _ in range(2)],
        "there are two virtual resources stocks.shop.example.com with version v1",
    ),
    "an unknown parameter": (
        lambda app: app.resource(stocks.Stock).list(undecorated),
        "nothing is known for the parameter name; there can be: api, field_selector, label_selector",
    ),
}


def _twice(resource: VirtualResource) -> None:
    resource.get(undecorated)
    resource.get(undecorated)


@pytest.mark.parametrize("case", WRONG)
def test_wrong_declarations_are_refused(case: str) -> None:
    declare, message = WRONG[case]
    with pytest.raises(InvalidExtension, match=message):
        _described(declare)


def _described(declare: Callable[[Any], object]) -> None:
    app = Extension("wrong")
    declare(app)
    app.describe()


# ---- what the server does with stored objects, and not with these


def kept(namespace: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": "kept", "namespace": namespace or "default"}, "spec": {"fruit": "fig"}}]


async def quiet() -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield


@pytest.fixture
def watched() -> Iterator[ApiServer]:
    """A server with a resource that has all verbs of those that are stored."""
    app = Extension("kept")
    resource = app.resource(stocks.Stock)
    resource.list(kept)
    resource.watch(quiet)
    resource.create(lambda stock: None)
    resource.update(lambda stock: None)
    resource.delete(stocks.delete_stock)
    with ApiServer(extensions=[app]) as server:
        yield server


def test_a_namespace_is_deleted_without_its_virtual_objects(watched: ApiServer) -> None:
    watched.request("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
    watched.request("DELETE", "/api/v1/namespaces/gone")
    watched.wait_until_gone("Namespace", "gone")


def test_virtual_objects_count_for_no_quota(watched: ApiServer) -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/stocks.shop.example.com": "0"}}}
    watched.request("POST", "/api/v1/namespaces/default/resourcequotas", quota)
    watched.wait_for("ResourceQuota", "few", "default", until=lambda it: it.get("status", {}).get("hard"))
    assert watched.request("POST", DEFAULT, stock("kept"))[0] == 201


def test_dependents_of_virtual_objects_stay(watched: ApiServer) -> None:
    owner = {"apiVersion": "shop.example.com/v1", "kind": "Stock", "name": "kept", "uid": "none"}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "none"}
    config_maps = "/api/v1/namespaces/default/configmaps"
    for name, owners in {"stays": [owner], "goes": [other]}.items():
        document = {"metadata": {"name": name, "ownerReferences": owners}}
        assert watched.request("POST", config_maps, document)[0] == 201
    watched.wait_until_gone("ConfigMap", "goes", "default")
    assert watched.request("GET", f"{config_maps}/stays")[0] == 200
