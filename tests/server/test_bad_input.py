"""What clients send by mistake or in bad faith: each gets a Status that says what is wrong, none a 500.

Whatever is refused leaves nothing behind, and the server goes on serving (`test_nothing_is_left_behind`).
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tests.support.api import STRATEGIC_PATCH, Answer, Api
from tests.support.eventually import WITHIN_S, until
from tests.support.metrics import metrics_of

CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"


def assert_status(answer: Answer, code: int, reason: str, message: str = "") -> None:
    """Row P01: every Status has this form."""
    assert answer.status == code, answer.body.decode()
    status = answer.json
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert (status["code"], status["reason"]) == (code, reason)
    assert message in status["message"]


def names_in(api: Api, namespace: str) -> list[str]:
    return [item["metadata"]["name"] for item in api.get(CONFIGMAPS.format(namespace)).ok()["items"]]


# ---- bodies


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b'{"metadata":{"name":"a"}} x', id="something after the end"),
        pytest.param(b"name: a", id="not JSON"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'"text"', id="string"),
        pytest.param(b"1", id="number"),
        pytest.param(b'{"metadata":{"name":"\xff"}}', id="bad UTF-8"),
        pytest.param(b'{"metadata":{"name":"\\ud800"}}', id="half a surrogate"),
        pytest.param(b'{"data":{"a":NaN}}', id="NaN"),
        pytest.param(b'{"metadata":{"name":"a","generation":1e999}}', id="number out of range"),
        pytest.param(b'{"a":' * 5_000 + b"1" + b"}" * 5_000, id="deep objects"),
        pytest.param(b"[" * 200_000, id="deep lists"),
        pytest.param(
            b'{"metadata":{"name":"a","annotations":' + b"[" * 200 + b"]" * 200 + b"}}", id="deep field"
        ),
    ],
)
def test_malformed_bodies(api: Api, namespace: str, body: bytes) -> None:
    """Rows E01, P02."""
    assert_status(api.post(CONFIGMAPS.format(namespace), body), 400, "BadRequest")
    assert names_in(api, namespace) == []


WRONG_METADATA: Final[dict[str, tuple[str, Any, str]]] = {
    "name: a number": ("name", 7, "metadata.name"),
    "name: a list": ("name", ["a"], "metadata.name"),
    "generateName: an object": ("generateName", {}, "metadata.generateName"),
    "namespace: a number": ("namespace", 7, "metadata.namespace"),
    "labels: a list": ("labels", ["a"], "metadata.labels"),
    "labels: numbers": ("labels", {"a": 1}, "metadata.labels"),
    "labels: objects": ("labels", {"a": {"b": "c"}}, "metadata.labels"),
    "annotations: a text": ("annotations", "text", "metadata.annotations"),
    "finalizers: a text": ("finalizers", "text", "metadata.finalizers"),
    "finalizers: a list of numbers": ("finalizers", [1], "metadata.finalizers"),
    "ownerReferences: an object": ("ownerReferences", {"a": "b"}, "metadata.ownerReferences"),
    "ownerReferences: a list of numbers": ("ownerReferences", [1], "metadata.ownerReferences"),
    "generation: a text": ("generation", "text", "metadata.generation"),
    "generation: a fraction": ("generation", 1.5, "metadata.generation"),
    "generation: a number out of range": ("generation", 2**63, "metadata.generation"),
    "creationTimestamp: a number": ("creationTimestamp", 7, "metadata.creationTimestamp"),
    "creationTimestamp: no date": ("creationTimestamp", "yesterday", '"yesterday"'),
    "deletionTimestamp: an object": ("deletionTimestamp", {}, "metadata.deletionTimestamp"),
    "resourceVersion: a number": ("resourceVersion", 7, "metadata.resourceVersion"),
    "uid: a number": ("uid", 7, "metadata.uid"),
    "managedFields: a text": ("managedFields", "text", "metadata.managedFields"),
}


@pytest.mark.parametrize(("field", "value", "message"), WRONG_METADATA.values(), ids=WRONG_METADATA)
def test_metadata_of_the_wrong_type_is_named(
    api: Api, namespace: str, field: str, value: Any, message: str
) -> None:
    """Row E01: the message says which field."""
    body = {"metadata": {"name": "a", field: value}}
    answer = api.post(CONFIGMAPS.format(namespace), body)
    assert_status(answer, 400, "BadRequest")
    assert message.rpartition(".")[2] in answer.message
    assert names_in(api, namespace) == []


WRONG_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "metadata: a text": {"metadata": "text"},
    "metadata: a list": {"metadata": []},
    "metadata: a number": {"metadata": 1},
    "data: a list": {"data": []},
    "data: numbers": {"data": {"a": 1}},
}


@pytest.mark.parametrize("document", WRONG_FIELDS.values(), ids=WRONG_FIELDS)
def test_fields_of_the_wrong_type(api: Api, namespace: str, document: dict[str, Any]) -> None:
    assert_status(api.post(CONFIGMAPS.format(namespace), document), 400, "BadRequest")


OTHER_KINDS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "another kind": ({"kind": "Secret"}, "Secret"),
    "another version": ({"apiVersion": "v2"}, "v2"),
    "a version that is a number": ({"apiVersion": 7}, ""),
    "a list": ({"kind": "List", "items": []}, ""),
}


@pytest.mark.parametrize(("changes", "message"), OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_a_body_of_another_kind(api: Api, namespace: str, changes: dict[str, Any], message: str) -> None:
    """Rows A05, E13."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}} | changes
    assert_status(api.post(CONFIGMAPS.format(namespace), body), 400, "BadRequest", message)
    assert names_in(api, namespace) == []


