"""Hostile bodies in every media type, sent to every kind of endpoint. Rows D02-D05, D22, E01, P02, Q04.

Each is answered soon with what is wrong with it, and leaves nothing: no object, no memory, no trace in the
log. Nobody else waits meanwhile: a stranger asks for /livez all the time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import cbor2
import psutil
import pytest

from tests.support import objects
from tests.support.api import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Answer, Api
from tests.support.bystander import Bystander
from tests.support.metrics import metrics_of
from tests.support.processor import slowness
from tests.support.protobuf_writer import envelope, field, key
from tests.support.server_process import ServerProcess

JSON: Final = "application/json"
YAML: Final = "application/yaml"
CBOR: Final = "application/cbor"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
# Of the processor: others use the machine, too.
ANSWERED_WITHIN_S: Final = 2.0
# Of the processor, too; usually it is a tenth.
LIVE_WITHIN_S: Final = 0.5
# All bodies of a round together are 23 MB.
GROWTH_BYTES_MAX: Final = 10_000_000
# A thousand errors are told, each twice.
ANSWER_BYTES_MAX: Final = 200_000

NAMESPACE: Final = "/api/v1/namespaces/default"
CONFIGMAPS: Final = f"{NAMESPACE}/configmaps"
DEPLOYMENT: Final = "/apis/apps/v1/namespaces/default/deployments/a"
STRICTLY: Final = "?fieldValidation=Strict"

# All sorts of endpoints that take a document: method and path.
ENDPOINTS: Final = (
    ("POST", CONFIGMAPS + STRICTLY),
    ("POST", f"{NAMESPACE}/pods{STRICTLY}"),
    ("PUT", f"{CONFIGMAPS}/a{STRICTLY}"),
    ("PUT", f"{NAMESPACE}/pods/a/status{STRICTLY}"),
    ("PUT", f"{DEPLOYMENT}/scale{STRICTLY}"),
    ("POST", f"{NAMESPACE}/pods/a/eviction{STRICTLY}"),
    ("POST", f"{NAMESPACE}/pods/a/binding{STRICTLY}"),
    ("POST", f"{NAMESPACE}/serviceaccounts/a/token{STRICTLY}"),
    ("POST", f"/apis/authorization.k8s.io/v1/subjectaccessreviews{STRICTLY}"),
    ("POST", f"/apis/authentication.k8s.io/v1/tokenreviews{STRICTLY}"),
    ("DELETE", f"{CONFIGMAPS}/absent"),
)
# Of what takes a while one of each kind is enough: known fields, unknown ones, options.
SOME_ENDPOINTS: Final = (ENDPOINTS[1], ENDPOINTS[2], ENDPOINTS[10])
PATCHED: Final = (f"{CONFIGMAPS}/a", f"{NAMESPACE}/pods/a", DEPLOYMENT, f"{DEPLOYMENT}/scale")


def pod(containers: bytes) -> bytes:
    return b'{"metadata":{"name":"x"},"spec":{"containers":[%b]}}' % containers


def named(more: bytes) -> bytes:
    """A JSON body that is valid but for these fields."""
    return b'{"metadata":{"name":"a",%b}}' % more


def nested(open_: bytes, close: bytes, levels: int = 10_000) -> bytes:
    return open_ * levels + b"1" + close * levels


def message(depth: int) -> bytes:
    """Nested protobuf messages."""
    raw = b""
    for _ in range(depth):
        raw = field(1, raw)
    return raw


def multiplied(first: bytes, each: bytes) -> bytes:
    """YAML: nine aliases of nine aliases, and so on."""
    names = [b"n%d" % level for level in range(10)]
    lines = [b"n0: &n0 " + first]
    for below, name in itertools.pairwise(names):
        lines.append(name + b": &" + name + b" " + each % b",".join([b"*" + below] * 9))
    return b"\n".join(lines)


# ---- soon understood to be none: to every endpoint

SMALL: Final[Mapping[str, tuple[str, bytes]]] = {
    "nothing": (JSON, b" "),
    "a list": (JSON, b"[{}]"),
    "a text": (JSON, b'"a"'),
    "not a number": (JSON, named(b'"generation":NaN')),
    "infinity": (JSON, named(b'"generation":1e999')),
    "a whole number without end": (JSON, named(b'"generation":' + b"9" * 100_000)),
    "a byte order mark": (JSON, b"\xef\xbb\xbf{}"),
    "UTF-16": (JSON, '{"metadata":{"name":"a"}}'.encode("utf-16")),
    "half a surrogate": (JSON, named(b'"labels":{"a":"\\ud800"}')),
    "half a surrogate as a key": (JSON, named(b'"labels":{"\\udc00":"a"}')),
    "no UTF-8": (JSON, named(b'"labels":{"a":"\xff"}')),
    "objects without an end to their depth": (JSON, nested(b'{"a":', b"}")),
    "lists without an end to their depth": (JSON, nested(b"[", b"]")),
    "YAML: aliases of aliases": (YAML, multiplied(b"[1,1,1]", b"[%b]")),
    "YAML: merges of merges": (YAML, multiplied(b"{a: 1}", b"{<<: [%b], b: 2}")),
    "YAML: an alias of itself": (YAML, b"metadata: &a {name: *a}"),
    "YAML: lists without an end to their depth": (YAML, nested(b"[", b"]")),
    "YAML: objects without an end to their depth": (YAML, nested(b"{a: ", b"}")),
    "YAML: entries of entries": (YAML, b"- " * 10_000),
    "YAML: a call": (YAML, b'!!python/object/apply:os.system ["id"]'),
    "YAML: a tag that never ends": (YAML, b"a: !<" + b"a" * 1_000_000 + b"> b"),
    "YAML: an alias that never ends": (YAML, b"a: *" + b"a" * 1_000_000),
    "YAML: a whole number without end": (YAML, b"metadata: {name: a, generation: %b}" % (b"9" * 399)),
    "YAML: sixteens without end": (YAML, b"metadata: {name: a, generation: 0x%b}" % (b"f" * 390)),
    "YAML: infinity": (YAML, b"metadata: {name: a, generation: -.inf}"),
    "YAML: half a surrogate": (YAML, b'metadata: {name: a, labels: {a: "\\ud800"}}'),
    "YAML: no UTF-8": (YAML, b"a: \xff"),
    "YAML: two documents": (YAML, b"---\na: 1\n---\nb: 1\n"),
    "CBOR: arrays without an end to their depth": (CBOR, b"\x81" * 100_000),
    "CBOR: an array of 2**63 items": (CBOR, b"\x9b\x7f" + b"\xff" * 7),
    "CBOR: a map of 2**38 pairs": (CBOR, b"\xbb\x00\x00\x00\x7f" + b"\xff" * 4),
    "CBOR: a text of 2**38 bytes": (CBOR, b"\x7b\x00\x00\x00\x7f" + b"\xff" * 4),
    "CBOR: tags of tags": (CBOR, b"\xc1" * 100_000 + b"\x01"),
    "CBOR: a time that never was": (CBOR, b"\xa1\x61a\xc1\xfb\x7f\xef" + b"\xff" * 6),
    "CBOR: a bignum": (CBOR, b"\xa1\x61a\xc2\x5a\x00\x0f\x00\x00" + b"\xff" * 0xF0000),
    "CBOR: not a number": (CBOR, cbor2.dumps({"metadata": {"generation": float("nan")}})),
    "CBOR: undefined": (CBOR, b"\xf7"),
    "CBOR: cut off": (CBOR, cbor2.dumps({"metadata": {"name": "a"}})[:-1]),
    "CBOR: pieces without end": (CBOR, b"\x7f" + b"\x60" * 500_000 + b"\xff"),
    "CBOR: a list as a key": (CBOR, b"\xa1\x80\x01"),
    "CBOR: no UTF-8": (CBOR, b"\xa1\x61a\x61\xff"),
    "CBOR: the same key twice": (CBOR, b"\xa2\x61a\x01\x61a\x01"),
    "CBOR: a value that refers to itself": (CBOR, b"\xd8\x1c\x81\xd8\x1d\x00"),
    "protobuf: no magic": (PROTOBUF, b"\x0a\x00"),
    "protobuf: cut off": (PROTOBUF, envelope(field(1, field(1, "a")))[:-2]),
    "protobuf: a number that never ends": (PROTOBUF, b"k8s\x00" + b"\xff" * 1_000_000),
    "protobuf: a length beyond the end": (PROTOBUF, b"k8s\x00\x12\xff\xff\xff\xff\x0f"),
    "protobuf: no UTF-8": (PROTOBUF, envelope(field(1, field(1, b"\xff")))),
    "protobuf: messages without an end to their depth": (PROTOBUF, envelope(message(1_000))),
    "protobuf: groups without an end to their depth": (PROTOBUF, envelope(b"\x0b" * 1_000_000)),
    "protobuf: any bytes": (PROTOBUF, b"k8s\x00" + bytes(range(256)) * 100),
}

# ---- understood only after a while: they go aside

LARGE: Final[Mapping[str, tuple[str, bytes]]] = {
    "a member 400,000 times": (JSON, named(b'"x":"",' * 400_000 + b'"y":""')),
    "200,000 unknown members": (JSON, named(b",".join(b'"%d":1' % n for n in range(200_000)))),
    "a million containers": (JSON, pod(b"{}," * 999_999 + b"{}")),
    "60,000 containers": (JSON, pod(b'{"name":"a"},' * 59_999 + b"{}")),
    "20,000 containers that are null": (JSON, pod(b"null," * 19_999 + b"null")),
    "100,000 labels": (JSON, named(b'"labels":{%b}' % b",".join(b'"-%d":""' % n for n in range(100_000)))),
    "YAML: many values": (YAML, b"spec: [" + b"1," * 99_000 + b"]"),
    "YAML: more values": (YAML, b"[" + b"[]," * 500_000 + b"]"),
    "YAML: many containers": (YAML, b"metadata: {name: x}\nspec: {containers: [" + b"{}," * 90_000 + b"]}"),
    "YAML: a member 45,000 times": (YAML, b"a: 1\n" * 45_000),
    "CBOR: many values": (
        CBOR,
        b"\xa1\x61a\x99\x03\xe8" + (b"\x99\x03\xe8" + b"\x01" * 1000) * 99 + b"\x80" * 901,
    ),
    "CBOR: pieces of a list": (CBOR, b"\x9f" + b"\x5f\x41a\xff" * 500_000 + b"\xff"),
    "protobuf: 500,000 containers": (PROTOBUF, envelope(field(2, field(2, "") * 500_000), kind="Pod")),
    "protobuf: a group of a million fields": (
        PROTOBUF,
        envelope(key(99, 3) + field(1, 0) * 1_000_000 + key(99, 4) + field(1, 0)),
    ),
    "protobuf: 90,000 containers": (PROTOBUF, envelope(field(2, field(2, "") * 90_000), kind="Pod")),
}

OPERATION: Final = b'{"op":"copy","from":"/data","path":"/data/a"},'
PATCHES: Final[Mapping[str, tuple[str, bytes]]] = {
    "no list": (JSON_PATCH, b"{}"),
    "no operations": (JSON_PATCH, b"[1]"),
    "too many operations": (JSON_PATCH, b"[" + b'{"op":"test","path":"/kind","value":1},' * 20_000 + b"1]"),
    "copies of copies": (
        JSON_PATCH,
        b'[{"op":"add","path":"/data","value":{"a":{"b":"c"}}},%b]' % (OPERATION * 9_000)[:-1],
    ),
    "a long list that makes room ten thousand times": (
        JSON_PATCH,
        b'[{"op":"add","path":"/data","value":[%b]},%b]'
        % ((b"1," * 700_000)[:-1], (b'{"op":"add","path":"/data/0","value":1},' * 9_000)[:-1]),
    ),
    "a place beyond all numbers": (
        JSON_PATCH,
        b'[{"op":"add","path":"/x","value":[]},{"op":"add","path":"/x/%b","value":1}]' % (b"9" * 5_000),
    ),
    "a digit of another script": (
        JSON_PATCH,
        '[{"op":"add","path":"/x","value":[1]},{"op":"add","path":"/x/\u0661","value":1}]'.encode(),
    ),
    "an escape of nothing": (JSON_PATCH, b'[{"op":"add","path":"/~3","value":1}]'),
    "the whole moved into itself": (JSON_PATCH, b'[{"op":"move","from":"","path":"/a"}]'),
    "nothing at all is left": (JSON_PATCH, b'[{"op":"remove","path":""}]'),
    "deep values": (JSON_PATCH, b'[{"op":"add","path":"/metadata/x","value":' + nested(b"[", b"]") + b"}]"),
    "a list": (MERGE_PATCH, b"[]"),
    "null": (MERGE_PATCH, b"null"),
    "no kind": (MERGE_PATCH, b'{"kind":null,"apiVersion":null}'),
    "no name": (MERGE_PATCH, b'{"metadata":null}'),
    "objects without an end to their depth": (MERGE_PATCH, nested(b'{"a":', b"}")),
    "infinity": (MERGE_PATCH, b'{"metadata":{"generation":1e999}}'),
    "strategic: a list": (STRATEGIC_PATCH, b"[]"),
    "strategic: no directive": (STRATEGIC_PATCH, b'{"$patch":{}}'),
    "strategic: an order of nothing": (STRATEGIC_PATCH, b'{"metadata":{"$setElementOrder/x":1}}'),
    "strategic: keys that are none": (STRATEGIC_PATCH, b'{"$retainKeys":[[]]}'),
    "strategic: another order": (
        STRATEGIC_PATCH,
        b'{"metadata":{"$setElementOrder/finalizers":[%b],"finalizers":["b","a"]}}'
        % (b'"a",' * 100_000 + b'"b"'),
    ),
    "strategic: objects without an end to their depth": (STRATEGIC_PATCH, nested(b'{"a":', b"}")),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with one object for each endpoint, which accepts every media type."""
    data_dir = tmp_path_factory.mktemp("hostile") / "data"
    with ServerProcess(data_dir, "--feature-gates=CBORServingAndStorage=true") as server, Api(server) as api:
        api.post(CONFIGMAPS, {"metadata": {"name": "a"}}).ok()
        api.post(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "a"}}).ok()
        api.post(f"{NAMESPACE}/pods", objects.pod("a")).ok()
        api.post(DEPLOYMENT.removesuffix("/a"), objects.deployment("a")).ok()
        yield server


