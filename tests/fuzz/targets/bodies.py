"""Bodies of requests: JSON, YAML, CBOR, protobuf, and objects of built-in types in all of them."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any, Final

import orjson

from apiserver.console.json_bodies import VALUES_MAX, parse_json_body
from apiserver.endpoints.bodies import Body, size_class_of
from apiserver.endpoints.handlers import apply_bodies
from apiserver.endpoints.handlers.decoding import Decoder
from apiserver.endpoints.request_info import parse_target
from apiserver.golang.json_errors import syntax_error
from apiserver.meta.brand import Brand
from apiserver.meta.errors import ApiError, BadRequest
from apiserver.schema.duplicates import duplicate_fields, strict_problems
from apiserver.wire import cbor as cbor_format
from apiserver.wire import yaml as yaml_format
from apiserver.wire.json_text import values_in
from apiserver.wire.protobuf import InvalidProtobuf, NotEncodable, open_envelope, seal
from tests.fuzz.target import fuzzer, require_client_error
from tests.support.in_process import TABLE, resource

_POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"a": "b"}, "creationTimestamp": "2024-05-06T07:08:09Z"},
    "spec": {
        "containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}
        ],
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
    },
}
_CONFIG_MAP: Final = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "data": {"a": "b"},
    "binaryData": {"c": "AAE="},
}
_NAMES: Final = (
    b"apiVersion kind metadata name labels annotations spec data managedFields finalizers null true"
)


@fuzzer(
    b'{"oidc":{"code":"a","verifier":"b","redirectURI":"https://c/console/"}}',
    b'{"token":"a","token":"b"}',
    b"{}",
    words=b'{ } [ ] , : " \\u "code" "token" "oidc" null',
    is_json=True,
)
def login_bodies(data: bytes) -> None:
    """What anybody can send to log in to the console."""
    try:
        document = parse_json_body(data)
    except BadRequest as error:
        require_client_error(error, data)
        return
    assert values_in(data) <= VALUES_MAX
    assert orjson.loads(orjson.dumps(document)) == document


@fuzzer(
    b'{"a":[1,-2.5e3,"x\\u00e9\\n",true,null],"a":{"b":{}}}',
    b'{"a":{"b":1,"b":2},"c":[{"d":1,"d":2}]}',
    b'{"\\u0061":1,"a":2}',
    b'"\\ud83d\\ude00"',
    b"[1e308,5e-324,18446744073709551615,-9223372036854775808]",
    words=b'{ } [ ] , : " \\u \\ud800 1e400 -0 true false null',
)
def json_text(data: bytes) -> None:
    """What orjson reads, the standard library reads alike; duplicates are found where there are some."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        syntax_error(error, data).encode()
        return
    duplicates: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        duplicates.extend(name for name in set(names) if names.count(name) > 1)
        return dict(pairs)

    try:
        expected = json.loads(data, object_pairs_hook=members)
    except RecursionError:
        return  # orjson goes deeper.
    assert _is_same(document, expected)
    assert orjson.loads(orjson.dumps(document)) == document
    assert bool(duplicate_fields(data, document)) == bool(duplicates)


def _is_same(a: Any, b: Any) -> bool:
    """Whether values are equal. Which numbers are integers differs: 5e4 is in YAML, 2**64 not in orjson."""
    if isinstance(a, int | float) and isinstance(b, int | float) and bool not in (type(a), type(b)):
        return a == b or math.isclose(a, b, rel_tol=1e-15)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_is_same(value, b[name]) for name, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return bool(a == b)


@fuzzer(
    b"a: 1\nb: [x, 'y', \"z\\u0041\"]\nc: {d: e}\n",
    b"- |\n  text\n- >-\n  more\n- !!binary AAEC\n",
    b"--- a\n...\n--- b\n",
    b"a: &x [1, 2]\nb: *x\nc: {<<: {d: 1}, e: 0x1f}\n",
    b"? a\n: b\n? [c]\n: d\n",
    b"a: 1\na: 2\n",
    b"%YAML 1.1\n---\n~\n",
    b'{"a": [true, null, 1.5e3, .inf, 0o17, 1_000, 12:30, 2024-05-06]}',
    b"a: yes\nb: no\nc: on\n",
    b"\xff\xfea\0:\0 \0b\0",
    words=b"&a *a << !!str !!binary !!int !!float !!set !!omap --- ... | > ? - : # % ! , [ ] { } ' \" "
    b".inf .nan 0x 0b 0o ~ yes",
)
def yaml_text(data: bytes) -> None:
    """A document can be written and read again; JSON means the same as YAML."""
    try:
        document, warnings = yaml_format.load(data)
    except yaml_format.InvalidYaml:
        return
    assert all(isinstance(warning, str) for warning in warnings)
    assert _is_same(yaml_format.load(yaml_format.dump(document))[0], document)
    with contextlib.suppress(orjson.JSONDecodeError):
        as_json = orjson.loads(data)
        if not duplicate_fields(data, as_json):
            assert _is_same(document, as_json)