EMPTY_BODIES: Final = {
    "an empty object": ("json", b"{}"),
    "null": ("json", b"null"),
    "null between spaces": ("json", b" null\n"),
    "null in YAML": ("application/yaml", b"null"),
    "nothing in YAML": ("application/yaml", b""),
    "a comment in YAML": ("application/yaml", b"# nothing\n"),
}


@pytest.mark.parametrize(("media_type", "body"), EMPTY_BODIES.values(), ids=EMPTY_BODIES)
def test_an_empty_body_is_an_object_without_a_name(
    api: Api, namespace: str, media_type: str, body: bytes
) -> None:
    """Row A15: Go's decoder leaves an object as it is where the body has null; validation finds the rest."""
    for collection, kind in (
        (CONFIGMAPS.format(namespace), "ConfigMap"),
        ("/api/v1/namespaces", "Namespace"),
        (f"/apis/apps/v1/namespaces/{namespace}/deployments", "Deployment"),
    ):
        answer = api.post(collection, body, type=media_type)
        assert_status(
            answer, 422, "Invalid", "metadata.name: Required value: name or generateName is required"
        )
        assert answer.json["details"]["kind"] == kind
        assert ("FieldValueRequired", "metadata.name") in answer.causes
    answer = api.put(f"{CONFIGMAPS.format(namespace)}/a", body, type=media_type)
    assert_status(answer, 400, "BadRequest", "name must be provided")
    answer = api.delete(f"{CONFIGMAPS.format(namespace)}/a", body, type=media_type)
    assert_status(answer, 404, "NotFound")


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/xml", "application/json-patch+json", "nonsense", "a/b; charset="],
)
def test_bodies_in_other_media_types(api: Api, namespace: str, media_type: str) -> None:
    """Row D19: 415."""
    answer = api.post(CONFIGMAPS.format(namespace), {"metadata": {"name": "a"}}, type=media_type)
    assert_status(answer, 415, "UnsupportedMediaType")


def test_a_compressed_body_is_not_unpacked(api: Api, namespace: str) -> None:
    answer = api.post(CONFIGMAPS.format(namespace), b"\x1f\x8b" * 10, headers={"Content-Encoding": "gzip"})
    assert_status(answer, 415, "UnsupportedMediaType")


def config_map_of(size: int) -> bytes:
    frame = b'{"metadata":{"name":"big"},"data":{"a":"%s"}}'
    return frame % (b"x" * (size - len(frame) + 2))


def test_a_body_over_the_limit(api: Api, namespace: str) -> None:
    """Row Q04."""
    answer = api.post(CONFIGMAPS.format(namespace), config_map_of(3 * 1024 * 1024 + 1))
    assert_status(answer, 413, "RequestEntityTooLarge", "limit is 3145728")
    assert names_in(api, namespace) == []


