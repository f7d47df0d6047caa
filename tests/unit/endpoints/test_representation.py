"""Objects, lists and watch events as bytes, in each form (rows C01-C09, D02, D03, D07-D16, D22, K39, M05)."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final
from weakref import ref

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apiserver.endpoints.negotiation import ResponseForm
from apiserver.endpoints.representation import (
    BATCH_OBJECTS,
    SLICE_BYTES,
    Encoder,
    FormCaches,
    MetaV1Encoders,
    Slice,
    StatusEncoder,
    WorkAhead,
    encoder_for,
)
from apiserver.endpoints.representation.form_cache import ENTRY_OVERHEAD_BYTES
from apiserver.endpoints.representation.list_segments import cached_segments, segments
from apiserver.endpoints.representation.protobuf import BUFFERED_BYTES_MAX
from apiserver.endpoints.representation.table_cells import age_changes_at, encode_cells
from apiserver.load.size_class import SizeClass
from apiserver.meta.brand import Brand
from apiserver.meta.errors import BadRequest, NotAcceptable, NotFound
from apiserver.meta.table import AGE, Column, columns, duration
from apiserver.meta.vocabulary import Document, GroupResource, GroupVersion
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, encode
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.structural import Schema
from apiserver.storage.interface import Stored
from apiserver.wire import cbor, yaml
from apiserver.wire.media_types import CBOR, JSON, YAML
from apiserver.wire.protobuf import MessageDecoder, open_envelope
from tests.support.body_slices import sent, sent_slices
from tests.support.garbage import no_collections

BRAND: Final = Brand("example.com", "acme")
META: Final = "meta.example.com/v1"
CREATED: Final = "2023-11-14T22:08:20Z"
NOW: Final = 1_700_000_000.0


def no_schema() -> Schema:
    raise AssertionError("an answer needs no schema")


WIDGETS: Final = ServedResource(
    GroupVersion("shop.example.com", "v1"),
    "widgets",
    "Widget",
    is_namespaced=True,
    schema=no_schema,
    columns=columns(AGE),
)
TYPE: Final = {"apiVersion": "shop.example.com/v1", "kind": "Widget"}
LIST_KINDS: Final = {
    "": "WidgetList",
    "Table": "Table",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}


def stored(name: str, revision: int = 7, **fields: Any) -> StoredObject:
    document = {**TYPE, "metadata": {"name": name, "creationTimestamp": CREATED}, **fields}
    key = f"/registry/shop.example.com/widgets/ns/{name}"
    return StoredObject.of(Stored(key, encode(document, WIDGETS.head), revision, revision))


def meta_of(name: str, revision: int = 7) -> dict[str, Any]:
    return {"resourceVersion": str(revision), "name": name, "creationTimestamp": CREATED}


def partial_of(name: str, revision: int = 7) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": meta_of(name, revision)}


SCHEMAS: Final = BuiltinSchemas((1, 34))
MESSAGES: Final = MetaV1Encoders(SCHEMAS.get)
PROTOBUF: Final = BRAND.protobuf_media_type


def encoder(
    kind: str = "",
    include_object: str = "",
    *,
    resource: ServedResource = WIDGETS,
    media_type: str = JSON,
    version: str = "v1",
    drops_managed_fields: bool = False,
    now: float = NOW,
    caches: FormCaches | None = None,
    brand: Brand = BRAND,
    is_indented: bool = False,
) -> Encoder:
    return encoder_for(
        resource,
        ResponseForm(media_type, kind, version, drops_managed_fields, is_indented, include_object),
        brand,
        now=lambda: now,
        caches=caches or FormCaches(),
        meta=MESSAGES,
    )


def listed(kind: str, found: ObjectList, include_object: str = "") -> Any:
    return json.loads(sent(encoder(kind, include_object).list(found)))


A: Final = stored("a", spec={"size": 1})


# ---- single objects


def test_a_full_object() -> None:
    assert json.loads(encoder().object(A)) == {**TYPE, "metadata": meta_of("a"), "spec": {"size": 1}}
    assert encoder().object(A).endswith(b"}\n")


def test_an_objects_metadata() -> None:
    """Row D12: nothing but metadata."""
    assert json.loads(encoder("PartialObjectMetadata").object(A)) == partial_of("a")


INCLUDED: Final[dict[str, Any]] = {
    "": partial_of("a"),
    "Metadata": partial_of("a"),
    "None": None,
    "Object": {**TYPE, "metadata": meta_of("a"), "spec": {"size": 1}},
}


@pytest.mark.parametrize(("include_object", "included"), INCLUDED.items(), ids=map(repr, INCLUDED))
def test_an_object_as_a_table_of_one_row(include_object: str, included: Any) -> None:
    """Rows D07, D09, D11."""
    table = json.loads(encoder("Table", include_object).object(A))
    assert table == {
        "kind": "Table",
        "apiVersion": META,
        "metadata": {"resourceVersion": "7"},
        "columnDefinitions": WIDGETS.columns.definitions,
        "rows": [{"cells": ["a", "5m"], "object": included}],
    }


@pytest.mark.parametrize("include_object", ["none", "Everything", "Object "])
def test_an_invalid_include_object_is_rejected(include_object: str) -> None:
    """Row D09. It is heeded for tables alone."""
    with pytest.raises(BadRequest, match="includeObject"):
        encoder("Table", include_object)
    assert json.loads(encoder("PartialObjectMetadata", include_object).object(A)) == partial_of("a")


def test_the_table_of_a_dry_run_has_no_version() -> None:
    """A dry run (row L08)."""
    dry = StoredObject("", WIDGETS.head, b'{"name":"a"}}')
    assert json.loads(encoder("Table").object(dry))["metadata"] == {}


def test_list_kinds_and_object_kinds_are_not_interchangeable() -> None:
    """Row D16."""
    with pytest.raises(NotAcceptable, match=r"requested PartialObjectMetadataList, but .* is not a list"):
        encoder("PartialObjectMetadataList").object(A)
    with pytest.raises(
        NotAcceptable,
        match=r"you requested PartialObjectMetadata, but the requested object is a list \(Widget",
    ):
        list(encoder("PartialObjectMetadata").list(ObjectList([A], 9)))


# ---- lists


@pytest.mark.parametrize(("form", "kind"), LIST_KINDS.items(), ids=LIST_KINDS.values())
def test_an_empty_list_has_items_and_a_version(form: str, kind: str) -> None:
    """Rows C01-C04: an array, never null."""
    found = listed(form, ObjectList([], 9))
    assert (found["kind"], found["metadata"]) == (kind, {"resourceVersion": "9"})
    assert found["apiVersion"] == (META if form else "shop.example.com/v1")
    assert found["rows" if form == "Table" else "items"] == []


LIST_META: Final[dict[str, tuple[ObjectList, dict[str, Any]]]] = {
    "C04 the last chunk": (ObjectList([A], 9), {"resourceVersion": "9"}),
    "C05 more remain": (
        ObjectList([A], 9, continue_token="t", remaining=3),
        {"resourceVersion": "9", "continue": "t", "remainingItemCount": 3},
    ),
    "C06 nobody knows how many": (
        ObjectList([A], 9, continue_token="t"),
        {"resourceVersion": "9", "continue": "t"},
    ),
}


@pytest.mark.parametrize("form", LIST_KINDS)
@pytest.mark.parametrize(("found", "metadata"), LIST_META.values(), ids=LIST_META)
def test_the_metadata_of_a_list(form: str, found: ObjectList, metadata: dict[str, Any]) -> None:
    assert listed(form, found)["metadata"] == metadata


def test_items_keep_their_own_version_and_leave_out_their_kind() -> None:
    """Rows C08, C09."""
    found = listed("", ObjectList([A, stored("b", 8)], 9))
    assert found["items"] == [{"metadata": meta_of("a"), "spec": {"size": 1}}, {"metadata": meta_of("b", 8)}]


def test_items_of_a_list_of_metadata_say_their_kind() -> None:
    """Row D13."""
    found = listed("PartialObjectMetadataList", ObjectList([A, stored("b", 8)], 9))
    assert found["items"] == [partial_of("a"), partial_of("b", 8)]


def test_a_table_has_a_row_for_each_object() -> None:
    """Row D11."""
    found = listed("Table", ObjectList([A, stored("b", 8)], 9), "None")
    assert found["columnDefinitions"] == WIDGETS.columns.definitions
    assert found["rows"] == [{"cells": [name, "5m"], "object": None} for name in ("a", "b")]


@given(
    st.lists(st.sampled_from([0, 10, 5_000, SLICE_BYTES // 2, SLICE_BYTES * 3]), max_size=2 * BATCH_OBJECTS)
)
@settings(max_examples=25, deadline=None)
def test_slices_join_to_the_complete_list(sizes: list[int]) -> None:
    objects = [stored(f"n{number}", data="x" * size) for number, size in enumerate(sizes)]
    for form in LIST_KINDS:
        found = listed(form, ObjectList(objects, 9))
        if form == "Table":
            assert [row["cells"][0] for row in found["rows"]] == [f"n{n}" for n in range(len(sizes))]
        else:
            assert [item["metadata"]["name"] for item in found["items"]] == [
                f"n{n}" for n in range(len(sizes))
            ]
        if form == "":
            assert [len(item["data"]) for item in found["items"]] == sizes


@pytest.mark.parametrize("form", LIST_KINDS)
def test_a_slice_is_bounded(form: str) -> None:
    """Row D25: nobody holds a large list twice."""
    objects = [stored(f"n{number}", data="x" * 4_000) for number in range(1_000)]
    slices = sent_slices(encoder(form, "Object").list(ObjectList(objects, 9)))
    assert len(slices) > 1
    assert max(map(len, slices)) < 3 * SLICE_BYTES


# ---- watch events


def event(kind: str, *, form: str = "", is_first: bool = False, tail: bytes | None = None) -> Any:
    line = encoder(form).event(kind, A, A.tail if tail is None else tail, is_first=is_first)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1, "one document is one line (row D21)"
    return json.loads(line)


def test_an_event_holds_the_object() -> None:
    """Rows M01, M02."""
    whole = {**TYPE, "metadata": meta_of("a"), "spec": {"size": 1}}
    assert event("ADDED") == {"type": "ADDED", "object": whole}


def test_a_deleted_object_is_shown_at_its_deletions_version() -> None:
    """Row M03."""
    found = event("DELETED", tail=A.at_revision(12))["object"]
    assert (found["metadata"], found["spec"]) == (meta_of("a", 12), {"size": 1})


def test_an_event_in_a_form_holds_that_form() -> None:
    """Rows D11, D15."""
    assert event("MODIFIED", form="PartialObjectMetadata") == {"type": "MODIFIED", "object": partial_of("a")}
    table = event("DELETED", form="Table", tail=A.at_revision(12))["object"]
    assert table["metadata"] == {"resourceVersion": "12"}
    assert table["rows"] == [{"cells": ["a", "5m"], "object": partial_of("a", 12)}]


def test_only_the_first_table_of_a_watch_has_headers() -> None:
    """Row D11."""
    first = event("ADDED", form="Table", is_first=True)["object"]
    later = event("ADDED", form="Table")["object"]
    assert first["columnDefinitions"] == WIDGETS.columns.definitions
    assert later["columnDefinitions"] is None


BOOKMARKED: Final = {"": TYPE, "PartialObjectMetadata": {"kind": "PartialObjectMetadata", "apiVersion": META}}


@pytest.mark.parametrize("form", [*BOOKMARKED, "Table"])
@pytest.mark.parametrize("ends", [True, False])
def test_a_bookmark_carries_a_version_and_nothing_else(form: str, ends: bool) -> None:
    """Rows M05, K39: but the end of the initial events is marked, in words of the brand."""
    found = json.loads(encoder(form).bookmark(9, ends_initial_events=ends))
    assert found["type"] == "BOOKMARK"
    bookmark = found["object"]
    if form == "Table":
        assert bookmark["metadata"] == {"resourceVersion": "9"}
        (row,) = bookmark["rows"]
        assert row["cells"] == [None, None]
        bookmark = row["object"]
    annotations = {"annotations": {"example.com/initial-events-end": "true"}} if ends else {}
    assert bookmark == {**BOOKMARKED.get(form, TYPE), "metadata": {"resourceVersion": "9"} | annotations}


def test_forms_of_equal_keys_make_equal_bytes() -> None:
    """So that one encoding can be sent to many watchers."""
    keys = [
        encoder(form, include).key for form in ("", "Table") for include in ("None", "Metadata", "Object")
    ]
    assert len(set(map(repr, keys))) == 4, "what rows carry tells tables apart, and nothing else"
    assert encoder("Table").key == encoder("Table", "Metadata").key
    one, other = encoder("Table"), encoder("Table", "Metadata")
    assert one.event("ADDED", A, A.tail, is_first=False) == other.event("ADDED", A, A.tail, is_first=False)


def test_v1beta1_kinds() -> None:
    """kubectl still asks for it."""
    assert (
        json.loads(encoder("Table", version="v1beta1").object(A))["apiVersion"] == "meta.example.com/v1beta1"
    )
    partial = json.loads(encoder("PartialObjectMetadata", version="v1beta1").object(A))
    assert partial["apiVersion"] == "meta.example.com/v1beta1"


# ---- YAML and CBOR: what the JSON form says, written another way


def read(media_type: str, body: bytes) -> Any:
    return yaml.load(body)[0] if media_type == YAML else cbor.load(body)


WRITTEN_FORMS: Final = ["", "Table", "PartialObjectMetadata"]


@pytest.mark.parametrize("media_type", [YAML, CBOR])
@pytest.mark.parametrize("form", WRITTEN_FORMS)
def test_yaml_and_cbor_equal_json(form: str, media_type: str) -> None:
    """Rows D02, D14, D22."""
    one, other = encoder(form), encoder(form, media_type=media_type)
    assert read(media_type, other.object(A)) == json.loads(one.object(A))
    listed_as = "PartialObjectMetadataList" if form == "PartialObjectMetadata" else form
    one, other = encoder(listed_as), encoder(listed_as, media_type=media_type)
    for found in (
        ObjectList([], 9),
        ObjectList([A, stored("b", 8)], 9, continue_token="t", remaining=3),
        ObjectList([stored(f"n{n}", data="x" * 3_000) for n in range(120)], 9),
    ):
        body = sent(other.list(found))
        assert read(media_type, body) == json.loads(sent(one.list(found)))


@pytest.mark.parametrize("form", WRITTEN_FORMS)
def test_indented_json_is_the_whole_answer_indented(form: str) -> None:
    """Also where strings contain what looks like structure."""
    strange = stored("c", data='a\nb", {\n  "x": [1,\u2028 2]}', items=[], rows={})
    one, other = encoder(form), encoder(form, is_indented=True)
    assert other.object(strange) == indented(one.object(strange))
    listed_as = "PartialObjectMetadataList" if form == "PartialObjectMetadata" else form
    for include in ("Object", "None") if form == "Table" else ("",):
        one, other = encoder(listed_as, include), encoder(listed_as, include, is_indented=True)
        for found in (
            ObjectList([], 9),
            ObjectList([A], 9),
            ObjectList([A, strange, stored("b", 8)], 9, continue_token="t", remaining=3),
            ObjectList([stored(f"n{n}", data="x" * 3_000) for n in range(120)], 9),
        ):
            assert sent(other.list(found)) == indented(sent(one.list(found)))


def indented(body: bytes) -> bytes:
    return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)


LARGE: Final = stored("large", data="x" * 20_000)
HUGE: Final = stored("huge", data="x" * 200_000)
# Each form with whether an object is parsed to be put into it.
FORMS: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "JSON": ({}, False),
    "indented JSON": ({"is_indented": True}, True),
    "JSON without managedFields": ({"drops_managed_fields": True}, True),
    "metadata": ({"kind": "PartialObjectMetadataList"}, True),
    "table": ({"kind": "Table"}, True),
    "YAML": ({"media_type": YAML}, True),
    "CBOR": ({"media_type": CBOR}, True),
    "protobuf": ({"kind": "PartialObjectMetadataList", "media_type": PROTOBUF}, True),
}


@pytest.mark.parametrize(("form", "is_parsed"), FORMS.values(), ids=FORMS)
def test_a_list_announces_the_work_with_large_objects(form: dict[str, Any], is_parsed: bool) -> None:
    """So that it is done in a thread, and only what is large is done there."""
    one = encoder(**form)
    works = [one.work(each) for each in (A, LARGE, HUGE)]
    assert works == (
        [SizeClass.SMALL, SizeClass.LARGE, SizeClass.HUGE] if is_parsed else [SizeClass.SMALL] * 3
    )
    slices = list(one.list(ObjectList([A, LARGE, A, HUGE, A], 9)))
    announced = [each.size for each in slices if isinstance(each, WorkAhead)]
    # Small ones before and after a large one may be encoded together with it.
    assert announced == [SizeClass.LARGE, SizeClass.HUGE] * is_parsed


def test_events_in_cbor_follow_each_other() -> None:
    """Rows D23, M10: each is a document."""
    one, other = encoder(), encoder(media_type=CBOR)
    assert other.stream_type == "application/cbor-seq"
    assert cbor.load(other.event("ADDED", A, A.tail, is_first=True)) == event("ADDED")
    bookmark = other.bookmark(9, ends_initial_events=True)
    assert cbor.load(bookmark) == json.loads(one.bookmark(9, ends_initial_events=True))


# ---- protobuf

PODS: Final = ServedResource(
    GroupVersion("", "v1"),
    "pods",
    "Pod",
    is_namespaced=True,
    schema=lambda: SCHEMAS.get("io.k8s.api.core.v1.Pod"),
    columns=columns(AGE),
)
POD_FIELDS: Final = {"spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."


def pod(name: str, revision: int = 7, **more: Any) -> StoredObject:
    document = {"metadata": {"name": name, "creationTimestamp": CREATED}, **POD_FIELDS, **more}
    return StoredObject.of(
        Stored(f"/registry/pods/ns/{name}", encode(document, PODS.head), revision, revision)
    )


def message(definition: str, raw: bytes) -> Document:
    return MessageDecoder(SCHEMAS.get(definition))(raw)


def opened(body: bytes) -> tuple[str, str, bytes]:
    return tuple(open_envelope(body))  # type: ignore[return-value]


def test_an_object_in_protobuf() -> None:
    """Rows D03, D04."""
    version, kind, raw = opened(encoder(resource=PODS, media_type=PROTOBUF).object(pod("a")))
    assert (version, kind) == ("v1", "Pod")
    assert message("io.k8s.api.core.v1.Pod", raw) == {"metadata": meta_of("a"), **POD_FIELDS}


@pytest.mark.parametrize("count", [0, 1, 2, 1_500])
def test_a_list_in_protobuf(count: int) -> None:
    """Row D25: its length comes first, and then it is sliced."""
    objects = [pod(f"n{n}", n + 1, status={"message": "x" * 200}) for n in range(count)]
    found = ObjectList(objects, 9_999, continue_token="t", remaining=3)
    slices = sent_slices(encoder(resource=PODS, media_type=PROTOBUF).list(found))
    version, kind, raw = opened(b"".join(slices))
    assert (version, kind) == ("v1", "PodList")
    whole = message("io.k8s.api.core.v1.PodList", raw)
    assert whole["metadata"] == {"resourceVersion": "9999", "continue": "t", "remainingItemCount": 3}
    assert [each["metadata"]["name"] for each in whole.get("items", [])] == [f"n{n}" for n in range(count)]
    assert max(map(len, slices)) < 2 * SLICE_BYTES


def test_a_list_too_long_to_be_buffered() -> None:
    """Row D25: its items are made once for their length, and again for sending."""
    objects = [pod(f"n{n}", n + 1, status={"message": "x" * 1_000_000}) for n in range(18)]
    assert sum(len(each.tail) for each in objects) > BUFFERED_BYTES_MAX
    one = encoder(resource=PODS, media_type=PROTOBUF, caches=FormCaches(objects_bytes_max=0))
    raw = opened(sent(one.list(ObjectList(objects, 99))))[2]
    items = message("io.k8s.api.core.v1.PodList", raw)["items"]
    assert [each["metadata"]["name"] for each in items] == [f"n{n}" for n in range(18)]


def test_metadata_in_protobuf() -> None:
    """Row D14."""
    body = encoder("PartialObjectMetadata", resource=PODS, media_type=PROTOBUF).object(pod("a"))
    version, kind, raw = opened(body)
    assert (version, kind) == (META, "PartialObjectMetadata")
    assert raw[:1] == b"\n", "metadata is field 1"
    assert message("io.k8s.api.core.v1.Pod", raw) == {"metadata": meta_of("a")}
    body = sent(
        encoder("PartialObjectMetadataList", resource=PODS, media_type=PROTOBUF).list(
            ObjectList([pod("a"), pod("b")], 9)
        )
    )
    version, kind, raw = opened(body)
    assert (version, kind) == (META, "PartialObjectMetadataList")
    items = message("io.k8s.api.core.v1.PodList", raw)["items"]
    assert items == [{"metadata": meta_of("a")}, {"metadata": meta_of("b")}]


def frames(stream: bytes) -> list[tuple[str, bytes]]:
    """Type and object of each event: four bytes of length, then WatchEvent."""
    events = []
    while stream:
        length = int.from_bytes(stream[:4], "big")
        event, stream = stream[4 : 4 + length], stream[4 + length :]
        assert event[:1] == b"\n"
        kind, rest = event[2 : 2 + event[1]].decode(), event[2 + event[1] :]
        start = rest.index(b"k8s\x00")
        events.append((kind, rest[start:]))
    return events


def test_events_in_protobuf() -> None:
    found = pod("a")
    one = encoder(resource=PODS, media_type=PROTOBUF)
    assert one.stream_type == f"{PROTOBUF};stream=watch"
    stream = one.event("ADDED", found, found.tail, is_first=True)
    stream += one.event("DELETED", found, found.at_revision(12), is_first=False)
    stream += one.bookmark(13, ends_initial_events=True)
    stream += one.error(NotFound(GroupResource("", "pods"), "zz").status())
    added, deleted, bookmark, error = frames(stream)
    assert added == ("ADDED", one.object(found))
    assert message("io.k8s.api.core.v1.Pod", opened(deleted[1])[2])["metadata"] == meta_of("a", 12)
    version, kind, raw = opened(bookmark[1])
    assert (bookmark[0], version, kind) == ("BOOKMARK", "v1", "Pod")
    assert message("io.k8s.api.core.v1.Pod", raw)["metadata"] == {
        "resourceVersion": "13",
        "annotations": {"example.com/initial-events-end": "true"},
    }
    version, kind, raw = opened(error[1])
    assert (error[0], version, kind) == ("ERROR", "v1", "Status")
    assert message(f"{_META}Status", raw)["reason"] == "NotFound"


def test_what_protobuf_cannot_encode_is_refused() -> None:
    """Nothing is left out behind a client's back, and nothing is sent before that is known."""
    strange = pod("a", future={"x": 1})
    one = encoder(resource=PODS, media_type=PROTOBUF)
    with pytest.raises(NotAcceptable, match=r"field future of v1\.Pod is not known in protobuf"):
        one.object(strange)
    slices: list[Slice] = []
    with pytest.raises(NotAcceptable):
        slices.extend(one.list(ObjectList([*(pod(f"n{n}") for n in range(100)), strange], 9)))
    assert not sent(slices)


