"""Watches, from the first byte to the last. Rows I10, I11, J05, K26-K28, K38-K44, M01-M09, M11."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tests.support.api import Api, WatchEvents
from tests.support.eventually import WITHIN_S, eventually
from tests.support.metrics import metric
from tests.support.raw import raw_connection
from tests.support.server_process import ServerProcess

END: Final = {"annotations": {"k8s.io/initial-events-end": "true"}}
WATCHLIST: Final = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def version(document: dict[str, Any]) -> str:
    return str(document["metadata"]["resourceVersion"])


def bookmark(event: dict[str, Any]) -> dict[str, Any]:
    """Row M05: nothing but the version, in the kind that is watched. Returns the metadata."""
    assert event["type"] == "BOOKMARK"
    kind, api_version, metadata = (event["object"].pop(f) for f in ("kind", "apiVersion", "metadata"))
    assert (kind, api_version, event["object"]) == ("ConfigMap", "v1", {})
    return dict(metadata)


# ---- where a watch begins

# Query ({old}: a version at which only `a` was there) -> what is sent of a, then b, which are there;
# `|` is the bookmark that ends the initial events. Then c is created.
BEGINNINGS: Final = {
    "K26: no version is the state of now": ("", "abc"),
    "K27: zero is any state": ("resourceVersion=0", "abc"),
    "K28: a version is what came after it": ("resourceVersion={old}", "bc"),
    "K43: no version, bookmarks": ("allowWatchBookmarks=true", "ab|c"),
    "K43: zero, bookmarks": ("resourceVersion=0&allowWatchBookmarks=true", "ab|c"),
    "K28: a version, bookmarks": ("resourceVersion={old}&allowWatchBookmarks=true", "bc"),
    "K39, K40: a list as a stream": (f"{WATCHLIST}&allowWatchBookmarks=true", "ab|c"),
    "K39: the same from the cache": (f"{WATCHLIST}&allowWatchBookmarks=true&resourceVersion=0", "ab|c"),
    "K41: the same, not older than": (
        f"{WATCHLIST}&allowWatchBookmarks=true&resourceVersion={{old}}",
        "ab|c",
    ),
    "K42: the same, without bookmarks": (WATCHLIST, "abc"),
    "no initial events": ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", "c"),
}


@pytest.mark.parametrize(("query", "expected"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_where_a_watch_begins(api: Api, configmaps: str, query: str, expected: str) -> None:
    old = version(api.post(configmaps, named("a")).ok())
    newest = version(api.post(configmaps, named("b")).ok())
    with api.watch(f"{configmaps}?watch=1&{query.format(old=old)}") as events:
        api.post(configmaps, named("c")).ok()
        for each in expected:
            event = events.next()
            if each == "|":
                meta = bookmark(event)
                assert int(meta.pop("resourceVersion")) >= int(newest)
                assert meta == END
            else:
                assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", each)


@pytest.mark.parametrize("parameter", ["watch=1", "watch=true", "watch", "watch=True"])
def test_how_a_watch_is_asked_for(api: Api, configmaps: str, parameter: str) -> None:
    """Row I10."""
    api.post(configmaps, named("a")).ok()
    with api.watch(f"{configmaps}?{parameter}") as events:
        assert events.take(1) == [("ADDED", "a")]


@pytest.mark.parametrize("parameter", ["watch=0", "watch=false"])
def test_values_of_watch_that_mean_a_list(api: Api, configmaps: str, parameter: str) -> None:
    assert api.get(f"{configmaps}?{parameter}").ok()["kind"] == "ConfigMapList"


ITEM: Final = {
    "I11: the path of the object": "/api/v1/namespaces/{ns}/configmaps/b?watch=1",
    "a selector of its name": "/api/v1/namespaces/{ns}/configmaps?watch=1&fieldSelector=metadata.name%3Db",
    "the old way to say watch": "/api/v1/watch/namespaces/{ns}/configmaps/b",
}


@pytest.mark.parametrize("path", ITEM.values(), ids=ITEM)
def test_a_watch_of_one_object(api: Api, namespace: str, configmaps: str, path: str) -> None:
    for name in ("a", "b", "bb"):
        api.post(configmaps, named(name)).ok()
    with api.watch(path.format(ns=namespace)) as events:
        assert events.take(1) == [("ADDED", "b")]
        for name in ("a", "b", "bb"):
            api.delete(f"{configmaps}/{name}").ok()
        api.post(configmaps, named("b")).ok()
        assert events.take(2) == [("DELETED", "b"), ("ADDED", "b")]


def test_a_watch_over_all_namespaces(api: Api, namespace: str, configmaps: str) -> None:
    """Row I10: it sees what watches of each namespace see."""
    other = f"{namespace}x"
    api.post("/api/v1/namespaces", named(other)).ok()
    start = version(api.get(configmaps).ok())
    with (
        api.watch(f"/api/v1/configmaps?watch=1&resourceVersion={start}") as everywhere,
        api.watch(f"{configmaps}?watch=1&resourceVersion={start}") as here,
    ):
        api.post(f"/api/v1/namespaces/{other}/configmaps", named("there")).ok()
        api.post(configmaps, named("here")).ok()
        api.post(f"/api/v1/namespaces/{namespace}/secrets", named("another-type")).ok()
        api.post(configmaps, named("last")).ok()
        assert everywhere.take(3) == [("ADDED", "there"), ("ADDED", "here"), ("ADDED", "last")]
        assert here.take(2) == [("ADDED", "here"), ("ADDED", "last")]


# ---- events


def test_events_hold_the_object_as_it_was(api: Api, configmaps: str) -> None:
    """Rows M01-M03, M07: a deletion shows the last state at the version of the deletion."""
    path = f"{configmaps}/a"
    start = version(api.get(configmaps).ok())
    created = api.post(configmaps, named("a", data={"k": "1"})).ok()
    updated = api.put(path, named("a", data={"k": "2"})).ok()
    patched = api.patch(path, {"metadata": {"finalizers": ["x.io/a"]}}).ok()
    marked = api.delete(path).ok()
    api.patch(path, {"metadata": {"finalizers": None}}).ok()
    with api.watch(f"{configmaps}?watch=1&resourceVersion={start}") as events:
        for kind, document in (("ADDED", created), *(("MODIFIED", d) for d in (updated, patched, marked))):
            assert events.next() == {"type": kind, "object": document}
        last = events.next()
        assert last["type"] == "DELETED"
        assert int(version(last["object"])) > int(version(marked))
        last["object"]["metadata"]["resourceVersion"] = version(marked)
        assert last["object"] == marked


def test_no_event_is_missed_or_repeated(api: Api, configmaps: str) -> None:
    """Rows K44, M07: a list and the events since give the state, whatever is written meanwhile."""
    rng = random.Random(7)
    writer = Api(api.server)
    writes = 300

    def write() -> None:
        for _ in range(writes):
            name = f"n{rng.randrange(8)}"
            answer = writer.put(f"{configmaps}/{name}", named(name, data={"k": str(rng.random())}))
            if answer.status == 404:
                writer.post(configmaps, named(name)).ok()
            elif rng.random() < 0.4:
                writer.delete(f"{configmaps}/{name}").ok()
        writer.post(configmaps, named("the-end")).ok()
        writer.close()

    def replay(listed: dict[str, Any], events: WatchEvents) -> dict[str, Any]:
        state = {item["metadata"]["name"]: item["metadata"] for item in listed["items"]}
        last = int(version(listed))
        for event in events:
            meta = event["object"]["metadata"]
            assert int(meta["resourceVersion"]) > last
            last = int(meta["resourceVersion"])
            known = meta["name"] in state
            assert known is (event["type"] != "ADDED"), event
            if event["type"] == "DELETED":
                del state[meta["name"]]
            else:
                state[meta["name"]] = meta
            if meta["name"] == "the-end":
                break
        return state

    thread = threading.Thread(target=write)
    thread.start()
    replayed = []
    while thread.is_alive():
        listed = api.get(configmaps).ok()
        with api.watch(f"{configmaps}?watch=1&resourceVersion={version(listed)}") as events:
            replayed.append((listed, events))
            if any(item["metadata"]["name"] == "the-end" for item in listed["items"]):
                break
            state = replay(listed, events)
    thread.join()
    expected = {item["metadata"]["name"]: item["metadata"] for item in api.get(configmaps).ok()["items"]}
    assert state == expected
    assert replayed


def test_many_watchers_see_the_same(api: Api, configmaps: str) -> None:
    """Row M07: also those in other forms."""
    path = f"{configmaps}?watch=1&resourceVersion={version(api.get(configmaps).ok())}"
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(api.watch(path)) for _ in range(60)]
        documents = [api.post(configmaps, named(f"n{n}", data={"k": "x" * n * 100})).ok() for n in range(20)]
        expected = [{"type": "ADDED", "object": document} for document in documents]
        for events in watches:
            assert [events.next() for _ in expected] == expected


# ---- the end


def test_a_watch_ends_when_its_time_is_up(api: Api, configmaps: str) -> None:
    """Rows J05, J10, M05, M11: a bookmark before the end for whom it is wanted; then a clean end."""
    api.post(configmaps, named("a")).ok()
    start = version(api.get(configmaps).ok())
    newest = version(api.post(f"{configmaps[:-10]}secrets", named("elsewhere")).ok())
    path = f"{configmaps}?watch=1&timeoutSeconds=3&resourceVersion={start}"
    with api.watch(f"{path}&allowWatchBookmarks=true") as with_bookmarks, api.watch(path) as without:
        meta = bookmark(with_bookmarks.next())
        assert int(meta["resourceVersion"]) >= int(newest)
        assert set(meta) == {"resourceVersion"}
        assert list(with_bookmarks) == []
        assert list(without) == []


def test_a_watch_of_the_future_waits(api: Api, configmaps: str) -> None:
    """Row K38: nothing that happens before that version concerns it."""
    future = int(version(api.get(configmaps).ok())) + 1_000_000
    with api.watch(f"{configmaps}?watch=1&timeoutSeconds=1&resourceVersion={future}") as events:
        assert events.status == 200
        api.post(configmaps, named("a")).ok()
        assert list(events) == []


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server that keeps two changes of each resource."""
    data = tmp_path_factory.mktemp("forgetful") / "data"
    with ServerProcess(data, "--default-watch-cache-size=2") as server, Api(server) as api:
        yield api