def test_a_body_over_the_limit_in_chunks(api: Api, namespace: str) -> None:
    """Row Q04: a body may not say how long it is."""
    with raw_connection(api) as connection:
        connection.sendall(
            b"POST /api/v1/namespaces/%b/configmaps HTTP/1.1\r\nHost: x\r\n"
            b"Authorization: Bearer admin-token\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" % namespace.encode()
        )
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        with contextlib.suppress(OSError):  # The server may hang up before it has all.
            for _ in range(5):
                connection.sendall(chunk)
            connection.sendall(b"0\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_an_object_too_large_for_the_store(api: Api, namespace: str) -> None:
    """Row Q04: between the store's limit and the body's."""
    answer = api.post(CONFIGMAPS.format(namespace), config_map_of(2 * 1024 * 1024))
    assert 400 <= answer.status < 500, answer.body
    assert names_in(api, namespace) == []


# ---- names and places


@pytest.mark.parametrize(
    "name",
    [
        *(
            "A",
            "a_b",
            "-a",
            "a-",
            "a..b",
            ".a",
            "a b",
            "a/b",
            "a%b",
            "ä",
            "\N{ARABIC-INDIC DIGIT ONE}",
            "a\0b",
        ),
        *(pytest.param("a" * 254, id="254 letters"), "a\n", "..", "%2e%2e"),
    ],
)
def test_invalid_names(api: Api, namespace: str, name: str) -> None:
    """Row A15."""
    answer = api.post(CONFIGMAPS.format(namespace), {"metadata": {"name": name}})
    assert_status(answer, 422, "Invalid")
    assert ("FieldValueInvalid", "metadata.name") in answer.causes
    assert names_in(api, namespace) == []


def test_no_name_at_all(api: Api, namespace: str) -> None:
    """Row A15."""
    answer = api.post(CONFIGMAPS.format(namespace), {"metadata": {}})
    assert_status(answer, 422, "Invalid")
    assert answer.causes == [("FieldValueRequired", "metadata.name")]


def test_a_namespace_that_is_not_there(api: Api) -> None:
    """Row A16."""
    answer = api.post(CONFIGMAPS.format("nope"), {"metadata": {"name": "a"}})
    assert_status(answer, 404, "NotFound", 'namespaces "nope" not found')


def test_a_body_with_another_namespace_or_name(api: Api, namespace: str) -> None:
    """Row A16."""
    elsewhere = {"metadata": {"name": "a", "namespace": "default"}}
    assert_status(api.post(CONFIGMAPS.format(namespace), elsewhere), 400, "BadRequest", "namespace")
    assert names_in(api, namespace) == []

    path = CONFIGMAPS.format(namespace)
    api.post(path, {"metadata": {"name": "a"}}).ok()
    answer = api.put(f"{path}/a", {"metadata": {"name": "b"}})
    assert_status(answer, 400, "BadRequest", "name")
    assert names_in(api, namespace) == ["a"]


VERSIONS_OF_NEW_OBJECTS: Final = {
    "a number": ("7", 422),
    "zeros before it": ("007", 422),
    "the largest": (str(2**64 - 1), 422),
    # Text is no version, as clients' own tests have it; some clients send 0 for none.
    "0": ("0", 201),
    "zeros": ("00", 201),
    "empty": ("", 201),
    "text": ("v1", 201),
    "a sign": ("+7", 201),
    "negative": ("-7", 201),
    "a fraction": ("7.0", 201),
    "blanks": (" 7", 201),
    "beyond 64 bits": (str(2**64), 201),
    "a wide digit": ("\uff11", 201),
    "long": ("v" * 10_000, 201),
}


@pytest.mark.parametrize(("value", "code"), VERSIONS_OF_NEW_OBJECTS.values(), ids=VERSIONS_OF_NEW_OBJECTS)
def test_a_resource_version_on_create(api: Api, namespace: str, value: str, code: int) -> None:
    """Rows B14, J07: a version is refused, and not with 500; by a dry run, as in Kubernetes, it is not."""
    path, body = CONFIGMAPS.format(namespace), {"metadata": {"name": "a", "resourceVersion": value}}
    assert api.post(f"{path}?dryRun=All", body).status == 201
    answer = api.post(path, body)
    assert answer.status == code
    if code == 201:
        assert answer.json["metadata"]["resourceVersion"] not in (value, "")
        assert api.get(f"{path}/a").ok() == answer.json
    else:
        assert answer.causes == [("FieldValueInvalid", "metadata.resourceVersion")]
        assert names_in(api, namespace) == []


MIB: Final = 1024 * 1024
TEXT: Final = "a" * (3 * MIB - 1_000)


@pytest.mark.parametrize(("kind", "field"), [("secrets", "data"), ("configmaps", "[]")])
def test_what_is_too_large_for_its_kind(api: Api, namespace: str, kind: str, field: str) -> None:
    """422 by the kind's own rule, also where what is made of the body is too large for any kind.

    Texts of a Secret become base64, a third longer, and a patch comes on top of what is there.
    """
    path, texts = f"/api/v1/namespaces/{namespace}/{kind}", "stringData" if kind == "secrets" else "data"
    api.post(path, {"metadata": {"name": "a"}, texts: {"k": "a" * MIB}}).ok()
    whole = {"apiVersion": "v1", "kind": kind[:-1].title().replace("map", "Map"), "metadata": {"name": "a"}}
    for answer in (
        api.post(path, {"metadata": {"name": "b"}, texts: {"k": "a" * (MIB + 1)}}),
        api.post(path, {"metadata": {"name": "b"}, texts: {"k": TEXT}}),
        api.put(f"{path}/a", {"metadata": {"name": "a"}, texts: {"k": TEXT}}),
        api.patch(f"{path}/a", {texts: {"l": TEXT}}),
        api.patch(f"{path}/a", {texts: {"l": TEXT}}, STRATEGIC_PATCH),
        api.apply(f"{path}/a?fieldManager=m", whole | {texts: {"l": TEXT}}),
    ):
        assert_status(answer, 422, "Invalid", "Too long: may not be more than 1048576 bytes")
        assert answer.causes == [("FieldValueTooLong", field)]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_names_in_paths_that_nothing_can_have(api: Api, namespace: str, method: str) -> None:
    """Row A15: a percent sign is no part of a name, so that paths are not decoded twice."""
    name = {"metadata": {"name": "a%b"}}
    paths = (CONFIGMAPS.format(namespace), "/apis/rbac.authorization.k8s.io/v1/clusterroles")
    for path in paths:
        body = name if method in ("PUT", "PATCH") else None
        answer = api.send(method, f"{path}/a%25b", body, type="merge" if method == "PATCH" else "json")
        assert_status(answer, 400, "BadRequest", "Name parameter invalid: \"a%b\": may not contain '%'")


# ---- queries


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        pytest.param("resourceVersion=abc", 400, "invalid resource version", id="J11 text"),
        pytest.param("resourceVersion=-1", 400, "invalid resource version", id="J11 negative"),
        pytest.param("resourceVersion=1.5", 400, "invalid resource version", id="J11 fraction"),
        pytest.param(f"resourceVersion={2**64}", 400, "invalid resource version", id="J11 beyond 64 bits"),
        pytest.param(f"resourceVersion={'9' * 5000}", 400, "invalid resource version", id="J11 huge"),
        pytest.param("resourceVersion=%EF%BC%91", 400, "invalid resource version", id="J11 wide digit"),
        pytest.param("continue=abc", 400, "continue", id="J11 token of junk"),
        pytest.param("continue=%00", 400, "continue", id="J11 token of NUL"),
        pytest.param(f"continue={'A' * 30_000}", 400, "continue", id="J11 long token"),
        pytest.param("limit=x", 400, "", id="J06 limit of text"),
        pytest.param("limit=1e3", 400, "", id="J06 limit in scientific notation"),
        pytest.param(f"limit={10**30}", 400, "", id="J06 huge limit"),
        pytest.param("timeoutSeconds=x", 400, "", id="J10 timeout of text"),
        pytest.param("labelSelector=%3D%3D", 400, "", id="I17 label selector"),
        pytest.param("labelSelector=a+in+(", 400, "", id="I17 open set"),
        pytest.param("labelSelector=a%3D" + "x" * 64, 400, "", id="I17 long value"),
        pytest.param("fieldSelector=data.x%3D1", 400, "data.x", id="I18 unknown field"),
        pytest.param("fieldSelector=%3D", 400, "", id="I18 no field"),
        pytest.param("resourceVersionMatch=Exact", 422, "resourceVersionMatch", id="J01"),
        pytest.param("resourceVersion=1&resourceVersionMatch=Near", 422, "resourceVersionMatch", id="J02"),
        pytest.param("sendInitialEvents=true", 422, "sendInitialEvents", id="J04"),
        pytest.param("watch=1&resourceVersionMatch=NotOlderThan", 422, "resourceVersionMatch", id="J03"),
        pytest.param("watch=1&sendInitialEvents=true", 422, "resourceVersionMatch", id="J04 watch"),
        pytest.param("watch=1&resourceVersion=abc", 400, "invalid resource version", id="J11 watch"),
    ],
)
def test_query_parameters(api: Api, namespace: str, query: str, code: int, message: str) -> None:
    answer = api.get(f"{CONFIGMAPS.format(namespace)}?{query}")
    assert_status(answer, code, "BadRequest" if code == 400 else "Invalid", message)


