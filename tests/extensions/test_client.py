"""The client that functions of extensions get as `api`: the same for async functions and for others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from aiohttp import web

from apiserver.extensions import Api, ApiError, AsyncApi, Conflict, NotFound, controller_reference
from apiserver.extensions.api import ApiAccess
from apiserver.extensions.api_requests import (
    ApiRequest,
    ApiResponse,
    Discovery,
    ObjectName,
    Operations,
    Steps,
)
from tests.support import api as plain
from tests.support import hostile_server
from tests.support.authority import Authority
from tests.support.definitions import Defined, define, definition, new_group, version
from tests.support.eventually import until
from tests.support.https_server import HttpsServer
from tests.support.objects import config_map, deployment
from tests.support.server_process import ServerProcess

MANAGER: Final = "extension-shop"


class Client:
    """One of the clients; its methods return results. runner: of an event loop, for the async client."""

    def __init__(self, url: str, ca: Path, runner: asyncio.Runner | None, timeout_s: float = 60.0) -> None:
        document = {"url": url, "ca": ca.read_text(), "token": "admin-token", "fieldManager": MANAGER}
        self._access, self._runner, self._timeout_s = ApiAccess(document), runner, timeout_s

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            ends_at = time.monotonic() + self._timeout_s
            if self._runner is None:
                return getattr(Api(self._access, ends_at), method)(*arguments, **options)
            operation = getattr(AsyncApi(self._access, ends_at), method)
            self._pass_time()
            return self._runner.run(operation(*arguments, **options))

        return call

    def _pass_time(self) -> None:
        """Let the event loop see what has happened to connections, as one that runs all the time does."""
        if self._runner is not None:
            self._runner.run(asyncio.sleep(0.02))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is None:
            asyncio.run(self._access.close())
        else:
            self._runner.run(self._access.close())
            self._pass_time()


@pytest.fixture(params=["async", "not async"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner | None]:
    if request.param == "not async":
        yield None
        return
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def client(server: ServerProcess, runner: asyncio.Runner | None) -> Iterator[Client]:
    with Client(server.url, server.ca_path, runner) as client:
        yield client


def test_objects_are_created_read_replaced_and_deleted(client: Client, namespace: str) -> None:
    created = client.create("configmaps", config_map(k="1"), namespace)
    assert (created["apiVersion"], created["kind"]) == ("v1", "ConfigMap")
    assert client.get("configmaps", "a", namespace) == created
    created["data"]["k"] = "2"
    updated = client.update("configmaps", created)
    assert updated["data"] == {"k": "2"}
    assert client.list("configmaps", namespace) == [updated]
    assert client.delete("configmaps", "a", namespace)["status"] == "Success"
    assert client.list("configmaps", namespace) == []


def test_the_status_is_replaced_by_itself(client: Client, namespace: str) -> None:
    found = client.create("deployments.apps", deployment(replicas=1), namespace)
    found["status"], found["spec"]["replicas"] = {"observedGeneration": 7}, 9
    updated = client.update_status("deployments.apps", found)
    assert (updated["status"]["observedGeneration"], updated["spec"]["replicas"]) == (7, 1)


def test_an_object_is_applied_and_takes_over_fields(client: Client, api: plain.Api, configmaps: str) -> None:
    api.post(f"{configmaps}?fieldManager=other", config_map(k="theirs")).ok()
    namespace = configmaps.split("/")[-2]
    applied = client.apply("configmaps", config_map(k="ours"), namespace)
    managers = {each["manager"]: each["operation"] for each in applied["metadata"]["managedFields"]}
    assert applied["data"] == {"k": "ours"}
    assert managers[MANAGER] == "Apply"
    assert client.apply("configmaps", config_map("new"), namespace)["metadata"]["name"] == "new"


PATCHES: Final[dict[str, tuple[Any, str, Any]]] = {
    "a merge patch": ({"data": {"k": None, "n": "2"}}, "", {"n": "2"}),
    "a JSON patch": ([{"op": "replace", "path": "/data/k", "value": "2"}], "", {"k": "2"}),
    "a strategic merge patch": ({"data": {"$patch": "replace", "n": "2"}}, "strategic", {"n": "2"}),
}


@pytest.mark.parametrize("case", PATCHES)
def test_objects_are_patched(client: Client, namespace: str, case: str) -> None:
    patch, patch_type, data = PATCHES[case]
    client.create("configmaps", config_map(k="1"), namespace)
    patched = client.patch("configmaps", "a", patch, namespace, patch_type=patch_type)
    assert patched["data"] == data


NAMES: Final = {
    "pods": ("v1", "Pod"),
    "pod": ("v1", "Pod"),
    "po": ("v1", "Pod"),
    "pods.v1.": ("v1", "Pod"),
    "events": ("v1", "Event"),
    "events.events.k8s.io": ("events.k8s.io/v1", "Event"),
    "deployments": ("apps/v1", "Deployment"),
    "deployments.apps": ("apps/v1", "Deployment"),
    "deploy.apps": ("apps/v1", "Deployment"),
    "deployments.v1.apps": ("apps/v1", "Deployment"),
    "horizontalpodautoscalers": ("autoscaling/v2", "HorizontalPodAutoscaler"),
    "horizontalpodautoscalers.v1.autoscaling": ("autoscaling/v1", "HorizontalPodAutoscaler"),
}


def test_resources_have_the_names_that_kubectl_takes(server: ServerProcess) -> None:
    """An object without apiVersion and kind gets those of the resource."""
    assert {name: _head_of(server, name) for name in NAMES} == NAMES


def _head_of(server: ServerProcess, name: str) -> tuple[str, str]:
    """Returns the apiVersion and kind that the client adds to an object of a resource."""
    steps = Operations(Discovery(), MANAGER).create(name, {"metadata": {}}, "default", dry_run=False)
    with plain.Api(server) as api:
        request = next(steps)
        while request.method == "GET":
            answer = api.get(request.path, headers={"Accept": request.accept})
            request = steps.send(ApiResponse(answer.status, answer.body))
    assert request.body is not None
    document = orjson.loads(request.body)
    return document["apiVersion"], document["kind"]


def test_subresources_follow_a_slash(client: Client, namespace: str) -> None:
    client.create("deployments.apps", deployment(replicas=1), namespace)
    scale = client.get("deployments.apps/scale", "d", namespace)
    scale["spec"]["replicas"] = 3
    assert client.update("deployments.apps/scale", scale)["kind"] == "Scale"
    assert client.get("deployments.apps", "d", namespace)["spec"]["replicas"] == 3


def test_objects_are_selected_by_labels_and_fields(client: Client, namespace: str) -> None:
    for name, color in {"a": "red", "b": "blue", "c": "red"}.items():
        client.create("configmaps", {"metadata": {"name": name, "labels": {"color": color}}}, namespace)

    def names(**selectors: Any) -> list[str]:
        return [each["metadata"]["name"] for each in client.list("configmaps", namespace, **selectors)]

    assert names(labels={"color": "red"}) == names(labels="color in (red)") == ["a", "c"]
    assert names(labels="color=red", fields={"metadata.name": "c"}) == ["c"]


def test_a_list_without_a_namespace_is_of_all(client: Client, namespace: str) -> None:
    client.create("configmaps", config_map("found-in-all"), namespace)
    found = client.list("configmaps", fields={"metadata.name": "found-in-all"})
    assert namespace in {each["metadata"]["namespace"] for each in found}


def test_a_dry_run_stores_nothing(client: Client, namespace: str) -> None:
    client.create("configmaps", config_map("dry"), namespace, dry_run=True)
    client.apply("configmaps", config_map("dry"), namespace, dry_run=True)
    assert client.list("configmaps", namespace) == []
    kept = client.create("configmaps", config_map(k="1"), namespace)
    client.update("configmaps", {**kept, "data": {}}, dry_run=True)
    client.patch("configmaps", "a", {"data": None}, namespace, dry_run=True)
    client.delete("configmaps", "a", namespace, dry_run=True)
    assert client.list("configmaps", namespace) == [kept]


def test_errors_say_what_the_server_says(client: Client, namespace: str) -> None:
    with pytest.raises(NotFound, match='configmaps "a" not found') as missing:
        client.get("configmaps", "a", namespace)
    assert (missing.value.code, missing.value.reason) == (404, "NotFound")
    created = client.create("configmaps", config_map(), namespace)
    with pytest.raises(Conflict) as exists:
        client.create("configmaps", config_map(), namespace)
    assert (exists.value.code, exists.value.reason) == (409, "AlreadyExists")
    client.update("configmaps", {**created, "data": {"k": "1"}})
    with pytest.raises(Conflict) as changed:
        client.update("configmaps", {**created, "data": {"k": "2"}})
    assert changed.value.reason == "Conflict"
    with pytest.raises(Conflict):
        client.delete("configmaps", "a", namespace, preconditions={"uid": "another"})
    with pytest.raises(ApiError, match="Invalid value") as invalid:
        client.create("configmaps", config_map("_"), namespace)
    assert invalid.value.status["details"]["causes"][0]["field"] == "metadata.name"


MISTAKES: Final[dict[str, tuple[Callable[[Client], Any], str]]] = {
    "an object without a namespace": (
        lambda client: client.create("configmaps", config_map()),
        "configmaps have a namespace, which is required",
    ),
    "a namespace of nodes": (
        lambda client: client.get("nodes", "a", "default"),
        "nodes have no namespace, but it is 'default'",
    ),
    "no name": (
        lambda client: client.get("pods", "", "default"),
        "the name of an object of pods is required",
    ),
    "an update without a name": (
        lambda client: client.update("pods", {"metadata": {"namespace": "default"}}),
        "the name of an object of pods is required",
    ),
    "a name that leaves the resource": (
        lambda client: client.delete("configmaps", "..", "victim"),
        r"the name '\.\.' must not be \. or \.\.",
    ),
    "a namespace that stays where it is": (
        lambda client: client.create("configmaps", {"metadata": {"namespace": "."}}),
        r"the namespace '\.' must not",
    ),
    "a name with a slash": (
        lambda client: client.get("pods", "a/status", "default"),
        "the name 'a/status' must not be .* contain / or %",
    ),
    "a name that is escaped": (
        lambda client: client.get("pods", "%2e%2e", "default"),
        "the name '%2e%2e' must not",
    ),
    "a subresource that leaves the object": (
        lambda client: client.delete("pods/..", "a", "default"),
        r"the subresource '\.\.' must not",
    ),
    "a subresource of no object": (
        lambda client: client.list("pods/status", "default"),
        "the name of an object of pods/status is required",
    ),
    "an unknown type of patch": (
        lambda client: client.patch("pods", "a", {}, "default", patch_type="three-way"),
        "patch_type='three-way' must be one of json, merge, strategic",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_found_before_a_request(client: Client, case: str) -> None:
    act, message = MISTAKES[case]
    with pytest.raises(ValueError, match=message):
        act(client)


def test_definitions_are_found_as_soon_as_they_are_served(client: Client, api: plain.Api) -> None:
    group = new_group()
    with pytest.raises(NotFound, match=f"the server does not serve widgets.{group}"):
        client.list(f"widgets.{group}")
    define(api, definition(group))
    assert client.list(f"widgets.{group}") == []


def test_the_preferred_version_may_go(client: Client, api: plain.Api, namespace: str) -> None:
    """Discovery is asked again when a path is not served."""
    group = new_group()
    versions = version("v2", storage=False), version("v1")
    defined = define(api, definition(group, *versions))
    assert client.create(f"widgets.{group}", _named("a"), namespace)["apiVersion"] == f"{group}/v2"
    _stop_serving(defined, 0)
    assert client.get(f"widgets.{group}", "a", namespace)["apiVersion"] == f"{group}/v1"
    assert client.create(f"widgets.{group}", _named("b"), namespace)["apiVersion"] == f"{group}/v1"
    with pytest.raises(NotFound, match=f"the server does not serve widgets.v2.{group}"):
        client.get(f"widgets.v2.{group}", "a", namespace)


def _named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def _stop_serving(defined: Defined, number: int) -> None:
    defined.change([{"op": "replace", "path": f"/spec/versions/{number}/served", "value": False}])
    gone = f"/apis/{defined.group}/v2/widgets"
    until(lambda: defined.api.get(gone).status, lambda status: status == 404, "not served any more")


def test_an_owner_is_named_by_a_reference(client: Client, namespace: str) -> None:
    owner = client.create("configmaps", config_map("owner"), namespace)
    owned = client.create(
        "secrets",
        {"metadata": {"name": "owned", "ownerReferences": [controller_reference(owner)]}},
        namespace,
    )
    [reference] = owned["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"], reference["controller"]) == ("ConfigMap", "owner", True)


# ---- lists in pages


def _pages(answers: list[ApiResponse]) -> tuple[Any, list[str]]:
    """Returns the result of a list, and the paths of its requests. answers: the responses to these."""
    steps = Operations(Discovery(), MANAGER).list(ObjectName("widgets"), "a=b", "")
    return _driven(steps, iter(answers))


def _driven(steps: Steps[Any], answers: Iterator[ApiResponse]) -> tuple[Any, list[str]]:
    paths: list[str] = []
    try:
        request = next(steps)
        while True:
            discovered = _discovered(request)
            if discovered is None:
                paths.append(request.path)
            request = steps.send(discovered or next(answers))
    except StopIteration as end:
        return end.value, paths


def _discovered(request: ApiRequest) -> ApiResponse | None:
    resource = {"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Namespaced"}
    group = {"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": [resource]}]}
    items = {"/api": [], "/apis": [group]}.get(request.path)
    return None if items is None else ApiResponse(200, orjson.dumps({"items": items}))


def _page(*names: str, token: str = "") -> ApiResponse:
    document = {
        "apiVersion": "g/v1",
        "metadata": {"continue": token},
        "items": [{"metadata": {"name": name}} for name in names],
    }
    return ApiResponse(200, orjson.dumps(document))


def test_a_list_has_all_pages() -> None:
    found, paths = _pages([_page("a", "b", token="t1"), _page("c", token="t2"), _page("d")])
    assert [each["metadata"]["name"] for each in found] == ["a", "b", "c", "d"]
    assert all((each["apiVersion"], each["kind"]) == ("g/v1", "Widget") for each in found)
    selected = "/apis/g/v1/widgets?labelSelector=a%3Db&limit=500"
    assert paths == [selected, f"{selected}&continue=t1", f"{selected}&continue=t2"]


def test_a_list_whose_revision_is_compacted_is_read_at_once() -> None:
    expired = ApiResponse(410, orjson.dumps({"kind": "Status", "reason": "Expired", "message": "too old"}))
    found, paths = _pages([_page("a", token="t1"), expired, _page("a", "b", "c")])
    assert [each["metadata"]["name"] for each in found] == ["a", "b", "c"]
    assert paths[-1] == "/apis/g/v1/widgets?labelSelector=a%3Db"


# ---- connections


class Widgets(HttpsServer):
    """Serves no widgets, and notes the ports of its clients."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.ports: list[int] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        self.ports.append(request.transport.get_extra_info("peername")[1])
        answer = _discovered(ApiRequest("GET", request.path)) or _page()
        return web.Response(body=answer.body)