def test_a_watch_from_a_compacted_version(forgetful: Api) -> None:
    """Rows M04, M08: the stream says 410 and ends; who starts anew from a list goes on."""
    path = "/api/v1/namespaces/default/configmaps"
    versions = [version(forgetful.post(path, named(f"n{n}")).ok()) for n in range(5)]
    with forgetful.watch(f"{path}?watch=1&resourceVersion={versions[0]}") as events:
        assert events.status == 200
        (event,) = events
    status = event["object"]
    assert (event["type"], status["kind"], status["code"], status["reason"]) == (
        "ERROR",
        "Status",
        410,
        "Expired",
    )
    assert status["message"].startswith(f"too old resource version: {versions[0]} (")
    with forgetful.watch(f"{path}?watch=1&resourceVersion={versions[-2]}") as events:
        assert events.take(1) == [("ADDED", "n4")]


# ---- frames


def stream_raw(api: Api, path: str, *, http: str = "1.1", receive_buffer: int = 0) -> ssl.SSLSocket:
    """A watch of which nothing has been read yet."""
    where = urlsplit(api.server.url)
    plain = socket.socket()
    if receive_buffer:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    plain.settimeout(WITHIN_S)
    plain.connect((where.hostname, where.port))
    context = ssl.create_default_context(cafile=api.server.ca_path)
    connection = context.wrap_socket(plain, server_hostname=where.hostname)
    connection.sendall(
        f"GET {path} HTTP/{http}\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n"
        "Accept-Encoding: gzip\r\n\r\n".encode()
    )
    return connection