@pytest.mark.parametrize("query", ["dryRun=Some", "dryRun=All&dryRun=None", "dryRun=all"])
def test_invalid_values_of_dry_run(api: Api, namespace: str, query: str) -> None:
    """Row J08."""
    answer = api.post(f"{CONFIGMAPS.format(namespace)}?{query}", {"metadata": {"name": "a"}})
    assert_status(answer, 422, "Invalid", "dryRun")
    assert names_in(api, namespace) == []


def test_very_many_query_parameters(api: Api, namespace: str) -> None:
    query = "&".join(f"a{n}=1" for n in range(10_000))
    answer = api.get(f"{CONFIGMAPS.format(namespace)}?{query}")
    assert_status(answer, 400, "BadRequest")


@pytest.mark.parametrize("query", ["labelSelector=%ff", "%ff=1", "fieldSelector=metadata.name%3D%C3"])
def test_queries_that_are_no_utf8(api: Api, namespace: str, query: str) -> None:
    assert_status(api.get(f"{CONFIGMAPS.format(namespace)}?{query}"), 400, "BadRequest")


# ---- paths and methods


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/nope", 404),
        ("/api/v2/pods", 404),
        ("/api/v1/nope", 404),
        ("/api/v1/namespaces/default/nope", 404),
        ("/api/v1/namespaces/default/configmaps/a/nope", 404),
        ("/api/v1/namespaces/default/configmaps/a/b/c", 404),
        ("/api/v1/configmaps/a", 404),
        ("/apis/apps/v2/deployments", 404),
        ("/apis/nope", 404),
        ("/apis/nope/v1/things", 404),
        ("/api//v1/namespaces", 404),
        ("//api/v1/namespaces", 404),
        ("/api/v1/namespaces/default/configmaps/%2e%2e", 400),
        ("/api/v1/namespaces/default/../kube-system/configmaps", 404),
        ("/api/v1/namespaces/default%2Fconfigmaps/a", 404),
        ("/api/v1/namespaces/default/configmaps/a%00b", 404),
        ("/api/v1/namespaces/default/configmaps/%ff", 400),
        pytest.param("/api/v1/namespaces/default/configmaps/" + "a" * 5_000, 404, id="5,000 letters"),
        ("/livez/nope", 404),
    ],
)
def test_paths_that_lead_nowhere(api: Api, path: str, code: int) -> None:
    """Row I21."""
    assert api.get(path).status == code


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("PUT", "/api/v1/namespaces", 405),
        ("PATCH", "/api/v1/namespaces", 405),
        ("POST", "/api/v1/namespaces/default", 405),
        ("POST", "/api/v1/configmaps", 405),
        ("DELETE", "/api/v1/configmaps", 405),
        ("POST", "/api", 405),
        ("DELETE", "/version", 405),
        ("TRACE", "/api/v1/namespaces", 405),
        ("OPTIONS", "/api/v1/namespaces", 405),
    ],
)
def test_methods_not_allowed(api: Api, method: str, path: str, code: int) -> None:
    """Rows I06, I21."""
    answer = api.send(method, path, b"{}" if method in ("PUT", "PATCH", "POST") else None)
    assert_status(answer, code, "MethodNotAllowed")