def test_requests_share_a_connection(tmp_path: Path, runner: asyncio.Runner | None) -> None:
    with (
        Widgets(tmp_path) as server,
        Client(f"https://127.0.0.1:{server.port}", server.pki.ca_cert, runner) as client,
    ):
        for _ in range(3):
            client.list("widgets")
        assert len(server.ports) == 5
        assert len(set(server.ports)) == 1


def test_a_server_that_was_restarted_is_connected_again(
    tmp_path: Path, runner: asyncio.Runner | None
) -> None:
    """Also for a write, which must not be sent twice."""
    with (
        ServerProcess(tmp_path / "data") as server,
        Client(server.url, server.ca_path, runner) as client,
    ):
        client.create("configmaps", config_map("a"), "default")
        server.stop()
        server.start()
        client.create("configmaps", config_map("b"), "default")
        server.kill()
        with pytest.raises(ApiError, match="no response to GET /api/v1/nodes") as error:
            client.list("nodes")
        assert (error.value.code, error.value.reason) == (0, "")


@pytest.mark.parametrize("answer", [hostile_server.hang, hostile_server.trickle])
def test_no_request_takes_longer_than_the_function_may(
    tmp_path: Path, runner: asyncio.Runner | None, answer: hostile_server.Answer
) -> None:
    authority = Authority(tmp_path / "ca")
    with (
        hostile_server.server(answer, authority.issue("server")) as url,
        Client(url, authority.ca, runner, timeout_s=0.2) as client,
    ):
        began = time.monotonic()
        with pytest.raises(ApiError, match="no response to GET /api"):
            client.list("nodes")
        assert time.monotonic() - began < 1.0


def test_a_server_of_another_ca_is_not_trusted(
    tmp_path: Path, server: ServerProcess, runner: asyncio.Runner | None
) -> None:
    with (
        Client(server.url, Authority(tmp_path / "ca").ca, runner) as client,
        pytest.raises(ApiError, match="certificate verify failed"),
    ):
        client.list("nodes")