def test_each_event_is_a_line_in_a_chunk(api: Api, configmaps: str) -> None:
    """Rows D20, D21, M11: never compressed, flushed at once, and ended as chunked bodies are."""
    created = [api.post(configmaps, named(name)).ok() for name in ("a", "b")]
    with stream_raw(api, f"{configmaps}?watch=1&timeoutSeconds=1") as connection:
        file = connection.makefile("rb")
        status, *lines = iter(file.readline, b"\r\n")
        headers = dict(line.decode().lower().rstrip().split(": ", 1) for line in lines)
        assert status.startswith(b"HTTP/1.1 200 ")
        assert headers["transfer-encoding"] == "chunked"
        assert headers["content-type"] == "application/json"
        assert not {"content-encoding", "content-length"} & set(headers)
        for document in created:
            data = file.read(int(file.readline(), 16) + 2)
            assert data.endswith(b"}\n\r\n")
            assert data.count(b"\n") == 2
            assert json.loads(data) == {"type": "ADDED", "object": document}
        assert file.readline() == b"0\r\n"


def test_an_http_1_0_client_gets_no_chunks(api: Api, configmaps: str) -> None:
    """HTTP/1.0: lines as they are, and the end of the connection is the end."""
    created = api.post(configmaps, named("a")).ok()
    with stream_raw(api, f"{configmaps}?watch=1&timeoutSeconds=1", http="1.0") as connection:
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    assert json.loads(body) == {"type": "ADDED", "object": created}