# ---- below HTTP


def raw_connection(api: Api) -> ssl.SSLSocket:
    where = urlsplit(api.server.url)
    context = ssl.create_default_context(cafile=api.server.ca_path)
    plain = socket.create_connection((where.hostname, where.port), timeout=WITHIN_S)
    return context.wrap_socket(plain, server_hostname=where.hostname)


def read_all(connection: ssl.SSLSocket) -> bytes:
    received = b""
    with contextlib.suppress(OSError):
        while data := connection.recv(65_536):
            received += data
    return received


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no request"),
        pytest.param(b"GET /livez HTTP/9.9\r\n\r\n", id="unknown version"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost x\r\n\r\n", id="header without a colon"),
        pytest.param(b"GET /livez HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", id="long header"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 1000 + b"\r\n", id="many headers"),
        pytest.param(b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", id="negative length"),
        pytest.param(
            b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            id="length and chunks",
        ),
        pytest.param(
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\n"
            b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            id="chunk of no size",
        ),
    ],
)
def test_malformed_http_is_answered_400_and_closed(api: Api, sent: bytes) -> None:
    with raw_connection(api) as connection:
        connection.sendall(sent)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["reason"] == "BadRequest"


def test_a_request_that_is_broken_off_leaves_nothing(api: Api, namespace: str) -> None:
    path = CONFIGMAPS.format(namespace)
    body = b'{"metadata":{"name":"half"}}'
    for cut in (1, len(body) - 1):
        with raw_connection(api) as connection:
            connection.sendall(
                b"POST %b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (path.encode(), len(body), body[:cut])
            )
    assert names_in(api, namespace) == []