# ---- cached forms


@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadataList", ""])
@pytest.mark.parametrize("media_type", [JSON, YAML, CBOR, PROTOBUF])
def test_a_cached_form_equals_a_fresh_one(form: str, media_type: str) -> None:
    if (form, media_type) == ("Table", PROTOBUF):
        return
    found, caches = ObjectList([pod("a"), pod("b", 8)], 9), FormCaches()
    one = encoder(form, resource=PODS, media_type=media_type, caches=caches)
    first = sent(one.list(found))
    assert sent(one.list(found)) == first
    fresh = encoder(form, resource=PODS, media_type=media_type)
    assert sent(fresh.list(ObjectList([pod("a"), pod("b", 8)], 9))) == first


def test_the_oldest_forms_are_evicted_first() -> None:
    objects, caches = (
        [pod(f"n{n}") for n in range(3)],
        FormCaches(objects_bytes_max=2 * (100 + ENTRY_OVERHEAD_BYTES)),
    )
    for each in objects:
        caches.objects.put(each, "form", b"x", 100)
    assert [bool(each.forms) for each in objects] == [False, True, True]
    caches.objects.put(objects[2], "form", b"y", 100)
    assert objects[1].forms == {"form": b"x"}, "the same form anew takes no more room"
    assert objects[2].forms == {"form": b"y"}


