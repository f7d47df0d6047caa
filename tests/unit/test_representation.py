"""Objects, lists and watch events as bytes, in each form (rows C01-C09, D07-D16, K39, M05)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.brand import Brand
from apiserver.endpoints.negotiation import JSON, Form
from apiserver.endpoints.representation import BATCH_OBJECTS, SLICE_BYTES, Encoder, encoder_for
from apiserver.errors import BadRequest, NotAcceptable
from apiserver.meta.table import AGE, columns
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, encode
from apiserver.schema.structural import Schema
from apiserver.vocabulary import GroupVersion
from storage.interface import Stored

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


def encoder(kind: str = "", include_object: str = "") -> Encoder:
    return encoder_for(WIDGETS, Form(JSON, kind), BRAND, include_object=include_object, now=lambda: NOW)


def listed(kind: str, found: ObjectList, include_object: str = "") -> Any:
    return json.loads(b"".join(encoder(kind, include_object).list(found)))


A: Final = stored("a", spec={"size": 1})


# ---- single objects


def test_an_object_as_it_is() -> None:
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
def test_rows_carry_nothing_else(include_object: str) -> None:
    """Row D09. It is heeded for tables alone."""
    with pytest.raises(BadRequest, match="includeObject"):
        encoder("Table", include_object)
    assert json.loads(encoder("PartialObjectMetadata", include_object).object(A)) == partial_of("a")


def test_what_was_not_stored_has_a_table_without_a_version() -> None:
    """A dry run (row L08)."""
    dry = StoredObject("", WIDGETS.head, b'{"name":"a"}}')
    assert json.loads(encoder("Table").object(dry))["metadata"] == {}


def test_a_list_is_no_object_and_an_object_no_list() -> None:
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
    assert found["items"] == [
        {"metadata": meta_of("a"), "spec": {"size": 1}},
        {"metadata": meta_of("b", 8)},
    ]


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
def test_a_list_is_whole_however_it_is_sliced(sizes: list[int]) -> None:
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
    slices = list(encoder(form, "Object").list(ObjectList(objects, 9)))
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