def test_half_open_connections_do_not_keep_others_waiting(api: Api) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            connection = stack.enter_context(raw_connection(api))
            connection.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")
        assert api.get("/livez").status == 200


# ---- who asks


@pytest.mark.parametrize(
    "authorization",
    [
        *("Bearer wrong", "Bearer admin-token2", "bearer wrong", "Bearer \xe9", "Bearer \x80.\xe9.\xff"),
        pytest.param("Bearer " + "x" * 20_000, id="20,000 letters"),
    ],
)
def test_a_wrong_token_is_refused(api: Api, authorization: str) -> None:
    """Row O01: 401, also where anonymous requests are allowed."""
    for path in ("/api/v1/namespaces", "/livez"):
        answer = api.get(path, headers={"Authorization": authorization})
        assert_status(answer, 401, "Unauthorized")


def test_anonymous_callers_see_health_and_version_only(api: Api) -> None:
    stranger = api.as_caller("")
    assert {stranger.get(path).status for path in ("/livez", "/readyz", "/healthz", "/version")} == {200}
    for path in ("/", "/api", "/apis", "/metrics", "/api/v1/namespaces", "/openapi/v3", "/nope"):
        assert_status(stranger.get(path), 403, "Forbidden", "system:anonymous")
    stranger.close()


def test_authorization_comes_before_validation(api: Api, namespace: str) -> None:
    alice = api.as_caller("alice-token")
    answer = alice.post(CONFIGMAPS.format(namespace), b"{")
    assert_status(answer, 403, "Forbidden", 'User "alice" cannot create resource "configmaps"')
    alice.close()


# ---- afterwards


def test_nothing_is_left_behind(api: Api) -> None:
    """No request is still in flight, none ended in 500, and the server is ready."""

    def in_flight() -> set[str]:
        metrics = metrics_of(api).splitlines()
        return {line for line in metrics if line.startswith("apiserver_current_inflight_requests{")}

    none = {
        'apiserver_current_inflight_requests{request_kind="mutating"} 0',
        'apiserver_current_inflight_requests{request_kind="readOnly"} 1',  # the one that asks
    }
    # Of a connection that has just been closed the server may still have to hear.
    until(in_flight, lambda found: found == none, "nothing but this request", within_s=WITHIN_S)
    metrics = metrics_of(api).splitlines()
    assert not [
        line for line in metrics if line.startswith("apiserver_request_total") and 'code="500"' in line
    ]
    assert "Traceback" not in api.server.stderr
    assert api.get("/readyz").status == 200
