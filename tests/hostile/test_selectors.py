"""Selectors of maximum length, and labels of objects as large as they may be, hold up nobody. Rows I17, I18.

What is measured is the longest turn of the event loop, in processor time of its thread.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from apiserver.meta.selectors import LABEL_KEYS_MAX, REQUIREMENTS_MAX, VALUES_MAX
from tests.hostile.support import longest_turn
from tests.support.api import Api, until_status
from tests.support.raw import raw_connection
from tests.support.server_process import ServerProcess

TURN_MAX_S: Final = 0.05
OBJECTS: Final = 1_500
CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
LABELS: Final = {f"k{n}": "1" for n in range(LABEL_KEYS_MAX)}
# All of them select the objects, so that no test of them ends early.
SELECTORS: Final = {
    "values that labels do not have": ",".join(
        f"k{n}!=v{v}" for n in range(LABEL_KEYS_MAX) for v in range(REQUIREMENTS_MAX // LABEL_KEYS_MAX)
    ),
    "values of many labels": ",".join(
        f"k{n} in (1,{','.join(f'v{v}' for v in range(VALUES_MAX // LABEL_KEYS_MAX - 1))})"
        for n in range(LABEL_KEYS_MAX)
    ),
    "numbers": ",".join(f"k{n}>0" for n in range(LABEL_KEYS_MAX)),
    "labels that do not exist": ",".join(f"!absent{n}" for n in range(LABEL_KEYS_MAX)),
    "one label again and again": ",".join(["k1"] * REQUIREMENTS_MAX),
}
FIELDS: Final = ",".join(f"metadata.name!=x{n}" for n in range(REQUIREMENTS_MAX))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A client of a server with many objects that have many labels."""
    directory = tmp_path_factory.mktemp("selectors")
    with ServerProcess(directory / "data") as server, Api(server) as api:
        for n in range(OBJECTS):
            api.post(CONFIGMAPS, {"metadata": {"name": f"a{n}", "labels": LABELS}}).ok()
        yield api


@pytest.mark.parametrize("selector", SELECTORS.values(), ids=SELECTORS)
def test_lists(api: Api, selector: str) -> None:
    """Anew, from the cache, in chunks, and at an exact revision."""
    path = f"{CONFIGMAPS}?labelSelector={quote(selector)}"
    revision = api.get(f"{CONFIGMAPS}?limit=1").ok()["metadata"]["resourceVersion"]
    with longest_turn(api) as turn:
        for more in (
            "",
            "&resourceVersion=0",
            f"&resourceVersion={revision}&resourceVersionMatch=Exact",
            "&limit=500",
        ):
            found = api.get(path + more).ok()
            assert len(found["items"]) == (500 if "limit" in more else OBJECTS)
    assert turn.thread_cpu_s <= TURN_MAX_S


def test_lists_by_fields(api: Api) -> None:
    with longest_turn(api) as turn:
        assert len(api.get(f"{CONFIGMAPS}?fieldSelector={quote(FIELDS)}").ok()["items"]) == OBJECTS
        contradiction = "metadata.name=a1,metadata.name=a2"
        assert api.get(f"{CONFIGMAPS}?fieldSelector={contradiction}").ok()["items"] == []
    assert turn.thread_cpu_s <= TURN_MAX_S


TOO_LONG: Final = {
    "requirements": ("labelSelector", ",".join(f"a!=b{n}" for n in range(REQUIREMENTS_MAX + 1))),
    "the shortest requirements": ("labelSelector", ",".join(["!a"] * 20_000)),
    "labels": ("labelSelector", ",".join(f"a{n}" for n in range(LABEL_KEYS_MAX + 1))),
    "values": ("labelSelector", f"a in ({',' * VALUES_MAX})"),
    "fields": ("fieldSelector", FIELDS + ",metadata.name!=x"),
}


@pytest.mark.parametrize(("parameter", "selector"), TOO_LONG.values(), ids=TOO_LONG)
@pytest.mark.parametrize("verb", ["list", "watch", "deletecollection"])
def test_longer_ones_are_refused(api: Api, verb: str, parameter: str, selector: str) -> None:
    path = f"{CONFIGMAPS}?{parameter}={quote(selector, safe=',!=()')}"
    with longest_turn(api) as turn:
        if verb == "deletecollection":
            answer = api.delete(path)
        else:
            answer = api.get(path + ("&watch=1" if verb == "watch" else ""))
    assert answer.status == 400
    assert answer.message.startswith(f"{parameter}: Too many: must ")
    assert turn.thread_cpu_s <= TURN_MAX_S


@contextmanager
def watches(api: Api, selectors: list[str], query: str) -> Iterator[list[ssl.SSLSocket]]:
    """Open watches, each with a connection of its own, on which nobody reads yet."""
    with ExitStack() as stack:
        connections = []
        for selector in selectors:
            connection = stack.enter_context(raw_connection(api.server))
            target = f"{CONFIGMAPS}?watch=1&{query}&labelSelector={quote(selector)}"
            connection.sendall(
                f"GET {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n".encode()
            )
            connections.append(connection)
        yield connections


def read_until(connection: ssl.SSLSocket, text: bytes) -> None:
    seen = b""
    while text not in seen:
        part = connection.recv(65_536)
        assert part, seen[-1000:]
        seen = seen[-len(text) :] + part


