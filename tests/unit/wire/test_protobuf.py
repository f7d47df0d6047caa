"""Documents in protobuf: decoding, encoding, and harmless answers to hostile bodies. Rows D03-D05."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import TypeMismatch, compile_schema
from apiserver.schema.go_fields import fields_of
from apiserver.schema.structural import Schema, ValueKind
from apiserver.wire.protobuf import (
    DEPTH_MAX,
    FIELDS_MAX,
    GROUP_DEPTH_MAX,
    MAGIC,
    Envelope,
    InvalidProtobuf,
    MessageDecoder,
    MessageEncoder,
    NotEncodable,
    event_frame,
    open_envelope,
    seal,
)
from apiserver.wire.protobuf.wire_format import known_fields
from tests.support import protobuf_writer as pb
from tests.support.protobuf_writer import entries, entry, field, key, varint

SCHEMAS: Final = BuiltinSchemas((1, 34))


def decoder(kind: str) -> MessageDecoder:
    return MessageDecoder(SCHEMAS.get(f"io.k8s.api.{kind}"))


CONFIG_MAP: Final = decoder("core.v1.ConfigMap")
POD: Final = decoder("core.v1.Pod")


# ---- the envelope

ENVELOPES: Final = {
    "who it is and what it holds": (pb.envelope(b"raw"), Envelope("v1", "ConfigMap", b"raw")),
    "of a group": (pb.envelope(b"", "apps/v1", "Deployment"), Envelope("apps/v1", "Deployment", b"")),
    "nothing but the magic": (MAGIC, Envelope("", "", b"")),
    "content alone": (MAGIC + field(2, b"raw"), Envelope("", "", b"raw")),
    "a content type": (pb.envelope(b"a", more=field(4, "text")), Envelope("v1", "ConfigMap", b"a")),
    "an empty encoding": (pb.envelope(b"a", more=field(3, "")), Envelope("v1", "ConfigMap", b"a")),
}


@pytest.mark.parametrize(("body", "envelope"), ENVELOPES.values(), ids=ENVELOPES)
def test_envelopes(body: bytes, envelope: Envelope) -> None:
    assert open_envelope(body) == envelope


NO_ENVELOPES: Final = {
    "nothing": (b"", r"expected prefix \[107 56 115 0\]"),
    "a cut prefix": (b"k8s", "expected prefix"),
    "JSON": (b'{"kind":"ConfigMap"}', "expected prefix"),
    "another prefix": (b"k8s\x01" + field(2, b""), "expected prefix"),
    "compressed content": (pb.envelope(b"", more=field(3, "gzip")), "is encoded"),
    "cut off": (pb.envelope(b"raw")[:-1], "unexpected EOF"),
    "cut within a number": (MAGIC + b"\x80", "unexpected EOF"),
    "a number for the content": (MAGIC + field(2, 1), "wrong wireType = 0 for field 2"),
    "a number for what it is": (MAGIC + field(1, field(2, 1)), "wrong wireType = 0 for field 2"),
    "a kind that is no UTF-8": (MAGIC + field(1, field(2, b"\xff")), "UTF-8"),
    "a length beyond all memory": (MAGIC + key(2, 2) + varint(2**63), "unexpected EOF"),
    "a number without end": (MAGIC + key(2, 0) + b"\xff" * 11, "integer overflow"),
}


@pytest.mark.parametrize(("body", "told"), NO_ENVELOPES.values(), ids=NO_ENVELOPES)
def test_invalid_envelopes_are_refused(body: bytes, told: str) -> None:
    """Row D05."""
    with pytest.raises(InvalidProtobuf, match=told):
        open_envelope(body)


# What a kube-apiserver 1.36 makes of seconds and nanoseconds since 1970.
MICRO_TIMES: Final = {
    (-62_167_219_200, 0): "0000-01-01T00:00:00.000000Z",
    (-62_167_219_201, 0): "-0001-12-31T23:59:59.000000Z",
    (253_402_300_800, 0): "10000-01-01T00:00:00.000000Z",
    (-1_161_647_224_576, 0): "-34842-11-12T23:23:44.000000Z",
    ((1 << 63) - 1, 0): "292277026596-12-04T15:30:07.000000Z",
    (-(1 << 63), 0): "292277026596-12-04T15:30:08.000000Z",
    (-(1 << 62), 999_999_999): "-146138510344-07-14T16:14:56.999999Z",
    (1_700_000_000, 1_500_000_000): "2023-11-14T22:13:21.500000Z",
    (1_700_000_000, -1): "2023-11-14T22:13:20.000000Z",
    (1_700_000_000, 1 << 31): "2023-11-14T22:13:17.852517Z",
}
# ---- messages: numbers as in generated.proto of k8s.io/api/core/v1 and its neighbours

MESSAGES: Final[dict[str, tuple[str, bytes, dict[str, Any]]]] = {
    "nothing": ("core.v1.Pod", b"", {}),
    "texts in a message in a message": (
        "core.v1.ConfigMap",
        field(1, field(1, "a") + field(3, "ns")),
        {"metadata": {"name": "a", "namespace": "ns"}},
    ),
    "a map of texts": (
        "core.v1.ConfigMap",
        entries(2, {"k": "v", "empty": "", "é": "\N{GRINNING FACE}"}),
        {"data": {"k": "v", "empty": "", "é": "\N{GRINNING FACE}"}},
    ),
    "a map of bytes": ("core.v1.ConfigMap", entry(3, "k", b"\x00\xff"), {"binaryData": {"k": "AP8="}}),
    "an entry without key and value": ("core.v1.ConfigMap", field(2, b""), {"data": {"": ""}}),
    "the last entry of a key counts": (
        "core.v1.ConfigMap",
        entry(2, "k", "1") + entry(2, "k", "2"),
        {"data": {"k": "2"}},
    ),
    "a list of messages, an empty one among them": (
        "core.v1.PodSpec",
        field(2, field(1, "a")) + field(2, b"") + field(2, field(1, "b")),
        {"containers": [{"name": "a"}, {}, {"name": "b"}]},
    ),
    "a list of texts": ("core.v1.Container", field(3, "sh") + field(3, ""), {"command": ["sh", ""]}),
    "a list of numbers": (
        "core.v1.PodSecurityContext",
        field(4, 1) + field(4, 0),
        {"supplementalGroups": [1, 0]},
    ),
    "numbers that came in one field": (
        "core.v1.PodSecurityContext",
        field(4, 7) + field(4, varint(1) + varint(300) + varint(-1)) + field(4, b""),
        {"supplementalGroups": [7, 1, 300, -1]},
    ),
    "numbers below zero": ("core.v1.PodSpec", field(4, -1), {"terminationGracePeriodSeconds": -1}),
    "the largest number": ("core.v1.PodSpec", field(5, 2**63 - 1), {"activeDeadlineSeconds": 2**63 - 1}),
    "the smallest": ("core.v1.PodSpec", field(5, -(2**63)), {"activeDeadlineSeconds": -(2**63)}),
    "a truth value": ("core.v1.PodSpec", field(11, True), {"hostNetwork": True}),
    "fields that stand among others in JSON": (
        "core.v1.Volume",
        field(1, "v") + field(2, field(19, field(1, field(1, "cm")))),
        {"name": "v", "configMap": {"name": "cm"}},
    ),
    "a moment": (
        "core.v1.Pod",
        field(1, field(8, pb.time(1704067200, 999_999_999))),
        {"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}},
    ),
    "a moment before 1970": (
        "core.v1.Pod",
        field(1, field(8, pb.time(-1))),
        {"metadata": {"creationTimestamp": "1969-12-31T23:59:59Z"}},
    ),
    "the zero moment is none": ("core.v1.Pod", field(1, field(8, b"")), {"metadata": {}}),
    "a pointer to it is not": ("core.v1.PodStatus", field(7, b""), {"startTime": "0001-01-01T00:00:00Z"}),
    "nor if its seconds are there": (
        "core.v1.PodStatus",
        field(7, pb.time(-62_135_596_800)),
        {"startTime": "0001-01-01T00:00:00Z"},
    ),
    "a pointer to the zero moment in microseconds": (
        "coordination.v1.LeaseSpec",
        field(4, b""),
        {"renewTime": "0001-01-01T00:00:00.000000Z"},
    ),
    "microseconds": (
        "coordination.v1.LeaseSpec",
        field(4, pb.time(1704067200, 1_000)),
        {"renewTime": "2024-01-01T00:00:00.000001Z"},
    ),
    "a moment does not go by its nanoseconds": (
        "core.v1.PodStatus",
        field(7, pb.time(1700000000, 1_500_000_000)),
        {"startTime": "2023-11-14T22:13:20Z"},
    ),
    **{
        f"{seconds} s and {nanos} ns": (
            "coordination.v1.LeaseSpec",
            field(4, pb.time(seconds, nanos)),
            {"renewTime": text},
        )
        for (seconds, nanos), text in MICRO_TIMES.items()
    },
    "a port by number": ("core.v1.HTTPGetAction", field(2, pb.int_or_string(80)), {"port": 80}),
    "a port by name": ("core.v1.HTTPGetAction", field(2, pb.int_or_string("web")), {"port": "web"}),
    "quantities": (
        "core.v1.ResourceRequirements",
        entry(1, "cpu", pb.quantity("100m")),
        {"limits": {"cpu": "100m"}},
    ),
    "an embedded document": (
        "core.v1.Pod",
        field(1, field(17, field(1, "m") + field(7, pb.raw_json({"f:spec": {}})))),
        {"metadata": {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]}},
    ),
    "a list as a map's value": (
        "authorization.v1.SubjectAccessReviewSpec",
        entry(5, "k", field(1, "x") + field(1, "y")) + entry(5, "none", b""),
        {"extra": {"k": ["x", "y"], "none": []}},
    ),
    # What Go's encoder always writes, and encoding/json leaves out or not.
    "the zero of a plain field is nothing": (
        "core.v1.Container",
        field(2, "") + field(16, False) + field(6, field(2, 0)),
        {"ports": [{}]},
    ),
    "unless it is shown when empty": ("core.v1.Container", field(1, ""), {"name": ""}),
    "the zero of a pointer is a value": (
        "core.v1.PodSpec",
        field(4, 0) + field(30, False) + field(14, b""),
        {"terminationGracePeriodSeconds": 0, "enableServiceLinks": False, "securityContext": {}},
    ),
    # https://protobuf.dev/programming-guides/encoding/#last-one-wins
    "the last of several values counts": (
        "core.v1.PodSpec",
        field(10, "a") + field(10, "b"),
        {"nodeName": "b"},
    ),
    "inlined messages, too": (
        "core.v1.Volume",
        field(2, field(19, field(1, field(1, "cm")))) + field(2, field(19, field(3, 5))),
        {"configMap": {"name": "cm", "defaultMode": 5}},
    ),
    "messages that come in pieces are one": (
        "core.v1.Pod",
        field(1, field(1, "a")) + field(2, b"") + field(1, field(3, "ns")),
        {"metadata": {"name": "a", "namespace": "ns"}, "spec": {}},
    ),
}


@pytest.mark.parametrize(("kind", "raw", "document"), MESSAGES.values(), ids=MESSAGES)
def test_messages(kind: str, raw: bytes, document: dict[str, Any]) -> None:
    assert decoder(kind)(raw) == document


# ---- what a later release has added

UNKNOWN: Final = {
    "a number": field(99, 1),
    "a number of ten bytes": field(99, -1),
    "eight bytes": field(99, 1.5),
    "four bytes": key(99, 5) + b"abcd",
    "a text": field(99, "x"),
    "bytes that are no message": field(99, b"\xff\xff"),
    "the largest number of a field": field((1 << 29) - 1, 1),
    "an empty group": key(99, 3) + key(99, 4),
    "a group with fields of all types": (
        key(99, 3) + field(1, 7) + field(2, 1.5) + key(3, 5) + b"abcd" + field(4, "text") + key(99, 4)
    ),
    "groups in groups": b"".join(key(n, 3) for n in range(101, GROUP_DEPTH_MAX + 101))
    + b"".join(key(n, 4) for n in range(GROUP_DEPTH_MAX + 100, 100, -1)),
    "a text in a group that looks like its end": key(99, 3) + field(1, key(99, 4)) + key(99, 4),
}
# Messages of all shapes, with a field that is not known in the place of `unknown`.
PLACES: Final[dict[str, tuple[str, Callable[[bytes], bytes], dict[str, Any]]]] = {
    "in an object": (
        "core.v1.ConfigMap",
        lambda unknown: unknown + field(1, field(1, "a")) + unknown,
        {"metadata": {"name": "a"}},
    ),
    "in a struct": (
        "core.v1.Pod",
        lambda unknown: field(1, unknown + field(1, "a")),
        {"metadata": {"name": "a"}},
    ),
    "in an item": ("core.v1.PodSpec", lambda unknown: field(2, unknown), {"containers": [{}]}),
    "in an inlined struct": (
        "core.v1.Volume",
        lambda unknown: field(1, "v") + field(2, unknown),
        {"name": "v"},
    ),
    "in a map's entry": (
        "core.v1.ConfigMap",
        lambda unknown: field(2, field(1, "k") + unknown + field(2, "v")),
        {"data": {"k": "v"}},
    ),
    "in a quantity": (
        "core.v1.ResourceRequirements",
        lambda unknown: entry(1, "cpu", unknown + pb.quantity("1")),
        {"limits": {"cpu": "1"}},
    ),
    "in a moment": (
        "core.v1.PodStatus",
        lambda unknown: field(7, unknown + pb.time(0)),
        {"startTime": "1970-01-01T00:00:00Z"},
    ),
    "in a number or text": (
        "core.v1.ServicePort",
        lambda unknown: field(4, unknown + pb.int_or_string("web")),
        {"targetPort": "web"},
    ),
    "in an embedded document": (
        "core.v1.Pod",
        lambda unknown: field(1, field(17, field(7, unknown + pb.raw_json({"a": 1}) + unknown))),
        {"metadata": {"managedFields": [{"fieldsV1": {"a": 1}}]}},
    ),
    "in a list that is a map's value": (
        "authorization.v1.SubjectAccessReviewSpec",
        lambda unknown: entry(5, "k", field(1, "x") + unknown + field(1, "y")),
        {"extra": {"k": ["x", "y"]}},
    ),
}


@pytest.mark.parametrize(("kind", "write", "document"), PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("unknown", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_fields_are_skipped(
    unknown: bytes, kind: str, write: Callable[[bytes], bytes], document: dict[str, Any]
) -> None:
    """A client of a later release sends fields that this one does not know, and cannot help it."""
    assert decoder(kind)(write(unknown)) == document


def test_unknown_fields_of_schemas_that_are_one_of_two_types() -> None:
    """`JSONSchemaPropsOrBool`: its `additionalProperties` is an object or true."""
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    decode, encode = MessageDecoder(SCHEMAS.get(name)), MessageEncoder(SCHEMAS.get(name))
    for value in (True, {"type": "string"}):
        raw = encode({"additionalProperties": value})
        (number, content) = next(known_fields(raw, dict.fromkeys(range(1, 60), 2)))
        for unknown in UNKNOWN.values():
            assert decode(field(number, unknown + content)) == {"additionalProperties": value}


def test_unknown_fields_of_envelopes_are_skipped() -> None:
    for unknown in UNKNOWN.values():
        body = MAGIC + field(1, unknown + field(1, "v1") + field(2, "Pod")) + unknown + field(2, b"raw")
        assert open_envelope(body) == Envelope("v1", "Pod", b"raw")


def deep(levels: int) -> bytes:
    raw = b""
    for _ in range(levels):
        raw = field(2, raw)
    return raw


BAD: Final[dict[str, tuple[bytes, str]]] = {
    "no field has number 0": (field(0, 1), r"illegal tag 0 \(wire type 0\)"),
    "no number is larger than 2^29 - 1": (field(1 << 29, 1), r"illegal tag 536870912 \(wire type 0\)"),
    "nor is one in a group": (key(99, 3) + field(0, 1) + key(99, 4), r"illegal tag 0 \(wire type 0\)"),
    "a number for a message": (field(2, 1), "wrong wireType = 0 for field spec"),
    "a message for a number": (field(2, field(5, "x")), "wrong wireType = 2 for field activeDeadlineSeconds"),
    "eight bytes for a number": (field(2, field(4, 1.0)), "wrong wireType = 1 for field terminationGrace"),
    "four bytes for a number": (field(2, key(4, 5) + b"abcd"), "wrong wireType = 5 for field terminationGr"),
    "a group for a message": (key(2, 3) + key(2, 4), "wrong wireType = 3 for field spec"),
    "eight bytes for a text": (field(1, field(1, 1.0)), "wrong wireType = 1 for field name"),
    "four bytes for a message": (key(1, 5) + b"abcd", "wrong wireType = 5 for field metadata"),
    "a number for a list's item": (field(2, field(2, 1)), "wrong wireType = 0 for field containers"),
    "four bytes for a list's number": (
        field(2, field(14, key(4, 5) + b"abcd")),
        "wrong wireType = 5 for field supplementalGroups",
    ),
    "numbers in one field that are cut": (field(2, field(14, field(4, b"\x01\x80"))), "unexpected EOF"),
    "a number for a moment": (field(1, field(8, 5)), "wrong wireType = 0 for field creationTimestamp"),
    "a text in a moment": (field(1, field(8, field(1, "5"))), "wrong wireType = 2 for field 1"),
    "a number for an inlined message": (
        field(2, field(1, field(2, 5))),
        "wrong wireType = 0 for field io.k8s.api.core.v1.VolumeSource",
    ),
    "a number for a map's key": (field(1, field(11, field(1, 5))), "wrong wireType = 0 for field key"),
    "a number for a map's text": (field(1, field(11, field(2, 5))), "wrong wireType = 0 for field value"),
    "a text that is no UTF-8": (field(1, field(1, b"\xff")), "UTF-8"),
    "half a surrogate": (field(1, field(1, b"\xed\xa0\x80")), "UTF-8"),
    "a key that is no UTF-8": (field(1, field(11, field(1, b"\xff"))), "UTF-8"),
    "a map's entry that is a number": (field(1, field(11, 5)), "wrong wireType = 0 for field labels"),
    "an embedded document that is no JSON": (field(1, field(17, field(7, field(1, "{")))), "not valid JSON"),
    "one that nests without end": (field(1, field(17, field(7, field(1, "[" * 100_000)))), "not valid JSON"),
    "a group without an end": (key(99, 3) + field(1, 1), "unexpected EOF"),
    "a group that ends within its own field": (
        key(99, 3) + key(1, 2) + varint(9) + key(99, 4),
        "unexpected EOF",
    ),
    "the end of a group that did not begin": (key(99, 4), "unexpected end of group"),
    "the end of another group": (key(99, 3) + key(98, 4), "unexpected end of group"),
    "groups without end": (key(99, 3) * 100_000, f"groups are nested more than {GROUP_DEPTH_MAX} deep"),
    "wire types there are none of": (key(1, 7), "illegal wireType 7"),
    "wire types of fields that are not known": (key(99, 6), "illegal wireType 6"),
    "wire types in a group": (key(99, 3) + key(1, 7) + key(99, 4), "illegal wireType 7"),
    "a length beyond the end": (key(1, 2) + varint(1), "unexpected EOF"),
    "a length beyond all memory": (key(1, 2) + varint(2**64 - 1), "unexpected EOF"),
    "a length of the inner message beyond its end": (
        field(1, key(1, 2) + varint(3)) + b"abc",
        "unexpected EOF",
    ),
    "a fixed number cut off": (key(1, 1) + b"1234567", "unexpected EOF"),
    "a number of eleven bytes": (key(1, 0) + b"\x80" * 10 + b"\x01", "integer overflow"),
    "a key of eleven bytes": (b"\xff" * 11, "integer overflow"),
}


@pytest.mark.parametrize(("raw", "told"), BAD.values(), ids=BAD)
def test_bad_messages_are_refused(raw: bytes, told: str) -> None:
    with pytest.raises(InvalidProtobuf, match=told):
        POD(raw)


def recursive() -> MessageDecoder:
    """No built-in type refers to itself in protobuf: a Pod whose spec (2) is a Pod."""
    schema = Schema(ValueKind.STRUCT, "v1.Pod", definition="io.k8s.api.core.v1.Pod")
    schema.fields = {"spec": schema}
    return MessageDecoder(schema)


def test_messages_nest_to_a_bound() -> None:
    document = recursive()(deep(DEPTH_MAX))
    depth = 0
    while document:
        document, depth = document["spec"], depth + 1
    assert depth == DEPTH_MAX


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 10_000])
def test_deeper_ones_are_refused(levels: int) -> None:
    with pytest.raises(InvalidProtobuf, match=f"more than {DEPTH_MAX} deep"):
        recursive()(deep(levels))


def test_fields_without_end_are_refused() -> None:
    """An empty item of a list has two bytes in a message."""
    args = field(4, "") * (FIELDS_MAX - 2)
    assert len(POD(field(2, field(2, args)))["spec"]["containers"][0]["args"]) == FIELDS_MAX - 2
    with pytest.raises(InvalidProtobuf, match=f"more than {FIELDS_MAX} fields"):
        POD(field(2, field(2, args + field(4, ""))))


def test_a_list_that_is_a_message_of_its_own() -> None:
    """`Verbs` of k8s.io/apimachinery/pkg/apis/meta/v1, both ways; it counts as what it holds."""
    schema = SCHEMAS.get("io.k8s.apimachinery.pkg.apis.meta.v1.APIResource")
    document = {"name": "pods", "verbs": ["get", "list"]}
    raw = field(1, "pods") + field(4, field(1, "get") + field(1, "list"))
    assert MessageEncoder(schema)(document) == raw
    assert MessageDecoder(schema)(raw) == document
    assert MessageEncoder(schema)({"verbs": []}) == field(4, b"")
    assert MessageDecoder(schema)(field(4, b"")) == {"verbs": []}
    with pytest.raises(InvalidProtobuf, match="more than"):
        MessageDecoder(schema)(field(4, field(1, "") * FIELDS_MAX))


def test_a_kind_without_a_form_in_protobuf() -> None:
    with pytest.raises(LookupError, match="Nothing has no known protobuf fields"):
        MessageDecoder(Schema(ValueKind.STRUCT, "v1.Nothing", definition="io.example.Nothing"))


# ---- what is written

WRITTEN: Final[dict[str, tuple[str, dict[str, Any], bytes]]] = {
    "nothing": ("core.v1.Pod", {}, b""),
    "what a document is stands in the envelope": ("core.v1.Pod", {"apiVersion": "v1", "kind": "Pod"}, b""),
    "fields in the order of their numbers": (
        "core.v1.ObjectReference",
        {"name": "n", "kind": "K", "namespace": "ns"},
        field(1, "K") + field(2, "ns") + field(3, "n"),
    ),
    "keys in their order": (
        "core.v1.ConfigMap",
        {"data": {"b": "2", "a": "1", "": "0"}},
        entries(2, {"": "0", "a": "1", "b": "2"}),
    ),
    "bytes": ("core.v1.Secret", {"data": {"k": "AP8="}}, entry(2, "k", b"\x00\xff")),
    "null is nothing": ("core.v1.Pod", {"metadata": None, "spec": {}}, field(2, b"")),
    "a zero that is there": (
        "core.v1.PodSpec",
        {"terminationGracePeriodSeconds": 0, "hostNetwork": False},
        field(4, 0) + field(11, False),
    ),
    "below zero": ("core.v1.PodSpec", {"activeDeadlineSeconds": -1}, field(5, -1)),
    "fields of an inlined struct": (
        "core.v1.Volume",
        {"configMap": {"name": "c"}, "name": "v"},
        field(1, "v") + field(2, field(19, field(1, field(1, "c")))),
    ),
    "null is the zero moment": (
        "core.v1.PodStatus",
        {"startTime": None, "conditions": [{"type": "T", "lastProbeTime": None}]},
        field(2, field(1, "T") + field(3, b"")) + field(7, b""),
    ),
    "in microseconds": ("coordination.v1.LeaseSpec", {"renewTime": None}, field(4, b"")),
    "in a map": ("policy.v1.PodDisruptionBudgetStatus", {"disruptedPods": {"a": None}}, entry(2, "a", b"")),
    "a moment": ("core.v1.PodStatus", {"startTime": "1970-01-01T00:00:00Z"}, field(7, pb.time(0))),
    "microseconds": (
        "coordination.v1.LeaseSpec",
        {"renewTime": "2024-01-01T00:00:00.000001Z"},
        field(4, pb.time(1704067200, 1_000)),
    ),
    **{
        f"a moment in the year {text[:-21]}": (
            "coordination.v1.LeaseSpec",
            {"renewTime": text},
            field(4, pb.time(seconds, nanos)),
        )
        for (seconds, nanos), text in MICRO_TIMES.items()
        if nanos == 0
    },
    "a number or a text": ("core.v1.ServicePort", {"targetPort": "web"}, field(4, pb.int_or_string("web"))),
    "a number": ("core.v1.ServicePort", {"targetPort": 80}, field(4, pb.int_or_string(80))),
    "a quantity": (
        "core.v1.ResourceRequirements",
        {"requests": {"cpu": "1"}},
        entry(2, "cpu", pb.quantity("1")),
    ),
    "a list as a map's value": (
        "authorization.v1.SubjectAccessReviewSpec",
        {"extra": {"k": ["x", "y"]}},
        entry(5, "k", field(1, "x") + field(1, "y")),
    ),
}


def encoder(kind: str) -> MessageEncoder:
    return MessageEncoder(SCHEMAS.get(f"io.k8s.api.{kind}"))


@pytest.mark.parametrize(("kind", "document", "raw"), WRITTEN.values(), ids=WRITTEN)
def test_documents_are_encoded(kind: str, document: dict[str, Any], raw: bytes) -> None:
    assert encoder(kind)(document) == raw


UNWRITABLE: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a field without a number": ({"spec": {"zz": 1}}, "field zz of v1.PodSpec is not known in protobuf here"),
    "one at the top": ({"zz": 1}, "field zz of v1.Pod is not known"),
    "one in an inlined struct": ({"spec": {"volumes": [{"zz": {}}]}}, "field zz of v1.Volume is not known"),
    "a text for a number": ({"spec": {"activeDeadlineSeconds": "1"}}, "not an integer"),
    "a number for a text": ({"metadata": {"name": 1}}, "cannot be encoded"),
    "a text for a struct": ({"spec": "x"}, "cannot be encoded"),
    "a number for a list": ({"spec": {"containers": 1}}, "cannot be encoded"),
    "a moment that is none": ({"metadata": {"creationTimestamp": "yesterday"}}, "cannot be encoded"),
}


@pytest.mark.parametrize(("document", "told"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_fields_that_cannot_be_encoded_are_refused_and_never_dropped(
    document: dict[str, Any], told: str
) -> None:
    with pytest.raises(NotEncodable, match=told):
        encoder("core.v1.Pod")(document)


def test_a_kind_that_cannot_be_written() -> None:
    with pytest.raises(LookupError, match="Nothing has no known protobuf fields"):
        MessageEncoder(Schema(ValueKind.STRUCT, "v1.Nothing", definition="io.example.Nothing"))


def test_envelopes_that_are_written() -> None:
    """Row D04. Go writes encoding and content type, though they are empty."""
    assert seal("v1", "Pod", b"raw") == pb.envelope(b"raw", "v1", "Pod", more=field(3, "") + field(4, ""))
    assert open_envelope(seal("apps/v1", "Deployment", b"x" * 300)) == Envelope(
        "apps/v1", "Deployment", b"x" * 300
    )


def test_events_that_are_written() -> None:
    """Four bytes of length, then WatchEvent: its type, and the object as RawExtension."""
    event = field(1, "ADDED") + field(2, field(1, b"object"))
    assert event_frame("ADDED", b"object") == len(event).to_bytes(4, "big") + event


_NAME: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_MOMENTS: Final = st.datetimes().map(lambda moment: moment.replace(microsecond=0).isoformat() + "Z")
_VALUES: Final[dict[ValueKind, st.SearchStrategy[Any]]] = {
    ValueKind.STRING: _NAME,
    ValueKind.BOOLEAN: st.booleans(),
    ValueKind.NUMBER: st.floats(allow_nan=False, allow_infinity=False),
    ValueKind.BYTES: st.binary(min_size=1, max_size=9).map(lambda data: base64.b64encode(data).decode()),
    ValueKind.TIME: _MOMENTS,
    ValueKind.MICRO_TIME: st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds") + "Z"),
    ValueKind.INT_OR_STRING: _NAME | st.integers(-(2**31), 2**31 - 1),
    ValueKind.QUANTITY: st.sampled_from(["0", "100m", "1500m", "1Gi", "12e6", "1k"]),
    ValueKind.ANY_OBJECT: st.dictionaries(_NAME, _NAME | st.integers(0, 9), max_size=2),
    ValueKind.ANY: _NAME | st.integers(0, 9),
}


def values(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    """Values of a schema; what is empty of lists and maps, which messages cannot tell from absent, is not."""
    match schema.kind:
        case ValueKind.STRUCT:
            known = fields_of(schema.definition)
            names = [name for name in schema.fields if name in known]
            if depth == 0:
                return st.just({})
            return st.lists(st.sampled_from(names), max_size=4, unique=True).flatmap(
                lambda chosen: st.fixed_dictionaries(
                    {name: values(schema.fields[name], depth - 1) for name in chosen}
                )
            )
        case ValueKind.LIST:
            assert schema.element is not None
            return st.lists(values(schema.element, depth), min_size=1, max_size=2)
        case ValueKind.MAP:
            assert schema.element is not None
            return st.dictionaries(_NAME, values(schema.element, depth), min_size=1, max_size=3)
        case ValueKind.INTEGER:
            return st.integers(-(1 << (schema.bits - 1)), (1 << (schema.bits - 1)) - 1)
        case kind:
            return _VALUES[kind]


ROUND_TRIPS: Final = (
    "api.core.v1.Pod",
    "api.core.v1.Service",
    "api.core.v1.Node",
    "api.core.v1.Secret",
    "api.core.v1.PersistentVolume",
    "api.core.v1.Event",
    "api.apps.v1.StatefulSet",
    "api.batch.v1.CronJob",
    "api.networking.v1.Ingress",
    "api.coordination.v1.Lease",
    "api.rbac.v1.ClusterRole",
    "api.autoscaling.v2.HorizontalPodAutoscaler",
    "api.discovery.v1.EndpointSlice",
    "api.flowcontrol.v1.FlowSchema",
    "api.authorization.v1.SubjectAccessReview",
    "apimachinery.pkg.apis.meta.v1.Status",
    "apimachinery.pkg.apis.meta.v1.DeleteOptions",
)


@pytest.mark.parametrize("kind", ROUND_TRIPS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_encoded_documents_are_decoded_as_the_same(kind: str, data: st.DataObject) -> None:
    """Row S01: JSON and protobuf have the same schema."""
    schema = SCHEMAS.get(f"io.k8s.{kind}")
    check, document = compile_schema(schema), data.draw(values(schema, 5))
    check(document)
    again = MessageDecoder(schema)(MessageEncoder(schema)(document))
    check(again)
    for each in (document, again):
        each.pop("apiVersion", None)
        each.pop("kind", None)
    assert again == document


# ---- whatever comes

_TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_MAP: Final = st.dictionaries(_TEXT, _TEXT, min_size=1, max_size=5)
_CONFIG_MAPS: Final = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": _TEXT.filter(bool),
                "generation": st.integers(-(2**63), 2**63 - 1).filter(bool),
                "labels": _MAP,
                "finalizers": st.lists(_TEXT, min_size=1, max_size=3),
            },
        )
    },
    optional={
        "immutable": st.booleans(),
        "data": _MAP,
        "binaryData": st.dictionaries(_TEXT, st.binary(max_size=30), min_size=1, max_size=3),
    },
)


def written(document: dict[str, Any]) -> bytes:
    """A ConfigMap's message; `binaryData` has bytes here."""
    meta = document["metadata"]
    raw = field(1, meta.get("name", "")) + field(7, meta.get("generation", 0))
    raw += entries(11, meta.get("labels", {})) + b"".join(field(14, f) for f in meta.get("finalizers", ()))
    raw = field(1, raw) + entries(2, document.get("data", {}))
    raw += b"".join(entry(3, name, value) for name, value in document.get("binaryData", {}).items())
    return raw + (field(4, document["immutable"]) if "immutable" in document else b"")


