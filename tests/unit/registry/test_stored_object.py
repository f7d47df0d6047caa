"""Objects as bytes: what is stored, and what a client is sent of it without parsing anything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.controllers.garbage_collector.object_owners import may_have_owners
from apiserver.endpoints.representation.json_forms import without_managed_fields
from apiserver.load.size_class import HUGE_BYTES, LARGE_BYTES
from apiserver.registry.field_getters import field_texts
from apiserver.registry.stored_object import (
    FIRST_LOOK_BYTES,
    MANY_LABELS_KEPT_MAX,
    CorruptObject,
    DamagedObject,
    StoredObject,
    TooDeep,
    encode,
    head_of,
)
from apiserver.registry.stored_version_decoder import DAMAGED_LOGGED_MAX, StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites
from apiserver.storage.interface import Stored

HEAD: Final = head_of("v1", "ConfigMap")
BARE: Final = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":'


def stored(value: bytes, revision: int = 42) -> StoredObject:
    return StoredObject.of(Stored("/registry/configmaps/ns/a", value, 7, revision))


def of(revision: int = 42, /, **document: Any) -> StoredObject:
    return stored(encode(document, HEAD), revision)


# ---- to bytes

VALUES: Final[dict[str, tuple[dict[str, Any], bytes]]] = {
    "apiVersion, kind and metadata come first": (
        {"data": {"k": "v"}, "metadata": {"name": "a"}},
        BARE + b'{"name":"a"},"data":{"k":"v"}}',
    ),
    "the head is the type's, whatever the document says": (
        {"apiVersion": "v9", "kind": "Other", "metadata": {"name": "a"}},
        BARE + b'{"name":"a"}}',
    ),
    "resourceVersion is not stored": (
        {"metadata": {"name": "a", "resourceVersion": "5", "uid": "u"}},
        BARE + b'{"name":"a","uid":"u"}}',
    ),
    "nor is one that is all there is": ({"metadata": {"resourceVersion": "5"}}, BARE + b"{}}"),
    "one elsewhere is not the object's": (
        {"metadata": {}, "involvedObject": {"resourceVersion": "5"}},
        BARE + b'{},"involvedObject":{"resourceVersion":"5"}}',
    ),
    "text is UTF-8": ({"metadata": {"name": "é"}, "data": {}}, BARE + '{"name":"é"},"data":{}}'.encode()),
}


@pytest.mark.parametrize(("document", "value"), VALUES.values(), ids=VALUES)
def test_what_is_stored(document: dict[str, Any], value: bytes) -> None:
    before = orjson.dumps(document)
    assert encode(document, HEAD) == value
    assert orjson.dumps(document) == before


def test_names_in_the_head_are_escaped() -> None:
    assert orjson.loads(head_of('a"b/v1', "K\\") + b"{}}") == {
        "apiVersion": 'a"b/v1',
        "kind": "K\\",
        "metadata": {},
    }


@pytest.mark.parametrize("where", ["metadata", "spec"])
def test_a_document_that_is_too_deep(where: str) -> None:
    deep: dict[str, Any] = {}
    for _ in range(2_000):
        deep = {"a": deep}
    with pytest.raises(TooDeep, match="nested too deeply to be stored"):
        encode({"metadata": {}, where: deep}, HEAD)


# ---- and back


def test_a_client_gets_the_stored_bytes_with_the_revision_in_them() -> None:
    found = of(metadata={"name": "a", "uid": "u"}, data={"k": "v"})
    assert found.json == BARE + b'{"resourceVersion":"42","name":"a","uid":"u"},"data":{"k":"v"}}'
    assert found.head + found.tail == found.json
    assert found.resource_version == "42"
    assert found.key == "/registry/configmaps/ns/a"


def test_metadata_may_be_empty() -> None:
    assert of(metadata={}).json == BARE + b'{"resourceVersion":"42"}}'


def test_a_deleted_object_is_shown_at_its_deletions_revision() -> None:
    found = of(metadata={"name": "a"}, data={"resourceVersion": "1"})
    assert orjson.loads(found.head + found.at_revision(12345)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"resourceVersion": "12345", "name": "a"},
        "data": {"resourceVersion": "1"},
    }
    assert found.resource_version == "42"


def test_a_document_is_made_anew_for_each_who_asks() -> None:
    found = of(metadata={"name": "a"})
    found.document()["metadata"]["name"] = "b"
    assert found.document()["metadata"] == {"name": "a", "resourceVersion": "42"}


def test_objects_that_one_decoder_decodes_share_the_head_of_their_type() -> None:
    decode = StoredVersionDecoder(OwnWrites())
    a, b = (decode(Stored(name, of(metadata={"name": name}).json, 1, 1)) for name in "ab")
    assert a.head == b.head
    assert a.head is b.head


def test_a_copy_for_another_server_shares_the_bytes() -> None:
    found = of(metadata={"name": "a"})
    copied = found.copy()
    assert copied is not found
    assert copied.tail is found.tail
    assert copied.json == found.json


LABELS: Final[dict[str, tuple[dict[str, Any], dict[str, str]]]] = {
    "none": ({"metadata": {"name": "a"}}, {}),
    "some": ({"metadata": {"labels": {"a": "1", "b": ""}}}, {"a": "1", "b": ""}),
    "no labels": ({"metadata": {"labels": {}}}, {}),
    "null": ({"metadata": {"labels": None}}, {}),
    "of a template, which are not the object's": (
        {"metadata": {"name": "a"}, "spec": {"template": {"metadata": {"labels": {"a": "1"}}}}},
        {},
    ),
    "in a text that looks like them": ({"metadata": {"name": "a"}, "data": {"k": '"labels":{'}}, {}),
}


@pytest.mark.parametrize(("document", "labels"), LABELS.values(), ids=LABELS)
def test_labels(document: dict[str, Any], labels: dict[str, str]) -> None:
    assert of(**document).labels() == labels


AGO: Final = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
MANY: Final = {f"k{number}": "v" for number in range(HUGE_BYTES // 10)}
TERMINATING: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "one that is not": ({"metadata": {"name": "a"}}, False),
    "one that is": ({"metadata": {"name": "a", **AGO}}, True),
    "one that has such a field elsewhere": ({"metadata": {"name": "a"}, "spec": AGO}, False),
    "a label of that name": ({"metadata": {"labels": AGO}}, False),
    "one with a large spec": ({"metadata": AGO, "spec": MANY}, True),
    "one with such a field in a large spec": ({"metadata": {"name": "a"}, "spec": {**MANY, **AGO}}, False),
    "one with large metadata": ({"metadata": {"labels": MANY, **AGO}}, True),
    "a label of that name in large metadata": ({"metadata": {"labels": {**MANY, **AGO}}}, False),
}


@pytest.mark.parametrize(("document", "is_terminating"), TERMINATING.values(), ids=TERMINATING)
def test_whether_a_deletion_has_begun(document: dict[str, Any], is_terminating: bool) -> None:
    assert of(**document).is_terminating() is is_terminating


class TypeGetter:
    """Reads the type, and keeps the documents that it is asked about."""

    parts = ("type",)

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def __call__(self, document: dict[str, Any]) -> str:
        self.asked.append(document)
        return str(document["type"])


def test_fields_are_worked_out_once() -> None:
    found = of(metadata={"name": "a"}, type="Opaque")
    get = TypeGetter()
    assert found.fields({"type": get}) == {"type": "Opaque"}
    assert found.fields({"type": get}) == {"type": "Opaque"}
    assert len(get.asked) == 1


# ---- large objects

FILLER: Final[dict[str, Any]] = {f"k{n}": {} for n in range(LARGE_BYTES // 4)}
LARGE: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "large elsewhere": ({"labels": {"a": "b"}}, {"spec": FILLER, "type": "x"}),
    "before the labels": ({"annotations": FILLER, "labels": {"a": "b"}}, {"type": "x"}),
    "behind the labels": ({"labels": {"a": "b"}, "managedFields": [FILLER]}, {"type": "x"}),
    "no labels": ({"name": "a"}, {"type": "x", "spec": {"labels": {"a": "b"}, "type": FILLER}}),
    "labels and types elsewhere first": (
        {"a": [{"labels": {"c": "d"}, "type": "y"}, FILLER], "labels": {"a": "b"}},
        {"spec": {"type": "y", "metadata": {"labels": {}}}, "type": "x"},
    ),
    "many that look like them": (
        {"a": [{"labels": {"c": "d"}}] * 9, "b": FILLER, "labels": {"a": "b"}},
        {"spec": [{"type": "y"}] * 9, "type": "x"},
    ),
    "text that looks like them": (
        {"a": '"labels":{"c":"d"}', "b": FILLER, "labels": {"a": '"é'}},
        {"spec": ',"type":"y"', "type": "x"},
    ),
    "text of all planes": (
        {"a": "é€😀", "b": FILLER, "labels": {"é€😀": "b"}},
        {"a": "é€😀", "type": "é€😀"},
    ),
    "labels of other types": ({"labels": {"a": 1, "b": "c", "d": {}, "e": None}}, {"a": FILLER, "type": 5}),
    "labels that are none": ({"labels": ["a"]}, {"a": FILLER, "type": None}),
}


@pytest.mark.parametrize(("metadata", "rest"), LARGE.values(), ids=LARGE)
def test_of_large_objects_only_parts_are_decoded(metadata: dict[str, Any], rest: dict[str, Any]) -> None:
    found = of(metadata=metadata, **rest)
    assert orjson.loads(found.metadata()) == {"resourceVersion": "42", **metadata}
    labels = metadata.get("labels")
    expected = labels if isinstance(labels, dict) else {}
    assert found.labels() == {key: value for key, value in expected.items() if isinstance(value, str)}
    assert found.fields(field_texts("type", "metadata.a")) == {
        "type": "" if rest["type"] is None else str(rest["type"]),
        "metadata.a": str(metadata.get("a", "")),
    }


# How much there is of a two-byte character in the metadata, and after it.
LOOKS: Final = {
    "all of it ends early": (10, 10),
    "only the metadata end early": (10, FIRST_LOOK_BYTES),
    "the metadata end late": (FIRST_LOOK_BYTES, FIRST_LOOK_BYTES),
    "a character lies where the first look ends": (FIRST_LOOK_BYTES // 2 + 1, 10),
}


@pytest.mark.parametrize(("before", "after"), LOOKS.values(), ids=LOOKS)
def test_the_metadata_are_found_wherever_they_end(before: int, after: int) -> None:
    metadata = {"name": "a", "annotations": {"k": "é" * before, '"': "\\"}}
    found = of(metadata=metadata, data={"k": "é" * after})
    assert orjson.loads(found.metadata()) == {"resourceVersion": "42", **metadata}
    assert found.tail[found.metadata_end :].startswith(b',"data":')


def test_many_labels_are_decoded_again_when_those_of_other_objects_were_asked_for() -> None:
    labels = {f"k{n}": "v" for n in range(MANY_LABELS_KEPT_MAX // 10)}
    objects = [of(metadata={"name": str(n), "labels": labels}) for n in range(12)]
    decoded = [each.labels() for each in objects]
    assert all(each == labels for each in decoded)
    assert objects[-1].labels() is decoded[-1]
    assert objects[0].labels() is not decoded[0]
    assert objects[0].labels() == labels


class _Overtaken(StoredObject):
    """Its labels are decoded in one thread while others decode those of more objects than are kept."""

    __slots__ = ("others",)

    others: Sequence[StoredObject]

    def _decoded_labels(self) -> Mapping[str, str]:
        labels = super()._decoded_labels()
        for each in self.others:
            each.labels()
        return labels


def test_labels_that_are_kept_are_counted_whatever_other_threads_do() -> None:
    """Otherwise they were kept for as long as their object, which may be for ever."""
    labels = {f"k{n}": "v" for n in range(MANY_LABELS_KEPT_MAX // 2)}
    first, *others = (of(metadata={"name": str(n), "labels": labels}) for n in range(6))
    overtaken = _Overtaken(first.key, first.head, first.tail)
    overtaken.others = others[:3]
    assert overtaken.labels() == labels
    for each in others[3:]:
        each.labels()
    assert overtaken.known_labels is None


@pytest.mark.parametrize(
    "value",
    [BARE + b'{"name":"a"},"spec":%b', BARE + b'{"name":"a"},"spec":%b}}', BARE + b'{"a":"\xff"},"spec":%b}'],
    ids=["cut off", "something behind", "bytes that are no UTF-8"],
)
def test_large_values_that_are_damaged(value: bytes) -> None:
    assert isinstance(stored(value % orjson.dumps(FILLER)), DamagedObject)


# ---- damage

DAMAGED: Final = {
    "nothing": b"",
    "noise": b"\x00\xff\x13",
    "another format": b"k8s\x00\x0a\x00",
    "metadata that is no object": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}',
    "no metadata": b'{"apiVersion":"v1","kind":"ConfigMap","data":{}}',
    "cut off": BARE + b'{"name":"a"',
    "cut before the metadata": BARE,
    "something behind": BARE + b'{"name":"a"}}}',
    "bytes that are no UTF-8": BARE + b'{"name":"\xff"}}',
    "a list": b'["metadata":{}]',
    "an object in a list": b'[{"metadata":{}}]',
    "only a part that has metadata": b'{"spec":{"metadata":{}}}',
    "a part's metadata first": b'{"spec":{"metadata":{}},"metadata":{"name":"a"}}',
    "another order, nested too deeply": (
        b'{"apiVersion":"v1","data":%b%b,"kind":"ConfigMap","metadata":{"name":"a"}}'
        % (b"[" * 900, b"]" * 900)
    ),
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED)
def test_damaged_values_are_never_sent(value: bytes) -> None:
    """Row G15: whoever reads one is told which it is, and at which revision."""
    found = stored(value)
    assert not found.head
    for read in (found.require_sound, found.document, found.metadata, found.labels, lambda: found.json):
        with pytest.raises(CorruptObject) as caught:
            read()
        assert (caught.value.code, caught.value.reason) == (500, "StorageReadError")
        assert caught.value.key == "/registry/configmaps/ns/a"
        assert caught.value.text.startswith(
            "StorageError: corrupt object, Code: 7, Key: /registry/configmaps/ns/a, ResourceVersion: 0, "
            "AdditionalErrorMsg: object not decodable revision=42: "
        )


# The same object as other programs write it.
OTHER_FORMS: Final = {
    "sorted fields, as kube-apiserver has them": (
        b'{"apiVersion":"v1","data":{"k":{}},"kind":"ConfigMap","metadata":{"name":"a"}}\n'
    ),
    "metadata first": b'{"metadata":{"name":"a"},"data":{"k":{}},"kind":"ConfigMap","apiVersion":"v1"}',
    "spaces": b'{ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": {}} }',
    "a line break at the end, as kube-apiserver has it": (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":{}}}\n'
    ),
    "a resourceVersion": (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"3"},"data":{"k":{}}}'
    ),
    "spaces in the metadata": (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name": "a"},"data":{"k":{}}}'
    ),
    "a space before the metadata's first field": (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{ "name":"a"},"data":{"k":{}}}'
    ),
    "lines": (b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},\n"data":{"k":{}}}'),
    "a part's metadata first": (
        b'{"apiVersion":"v1","data":{"k":{}},"kind":"ConfigMap","metadata":{"name":"a"},"x":{"metadata":{}}}'
    ),
}


@pytest.mark.parametrize("is_huge", [False, True])
@pytest.mark.parametrize("value", OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_values_that_other_programs_have_written_are_read(value: bytes, is_huge: bool) -> None:
    data = {"k": {}, **({"filler": "x" * HUGE_BYTES} if is_huge else {})}
    value = re.sub(rb'\{"k": ?\{\}\}', orjson.dumps(data), value)
    found = stored(value)
    document = found.document()
    assert list(document)[:3] == ["apiVersion", "kind", "metadata"]
    assert document["data"] == data
    assert document["metadata"] == {"name": "a", "resourceVersion": "42"}
    assert orjson.loads(found.json) == document
    assert b"\n" not in found.json, "an event of a watch is one line"


@pytest.mark.parametrize("labels", [b'{"a":"b"}', b'{ "a" : "b" }'], ids=["compact", "with spaces"])
def test_labels_that_other_programs_have_written_are_found(labels: bytes) -> None:
    value = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels": %b}}' % labels
    assert stored(value).labels() == {"a": "b"}


@pytest.mark.parametrize("is_huge", [False, True])
@pytest.mark.parametrize("depth", [1, 300])
def test_what_is_looked_for_in_the_text_of_metadata_is_found(depth: int, is_huge: bool) -> None:
    """Else the garbage collector, and clients without managedFields, would overlook it."""
    filler = b"x" * (HUGE_BYTES if is_huge else 1)
    owners = b'[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"1"}]'
    fields = b'[{"fieldsV1":%b}]' % (b'{"f:a":' * depth + b"{}" + b"}" * depth)
    for space in (b"", b" "):
        metadata = b'{"name":"a","ownerReferences":%b%b,"managedFields":%b%b}' % (
            space,
            owners,
            space,
            fields,
        )
        value = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":%b,"data":{"k":"%b"}}' % (metadata, filler)
        found = stored(value)
        if space and depth > 254:
            assert isinstance(found, DamagedObject)
            continue
        assert may_have_owners(found)
        assert b"managedFields" not in without_managed_fields(found).tail


@pytest.mark.parametrize("is_huge", [False, True])
@pytest.mark.parametrize("levels", [250, 254, 300, 900, 2_000])
def test_metadata_of_any_depth_is_read_or_damaged(levels: int, is_huge: bool) -> None:
    """orjson decodes more levels than it encodes; an error would end the watch cache, and so the server."""
    deep = b'{"f:a":' * levels + b"{}" + b"}" * levels
    for first in (b"", b'"resourceVersion":"3",'):
        metadata = b'{%b"name":"a","managedFields":[{"fieldsV1":%b}]}' % (first, deep)
        filler = b"x" * (HUGE_BYTES if is_huge else 1)
        value = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":%b,"data":{"k":"%b"}}' % (metadata, filler)
        found = stored(value)
        is_read = levels < 254 or (levels < 1_000 and not first)
        assert isinstance(found, DamagedObject) != is_read
        if is_read:
            assert found.metadata().count(b'"resourceVersion"') == 1
            assert b'"resourceVersion":"42"' in found.metadata()


@given(cut=st.integers(0, 10**6))
def test_a_value_that_is_cut_off_anywhere_is_damaged(cut: int) -> None:
    value = encode({"metadata": {"name": "a", "labels": {"a": "}"}}, "data": {"k": "{}"}}, HEAD)
    assert isinstance(stored(value[: cut % len(value)]), DamagedObject)
    assert not isinstance(stored(value), DamagedObject)


def test_damaged_values_are_logged_with_their_keys(caplog: pytest.LogCaptureFixture) -> None:
    StoredVersionDecoder(OwnWrites())(Stored("/registry/configmaps/ns/a", b"{", 1, 7))
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith("the value of /registry/configmaps/ns/a at revision 7 is damaged: ")


# What is stored, and whether it counts as what cannot be decoded.
UNREADABLE: Final = {
    "cut off": (b"{", True),
    "no object": (b"[]", True),
    "empty": (b"", True),
    "an object": (HEAD + b'{"name":"a"}}', False),
    "encrypted, as an unknown key cannot decrypt it": (b"k8s:enc:aesgcm:v1:lost:", False),
}


@pytest.mark.parametrize(("value", "counts"), UNREADABLE.values(), ids=UNREADABLE)
def test_which_values_count_as_undecodable(value: bytes, counts: bool) -> None:
    """Source: k8s.io/apiserver, pkg/storage/etcd3/store.go: not what could not be transformed."""
    keys: list[str] = []
    decode = StoredVersionDecoder(OwnWrites(), count_error=keys.append)
    for _ in range(2):
        decode(Stored("/registry/core/configmaps/ns/a", value, 1, 7))
    assert keys == ["/registry/core/configmaps/ns/a"] * 2 * counts


# ---- any document

_TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ['"metadata":', '"resourceVersion":"1"', '"', "\\", '"labels":{']
)
_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(
    metadata=st.dictionaries(_TEXT, _VALUES, max_size=4),
    rest=st.dictionaries(_TEXT.filter(lambda key: key != "metadata"), _VALUES, max_size=4),
    revision=st.integers(1, 2**63 - 1),
)
def test_what_is_stored_comes_back(metadata: dict[str, Any], rest: dict[str, Any], revision: int) -> None:
    found = of(revision, **rest, metadata=metadata)
    expected = {**rest, "apiVersion": "v1", "kind": "ConfigMap"}
    expected["metadata"] = {**metadata, "resourceVersion": str(revision)}
    assert found.document() == expected
    assert found.resource_version == str(revision)
    assert orjson.loads(found.head + found.at_revision(9))["metadata"]["resourceVersion"] == "9"


def test_many_damaged_values_are_not_all_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A key that is lost damages any number at once."""
    decode = StoredVersionDecoder(OwnWrites())
    for number in range(2 * DAMAGED_LOGGED_MAX + 1):
        decode(Stored(f"/registry/core/secrets/ns/{number}", b"k8s:enc:aesgcm:v1:lost:", 1, 1))
    assert len(caplog.records) == DAMAGED_LOGGED_MAX + 1
    assert caplog.records[-1].getMessage().endswith(f"({2 * DAMAGED_LOGGED_MAX} so far)")
    assert "identity transformer tried to read encrypted data" in caplog.records[0].getMessage()