@pytest.fixture
def revision(api: Api) -> Iterator[str]:
    """Of the store; it is the same afterwards."""
    before = revision_of(api)
    yield before
    assert revision_of(api) == before, "something was stored"


def revision_of(api: Api) -> str:
    return str(api.get(CONFIGMAPS).ok()["metadata"]["resourceVersion"])


def refused(
    api: Api,
    method: str,
    path: str,
    body: bytes,
    media_type: str,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Answer:
    """Send a body that must be refused, and return the response."""
    began = api.server.cpu_s
    answer = api.send(method, path, body, type=media_type, headers=headers)
    took_s = api.server.cpu_s - began
    where = f"{method} {path}: {answer.body[:300]!r}"
    assert 400 <= answer.status < 500, where
    assert (answer.json["kind"], answer.json["code"]) == ("Status", answer.status)
    assert len(answer.body) < ANSWER_BYTES_MAX, where
    assert took_s < ANSWERED_WITHIN_S or took_s < ANSWERED_WITHIN_S * slowness(), where
    return answer


@pytest.mark.parametrize(("media_type", "body"), SMALL.values(), ids=SMALL)
def test_what_is_no_document(api: Api, revision: str, media_type: str, body: bytes) -> None:
    for method, path in ENDPOINTS:
        refused(api, method, path, body, media_type)


@pytest.mark.parametrize(("media_type", "body"), LARGE.values(), ids=LARGE)
def test_what_takes_long_to_understand(
    api: Api, server: ServerProcess, revision: str, media_type: str, body: bytes
) -> None:
    with Bystander(server) as bystander:
        for method, path in SOME_ENDPOINTS:
            refused(api, method, path, body, media_type)
    assert bystander.waited_s < LIVE_WITHIN_S


@pytest.mark.parametrize(("media_type", "body"), PATCHES.values(), ids=PATCHES)
def test_patches(api: Api, server: ServerProcess, revision: str, media_type: str, body: bytes) -> None:
    with Bystander(server) as bystander:
        for path in PATCHED:
            refused(api, "PATCH", path + STRICTLY, body, media_type)
    assert bystander.waited_s < LIVE_WITHIN_S


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip, gzip"])
def test_compressed_bodies(api: Api, revision: str, coding: str) -> None:
    """Nobody unpacks them, so none can grow."""
    for method, path in (*ENDPOINTS, *(("PATCH", path) for path in PATCHED)):
        answer = refused(api, method, path, b"\x1f\x8b" * 10, JSON, {"Content-Encoding": coding})
        assert answer.status == 415, path


# As large as the store takes them together with who owns them: in all forms but JSON, writing takes a while.
STORED: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "many small texts": (CONFIGMAPS, {"data": {f"{n}": "" for n in range(55_000)}}),
    "lines": (CONFIGMAPS, {"data": {"a": "é\n" * 300_000}}),
    "many subjects": (
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none"},
            "subjects": [
                {"kind": "User", "name": f"u{n}", "apiGroup": "rbac.authorization.k8s.io"}
                for n in range(18_000)
            ],
        },
    ),
    "many containers": (
        f"{NAMESPACE}/pods",
        {"spec": {"containers": [{"name": f"c{n}", "image": "i"} for n in range(4_500)]}},
    ),
}