def selectors_of(kind: str, count: int) -> list[str]:
    """Different selectors, so that nobody else's test will do."""
    first = SELECTORS[kind]
    if kind == "numbers":
        # A bound is a label's value, which is no negative number, and every label here is 1: zeros differ.
        zeros = ((f"{0:0{1 + n % 32}}", f"{0:0{1 + n // 32}}") for n in range(count))
        return [first.replace("k0>0,k1>0", f"k0>{one},k1>{other}", 1) for one, other in zeros]
    if kind == "labels that do not exist":
        return [first.replace("!absent0", f"!gone{n}", 1) for n in range(count)]
    return [first] * count


CROWDS: Final = [
    pytest.param(kind, count, id=f"{kind}, {count}", marks=[pytest.mark.slow] if count > 80 else [])
    for kind in ("numbers", "labels that do not exist", "values of many labels")
    for count in (40, 80, 1_000)
]


@pytest.mark.parametrize(("kind", "count"), CROWDS)
def test_watches(api: Api, kind: str, count: int) -> None:
    """Each event concerns all of them."""
    revision = api.get(f"{CONFIGMAPS}?limit=1").ok()["metadata"]["resourceVersion"]
    with watches(api, selectors_of(kind, count), f"resourceVersion={revision}") as connections:
        api.patch(f"{CONFIGMAPS}/a0", {"data": {"first": f"{kind}{count}"}}).ok()
        for connection in connections:
            read_until(connection, f"{kind}{count}".encode())
        with longest_turn(api) as turn:
            for n in range(10):
                api.patch(f"{CONFIGMAPS}/a{n}", {"data": {"n": f"{kind} {count}-{n}"}}).ok()
            for connection in connections:
                read_until(connection, f"{kind} {count}-9".encode())
    assert turn.thread_cpu_s <= TURN_MAX_S


def test_initial_events_and_replays_of_the_history(api: Api) -> None:
    revision = api.get(f"{CONFIGMAPS}?limit=1").ok()["metadata"]["resourceVersion"]
    for n in range(500):
        api.patch(f"{CONFIGMAPS}/a{n}", {"data": {"replayed": f"{n}"}}).ok()
    bookmark = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    selectors = selectors_of("numbers", 3)
    with longest_turn(api) as turn:
        with watches(api, selectors, f"resourceVersion={revision}") as connections:
            for connection in connections:
                read_until(connection, b'"replayed":"499"')
        with watches(api, selectors, bookmark) as connections:
            for connection in connections:
                read_until(connection, b'"k8s.io/initial-events-end":"true"')
    assert turn.thread_cpu_s <= TURN_MAX_S


LARGE: Final[dict[str, dict[str, Any]]] = {
    "data": {"data": {f"k{n}": "" for n in range(40_000)}},
    "labels": {"metadata": {"labels": {f"k{n}": "" for n in range(20_000)}}},
    "annotations": {"metadata": {"annotations": {f"k{n}": "" for n in range(15_000)}}},
    "binary data": {"binaryData": {"a": "A" * 1_000_000}},
}


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_the_first_use_of_labels_of_large_objects(tmp_path: Path, large: dict[str, Any]) -> None:
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        for n in range(12):
            document = json.loads(json.dumps(large))
            meta = document.setdefault("metadata", {})
            meta["name"] = f"a{n}"
            meta.setdefault("labels", {})["app"] = "x"
            api.post(CONFIGMAPS, document).ok()
        with longest_turn(api) as turn:
            assert api.get(f"{CONFIGMAPS}?labelSelector=app%3Dy").ok()["items"] == []
            assert api.get(f"{CONFIGMAPS}?labelSelector=!app").ok()["items"] == []
        assert turn.thread_cpu_s <= TURN_MAX_S


GADGETS: Final = "/apis/example.com/v1/namespaces/default/gadgets"
DEFINITION: Final[dict[str, Any]] = {
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {"color": {"type": "string"}},
                            }
                        },
                    }
                },
            }
        ],
    },
}


def test_the_first_use_of_fields_of_large_objects(tmp_path: Path) -> None:
    """Of built-in types and of custom resources, in lists and in watches."""
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).ok()
        until_status(200, lambda: api.get(GADGETS), "the gadgets to be served")
        secrets = "/api/v1/namespaces/default/secrets"
        large = {"color": "red", "rest": [{"color": "blue"}] * 40_000}
        for n in range(8):
            api.post(
                secrets, {"metadata": {"name": f"a{n}"}, "data": {f"k{m}": "" for m in range(40_000)}}
            ).ok()
            gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": f"a{n}"}}
            api.post(GADGETS, {**gadget, "spec": large}).ok()
        with longest_turn(api) as turn:
            assert api.get(f"{secrets}?fieldSelector=type%3Dx").ok()["items"] == []
        assert turn.thread_cpu_s <= TURN_MAX_S
        with longest_turn(api) as turn:
            assert api.get(f"{GADGETS}?fieldSelector=spec.color%3Dblue").ok()["items"] == []
        assert turn.thread_cpu_s <= TURN_MAX_S
        with (
            longest_turn(api) as turn,
            api.watch(f"{GADGETS}?watch=1&fieldSelector=spec.color%3Dgreen") as events,
        ):
            for n in range(4):
                api.patch(f"{GADGETS}/a{n}", {"metadata": {"labels": {"a": "b"}}}).ok()
            api.post(GADGETS, {**gadget, "metadata": {"name": "green"}, "spec": {"color": "green"}}).ok()
            assert events.take(1) == [("ADDED", "green")]
        assert turn.thread_cpu_s <= TURN_MAX_S
