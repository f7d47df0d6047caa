"""Extension servers that are away, slow or hostile fail their own versions, and nothing else.

Sources: k8s.io/kube-aggregator, pkg/controllers/status/remote/remote_available_controller_test.go and
pkg/apiserver/handler_proxy_test.go.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from apiserver.app.serving import pki
from tests.support.api import Api, until_status
from tests.support.api_services import (
    API_SERVICES,
    SERVICE,
    SERVICES,
    available,
    extension_flags,
    external_name,
    port_of,
    register,
    until_available,
)
from tests.support.backend_server import BackendServer, echo, own_address
from tests.support.definitions import condition, define, definition
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NOBODY_LISTENS: Final = 1
Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_numbers: Final = itertools.count(1)


@pytest.fixture(scope="module")
def backend_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackendServer]:
    with BackendServer(tmp_path_factory.mktemp("backend")) as server:
        yield server


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, backend_server: BackendServer) -> Iterator[Api]:
    """It ends before the backend, whose connections it closes by that."""
    with ServerProcess(tmp_path_factory.mktemp("front")) as server, Api(server) as api:
        external_name(api)
        yield api


@pytest.fixture
def backend(backend_server: BackendServer) -> Iterator[BackendServer]:
    yield backend_server
    backend_server.reset()


def closing_connections(answering: Answering) -> Answering:
    """So that none is open when the backend's loop ends."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = await answering(request)
        response.force_close()
        return response

    return answer


@pytest.fixture
def group() -> str:
    return f"g{next(_numbers)}.example.com"


# ---- whether it can be reached

CLUSTER_IP: Final = {"ports": [{"name": "https", "port": 443}]}
NOT_DIALLED: Final = (
    'failing or missing response from URL: Get "URL": dial tcp 127.0.0.1:1: connect: connection refused'
)
UNREACHABLE: Final[dict[str, tuple[dict[str, Any] | None, list[dict[str, Any]], int, tuple[str, str]]]] = {
    "no service": (None, [], 443, ("ServiceNotFound", 'service/SERVICE in "default" is not present')),
    "another port": (
        CLUSTER_IP,
        [],
        444,
        ("ServicePortError", 'service/SERVICE in "default" is not listening on port 444'),
    ),
    "no endpoints": (
        CLUSTER_IP,
        [],
        443,
        ("EndpointsNotFound", 'cannot find endpointslices for service/SERVICE in "default"'),
    ),
    "no endpoint that is ready": (
        CLUSTER_IP,
        [{"addresses": ["192.0.2.1"], "conditions": {"ready": False}}],
        443,
        (
            "MissingEndpoints",
            'endpointslices for service/SERVICE in "default" have no addresses with port name "https"',
        ),
    ),
    "nobody listens": (
        {"type": "ExternalName", "externalName": "127.0.0.1"},
        [],
        NOBODY_LISTENS,
        ("FailedDiscoveryCheck", NOT_DIALLED),
    ),
}


def slices(service: str, endpoints: list[dict[str, Any]], port: int) -> dict[str, Any]:
    return {
        "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "https", "port": port}],
    }


@pytest.mark.parametrize(("service", "endpoints", "port", "why"), UNREACHABLE.values(), ids=UNREACHABLE)
def test_why_it_cannot_be_reached(
    front: Api,
    group: str,
    service: dict[str, Any] | None,
    endpoints: list[dict[str, Any]],
    port: int,
    why: tuple[str, str],
) -> None:
    name = group.partition(".")[0]
    if service is not None:
        front.post(SERVICES, {"metadata": {"name": name}, "spec": service}).ok()
    if endpoints:
        front.post(SLICES, slices(name, endpoints, 443)).ok()
    path = register(front, group, port, ca=None, service=name)
    found = until_available(front, path, "False")
    reason, message = why
    url = f"https://127.0.0.1:{port}/apis/{group}/v1"
    expected = message.replace("SERVICE", name).replace("URL", url)
    assert (found["reason"], found["message"]) == (reason, expected)
    answer = front.get(f"/apis/{group}/v1/things")
    assert (answer.status, answer.body) == (503, b"service unavailable\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_requests_for_what_is_not_available_are_counted_as_ended(front: Api, group: str) -> None:
    """By the aggregator. Nothing tells what they ask for: clients could make up any number of names."""
    until_available(front, register(front, group, NOBODY_LISTENS, ca=None), "False")
    assert front.delete(f"/apis/{group}/v1/things/a").status == 503
    names = 'group="",resource="",scope="",subresource="",verb="DELETE",version=""'
    labels = f'code="503",component="aggregator",{names}'
    metrics = front.get("/metrics").body.decode()
    assert f"apiserver_request_terminations_total{{{labels}}} 1\n" in metrics


async def anything(request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"kind": "APIResourceList", "resources": []})


