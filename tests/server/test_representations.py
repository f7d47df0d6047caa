"""Media types of requests and responses. Rows D01-D06, D14, D19-D23, E04-E08, M01, P04."""

from __future__ import annotations

import gzip
import uuid
from typing import Any, Final

import pytest

from apiserver.schema.builtin import BuiltinSchemas
from apiserver.wire import cbor, yaml
from apiserver.wire.protobuf import MessageDecoder, open_envelope
from tests.support import protobuf_writer as pb
from tests.support.api import Answer, Api
from tests.support.fixtures import api_with

YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
CBOR: Final = "application/cbor"
CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"
SCHEMAS: Final = BuiltinSchemas((1, 34))


cbor_api = api_with("--feature-gates=CBORServingAndStorage=true")


def read(answer: Answer) -> Any:
    """Decode the document of a response of any media type."""
    media_type = answer.headers["content-type"]
    if media_type == YAML:
        return yaml.load(answer.body)[0]
    if media_type == CBOR:
        return cbor.load(answer.body)
    if media_type != PROTOBUF:
        return answer.json
    envelope = open_envelope(answer.body)
    package = "apimachinery.pkg.apis.meta" if envelope.kind == "Status" else "api.core"
    message = MessageDecoder(SCHEMAS.get(f"io.k8s.{package}.v1.{envelope.kind}"))(envelope.raw)
    return {"apiVersion": envelope.api_version, "kind": envelope.kind, **message}


def accepting(media_type: str) -> dict[str, str]:
    return {"Accept": media_type}


def make(api: Api, namespace: str, name: str = "a", **more: Any) -> Any:
    return api.post(CONFIGMAPS.format(namespace), {"metadata": {"name": name}, **more}).ok()


@pytest.mark.parametrize("media_type", [YAML, PROTOBUF])
def test_an_object_is_the_same_in_every_form(api: Api, namespace: str, media_type: str) -> None:
    """Rows D02, D03, S01."""
    made = make(api, namespace, data={"k": "yes", "l": "a\nb"}, binaryData={"b": "AP8="})
    path = f"{CONFIGMAPS.format(namespace)}/a"
    answer = api.get(path, headers=accepting(media_type))
    assert (answer.status, answer.headers["content-type"]) == (200, media_type)
    assert read(answer) == made
    listed = read(api.get(CONFIGMAPS.format(namespace), headers=accepting(media_type)))
    del made["kind"], made["apiVersion"]
    assert (listed["kind"], listed["items"]) == ("ConfigMapList", [made])


def test_pretty_responses_are_indented(api: Api, namespace: str) -> None:
    """Row D26: objects, lists and failures, and the answer of a dry run."""
    make(api, namespace, data={"k": "v"})
    path = CONFIGMAPS.format(namespace)
    answers = {
        query: (
            api.get(f"{path}/a?{query}"),
            api.get(f"{path}?{query}"),
            api.get(f"{path}/none?{query}"),
            api.post(f"{path}?dryRun=All&{query}", {"metadata": {"generateName": "b-"}}),
        )
        for query in ("pretty=true", "pretty=false")
    }
    assert [answer.status for answer in answers["pretty=true"]] == [200, 200, 404, 201]
    for indented, compact in zip(*answers.values(), strict=True):
        assert indented.body.startswith(b'{\n  "')
        assert b"\n" not in compact.body.rstrip(b"\n")
        assert indented.status == compact.status
    assert len(api.get(path).ok()["items"]) == 1


EVERYWHERE: Final = {
    "an object": ("GET", "/api/v1/namespaces/default", 200),
    "a list": ("GET", "/api/v1/namespaces?limit=1", 200),
    "a watch": ("GET", "/api/v1/namespaces?watch=1&timeoutSeconds=1", 200),
    "a create": ("POST", "/api/v1/namespaces?dryRun=All", 201),
    "what is not there": ("GET", "/api/v1/namespaces/none", 404),
    "no path": ("GET", "/none", 404),
    "no method": ("PUT", "/api/v1/namespaces", 405),
    "discovery": ("GET", "/api/v1", 200),
    "health": ("GET", "/readyz", 200),
    "metrics": ("GET", "/metrics", 200),
}