@pytest.mark.parametrize(("path", "document"), STORED.values(), ids=STORED)
def test_large_objects_keep_nobody_waiting(
    api: Api, server: ServerProcess, path: str, document: dict[str, Any]
) -> None:
    """Whoever may write them may read them, too, in whatever form, and change them."""
    with Bystander(server) as bystander:
        api.post(path, {"metadata": {"name": "large"}, **document}).ok()
        for form in (JSON, YAML, CBOR, PROTOBUF):
            for where in (f"{path}/large", path):
                answer = api.get(where, headers={"Accept": form})
                assert (answer.status, answer.headers["content-type"]) == (200, form)
        api.patch(f"{path}/large", {"metadata": {"labels": {"a": "b"}}}).ok()
        api.delete(f"{path}/large", {"gracePeriodSeconds": 0}).ok()
    assert bystander.waited_s < LIVE_WITHIN_S


@pytest.mark.slow
@pytest.mark.longest
def test_nothing_is_left_in_memory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What three rounds of all of them need at most, two others do not add to.

    The allocator gives memory back at times that it chooses, and takes it again: single rounds differ by more
    than what is allowed here.
    """
    data_dir = tmp_path_factory.mktemp("memory") / "data"
    with ServerProcess(data_dir, "--feature-gates=CBORServingAndStorage=true") as server, Api(server) as api:
        process = psutil.Process(server.pid)

        def round_() -> int:
            for media_type, body in (*SMALL.values(), *LARGE.values()):
                refused(api, *SOME_ENDPOINTS[0], body, media_type)
            return int(process.memory_info().rss)

        before = max(round_() for _ in range(3))
        assert min(round_() for _ in range(2)) - before < GROWTH_BYTES_MAX
        metrics = metrics_of(api).splitlines()
        assert not [
            line for line in metrics if line.startswith("apiserver_request_total") and 'code="5' in line
        ]
        assert "Traceback" not in server.stderr