# ---- clients that do not do their part


def open_watches(api: Api) -> float:
    return metric(api, "apiserver_longrunning_requests")


async def test_disconnected_watchers_leave_nothing_behind(api: Api, configmaps: str) -> None:
    """Neither a stream nor a connection; without a word, or in the middle of events."""
    await eventually(lambda: open_watches(api) == 0)
    files = metric(api, "process_open_fds")
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(api.watch(f"{configmaps}?watch=1")) for _ in range(20)]
        raw = [stack.enter_context(stream_raw(api, f"{configmaps}?watch=1")) for _ in range(5)]
        await eventually(lambda: open_watches(api) == len(watches) + len(raw))
        api.post(configmaps, named("a")).ok()
    await eventually(lambda: open_watches(api) == 0)
    await eventually(lambda: metric(api, "process_open_fds") <= files)
    assert api.post(configmaps, named("b")).status == 201


def create_in_bulk(connection: ssl.SSLSocket, path: str, names: list[str], padding: str) -> None:
    """Many creates with one write, then all the answers: far more in a second than one by one."""
    requests = b""
    for name in names:
        body = json.dumps(named(name, data={"padding": padding})).encode()
        requests += (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
    connection.sendall(requests)
    answers = b""
    while answers.count(b"HTTP/1.1 201 ") < len(names) or not answers.endswith(b"}\n"):
        part = connection.recv(65_536)
        assert part, answers[-1_000:]
        answers += part


async def test_a_slow_watcher_is_closed_without_delaying_others(api: Api, configmaps: str) -> None:
    """Row M09: one client reads nothing while events pile up; others go on getting all of them."""
    connections, batch, rounds_max, padding = 8, 60, 60, "x" * 2_000
    path = f"{configmaps}?watch=1&resourceVersion={version(api.get(configmaps).ok())}"
    received: list[int] = []

    def read(events: WatchEvents) -> None:
        for event in events:
            received.append(int(version(event["object"])))
            if event["object"]["metadata"]["name"] == "last":
                break

    await eventually(lambda: open_watches(api) == 0)
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(raw_connection(api.server)) for _ in range(connections)]
        pool = stack.enter_context(ThreadPoolExecutor(connections))
        healthy = stack.enter_context(api.watch(path))
        stack.enter_context(stream_raw(api, path, receive_buffer=4_096))
        reader = threading.Thread(target=read, args=(healthy,), daemon=True)
        reader.start()
        await eventually(lambda: open_watches(api) == 2)
        rounds = 0
        while open_watches(api) == 2:
            assert rounds < rounds_max, "it is still there"
            names = [[f"n{rounds}-{c}-{n}" for n in range(batch)] for c in range(connections)]
            work = zip(writers, itertools.repeat(configmaps), names, itertools.repeat(padding))
            list(pool.map(lambda arguments: create_in_bulk(*arguments), work))
            rounds += 1
        api.post(configmaps, named("last")).ok()
        reader.join(WITHIN_S)
    assert len(received) == rounds * connections * batch + 1
    assert received == sorted(received)
    assert rounds > 1, "a client may lag behind for a while"