@pytest.mark.parametrize(("method", "path", "status"), EVERYWHERE.values(), ids=EVERYWHERE)
def test_every_response_has_an_audit_id_and_is_not_cached(
    api: Api, method: str, path: str, status: int
) -> None:
    """Row D27."""
    body = {"metadata": {"generateName": "a-"}} if method == "POST" else None
    answers = [api.send(method, path, body) for _ in range(2)]
    assert [answer.status for answer in answers] == [status] * 2
    assert {answer.headers["cache-control"] for answer in answers} == {"no-cache, private"}
    assert len({str(uuid.UUID(answer.headers["audit-id"])) for answer in answers}) == 2


def test_unauthenticated_responses_have_an_audit_id(api: Api) -> None:
    """Row D27."""
    with api.as_caller("no-such-token") as stranger:
        refused = stranger.get("/api/v1/namespaces")
    assert (refused.status, refused.headers["cache-control"]) == (401, "no-cache, private")
    assert uuid.UUID(refused.headers["audit-id"])


@pytest.mark.parametrize("media_type", [YAML, PROTOBUF])
def test_failures_have_the_requested_form(api: Api, namespace: str, media_type: str) -> None:
    """Row P04."""
    path = f"{CONFIGMAPS.format(namespace)}/zz"
    alice = api.as_caller("alice-token")
    forbidden = alice.get(path, headers=accepting(media_type))
    alice.close()
    for answer, code in (
        (api.get(path, headers=accepting(media_type)), 404),
        (api.post(path, {}, headers=accepting(media_type)), 405),
        (api.get("/api/v1/nodes/zz", headers=accepting(media_type)), 404),
        (forbidden, 403),
    ):
        assert answer.headers["content-type"] == media_type
        assert (answer.status, read(answer)["kind"], read(answer)["code"]) == (code, "Status", code)


def test_the_status_of_a_deletion_has_the_requested_form(api: Api, namespace: str) -> None:
    make(api, namespace)
    answer = api.delete(f"{CONFIGMAPS.format(namespace)}/a", headers=accepting(YAML))
    assert (answer.headers["content-type"], read(answer)["status"]) == (YAML, "Success")


def test_protobuf_has_no_tables(api: Api, namespace: str) -> None:
    """Row D14: what cannot be told in protobuf is refused in JSON, unless there is something else."""
    table = f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"
    answer = api.get(CONFIGMAPS.format(namespace), headers=accepting(table))
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
    assert PROTOBUF in answer.message
    assert api.get(CONFIGMAPS.format(namespace), headers=accepting(f"{table}, application/json")).ok()


def test_yaml_has_no_watches(api: Api, namespace: str) -> None:
    """Its documents cannot follow each other."""
    path = f"{CONFIGMAPS.format(namespace)}?watch=1&timeoutSeconds=1"
    answer = api.get(path, headers=accepting(YAML))
    assert answer.status == 406
    assert read(answer)["reason"] == "NotAcceptable"


# ---- bodies


