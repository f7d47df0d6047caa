"""Hostile requests: size, depth, number and malformed HTTP. Each has a limit, and is answered by a 4xx."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from apiserver.cli.config import Config
from tests.support.api import Answer, Api
from tests.support.eventually import eventually, until
from tests.support.raw import raw_connection, read_all
from tests.support.schema_values import nested
from tests.support.server_process import ServerProcess

CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"
# An answer to a mistake; a list may be longer.
ERROR_BYTES_MAX: Final = 2_000_000


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


# ---- depth


# Field and levels -> the status of a create that warns, a strict create, an update, a merge patch, a JSON
# patch that adds a field nobody knows, and a deletion whose options nobody knows.
_UNKNOWN: Final = [201, 400, 200, 200, 200, 200]
_WRONG_TYPE: Final = [400, 400, 400, 422, 200, 200]
_DEEP_WRONG_TYPE: Final = [400, 400, 400, 400, 200, 200]
DEEP: Final = {
    "an unknown field, 200 levels": ("x", 200, _UNKNOWN),
    "an unknown field, 400 levels": ("x", 400, _UNKNOWN),
    "an unknown field, 900 levels": ("x", 900, _UNKNOWN),
    "data, 200 levels": ("data", 200, _WRONG_TYPE),
    "data, 255 levels": ("data", 255, _DEEP_WRONG_TYPE),
    "data, 400 levels": ("data", 400, _DEEP_WRONG_TYPE),
    "data, 900 levels": ("data", 900, _DEEP_WRONG_TYPE),
    "annotations, 200 levels": ("annotations", 200, _WRONG_TYPE),
    "annotations, 255 levels": ("annotations", 255, _DEEP_WRONG_TYPE),
    "annotations, 400 levels": ("annotations", 400, _DEEP_WRONG_TYPE),
    "annotations, 900 levels": ("annotations", 900, _DEEP_WRONG_TYPE),
}


@pytest.mark.parametrize(("field", "levels", "statuses"), DEEP.values(), ids=DEEP)
def test_depth(api: Api, namespace: str, field: str, levels: int, statuses: list[int]) -> None:
    """Row P02: refused, or dropped where the field is not known; never 500."""
    path = CONFIGMAPS.format(namespace)
    value = deep(levels)
    if field == "annotations":
        body = b'{"metadata":{"name":"%b","annotations":' + value + b"}}"
    else:
        body = b'{"metadata":{"name":"%b"},"' + field.encode() + b'":' + value + b"}"
    api.post(path, {"metadata": {"name": "a"}}).ok()
    answers = [
        api.post(f"{path}?fieldValidation=Warn", body % b"b"),
        api.post(f"{path}?fieldValidation=Strict", body % b"c"),
        api.put(f"{path}/a", body % b"a"),
        api.patch(f"{path}/a", body % b"a"),
        api.patch(f"{path}/a", b'[{"op":"add","path":"/x","value":' + value + b"}]", "json-patch"),
        api.delete(f"{path}/a", value),
    ]
    assert [answer.status for answer in answers] == statuses, [answer.body[:200] for answer in answers]
    assert all(len(answer.body) < ERROR_BYTES_MAX for answer in answers)


# ---- numbers of things

# Metadata -> the status of a create and of an update.
MANY: Final[dict[str, tuple[dict[str, Any], list[int]]]] = {
    # Only an object that had owned fields before gets entries for them, without which it is small enough.
    "owners": (
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}"} for n in range(20_000)
            ]
        },
        [413, 200],
    ),
    "controllers": (
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}", "controller": True}
                for n in range(3_000)
            ]
        },
        [422, 422],
    ),
    "bad labels": ({"labels": {f"-{n}": "v" for n in range(100_000)}}, [422, 422]),
    "bad label values": ({"labels": {f"a{n}": "-" * 100 for n in range(15_000)}}, [422, 422]),
    "bad annotations": ({"annotations": {f"-{n}": "" for n in range(100_000)}}, [422, 422]),
    "bad finalizers": ({"finalizers": [f"-{n}" for n in range(100_000)]}, [422, 422]),
}


@pytest.mark.parametrize(("meta", "statuses"), MANY.values(), ids=MANY)
def test_large_metadata(api: Api, namespace: str, meta: dict[str, Any], statuses: list[int]) -> None:
    """Answered soon and shortly. Others have been waiting meanwhile, so soon is meant."""
    path = CONFIGMAPS.format(namespace)
    api.post(path, {"metadata": {"name": "a"}}).ok()
    began = api.server.cpu_s
    answers = [
        api.post(path, {"metadata": {"name": "b", **meta}}),
        api.put(f"{path}/a", {"metadata": {"name": "a", **meta}}),
    ]
    assert api.server.cpu_s - began < 6.0
    assert [answer.status for answer in answers] == statuses, [answer.body[:300] for answer in answers]
    assert all(len(answer.body) < ERROR_BYTES_MAX for answer in answers if answer.status >= 300)


def test_a_long_value_is_not_shown_in_full(api: Api, namespace: str) -> None:
    answer = api.post(
        CONFIGMAPS.format(namespace), {"metadata": {"name": "a", "labels": {"k": "v" * 1_000_000}}}
    )
    assert answer.status == 422
    assert len(answer.body) < 100_000


# ---- what is kept of what strangers send


def test_anonymous_requests_do_not_fill_memory(tmp_path: Path) -> None:
    """Caches have a bound in bytes: paths, queries, headers of 60 KB each leave nothing."""
    with ServerProcess(tmp_path / "data") as server:
        nobody = Api(server, "")
        process = psutil.Process(server.pid)
        filler = "%F0%9F%98%80" + "x" * 30_000

        def ask(number: int) -> None:
            nobody.get(f"/{number}{filler}")
            nobody.get(f"/version?a={number}{filler}")
            headers = {"User-Agent": f"{number}{filler}", "Accept": f"{number}/{filler}"}
            nobody.get("/version", headers=headers)
            nobody.get("/version", headers={"Authorization": f"Basic {number}{filler}"})

        for number in range(20):
            ask(number)
        before = process.memory_info().rss
        for number in range(300):
            ask(number + 100)
        assert process.memory_info().rss - before < 20_000_000
        nobody.close()


# ---- time


@pytest.mark.parametrize("asked", ["?gracePeriodSeconds=300000000000", ""])
def test_a_grace_period_beyond_the_calendar(api: Api, namespace: str, asked: str) -> None:
    """The end of the time is capped; the pod can be deleted all the same, and so can its namespace."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {
        "nodeName": "n",
        "terminationGracePeriodSeconds": 2**63 - 1,
        "containers": [{"name": "c", "image": "i"}],
    }
    api.post(pods, {"metadata": {"name": "a"}, "spec": spec}).ok()
    marked = api.delete(f"{pods}/a{asked}").ok()
    assert marked["metadata"]["deletionTimestamp"] < "2200"
    assert api.delete(f"{pods}/a?gracePeriodSeconds=0").status == 200
    assert api.get(f"{pods}/a").status == 404