def test_it_is_found_again_when_its_service_and_endpoints_come(
    front: Api, backend: BackendServer, group: str
) -> None:
    backend.answering = closing_connections(anything)
    name = group.partition(".")[0]
    path = register(front, group, 443, ca=None, service=name)
    until(
        lambda: available(front, path), lambda found: found.get("reason") == "ServiceNotFound", "no service"
    )
    front.post(SERVICES, {"metadata": {"name": name}, "spec": CLUSTER_IP}).ok()
    until(lambda: available(front, path), lambda found: found.get("reason") == "EndpointsNotFound", "nowhere")
    front.post(SLICES, slices(name, [{"addresses": [own_address()]}], backend.tls_port)).ok()
    found = until_available(front, path)
    assert (found["reason"], found["message"]) == ("Passed", "all checks passed")
    assert front.get(f"/apis/{group}/v1").json["kind"] == "APIResourceList"
    front.delete(f"{SLICES}/{name}").ok()
    until_available(front, path, "False")
    metrics = front.get("/metrics").body.decode()
    assert f'aggregator_unavailable_apiservice{{name="v1.{group}"}} 1\n' in metrics
    labels = f'name="v1.{group}",reason="EndpointsNotFound"'
    assert f"aggregator_unavailable_apiservice_total{{{labels}}} 1\n" in metrics
    assert 'aggregator_unavailable_apiservice{name="v1.apps"} 0\n' in metrics
    front.delete(path).ok()
    until(
        lambda: front.get("/metrics").body.decode(),
        lambda text: f'name="v1.{group}"' not in text,
        "forgotten",
    )
    assert front.get(f"/apis/{group}/v1").status == 404


# ---- what it is told


def test_it_is_told_who_asks_and_no_secret(front: Api, backend: BackendServer, group: str) -> None:
    backend.answering = closing_connections(echo)
    path = register(front, group, backend.tls_port, ca=None)
    until_available(front, path)
    sent = {"X-Remote-User": "eve", "X-Remote-Extra-Role": "all", "Audit-Id": "known", "Cookie": "a=b"}
    answer = front.get(f"/apis/{group}/v1/things%2Fa?x=%20y&x", headers=sent).ok()
    told = [(name, value) for name, value in answer["headers"] if name.startswith("x-remote-")]
    assert told == [
        ("x-remote-user", "admin"),
        ("x-remote-uid", "uid-admin"),
        ("x-remote-group", "system:masters"),
        ("x-remote-group", "system:authenticated"),
    ]
    headers = dict(answer["headers"])
    assert (headers["audit-id"], headers["cookie"]) == ("known", "a=b")
    assert "authorization" not in headers
    assert answer["target"] == f"/apis/{group}/v1/things/a?x=%20y&x"
    front.delete(path).ok()


# ---- what it answers


async def redirects(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "https://elsewhere.example.com/"})