def test_cached_forms_are_freed_with_their_object() -> None:
    caches = FormCaches(objects_bytes_max=10 * (100 + ENTRY_OVERHEAD_BYTES))
    for number in range(50):
        caches.objects.put(pod(f"n{number}"), "form", b"x" * 100, 100)
    gc.collect()
    assert caches.objects.bytes <= 10 * (100 + ENTRY_OVERHEAD_BYTES)


def test_ages_in_cached_rows_advance() -> None:
    caches, found = FormCaches(), pod("a")
    ages = []
    for now in (NOW, NOW + 1, NOW + 7 * 60, NOW + 3 * 86400):
        one = encoder("Table", "None", resource=PODS, now=now, caches=caches)
        ages.append(json.loads(one.object(found))["rows"][0]["cells"][1])
    assert ages == ["5m", "5m1s", "12m", "3d"]


# Names and versions of the objects that a list has, in turn; all else about them follows from these.
CHANGES: Final[dict[str, Callable[[list[tuple[int, int]], int], None]]] = {
    "nothing happens": lambda found, at: None,
    "an object changes": lambda found, at: found.__setitem__(at, (found[at][0], found[at][1] + 1)),
    "an object goes": lambda found, at: found.__delitem__(at),
    "a page of them": lambda found, at: found.__delitem__(slice(at + 1, None)),
    "one is made, after all": lambda found, at: found.append((found[-1][0] + 1, 7)),
    "one is made, before all": lambda found, at: found.insert(0, (found[0][0] - 1, 7)),
}
OTHER_BRAND: Final = Brand("example.org", "acme")
KEEPING: Final[list[dict[str, Any]]] = [
    {"kind": "Table", "include_object": "None"},
    {"kind": "Table", "include_object": "Metadata"},
    {"kind": "Table", "include_object": "Metadata", "version": "v1beta1"},
    {"kind": "Table", "include_object": "Metadata", "brand": OTHER_BRAND},
    {"kind": "Table", "include_object": "Metadata", "drops_managed_fields": True},
    {"kind": "Table", "include_object": "Object"},
    {"kind": "Table", "include_object": "None", "media_type": CBOR},
    {"kind": "PartialObjectMetadataList"},
    {"kind": "PartialObjectMetadataList", "drops_managed_fields": True},
    {"kind": "PartialObjectMetadataList", "brand": OTHER_BRAND},
    {"kind": "PartialObjectMetadataList", "media_type": CBOR},
    {"kind": "PartialObjectMetadataList", "brand": OTHER_BRAND, "media_type": CBOR},
    {"kind": "", "media_type": CBOR},
]