def test_generations_end(api: Api, namespace: str) -> None:
    """An int64 in every client: it stops there, and the object can still be changed."""
    path = CONFIGMAPS.format(namespace)
    api.post(path, {"metadata": {"name": "a", "generation": 2**63 - 1, "finalizers": ["example.com/f"]}}).ok()
    assert api.delete(f"{path}/a").ok()["metadata"]["generation"] == 2**63 - 1
    assert api.patch(f"{path}/a", {"metadata": {"finalizers": None}}).status == 200
    assert api.get(f"{path}/a").status == 404


def test_the_clients_own_timeout(api: Api, namespace: str, server: ServerProcess) -> None:
    """client-go sends it with each request; what it may be is a Go duration."""
    for text in ("abc", "5", "-1s", ""):
        refused = api.get(f"/api/v1/namespaces?timeout={text}")
        assert (refused.status, refused.reason) == (400, "BadRequest"), text
        assert "invalid timeout" in refused.message
    assert api.get("/api/v1/namespaces?timeout=32s").status == 200
    assert api.get("/api/v1/namespaces?timeout=0").status == 200
    began = time.monotonic()
    with raw_connection(server) as connection:
        connection.sendall(head("POST", CONFIGMAPS.format("default") + "?timeout=300ms", "Content-Length: 9"))
        assert received(connection).status == 504
    assert time.monotonic() - began < Config().serving.request_timeout_s / 2