@fuzzer(
    *(cbor_format.dump(_POD), cbor_format.dump([1, -1, 1.5, None, True, "a"])),
    b"\xd9\xd9\xf7\xbf\x41a\x9f\x01\x02\xff\xff",
    b"\xa1aa\xc1\x1a\x65\x00\x00\x00",
    b"\xa1aa\xd6\x43abc",
    b"\xfb\x3f\xf8\0\0\0\0\0\0",
    b"\x81" * cbor_format.DEPTH_MAX + b"\x01",
)
def cbor(data: bytes) -> None:
    """A document can be written and read again, and is one of JSON."""
    try:
        document = cbor_format.load(data)
    except cbor_format.InvalidCbor:
        return
    assert orjson.loads(orjson.dumps(document)) == document
    # The tag with which it begins, once it is written, is a level, too, as in Kubernetes.
    if _depth(document) < cbor_format.DEPTH_MAX:
        assert cbor_format.load(cbor_format.dump(document)) == document


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _sealed(document: dict[str, Any]) -> bytes:
    kind, api_version = document["kind"], document["apiVersion"]
    served = next(each for each in TABLE.resources if (each.kind, each.api_version) == (kind, api_version))
    return seal(api_version, kind, served.to_protobuf(document))


_KINDS: Final = {(each.api_version, each.kind): each for each in TABLE.resources if each.has_protobuf}


@fuzzer(
    _sealed(_POD),
    _sealed(_CONFIG_MAP),
    words=b"k8s\0 v1 Pod ConfigMap apps/v1 Deployment Secret batch/v1 Job Service",
)
def protobuf(data: bytes) -> None:
    """A message of any built-in type that passes the schema can be written and read again."""
    try:
        envelope = open_envelope(data)
        served = _KINDS.get((envelope.api_version, envelope.kind))
        if served is None:
            return
        document = served.from_protobuf(envelope.raw)
    except InvalidProtobuf:
        return
    document = {"apiVersion": served.api_version, "kind": served.kind, **document}
    orjson.dumps(document)
    with contextlib.suppress(NotEncodable):
        encoded = served.to_protobuf(document)
        assert served.to_protobuf(served.from_protobuf(encoded)) == encoded


_DECODER: Final = Decoder(Brand(), has_cbor=True, before_schema=lambda _: None)
_DECODED: Final = (
    resource("pods", ""),
    resource("configmaps", ""),
    resource("deployments", "apps"),
    resource("services", ""),
    resource("customresourcedefinitions", "apiextensions.k8s.io"),
    resource("tokenreviews", "authentication.k8s.io"),
)
_PLACE: Final = parse_target("PATCH", "/api/v1/namespaces/default/configmaps/a", False)
_FORMS: Final = (
    *("application/json", "application/yaml", "application/cbor", "application/vnd.kubernetes.protobuf"),
    *("", "application/json; charset=utf-8", "text/plain"),
)
_VALIDATIONS: Final = ("Strict", "Warn", "Ignore")


@fuzzer(
    b"\0\0\0" + orjson.dumps(_POD),
    b"\1\0\1" + orjson.dumps(_CONFIG_MAP),
    b"\0\2\0" + cbor_format.dump(_POD),
    b"\1\3\0" + _sealed(_CONFIG_MAP),
    b"\0\1\0" + yaml_format.dump(_POD),
    words=_NAMES,
)
def objects(data: bytes) -> None:
    """Of any form, for any type: what is decoded fits the schema, and once more. The first bytes choose."""
    if len(data) < 3:
        return
    served = _DECODED[data[0] % len(_DECODED)]
    form, validation = _FORMS[data[1] % len(_FORMS)], _VALIDATIONS[data[2] % len(_VALIDATIONS)]
    body = data[3:]
    try:
        decoded = _DECODER.decode(
            Body(body, form, size_class_of(body, form), form), served, "default", validation
        )
    except ApiError as error:
        require_client_error(error, data)
        return
    encoded = orjson.dumps(decoded.document)
    again = orjson.loads(encoded)
    assert not served.check(again)
    assert orjson.loads(encoded) == again
    if form == "application/json" and orjson.loads(body):
        strict_problems(body, served.schema())


@fuzzer(
    b"\0" + orjson.dumps(_CONFIG_MAP),
    b"\1" + cbor_format.dump(_CONFIG_MAP),
    b"\0a: b\n",
    b'\0 {"a":1,"a":2}',
    b"\0{a: 1, b: [}]",
    words=_NAMES,
)
def applies(data: bytes) -> None:
    """Bodies of applies: YAML, JSON or CBOR."""
    form = ("application/apply-patch+yaml", "application/apply-patch+cbor")[data[:1] == b"\1"]
    try:
        document = apply_bodies.parse(data[1:], form, is_checked=True).document
        apply_bodies.require_place(document, _DECODED[1], _DECODED[1], _PLACE)
    except ApiError as error:
        require_client_error(error, data)
        return
    orjson.dumps(document)