def numbered(number: int, revision: int) -> StoredObject:
    managed = [{"manager": "m", "time": str(revision)}]
    document = {
        "metadata": {"name": f"n{number}", "creationTimestamp": CREATED, "managedFields": managed},
        "spec": {"size": revision},
    }
    return StoredObject.of(Stored(f"/registry/n{number}", encode(document, WIDGETS.head), revision, revision))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(CHANGES)),
            st.integers(0, 2 * BATCH_OBJECTS),
            st.sampled_from([-90.0, 0.0, 0.3, 1.0, 61.0, 7 * 3600.0]),
        ),
        max_size=6,
    ),
    st.sampled_from([0, 20_000, 10**7]),
)
@example([("nothing happens", 0, -90.0)], 10**7)  # clocks are set
@example([("an object changes", BATCH_OBJECTS + 1, 0.0)], 10**7)
@settings(max_examples=15, deadline=None)
def test_cached_lists_are_never_out_of_date(steps: list[tuple[str, int, float]], room: int) -> None:
    """Whatever changes between two lists, the time included, they are as if nothing had been cached."""
    caches = FormCaches(room, segments_bytes_max=room)
    now, found = NOW, [(number, 7) for number in range(2 * BATCH_OBJECTS + 10)]
    objects: dict[tuple[int, int], StoredObject] = {}
    for change, at, later in [("nothing happens", 0, 0.0), *steps]:
        CHANGES[change](found, at % len(found))
        found = found or [(0, 7)]
        now += later
        listed = ObjectList([objects.setdefault(each, numbered(*each)) for each in found], 9)
        fresh = ObjectList([numbered(*each) for each in found], 9)
        for options in KEEPING:
            body = sent(encoder(**options, now=now, caches=caches).list(listed))
            assert body == sent(encoder(**options, now=now).list(fresh))
    assert caches.objects.bytes <= room
    assert caches.segments.bytes <= room