def test_a_body_in_yaml(api: Api, namespace: str) -> None:
    """Row D02."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: &d {k: 'yes'}\n"
    made = api.post(CONFIGMAPS.format(namespace), body, type=YAML).ok()
    assert made["data"] == {"k": "yes"}
    path = f"{CONFIGMAPS.format(namespace)}/a"
    updated = api.put(path, b"metadata: {name: a}\ndata: {k: w}\n", type=YAML, headers=accepting(YAML))
    assert read(updated)["data"] == {"k": "w"}
    options = b"kind: DeleteOptions\napiVersion: v1\ndryRun: [All]\n"
    assert api.delete(path, options, type=YAML).ok()["status"] == "Success"
    assert api.get(path).status == 200


def test_the_first_document_of_a_body_in_yaml_counts(api: Api, namespace: str) -> None:
    """Row D02: whatever comes after it, for each verb that has a body."""
    path = CONFIGMAPS.format(namespace)
    rest = b"\n---\napiVersion: v1\nkind: Secret\n---\n["
    made = api.post(path, b"metadata: {name: a}\ndata: {k: v}" + rest, type=YAML).ok()
    assert made["data"] == {"k": "v"}
    assert api.put(f"{path}/a", b"metadata: {name: a}\ndata: {k: w}" + rest, type=YAML).ok()["data"] == {
        "k": "w"
    }
    applied = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}" + rest
    assert api.apply(f"{path}/b?fieldManager=m", applied).status == 201
    api.delete(f"{path}/a", b"kind: DeleteOptions\ndryRun: [All]" + rest, type=YAML).ok()
    assert api.get(f"{path}/a").status == 200


BAD_BODIES: Final = {
    "no YAML": (YAML, b"a: [", "yaml: line 1: did not find expected node content (613a205b)"),
    "aliases that multiply": (
        YAML,
        b"a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%b]\n" % (n + 1, n + 1, b",".join([b"*%c" % n] * 10)) for n in range(97, 110)),
        "values",
    ),
    "a number for a text": (YAML, b"metadata: {name: a}\ndata: {k: 5}\n", "json: cannot unmarshal number"),
    "no protobuf": (PROTOBUF, b"{}", "expected prefix [107 56 115 0] ({})"),
    "a list": (YAML, b"- 1\n", "cannot unmarshal array"),
}


@pytest.mark.parametrize(("media_type", "body", "message"), BAD_BODIES.values(), ids=BAD_BODIES)
def test_malformed_bodies(api: Api, namespace: str, media_type: str, body: bytes, message: str) -> None:
    answer = api.post(CONFIGMAPS.format(namespace), body, type=media_type)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert message in answer.message


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_unsupported_media_types(api: Api, namespace: str, method: str) -> None:
    """Rows D19, D22: the types that are accepted are named, and CBOR is not among them."""
    make(api, namespace)
    path = CONFIGMAPS.format(namespace) + ("" if method == "POST" else "/a")
    for media_type in ("text/plain", CBOR):
        answer = api.send(method, path, b"\xa0", type=media_type)
        assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")
        assert answer.message.endswith(
            "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        )


MALFORMED_TYPES: Final = {
    "a parameter without a value": "application/json; charset",
    "a value without an end": 'application/json; charset="utf-8',
    "two values of a parameter": "application/json; charset=utf-8; charset=ascii",
    "no type": "; charset=utf-8",
    "two types": "application/json, application/yaml",
}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("media_type", MALFORMED_TYPES.values(), ids=MALFORMED_TYPES)
def test_malformed_media_types(api: Api, namespace: str, media_type: str, method: str) -> None:
    """Row D19: what cannot be parsed is no type that is served."""
    made = make(api, namespace)
    path = CONFIGMAPS.format(namespace) + ("" if method == "POST" else "/a")
    answer = api.send(method, path, b"{}", type=media_type)
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")
    assert api.get(f"{CONFIGMAPS.format(namespace)}/a").ok() == made


def test_parameters_of_a_media_type_say_nothing(api: Api, namespace: str) -> None:
    """Row D19."""
    body = b'{"metadata": {"name": "a"}}'
    for media_type in ('application/json; charset="utf-8";', "Application/YAML;x=y;X=y"):
        answer = api.post(f"{CONFIGMAPS.format(namespace)}?dryRun=All", body, type=media_type)
        assert answer.status == 201


TWICE: Final = b"metadata: {name: a}\ndata:\n  k: v\n  k: w\nzz: 1\naa: 1\n"


def test_duplicate_fields_in_yaml(api: Api, namespace: str) -> None:
    """Rows E04, E06-E08: the last one counts, and the client hears of it."""
    path = CONFIGMAPS.format(namespace)
    answer = api.post(f"{path}?fieldValidation=Strict", TWICE, type=YAML)
    assert answer.status == 400
    told = 'line 4: key "k" already set in map, unknown field "aa", unknown field "zz"'
    assert answer.message.endswith(f"strict decoding error: yaml: unmarshal errors:\n  {told}")
    answer = api.post(f"{path}?dryRun=All", TWICE, type=YAML)
    assert answer.ok()["data"] == {"k": "w"}
    assert answer.warnings == [
        r"line 4: key \"k\" already set in map",
        r"unknown field \"aa\"",
        r"unknown field \"zz\"",
    ]
    assert api.post(f"{path}?dryRun=All&fieldValidation=Ignore", TWICE, type=YAML).warnings == []


# ---- compression

GZIP: Final = {"Accept-Encoding": "gzip"}


@pytest.mark.parametrize("media_type", ["application/json", YAML, PROTOBUF])
def test_long_responses_are_compressed(api: Api, namespace: str, media_type: str) -> None:
    """Row D20: an object, and a list, in every form."""
    for number in range(3):
        make(api, namespace, f"n{number}", data={"k": "x" * 200_000})
    make(api, namespace, "small")
    base = CONFIGMAPS.format(namespace)
    for path in (base, f"{base}?resourceVersion=0", f"{base}/n0"):
        plain = api.get(path, headers=accepting(media_type))
        packed = api.get(path, headers={**accepting(media_type), **GZIP})
        assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert gzip.decompress(packed.body) == plain.body
        assert "content-encoding" not in plain.headers
    assert "content-encoding" not in api.get(f"{base}/small", headers=GZIP).headers


@pytest.mark.parametrize("accepted", ["gzip;q=0", "deflate", "*", "gzip;q=1"])
def test_only_the_bare_word_gzip_is_accepted(api: Api, namespace: str, accepted: str) -> None:
    make(api, namespace, data={"k": "x" * 200_000})
    answer = api.get(f"{CONFIGMAPS.format(namespace)}/a", headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in answer.headers


# ---- watches


def stream_of(api: Api, path: str, accept: str) -> tuple[str, bytes]:
    """Media type and content of an answer that ends by itself."""
    answer = api.get(path, headers=accepting(accept))
    assert answer.status == 200
    return answer.headers["content-type"], answer.body


def test_fields_of_a_later_release_are_no_error_in_protobuf(api: Api, namespace: str) -> None:
    """Row D03: `fieldValidation` is about JSON and YAML; who writes protobuf cannot help what is in it."""
    path, later = CONFIGMAPS.format(namespace), pb.field(99, pb.field(1, 7)) + pb.key(98, 3) + pb.key(98, 4)
    body = pb.envelope(pb.field(1, pb.field(1, "a") + later) + pb.entry(2, "k", "v") + later)
    created = api.post(f"{path}?fieldValidation=Strict", body, type=PROTOBUF)
    assert (created.status, created.json["data"], created.warnings) == (201, {"k": "v"}, [])
    updated = api.put(f"{path}/a?fieldValidation=Warn", body, type=PROTOBUF)
    assert (updated.status, updated.warnings) == (200, [])
    refused = api.post(path, pb.envelope(pb.field(1, 7)), type=PROTOBUF)
    assert (refused.status, refused.json["reason"]) == (400, "BadRequest")
    assert "proto: wrong wireType = 0 for field metadata" in refused.json["message"]


@pytest.mark.parametrize(
    ("time", "written"),
    [
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        ("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z"),
        ("9999-12-31T23:59:59-01:00", "10000-01-01T00:59:59Z"),
    ],
)
def test_times_of_all_years_have_every_form(api: Api, namespace: str, time: str, written: str) -> None:
    events = f"/api/v1/namespaces/{namespace}/events"
    body = {"metadata": {"name": "a"}, "involvedObject": {"namespace": namespace}, "firstTimestamp": time}
    assert api.post(events, body).ok()["firstTimestamp"] == written
    answer = api.get(f"{events}/a", headers=accepting(PROTOBUF))
    assert read(answer)["firstTimestamp"] == written
    assert api.get(events, headers=accepting(PROTOBUF)).status == 200
    # Protobuf has numbers, which are of any year.
    assert api.put(f"{events}/a", answer.body, type=PROTOBUF).ok()["firstTimestamp"] == written


def test_a_watch_in_protobuf(api: Api, namespace: str) -> None:
    """Four bytes of length before each event, and in it an envelope."""
    made = make(api, namespace, data={"k": "v"})
    path = f"{CONFIGMAPS.format(namespace)}?watch=1&timeoutSeconds=1"
    media_type, stream = stream_of(api, path, f"{PROTOBUF};stream=watch")
    assert media_type == f"{PROTOBUF};stream=watch"
    length = int.from_bytes(stream[:4], "big")
    event = stream[4 : 4 + length]
    assert event.startswith(pb.field(1, "ADDED"))
    envelope = open_envelope(event[event.index(pb.MAGIC) :])
    assert (envelope.kind, stream[4 + length :]) == ("ConfigMap", b"")
    message = MessageDecoder(SCHEMAS.get("io.k8s.api.core.v1.ConfigMap"))(envelope.raw)
    assert {"apiVersion": "v1", "kind": "ConfigMap", **message} == made


# ---- CBOR, while its gate is on


def test_everything_in_cbor(cbor_api: Api) -> None:
    """Row D22."""
    api, path = cbor_api, CONFIGMAPS.format("default")
    body = cbor.dump({"metadata": {"name": "a"}, "data": {"k": "v"}})
    answer = api.post(path, body, type=CBOR, headers=accepting(CBOR))
    assert (answer.status, answer.headers["content-type"]) == (201, CBOR)
    assert answer.body.startswith(cbor.SELF_DESCRIBED)
    made = read(answer)
    assert made == api.get(f"{path}/a").ok()
    listed = read(api.get(path, headers=accepting(CBOR)))
    assert [each["data"] for each in listed["items"]] == [{"k": "v"}]
    table = read(api.get(path, headers=accepting(f"{CBOR};as=Table;g=meta.k8s.io;v=v1")))
    assert (table["kind"], len(table["rows"])) == ("Table", 1)
    missing = api.get(f"{path}/zz", headers=accepting(CBOR))
    assert (missing.headers["content-type"], read(missing)["code"]) == (CBOR, 404)
    media_type, stream = stream_of(api, f"{path}?watch=1&timeoutSeconds=1", CBOR)
    assert media_type == "application/cbor-seq"
    assert cbor.load(stream) == {"type": "ADDED", "object": made}


BAD_CBOR: Final = {
    "cut off": (b"\xa1", "unable to determine group/version/kind: unexpected EOF (a1)"),
    "a list": (b"\x80", "cannot unmarshal array into Go value of type v1.TypeMeta"),
    "a key twice": (bytes.fromhex("a2616101616102"), "Duplicate map key"),
    "a number that is none": (bytes.fromhex("a16161f97e00"), "NaN"),
    "too deep": (b"\x81" * 10_000, "nesting depth (64) exceeded"),
}


@pytest.mark.parametrize(("body", "message"), BAD_CBOR.values(), ids=BAD_CBOR)
def test_malformed_cbor(cbor_api: Api, body: bytes, message: str) -> None:
    answer = cbor_api.post(CONFIGMAPS.format("default"), body, type=CBOR)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert message in answer.message


def test_without_the_gate_cbor_is_not_acceptable(api: Api, namespace: str) -> None:
    """Row D22."""
    answer = api.get(CONFIGMAPS.format(namespace), headers=accepting(CBOR))
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
    assert api.get(CONFIGMAPS.format(namespace), headers=accepting(f"{CBOR}, application/json;q=0.5")).ok()