def as_json(document: dict[str, Any]) -> dict[str, Any]:
    texts = {name: base64.b64encode(value).decode() for name, value in document.get("binaryData", {}).items()}
    return document | ({"binaryData": texts} if texts else {})


@settings(max_examples=100, deadline=None)
@given(_CONFIG_MAPS)
def test_messages_of_another_encoder_are_decoded(document: dict[str, Any]) -> None:
    envelope = open_envelope(pb.envelope(written(document)))
    assert CONFIG_MAP(envelope.raw) == as_json(document)


_UNKNOWN_NUMBERS: Final = st.integers(2**10, 2**29 - 1)
_SIMPLE_FIELDS: Final = st.builds(
    field, _UNKNOWN_NUMBERS, st.integers(0, 2**64 - 1) | st.floats() | _TEXT | st.binary(max_size=9)
) | st.builds(lambda n, data: key(n, 5) + data, _UNKNOWN_NUMBERS, st.binary(min_size=4, max_size=4))
_UNKNOWN_FIELDS: Final = st.recursive(
    _SIMPLE_FIELDS,
    lambda inner: st.builds(
        lambda number, content: key(number, 3) + b"".join(content) + key(number, 4),
        _UNKNOWN_NUMBERS,
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(_CONFIG_MAPS, st.lists(_UNKNOWN_FIELDS, min_size=3, max_size=3))
def test_unknown_fields_never_change_what_is_decoded(document: dict[str, Any], unknown: list[bytes]) -> None:
    """Rows D03-D05: whatever the fields of a later release are, wherever they stand."""
    raw = written(document)
    metadata = field(1, unknown[0])  # a part of the metadata
    assert CONFIG_MAP(unknown[1] + metadata + raw + unknown[2]) == as_json(document)


@settings(max_examples=100, deadline=None)
@given(_UNKNOWN_FIELDS, st.data())
def test_unknown_fields_that_are_cut_are_refused(unknown: bytes, data: st.DataObject) -> None:
    cut = unknown[: data.draw(st.integers(1, len(unknown) - 1))]
    with pytest.raises(InvalidProtobuf, match="unexpected EOF"):
        CONFIG_MAP(cut)


@settings(max_examples=100, deadline=None)
@given(_CONFIG_MAPS, st.data())
def test_a_message_that_is_cut_is_refused_or_lacks_its_end(
    document: dict[str, Any], data: st.DataObject
) -> None:
    raw = written(document)
    cut = raw[: data.draw(st.integers(0, len(raw)))]
    try:
        read = CONFIG_MAP(cut)
    except InvalidProtobuf:
        return
    # It was cut between two fields: what is there is part of what was written.
    for name, value in read.items():
        whole = as_json(document)[name]
        assert value == whole or (isinstance(value, dict) and value.items() <= whole.items())


WALKS: Final = {
    kind: (decoder(kind), compile_schema(SCHEMAS.get(f"io.k8s.api.{kind}")))
    for kind in ("core.v1.Pod", "core.v1.Event", "apps.v1.Deployment", "coordination.v1.Lease")
}
# Fields as they might be: numbers that exist, contents that are messages themselves.
_PLAUSIBLE: Final = st.recursive(
    st.binary(max_size=12) | st.just(b""),
    lambda inner: st.lists(
        st.builds(field, st.integers(1, 20), inner | st.integers(0, 2**64 - 1) | _TEXT), max_size=5
    ).map(b"".join),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(kind=st.sampled_from(sorted(WALKS)), raw=_PLAUSIBLE | st.binary(max_size=200))
def test_anything_is_refused_or_a_document(kind: str, raw: bytes) -> None:
    decode, check = WALKS[kind]
    try:
        document = decode(raw)
        check(document)
    except (InvalidProtobuf, TypeMismatch):
        return
    assert orjson.loads(orjson.dumps(document)) == document


@settings(max_examples=200, deadline=None)
@given(_PLAUSIBLE.map(MAGIC.__add__) | st.binary(max_size=100))
def test_any_body_is_refused_or_an_envelope(body: bytes) -> None:
    try:
        envelope = open_envelope(body)
    except InvalidProtobuf:
        return
    assert envelope.raw in body