def test_rows_are_encoded_once() -> None:
    """Cells of unchanged objects are not computed again, and rows only in the segment that changed."""
    asked: list[str] = []

    def cell(document: Document, now: float) -> str:
        asked.append(document["metadata"]["name"])
        return "x"

    resource = replace(WIDGETS, columns=columns(Column("Asked", cell)))
    objects, caches = [numbered(number, 7) for number in range(3 * BATCH_OBJECTS)], FormCaches()
    for _ in range(2):
        list(encoder("Table", resource=resource, caches=caches).list(ObjectList(objects, 9)))
    assert len(asked) == len(objects)
    objects[BATCH_OBJECTS + 1] = numbered(BATCH_OBJECTS + 1, 8)
    list(encoder("Table", resource=resource, caches=caches).list(ObjectList(objects, 9)))
    assert asked[3 * BATCH_OBJECTS :] == [f"n{BATCH_OBJECTS + 1}"]


def test_a_page_does_not_break_up_cached_segments() -> None:
    paged, fresh = ([numbered(number, 7) for number in range(3 * BATCH_OBJECTS)] for _ in range(2))
    one = encoder("PartialObjectMetadataList")
    for number in range(0, len(paged), 10):
        list(one.list(ObjectList(paged[number : number + 1], 9, continue_token="t")))
    assert list(one.list(ObjectList(paged, 9))) == list(one.list(ObjectList(fresh, 9)))