def test_malformed_chunks_are_refused_at_once(server: ServerProcess, api: Api) -> None:
    """The parser's error reaches the request that is under way, which would time out otherwise."""
    under_way = b'apiserver_current_inflight_requests{request_kind="mutating"} 1\n'
    with raw_connection(server) as connection:
        connection.sendall(
            head("POST", CONFIGMAPS.format("default"), "Transfer-Encoding: chunked") + b"2\r\n{ \r\n"
        )
        until(lambda: under_way in api.get("/metrics").body, what="the request is under way")
        connection.sendall(b"ZZ\r\n")
        answer = received(connection)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")


# ---- HTTP's corners


def head(method: str, target: str, *lines: str, version: str = "1.1", token: str = "admin-token") -> bytes:
    fixed = [f"{method} {target} HTTP/{version}", "Host: x", f"Authorization: Bearer {token}"]
    return "\r\n".join([*fixed, "Content-Type: application/json", *lines, "", ""]).encode("latin-1")


def received(connection: Any) -> Answer:
    response = http.client.HTTPResponse(connection)
    response.begin()
    pairs = tuple((name.lower(), value) for name, value in response.getheaders())
    return Answer(response.status, dict(pairs), pairs, response.read())


def test_absolute_targets_are_understood(server: ServerProcess) -> None:
    """RFC 9112, 3.2.2."""
    with raw_connection(server) as connection:
        connection.sendall(head("GET", "https://example.com/version?pretty=0"))
        assert received(connection).json["major"] == "1"


ADMIN: Final = "Authorization: Bearer admin-token"
REFUSED_HEADS: Final = {
    **{
        f"the method {method}": (f"{method} /api/v1/pods HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n\r\n", code)
        for method, code in (
            *(("BREW", 405), ("get", 405), ("GETS", 405), ("P'ING", 405), ("MKCOL", 405), ("TRACE", 405)),
            *(("F,OO", 400), ("F(OO", 400), ("\x16\x03\x01", 400)),
        )
    },
    "an unknown method of no HTTP": ("BREW /api/v1/pods HTCPCP/1.0\r\n\r\n", 400),
    "an unknown method and no path": ("BREW HTTP/1.1\r\n\r\n", 400),
    "another version": ("GET /livez HTTP/2.0\r\nHost: x\r\n\r\n", 400),
    "a target that is no URL": (f"CONNECT http://@] HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n\r\n", 400),
    **{
        f"the target {target}": (f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n\r\n", 400)
        for target in ("healthz", "version", "x:443")
    },
    "a host that is no text": (f"GET /api HTTP/1.1\r\nHost: \xff\r\n{ADMIN}\r\n\r\n", 400),
    "a coding that nobody undoes": (
        (
            f"POST {CONFIGMAPS.format('default')} HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n"
            "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
        ),
        400,
    ),
}


@pytest.mark.parametrize(("sent", "code"), REFUSED_HEADS.values(), ids=REFUSED_HEADS)
def test_heads_that_are_refused(server: ServerProcess, sent: str, code: int) -> None:
    with raw_connection(server) as connection:
        connection.sendall(sent.encode("latin-1"))
        assert received(connection).status == code


def test_http_1_0(server: ServerProcess) -> None:
    """Closed after the answer, unless the client asks to go on; then it is told that it may."""
    with raw_connection(server) as connection:
        connection.sendall(head("GET", "/version", version="1.0"))
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")
    with raw_connection(server) as connection:
        for _ in range(2):
            connection.sendall(head("GET", "/version", "Connection: keep-alive", version="1.0"))
            answer = received(connection)
            assert (answer.status, answer.headers["connection"]) == (200, "keep-alive")


def test_a_body_that_is_announced_and_not_wanted(server: ServerProcess) -> None:
    """RFC 9110, 10.1.1: refused before it was sent, it may come or not, so nothing can follow it."""
    expects = ("Expect: 100-continue", "Content-Length: 2")
    with raw_connection(server) as connection:
        connection.sendall(head("POST", CONFIGMAPS.format("default"), *expects, token="alice-token"))
        answer = received(connection)
        assert (answer.status, answer.headers["connection"]) == (403, "close")
    with raw_connection(server) as connection:
        connection.sendall(head("POST", CONFIGMAPS.format("default"), *expects))
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert received(connection).status == 422


def test_heads_of_answers_without_a_body(api: Api) -> None:
    """RFC 9110, 8.6: HEAD tells the length of what GET would send, 304 tells none."""
    length = api.get("/version").headers["content-length"]
    assert api.send("HEAD", "/version").headers["content-length"] == length
    for path in ("/livez", "/readyz/ping", "/api"):
        assert api.send("HEAD", path).status == 200
    etag = api.get("/openapi/v3/api/v1").headers["etag"]
    unchanged = api.get("/openapi/v3/api/v1", headers={"If-None-Match": etag})
    assert unchanged.status == 304
    assert "content-length" not in unchanged.headers


# ---- paths


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_but_watching_is_done_below_watch(api: Api, namespace: str, method: str) -> None:
    """Whoever may watch there must not have deleted by that."""
    path = CONFIGMAPS.format(namespace)
    api.post(path, {"metadata": {"name": "a"}}).ok()
    for below in (f"namespaces/{namespace}/configmaps", f"namespaces/{namespace}/configmaps/a", "configmaps"):
        answer = api.send(method, f"/api/v1/watch/{below}", {"metadata": {"name": "a"}})
        assert answer.status == 405, below
    assert api.get(f"/api/v1/watch/namespaces/{namespace}/pods/p/status").status == 404
    assert api.get(f"{path}/a").status == 200


def test_a_namespace_has_one_path(api: Api, namespace: str) -> None:
    assert api.get(f"/api/v1/namespaces/{namespace}/namespaces/{namespace}").status == 404
    assert api.get(f"/api/v1/namespaces/{namespace}/namespaces").status == 404


# ---- half-truths


def test_a_namespace_terminates_if_it_is_being_deleted_and_only_then(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    refused = api.patch(f"{path}/status", {"status": {"phase": "Terminating"}})
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "status.Phase")])
    held = {"metadata": {"name": "held", "finalizers": ["example.com/f"]}}
    api.post(f"{path}/configmaps", held).ok()
    api.delete(path).ok()
    assert api.patch(f"{path}/status", {"status": {"phase": "Active"}}).status == 422
    assert api.post(f"{path}/configmaps", {"metadata": {"name": "late"}}).status == 403
    api.patch(f"{path}/configmaps/held", {"metadata": {"finalizers": None}}).ok()


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_namespace_segment_is_not_found(api: Api, namespace: str, empty: str | None) -> None:
    path = CONFIGMAPS.format(namespace)
    body = {"metadata": {"name": "a", "namespace": empty}}
    for answer in (api.post(path, body), api.put(f"{path}/a", body), api.patch(f"{path}/a", body)):
        assert answer.ok()["metadata"]["namespace"] == namespace


