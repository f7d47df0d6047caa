"""What has been deleted is forgotten, and what a request needed is free when it is answered.

Names and schemas that are to be forgotten carry a mark, and the server tells which of its objects still hold
such a text (`tests/support/inspected_server.py`). Whatever kind of object it is, there may be no more of them
after three times as many definitions, once the watch cache has let its history go. What is bounded by number
is named below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from websocket import ABNF

from tests.support.api import Answer, Api, until_status
from tests.support.definitions import define, definition, version
from tests.support.eventually import until
from tests.support.inspected_server import MARK, InspectedServer
from tests.support.metrics import metric
from tests.support.raw import raw_connection
from tests.support.watches_client import watching
from tests.support.websocket_client import connected

BOUNDED: Final = (
    # The latest paths that were asked for, and the resources of the latest writes (`functools.lru_cache`).
    "apiserver.meta.vocabulary.RequestInfo",
    "yarl.URL",
    "apiserver.meta.vocabulary.GroupResource",
    # What is known of the types of stored objects, `HEADS_MAX` of them.
    "apiserver.registry.stored_version_decoder._Known",
    "builtins.dict of apiserver.registry.stored_version_decoder.StoredVersionDecoder",
    # The requests of the last two minutes, `SOURCES_MAX` kinds of them.
    "apiserver.metrics.client_usage.Source",
    # Which resources keys belong to, some thousands of them.
    "builtins.dict of builtins.cell of builtins.tuple of apiserver.metrics.storage.resources_of_keys",
)
SCHEMA: Final = {
    "type": "object",
    "description": f"{MARK} description",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                f"{MARK}Text": {"type": "string", "pattern": f"^{MARK}[0-9]*$", "default": f"{MARK}1"},
                f"{MARK}Items": {
                    "type": "array",
                    "maxItems": 9,
                    "items": {"type": "object", "properties": {f"{MARK}Key": {"type": "string"}}},
                },
            },
            "x-kubernetes-validations": [
                {"rule": f"self.{MARK}Text.startsWith('{MARK}')", "message": f"{MARK} message"}
            ],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


pytestmark = pytest.mark.slow


@pytest.fixture
def process(tmp_path: Path) -> Iterator[InspectedServer]:
    """One for each test: what another test began would be found as garbage."""
    with InspectedServer(tmp_path / "data", "--default-watch-cache-size=1") as process:
        yield process


@pytest.fixture
def api(process: InspectedServer) -> Iterator[Api]:
    api = Api(process)
    yield api
    api.close()


def _definition(number: int) -> dict[str, Any]:
    more: dict[str, Any] = {
        "schema": SCHEMA,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": MARK, "type": "string", "jsonPath": f".spec.{MARK}Text"}],
    }
    return definition(
        f"{MARK}{number}.example.com",
        version("v1", **more),
        version("v2", storage=False, **more),
        kind=f"Forgettable{number}",
        names={"shortNames": [f"{MARK}short{number}"], "categories": [MARK]},
    )


def _come_and_go(api: Api, numbers: range) -> None:
    """Definitions are made, used in every way that compiles or caches something, and deleted."""
    for number in numbers:
        defined = define(api, _definition(number))
        for made in ("v1", "v2"):
            defined.create(made, version=made, spec={f"{MARK}Items": [{f"{MARK}Key": "a"}]}).ok()
            path = f"{defined.objects(version=made)}/{made}"
            api.patch(path, {"spec": {f"{MARK}Text": f"{MARK}2"}}, type="merge").ok()
            applied = defined.body(made, made, spec={f"{MARK}Text": f"{MARK}3"})
            api.apply(f"{path}?fieldManager={MARK}&force=true", applied).ok()
            api.get(f"{defined.objects(version=made)}?labelSelector={MARK}%3Da").ok()
            for accept in ("application/json;as=Table;g=meta.k8s.io;v=v1", "application/yaml"):
                assert api.get(defined.objects(version=made), headers={"Accept": accept}).status == 200
            api.get(f"/openapi/v3/apis/{defined.group}/{made}").ok()
        for path in ("/apis", "/openapi/v2", "/openapi/v3", "/metrics"):
            assert api.get(path).status == 200
        api.delete(defined.path).ok()
        until_status(404, lambda: api.get(defined.path), "deleted")  # noqa: B023
    assert MARK not in api.get("/apis").body.decode()
    assert MARK not in api.get("/openapi/v3").body.decode()


def test_definitions_that_are_deleted_are_forgotten(process: InspectedServer, api: Api) -> None:
    _come_and_go(api, range(4))
    before = process.holders()
    _come_and_go(api, range(4, 12))

    def grown() -> Mapping[str, tuple[int, int]]:
        # A few may be those of the latest request, or of the latest reconciliation.
        return {
            kind: (before.get(kind, 0), count)
            for kind, count in process.holders().items()
            if not kind.startswith(BOUNDED) and count > before.get(kind, 0) + 3
        }

    until(grown, lambda found: not found, "no more than before")


CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"


def _config_map(name: str, **metadata: str) -> dict[str, Any]:
    metadata["name"] = name
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


WITH_UID: Final = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "another"}}
OURS: Final = re.compile(r"(apiserver|storage)\.|builtins\.(frame|coroutine)").match
TEST: Final = [{"op": "test", "path": "/data/a", "value": "c"}]
REQUESTS: Final[Mapping[str, Callable[[Api], Answer]]] = {
    "create": lambda api: api.post(f"{CONFIG_MAPS}?dryRun=All", _config_map("new")),
    "create what exists": lambda api: api.post(CONFIG_MAPS, _config_map("a")),
    "create in no namespace": lambda api: api.post(
        "/api/v1/namespaces/none/configmaps", _config_map("a", namespace="none")
    ),
    "update": lambda api: api.put(f"{CONFIG_MAPS}/a", _config_map("a")),
    "update of an older version": lambda api: api.put(
        f"{CONFIG_MAPS}/a", _config_map("a", resourceVersion="1")
    ),
    "update of another object": lambda api: api.put(f"{CONFIG_MAPS}/a", _config_map("a", uid="another")),
    "update of what is not there": lambda api: api.put(f"{CONFIG_MAPS}/b", _config_map("b", uid="any")),
    "merge patch": lambda api: api.patch(f"{CONFIG_MAPS}/a", {"data": {"a": "d"}}),
    "json patch": lambda api: api.patch(f"{CONFIG_MAPS}/a", TEST, type="json-patch"),
    "apply": lambda api: api.apply(f"{CONFIG_MAPS}/a?fieldManager=m&force=true", _config_map("a")),
    "apply that conflicts": lambda api: api.apply(
        f"{CONFIG_MAPS}/a?fieldManager=n", {**_config_map("a"), "data": {"a": "e"}}
    ),
    "delete with another uid": lambda api: api.delete(f"{CONFIG_MAPS}/a", WITH_UID),
    "bad json": lambda api: api.post(CONFIG_MAPS, b"{"),
    "bad yaml": lambda api: api.post(CONFIG_MAPS, b"{: :", type="application/yaml"),
    "bad protobuf": lambda api: api.post(
        CONFIG_MAPS, b"k8s\x00\xff", type="application/vnd.kubernetes.protobuf"
    ),
    "invalid object": lambda api: api.post(CONFIG_MAPS, _config_map("A b")),
    "unknown fields": lambda api: api.post(
        f"{CONFIG_MAPS}?fieldValidation=Strict", {**_config_map("c"), "unknown": 1}
    ),
    "get": lambda api: api.get(f"{CONFIG_MAPS}/a"),
    "get of what is not there": lambda api: api.get(f"{CONFIG_MAPS}/b"),
    "list": lambda api: api.get(f"{CONFIG_MAPS}?limit=1"),
    "table": lambda api: api.get(
        CONFIG_MAPS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    ),
    "bad continue token": lambda api: api.get(f"{CONFIG_MAPS}?continue=bad"),
    "bad selector": lambda api: api.get(f"{CONFIG_MAPS}?labelSelector=a%3D%3D%3Db"),
    "watch": lambda api: api.get(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1"),
    "watch of what is too old": lambda api: api.get(f"{CONFIG_MAPS}?watch=1&resourceVersion=1"),
    "unknown path": lambda api: api.get("/unknown"),
    "bad token": lambda api: api.get(CONFIG_MAPS, headers={"Authorization": "Bearer bad"}),
    "no rights": lambda api: api.get(CONFIG_MAPS, headers={"Impersonate-User": "somebody"}),
    "review": lambda api: api.post(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    "metrics": lambda api: api.get("/metrics"),
}


def test_requests_leave_nothing_that_only_a_garbage_collection_frees(
    process: InspectedServer, api: Api
) -> None:
    """It would be kept for long, as full collections are rare: a refused object, the events of a watch."""
    api.post(CONFIG_MAPS, _config_map("a")).ok()
    for send in REQUESTS.values():
        send(api)
    process.garbage()  # what was made for the first time, or by the server's start
    found = {}
    for name, send in REQUESTS.items():
        for _ in range(3):
            send(api)
        # Fewer than requests are those of a connection that has ended meanwhile.
        if garbage := {kind for kind, count in process.garbage().items() if count >= 3 and OURS(kind)}:
            found[name] = garbage
    assert found == {}


WATCH: Final = f"{CONFIG_MAPS}?watch=1"


def _lost(process: InspectedServer) -> None:
    """A watch whose client goes without a word."""
    with raw_connection(process) as connection:
        head = f"GET {WATCH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(1_000)


def _lost_websocket(process: InspectedServer) -> None:
    with connected(process, WATCH, Authorization="Bearer admin-token") as client:
        client.next_event()


def _closed_websocket(process: InspectedServer) -> None:
    with connected(process, WATCH, Authorization="Bearer admin-token") as client:
        client.next_event()
        client.send(ABNF.OPCODE_CLOSE, b"\x03\xe8")
        while client.receive()[0] != ABNF.OPCODE_CLOSE:
            pass


def _lost_subscriptions(process: InspectedServer) -> None:
    """A page with many watches that is closed."""
    with watching(process) as client:
        for number in range(1, 9):
            client.begin(number, WATCH)
            client.event(number)


def _ended_subscriptions(process: InspectedServer) -> None:
    with watching(process) as client:
        for number in range(1, 9):
            client.begin(number, WATCH)
            client.event(number)
            client.send({"unsubscribe": {"id": number}})
            assert client.end(number) is None
        client.send({})
        client.close_code()


ENDS: Final[Mapping[str, Callable[[InspectedServer], None]]] = {
    "a watch that is lost": _lost,
    "a WebSocket that is lost": _lost_websocket,
    "a WebSocket that is closed": _closed_websocket,
    "many watches on one WebSocket": _lost_subscriptions,
    "watches on one WebSocket, one after the other": _ended_subscriptions,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_connections_that_end_leave_nothing_that_only_a_garbage_collection_frees(
    process: InspectedServer, api: Api, end: Callable[[InspectedServer], None]
) -> None:
    """A thousand of them were 25 MB, which stayed."""
    api.post(CONFIG_MAPS, _config_map("a")).ok()
    end(process)
    _await_no_watches(api)
    process.garbage()
    for _ in range(5):
        end(process)
    _await_no_watches(api)
    assert {kind: count for kind, count in process.garbage().items() if count >= 4 and OURS(kind)} == {}


def _await_no_watches(api: Api) -> None:
    until(lambda: metric(api, "apiserver_longrunning_requests", verb="WATCH") == 0, what="watches have ended")