def test_how_often_segments_of_lists_of_different_lengths_are_encoded() -> None:
    """A segment that a list has ended is for lists as long; one that a longer list needs is not given up."""
    objects, cache = [numbered(number, 7) for number in range(BATCH_OBJECTS)], FormCaches().segments
    encoded: list[int] = []

    def encode(segment: Sequence[StoredObject]) -> tuple[bytes, float]:
        encoded.append(len(segment))
        return b"%d" % len(segment), math.inf

    def is_encoded(length: int) -> bool:
        encoded.clear()
        assert list(cached_segments(objects[:length], encode, cache, "key")) == [b"%d" % length]
        return bool(encoded)

    assert [is_encoded(20), is_encoded(20)] == [True, False]
    assert [is_encoded(30), is_encoded(30)] == [True, False]
    assert [is_encoded(20), is_encoded(30)] == [True, False]
    assert [is_encoded(BATCH_OBJECTS), is_encoded(30), is_encoded(BATCH_OBJECTS)] == [True, True, False]
    objects[1] = numbered(1, 8)
    assert [is_encoded(30), is_encoded(30)] == [True, False]


def test_cached_segments_keep_no_object_alive() -> None:
    """Objects are freed at once: no segment that is stored on them refers back to them."""
    objects = [numbered(number, 7) for number in range(2 * BATCH_OBJECTS)]
    caches, alive = FormCaches(), [ref(each) for each in objects]
    for form in ("Table", "PartialObjectMetadataList"):
        list(encoder(form, caches=caches).list(ObjectList(objects, 9)))
        list(encoder(form, caches=caches).list(ObjectList(objects[5:], 9)))
    assert caches.segments.bytes
    with no_collections():
        objects.clear()
        assert not any(each() for each in alive)