def test_a_uid_is_a_precondition_where_there_is_nothing(api: Api, namespace: str) -> None:
    """Row A03: whoever names a uid means an object that was there. Leader election depends on it."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/a"
    body = {"metadata": {"name": "a", "uid": "0a0a0a0a-0000-0000-0000-000000000000"}}
    refused = api.put(path, body)
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert api.get(path).status == 404
    assert api.put(path, {"metadata": {"name": "a"}}).status == 201


def test_options_of_no_kind(api: Api, namespace: str) -> None:
    path = CONFIGMAPS.format(namespace)
    api.post(path, {"metadata": {"name": "a"}}).ok()
    assert api.delete(f"{path}/a", {"kind": None, "apiVersion": None}).status == 200


async def test_hostile_requests_leave_no_traceback_in_the_log(tmp_path: Path) -> None:
    """All of the above, once more in short: nothing of it is worth a trace in the log."""
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        path = CONFIGMAPS.format("default")
        api.post(path, b'{"metadata":{"name":"b"},"x":' + deep(400) + b"}")
        api.patch(f"{path}/b", json.dumps({"data": nested(300)}).encode())
        api.post(path, {"metadata": {"name": "c", **MANY["controllers"][0]}})
        for each in ("a host that is no text", "a target that is no URL"):
            with raw_connection(server) as connection:
                connection.sendall(REFUSED_HEADS[each][0].encode("latin-1"))
                assert received(connection).status == 400
        await eventually(lambda: api.get("/livez").status == 200)
        server.stop()
    assert "Traceback" not in server.stderr
    assert "ERROR" not in server.stderr
