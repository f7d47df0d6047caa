"""Another API server has a group version, and clients find it here: `extension` is a second server of ours.

Sources: kubernetes, test/e2e/apimachinery/aggregator.go; k8s.io/kube-aggregator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import pytest

from tests.support.api import Answer, Api, until_status
from tests.support.api_services import (
    SERVICE,
    extension_flags,
    external_name,
    port_of,
    register,
    until_available,
)
from tests.support.definitions import condition, define, definition, version
from tests.support.eventually import until
from tests.support.kubectl import Kubectl, each_version, program, rows
from tests.support.raw import raw_connection
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess
from tests.support.watches_client import TABLE, watching
from tests.support.websocket_client import connected

GROUP: Final = "ext.example.com"
CONTROLLERS: Final = "--controllers=namespace-controller,garbage-collector-controller"
WIDGETS: Final = f"/apis/{GROUP}/v1/namespaces/default/widgets"
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Servers(NamedTuple):
    """front: which clients ask. extension: which has the group."""

    front: Api
    extension: Api


def widget(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, **fields}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    directory = tmp_path_factory.mktemp("aggregation")
    with (
        ServerProcess(directory / "front", CONTROLLERS) as front_server,
        ServerProcess(directory / "extension", *extension_flags(front_server)) as extension_server,
        Api(front_server) as front,
        Api(extension_server) as extension,
    ):
        names = {"shortNames": ["wi"], "categories": ["all"]}
        define(extension, definition(GROUP, version(subresources={"status": {}}), names=names))
        external_name(front)
        until_available(front, register(front, GROUP, port_of(extension), ca=extension_server.ca_path))
        # What it serves is found out in the background.
        name = f"apis/{GROUP}/v1"
        until(lambda: front.get("/openapi/v3").ok()["paths"], lambda paths: name in paths, "in the index")
        yield Servers(front, extension)


@pytest.fixture
def front(servers: Servers) -> Api:
    return servers.front


# ---- requests


def test_requests_are_passed_on(servers: Servers) -> None:
    front, extension = servers
    made = front.post(WIDGETS, widget("a", spec={"a": "x"}))
    assert (made.status, made.json["kind"], made.json["metadata"]["name"]) == (201, "Widget", "a")
    assert extension.get(f"{WIDGETS}/a").json == made.json
    assert front.get(f"/apis/{GROUP}/v1/widgets?limit=1").ok()["items"][0] == made.json
    patched = front.patch(f"{WIDGETS}/a", {"spec": {"a": "y"}}).ok()
    assert patched["spec"] == {"a": "y"}
    conflict = front.put(f"{WIDGETS}/a", made.json)
    assert (conflict.status, conflict.reason) == (409, "Conflict")
    status = front.patch(f"{WIDGETS}/a/status", {"status": {"message": "m"}}).ok()
    assert status["status"] == {"message": "m"}
    missing = front.get(f"{WIDGETS}/b")
    assert (missing.status, missing.reason) == (404, "NotFound")
    assert front.delete(f"{WIDGETS}/a").status == 200
    assert extension.get(f"{WIDGETS}/a").status == 404


def test_watches_are_passed_on_as_they_come(servers: Servers) -> None:
    front, extension = servers
    with front.watch(f"{WIDGETS}?watch=1") as events:
        for name in ("w1", "w2"):
            extension.post(WIDGETS, widget(name)).ok()
            assert events.take(1) == [("ADDED", name)]
        extension.delete(f"{WIDGETS}/w1").ok()
        assert events.take(1) == [("DELETED", "w1")]
    extension.delete(f"{WIDGETS}/w2").ok()


def test_a_watch_over_websocket_is_passed_on(servers: Servers) -> None:
    front, extension = servers
    headers = {"Authorization": "Bearer admin-token"}
    with connected(front.server, f"{WIDGETS}?watch=1", **headers) as socket:
        extension.post(WIDGETS, widget("socket")).ok()
        event = socket.next_event()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "socket")
    extension.delete(f"{WIDGETS}/socket").ok()


def test_many_watches_over_one_websocket(servers: Servers) -> None:
    """Those of the extension server are among the others, and its refusals are told as its own."""
    front, extension = servers
    with watching(front.server) as client:
        client.begin(1, f"{WIDGETS}?watch=1")
        client.begin(2, f"{WIDGETS}?watch=1", TABLE)
        client.subscribe(3, f"{WIDGETS}?watch=1&resourceVersion=x")
        assert client.end(3) == front.get(f"{WIDGETS}?watch=1&resourceVersion=x").json
        client.subscribe(3, f"/apis/{GROUP}/v1/none?watch=1")
        assert client.end(3)["code"] == 404
        extension.post(WIDGETS, widget("many", spec={"a": "x" * 300_000})).ok()
        events = {}
        for _ in range(2):
            message = json.loads(client.receive())
            events[message["id"]] = message["event"]
        assert events[1]["object"]["spec"] == {"a": "x" * 300_000}
        assert events[2]["object"]["rows"][0]["cells"][0] == "many"
    extension.delete(f"{WIDGETS}/many").ok()


def test_a_large_object_passes_whole(servers: Servers) -> None:
    text = "x" * 1_000_000
    made = servers.front.post(WIDGETS, widget("large", spec={"a": text})).ok()
    assert made["spec"]["a"] == text
    servers.front.delete(f"{WIDGETS}/large").ok()


def test_a_user_is_the_same_there_and_may_there_only_what_both_allow(servers: Servers) -> None:
    """Authorization is asked here first, and by the extension server, of the same user."""
    front, extension = servers
    alice = front.as_caller("alice-token")
    refused = alice.get(WIDGETS)
    assert (refused.status, refused.reason) == (403, "Forbidden")
    lists = rule("list", "widgets", group=GROUP)
    grant(front, "", "dev", lists, subject_kind="Group")
    there = until(lambda: alice.get(WIDGETS), lambda answer: "alice" in answer.message, "asked there")
    assert (there.status, there.json["details"]["kind"]) == (403, "widgets")
    grant(extension, "", "dev", lists, subject_kind="Group")
    until_status(200, lambda: alice.get(WIDGETS), "allowed")
    # Who asks for another user is that user, there as here.
    impersonating = {"Impersonate-User": "bob", "Impersonate-Group": "ops"}
    assert front.get(WIDGETS, headers=impersonating).status == 403
    alice.close()


def test_nobody_can_say_who_he_is_to_the_extension_server(servers: Servers) -> None:
    """Headers of front proxies and credentials that clients send are not passed on."""
    claims = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    anonymous = servers.front.as_caller("")
    assert anonymous.get(WIDGETS, headers=claims).status == 403
    bob = servers.front.as_caller("alice-token")
    assert bob.get(f"{WIDGETS}/x", headers=claims).status == 403
    for each in (anonymous, bob):
        each.close()


def test_paths_that_could_be_read_in_two_ways_are_for_nobody(front: Api) -> None:
    for path in (f"/apis/{GROUP}/v1//widgets", f"{WIDGETS}/../../x", f"/apis/{GROUP}/v1/%2e%2e/x"):
        assert front.get(path).status == 404, path


def test_namespaces_are_emptied_there_too(servers: Servers) -> None:
    """Row A12: a namespace is gone when all that is in it is, wherever that is."""
    front, extension = servers
    for api in servers:
        api.post("/api/v1/namespaces", {"metadata": {"name": "shared"}}).ok()
    path = WIDGETS.replace("default", "shared")
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    front.post(path, {**widget("held"), **held}).ok()
    front.post(path, widget("free")).ok()
    front.delete("/api/v1/namespaces/shared").ok()

    def remaining() -> str:
        found = condition(front.get("/api/v1/namespaces/shared").json, "NamespaceContentRemaining")
        return str(found.get("message", ""))

    expected = f"Some resources are remaining: widgets.{GROUP} has 1 resource instances"
    until(remaining, lambda message: message == expected, "held")
    assert extension.get(f"{path}/free").status == 404
    extension.patch(f"{path}/held", {"metadata": {"finalizers": None}}).ok()
    until_status(404, lambda: front.get("/api/v1/namespaces/shared"), "gone")


# ---- what clients are told


def groups(answer: Answer) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in answer.ok()["items"]}


def test_the_garbage_collector_asks_there_for_owners(servers: Servers) -> None:
    front, extension = servers
    maps = "/api/v1/namespaces/default/configmaps"
    uid = extension.post(WIDGETS, widget("owner")).ok()["metadata"]["uid"]
    owner = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "name": "owner"}
    for name, owned_by in (("kept", uid), ("gone", "another")):
        meta = {"name": name, "ownerReferences": [{**owner, "uid": owned_by}]}
        front.post(maps, {"metadata": meta}).ok()
    until_status(404, lambda: front.get(f"{maps}/gone"), "is collected")
    assert front.get(f"{maps}/kept").status == 200


def test_discovery_has_the_group_in_all_forms(servers: Servers) -> None:
    front = servers.front
    plain = {each["name"]: each for each in front.get("/apis").ok()["groups"]}
    assert plain[GROUP]["versions"] == [{"groupVersion": f"{GROUP}/v1", "version": "v1"}]
    assert front.get(f"/apis/{GROUP}").ok()["preferredVersion"]["version"] == "v1"
    listed = front.get(f"/apis/{GROUP}/v1").ok()["resources"]
    assert [each["name"] for each in listed] == ["widgets", "widgets/status"]

    group = groups(front.get("/apis", headers={"Accept": AGGREGATED}))[GROUP]
    assert group["versions"][0]["freshness"] == "Current"
    (resource,) = group["versions"][0]["resources"]
    expected = groups(servers.extension.get("/apis", headers={"Accept": AGGREGATED}))[GROUP]
    assert resource == expected["versions"][0]["resources"][0]
    # Behind all that is built in, before custom resources, by its priority.
    names = list(plain)
    assert names.index(GROUP) > names.index("flowcontrol.apiserver.k8s.io")


def test_openapi_v2_tells_of_what_the_extension_server_has(front: Api) -> None:
    path = f"{WIDGETS}/{{name}}".replace("default", "{namespace}")
    document = until(
        lambda: front.get("/openapi/v2").ok(), lambda found: path in found["paths"], "in the document"
    )
    schema = document["paths"][path]["get"]["responses"]["200"]["schema"]["$ref"]
    definition = document["definitions"][schema.removeprefix("#/definitions/")]
    assert definition["x-kubernetes-group-version-kind"] == [
        {"group": GROUP, "kind": "Widget", "version": "v1"}
    ]
    assert not [name for name in document["definitions"] if name.endswith("_v2")], "the same as here"
    front.get("/openapi/v2", headers={"Accept": "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"})


def test_openapi_leads_to_the_extension_server(servers: Servers) -> None:
    front = servers.front
    name = f"apis/{GROUP}/v1"
    paths = front.get("/openapi/v3").ok()["paths"]
    url = paths[name]["serverRelativeURL"]
    document = front.get(url).ok()
    assert f"{WIDGETS.replace('default', '{namespace}')}" in document["paths"]
    assert document == servers.extension.get(url).ok()


@pytest.mark.parametrize("kubectl_version", each_version(-1))
def test_kubectl_sees_no_difference(servers: Servers, tmp_path: Path, kubectl_version: str) -> None:
    kubectl = Kubectl(program(kubectl_version), servers.front.server.kubeconfig, "default", tmp_path)
    assert "wi" in kubectl("api-resources", f"--api-group={GROUP}")
    assert "FIELD: spec" in kubectl("explain", "widgets.spec", f"--api-version={GROUP}/v1")
    manifest = orjson.dumps(widget("k", spec={"a": "x"})).decode()
    assert "created" in kubectl("create", "-f", "-", stdin=manifest)
    watching = kubectl.start("get", "wi", "k", "-w", "-o", "name")
    assert watching.stdout is not None
    assert watching.stdout.readline() == f"widget.{GROUP}/k\n"
    watching.kill()
    watching.communicate()
    (row,) = rows(kubectl("get", "apiservices", f"v1.{GROUP}"))[1:]
    assert row[:3] == [f"v1.{GROUP}", f"default/{SERVICE}", "True"]
    assert "deleted" in kubectl("delete", "widget", "k")


def test_a_body_that_is_announced_and_does_not_come_is_not_announced_to_the_other_server(
    servers: Servers,
) -> None:
    """It would take the next request on the connection, which may be another user's, for that body."""
    front, _ = servers
    head = f"GET {WIDGETS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n"
    with raw_connection(front.server) as connection:
        connection.sendall(f"{head}Content-Length: 60\r\n\r\n".encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
    for _ in range(3):
        front.get(WIDGETS).ok()