@given(st.lists(st.sampled_from([10, 3_000, SLICE_BYTES // 3, 2 * SLICE_BYTES]), max_size=200))
@settings(max_examples=25, deadline=None)
def test_the_size_of_a_segment_is_bounded(sizes: list[int]) -> None:
    """Row D25: so many objects, or so many bytes, or one object alone."""
    objects = [StoredObject(f"/{n}", WIDGETS.head, b"x" * size) for n, size in enumerate(sizes)]
    found = list(segments(objects))
    assert [each for run in found for each in run] == objects
    for run in found:
        assert len(run) <= BATCH_OBJECTS
        assert len(run) == 1 or sum(len(each.tail) for each in run) <= SLICE_BYTES


COLUMNS: Final = columns(
    Column("Plain", lambda document, now: "x"),
    AGE,
    Column("In words", lambda document, now: f"({duration(now - 1_000.0)} ago)"),
    Column("A number", lambda document, now: 1.5),
)
ROW: Final = {"metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:08:20Z"}}  # at 500 s


@given(st.integers(1_000, 10**9), st.integers(0, 10**6) | st.floats(0, 700))
def test_cells_are_valid_until_they_say(made_at: int, later: float) -> None:
    cells = encode_cells(COLUMNS.columns, ROW, float(made_at))
    now = made_at + later
    if now < cells.until:
        assert json.loads(b"[%b]" % cells.at(now)) == COLUMNS.cells(ROW, now)


def test_cells_without_ages_do_not_expire() -> None:
    assert encode_cells(columns().columns, ROW, NOW).until == math.inf


def test_cells_that_inspect_the_time_are_never_cached() -> None:
    looking = columns(Column("Late", lambda document, now: "late" if now > 2_000 else "early"))
    assert encode_cells(looking.columns, ROW, NOW).until <= NOW


@given(st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_an_age_is_the_same_until_it_changes(seconds: int, fraction: float) -> None:
    then, now = 1_000.0, 1_000.0 + seconds
    until = age_changes_at(then, now)
    assert until > now
    assert duration(now + (until - now) * fraction * 0.999 - then) == duration(now - then)


# ---- without managed fields

MANAGED: Final = [{"manager": "m", "operation": "Update", "fieldsV1": {"f:data": {}}}]


@pytest.mark.parametrize("form", ["", "PartialObjectMetadata", "Table"])
@pytest.mark.parametrize("media_type", [JSON, YAML, CBOR, PROTOBUF])
def test_managed_fields_can_be_left_out(form: str, media_type: str) -> None:
    if (form, media_type) == ("Table", PROTOBUF):
        return
    meta = {"name": "a", "creationTimestamp": CREATED}
    bare = {"metadata": meta, **POD_FIELDS}
    full = {"metadata": {**meta, "managedFields": MANAGED}, **POD_FIELDS}
    one, other = (
        StoredObject.of(Stored("/registry/pods/ns/a", encode(each, PODS.head), 7, 7)) for each in (full, bare)
    )
    options: dict[str, Any] = {"resource": PODS, "media_type": media_type}
    dropping, showing = encoder(form, drops_managed_fields=True, **options), encoder(form, **options)
    assert dropping.key != showing.key
    assert dropping.object(one) == showing.object(other) != showing.object(one)
    assert dropping.object(other) == showing.object(other)
    for tail, its in ((one.tail, other.tail), (one.at_revision(12), other.at_revision(12))):
        assert dropping.event("ADDED", one, tail, is_first=True) == showing.event(
            "ADDED", other, its, is_first=True
        )
    many = "PartialObjectMetadataList" if form == "PartialObjectMetadata" else form
    dropping, showing = encoder(many, drops_managed_fields=True, **options), encoder(many, **options)
    assert sent(dropping.list(ObjectList([one, other], 9))) == sent(
        showing.list(ObjectList([other, other], 9))
    )


# ---- what is told instead of objects

TELLINGS: Final = {
    "": JSON,
    "*/*": JSON,
    "application/yaml": YAML,
    PROTOBUF: PROTOBUF,
    f"{PROTOBUF}, application/json": PROTOBUF,
    "application/cbor": CBOR,
    "text/plain": JSON,
    f"{PROTOBUF};as=Table;g=meta.example.com;v=v1": JSON,
}


@pytest.mark.parametrize(("accept", "media_type"), TELLINGS.items(), ids=map(repr, TELLINGS))
def test_the_media_type_of_a_status(accept: str, media_type: str) -> None:
    """Row P04."""
    status_encoder = StatusEncoder(BRAND, MESSAGES, has_cbor=True)
    status = NotFound(GroupResource("", "pods"), "zz").status()
    assert status_encoder.media_type(accept) == media_type
    if media_type == PROTOBUF:
        version, kind, raw = opened(status_encoder.encode(status, media_type))
        assert (version, kind) == ("v1", "Status")
        found = message(f"{_META}Status", raw)
        assert {"kind": "Status", "apiVersion": "v1", **found} == status
    elif media_type != JSON:
        assert read(media_type, status_encoder.encode(status, media_type)) == status


def test_without_its_feature_gate_there_is_no_cbor() -> None:
    """Row D22."""
    assert StatusEncoder(BRAND, MESSAGES).media_type("application/cbor") == JSON