async def hangs_up(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def fails(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=500, text="broken")


ANSWERS: Final[dict[str, tuple[Answering, int, bytes]]] = {
    "a redirect": (redirects, 502, b"the backend attempted to redirect this request, which is not permitted"),
    "nothing": (hangs_up, 503, b"error trying to reach service: EOF\n"),
    "an error of its own": (fails, 500, b"broken"),
}


@pytest.mark.parametrize(("answering", "status", "body"), ANSWERS.values(), ids=ANSWERS)
def test_what_clients_see_of_bad_answers(
    front: Api, backend: BackendServer, group: str, answering: Answering, status: int, body: bytes
) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        is_asked = request.path.endswith("/things")
        return await (answering(request) if is_asked else anything(request))

    backend.answering = closing_connections(answer)
    path = register(front, group, backend.tls_port, ca=None)
    until_available(front, path)
    found = front.get(f"/apis/{group}/v1/things")
    assert (found.status, found.body) == (status, body)
    assert "location" not in found.headers
    front.delete(path).ok()


def test_a_certificate_of_somebody_else_is_refused(
    front: Api, backend: BackendServer, group: str, tmp_path: Path
) -> None:
    """As in Kubernetes it is available all the same: the check is about reachability."""
    backend.answering = closing_connections(anything)
    bundle = base64.b64encode(pki.local_identity(tmp_path).ca_cert).decode()
    path = register(front, group, backend.tls_port, ca=None, caBundle=bundle)
    until_available(front, path)
    answer = front.get(f"/apis/{group}/v1/things")
    assert answer.status == 503
    assert answer.body.startswith(b"error trying to reach service: tls: ")
    front.delete(path).ok()


async def garbage(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(
        body=b'{"kind": "APIGroupDiscoveryList", "items": [{"metadata": 7}, 8, {"versions": "x'
    )


async def endless(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(100):
        await response.write(b" " * 100_000)
    return response


async def another_shape(request: web.BaseRequest) -> web.StreamResponse:
    group = request.headers["Host"]  # whatever: what is not of the right type is left out
    resources = [
        {"resource": 7},
        {"resource": "things", "verbs": "get", "responseKind": [], "scope": group},
        9,
    ]
    versions = [{"version": "v1", "resources": resources}, {"version": 2}, None]
    items = [{"metadata": {"name": 7}}, {"metadata": {"name": GROUP_OF_SHAPES}, "versions": versions}]
    return web.json_response({"kind": "APIGroupDiscoveryList", "items": items})


GROUP_OF_SHAPES: Final = "shapes.example.com"


@pytest.mark.parametrize("answering", [garbage, endless], ids=["garbage", "more than anybody wants"])
def test_hostile_discovery_makes_one_version_stale(
    front: Api, backend: BackendServer, group: str, answering: Answering
) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        is_check = request.path.startswith("/apis/") and "Accept" in request.headers
        is_check = is_check and request.headers["Accept"] == "*/*"
        return await (anything(request) if is_check else answering(request))

    backend.answering = closing_connections(answer)
    path = register(front, group, backend.tls_port, ca=None)
    until_available(front, path)

    def version() -> dict[str, Any]:
        items = front.get("/apis", headers={"Accept": AGGREGATED}).ok()["items"]
        return next((each["versions"][0] for each in items if each["metadata"]["name"] == group), {})

    found = until(version, lambda found: bool(found), "in discovery")
    assert found == {"version": "v1", "resources": [], "freshness": "Stale"}
    assert group in [each["name"] for each in front.get("/apis").ok()["groups"]]
    assert front.get("/apis/apps/v1").status == 200
    front.delete(path).ok()


def test_a_server_that_hangs_holds_up_nobody(front: Api, backend: BackendServer, group: str) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path != f"/apis/{group}/v1":
            await asyncio.Event().wait()
        return await closing_connections(anything)(request)

    backend.answering = answer
    path = register(front, group, backend.tls_port, ca=None)
    until_available(front, path)
    for each in ("/readyz", "/apis", "/openapi/v3", "/api/v1/namespaces"):
        assert front.get(each).status == 200
    timed_out = front.get(f"/apis/{group}/v1/things?timeout=1s")
    assert (timed_out.status, timed_out.reason) == (504, "Timeout")
    front.delete(path).ok()


def test_what_is_not_of_the_right_type_is_left_out_of_discovery(front: Api, backend: BackendServer) -> None:
    backend.answering = closing_connections(another_shape)
    path = register(front, GROUP_OF_SHAPES, backend.tls_port, ca=None)

    def versions() -> list[dict[str, Any]]:
        items = front.get("/apis", headers={"Accept": AGGREGATED}).ok()["items"]
        found = (each["versions"] for each in items if each["metadata"]["name"] == GROUP_OF_SHAPES)
        return next(found, [{}])

    (found,) = until(versions, lambda found: found[0].get("freshness") == "Current", "current")
    (resource,) = found["resources"]
    kind = {"group": GROUP_OF_SHAPES, "version": "v1", "kind": ""}
    assert resource == {
        "resource": "things",
        "responseKind": kind,
        "scope": "Cluster",
        "singularResource": "",
        "verbs": [],
    }
    protobuf = AGGREGATED.replace("application/json", "application/vnd.kubernetes.protobuf")
    assert front.get("/apis", headers={"Accept": protobuf}).status == 200
    front.delete(path).ok()


def test_a_namespace_stays_while_it_is_not_known_what_is_in_it(front: Api, group: str) -> None:
    """Row A12, as in Kubernetes."""
    path = register(front, group, NOBODY_LISTENS, ca=None)
    until_available(front, path, "False")
    front.post("/api/v1/namespaces", {"metadata": {"name": group.partition(".")[0]}}).ok()
    namespace = f"/api/v1/namespaces/{group.partition('.')[0]}"
    front.delete(namespace).ok()
    found = until(
        lambda: condition(front.get(namespace).json, "NamespaceDeletionDiscoveryFailure"),
        lambda found: found.get("status") == "True",
        "told",
    )
    assert found["reason"] == "DiscoveryFailed"
    assert f"{group}/v1: stale GroupVersion discovery: {group}/v1" in found["message"]
    for each in front.get(API_SERVICES).ok()["items"]:
        if each["spec"].get("service"):
            front.delete(f"{API_SERVICES}/{each['metadata']['name']}").ok()
    until_status(404, lambda: front.get(namespace), "gone")


# ---- what is served here


def test_nobody_takes_over_what_is_served_here(front: Api, backend: BackendServer, group: str) -> None:
    backend.answering = closing_connections(fails)
    built_in = f"{API_SERVICES}/v1.apps"
    service = {"namespace": "default", "name": SERVICE, "port": backend.tls_port}
    front.patch(built_in, {"spec": {"service": service, "insecureSkipTLSVerify": True}}).ok()
    core = front.patch(f"{API_SERVICES}/v1.", {"spec": {"service": service, "insecureSkipTLSVerify": True}})
    assert core.status == 200
    own = register(front, "apiregistration.k8s.io", backend.tls_port, ca=None)
    foreign = register(front, group, backend.tls_port, ca=None)
    until_status(503, lambda: front.get(f"/apis/{group}/v1"), "is another server's")
    defined = define(front, definition(group))
    assert defined.create("a").status == 201
    assert front.get("/apis/apps/v1/deployments").status == 200
    assert front.get("/api/v1/namespaces").status == 200
    assert front.get("/apis/apiregistration.k8s.io/v1").json["kind"] == "APIResourceList"
    listed = [each["name"] for each in front.get("/apis").ok()["groups"]]
    assert listed.count(group) == listed.count("apps") == 1
    for path in (foreign, own):
        front.delete(path).ok()


def test_a_version_may_be_here_and_another_elsewhere(front: Api, backend: BackendServer, group: str) -> None:
    backend.answering = closing_connections(anything)
    define(front, definition(group))
    document = {"group": group, "version": "v2", "groupPriorityMinimum": 10, "versionPriority": 200}
    service = {"namespace": "default", "name": SERVICE, "port": backend.tls_port}
    spec = {**document, "service": service, "insecureSkipTLSVerify": True}
    path = f"{API_SERVICES}/v2.{group}"
    front.post(API_SERVICES, {"metadata": {"name": f"v2.{group}"}, "spec": spec}).ok()
    until_available(front, path)
    assert front.get(f"/apis/{group}/v2").json["resources"] == []
    assert front.get(f"/apis/{group}/v1").json["resources"][0]["name"] == "widgets"
    versions = [each["version"] for each in front.get(f"/apis/{group}").ok()["versions"]]
    assert versions == ["v2", "v1"]
    front.delete(path).ok()


# ---- start, stop, replicas


@pytest.mark.slow
def test_servers_that_restart_find_each_other_again(tmp_path: Path) -> None:
    """Neither the start nor /readyz waits for an extension server that is away."""
    with ServerProcess(tmp_path / "front") as front_server:
        flags = extension_flags(front_server)
        with ServerProcess(tmp_path / "extension", *flags) as extension, Api(front_server) as front:
            with Api(extension) as there:
                define(there, definition("a.example.com"))
                external_name(front)
                path = register(front, "a.example.com", port_of(there), ca=extension.ca_path)
            until_available(front, path)
            assert front_server.stop() == 0
            front_server.start()
            with Api(front_server) as again:
                # What was known of it is in the store.
                assert again.get("/apis/a.example.com/v1/widgets").status == 200
                extension.kill()
                # A change of the service has it checked at once.
                again.patch(f"{SERVICES}/{SERVICE}", {"metadata": {"annotations": {"killed": "yes"}}}).ok()
                until_available(again, path, "False")
                answer = again.get("/apis/a.example.com/v1/widgets")
                assert (answer.status, answer.body) == (503, b"service unavailable\n")
                assert front_server.stop() == 0
                front_server.start()
            with Api(front_server) as again:
                assert again.get("/readyz").status == 200
                until_available(again, path, "False")
                extension.start()
                # So that it is not checked with the growing delays of failures.
                again.patch(f"{SERVICES}/{SERVICE}", {"metadata": {"annotations": {"restarted": "yes"}}}).ok()
                until_available(again, path)
                assert again.get("/apis/a.example.com/v1/widgets").status == 200


def test_a_server_that_stops_ends_watches_of_others(tmp_path: Path, backend: BackendServer) -> None:
    async def watched(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query_string:
            return await anything(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "BOOKMARK", "object": {"metadata": {"name": "x"}}}\n')
        await asyncio.Event().wait()
        return response

    backend.answering = closing_connections(watched)
    with ServerProcess(tmp_path / "front") as server, Api(server) as front:
        external_name(front)
        until_available(front, register(front, "a.example.com", backend.tls_port, ca=None))
        with front.watch("/apis/a.example.com/v1/things?watch=1") as events:
            assert events.next()["type"] == "BOOKMARK"
            assert server.stop() == 0


@pytest.mark.etcd
def test_each_replica_passes_requests_on(
    replicas: tuple[Api, Api], backend: BackendServer, tmp_path: Path
) -> None:
    one, two = replicas
    backend.answering = closing_connections(anything)
    external_name(one)
    path = register(one, "replicated.example.com", backend.tls_port, ca=None)
    for api in (one, two):
        until_available(api, path)
        until_status(200, partial(api.get, "/apis/replicated.example.com/v1"), "passed on")
    one.delete(path).ok()
    until_status(404, lambda: two.get("/apis/replicated.example.com/v1"), "gone")
