"""Custom resources as they are stored and as they are shown: pruned, defaulted, converted, mostly copied."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.custom_resources.serving.custom_resource_codec import (
    CreationGuards,
    CustomResourceCodec,
    DefinitionVersions,
)
from apiserver.load.offload import Offload
from apiserver.meta.errors import Forbidden, NoSuchEndpoint
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.stored_object import StoredObject, encode, head_of
from apiserver.schema.compile import TypeMismatch
from apiserver.storage.interface import Stored
from apiserver.storage.watch_cache import KeyVersion
from apiserver.tracing.request_trace import CURRENT_TRACE, RequestTrace
from tests.unit.custom_resources.serving.version_schemas import FakeSchema

GROUP: Final = "example.com"
WIDGETS: Final = GroupResource(GROUP, "widgets")
KEY: Final = "/registry/example.com/widgets/default/a"


def _schema(fields: set[str], defaults: dict[str, Any]) -> FakeSchema:
    """Returns what prunes and defaults documents that have these fields in their spec."""

    def prune(document: Document) -> bool:
        spec = document.setdefault("spec", {})
        unknown = spec.keys() - fields
        for name in unknown:
            del spec[name]
        return bool(unknown)

    def complete(document: Document) -> bool:
        is_pruned, spec = prune(document), document["spec"]
        absent = defaults.keys() - spec.keys()
        spec.update({name: defaults[name] for name in absent})
        return is_pruned or bool(absent)

    return FakeSchema(prune, complete, prune)


class _ViewCache:
    """Has room for everything, or for nothing."""

    def __init__(self, *, is_full: bool = False) -> None:
        self.is_full = is_full

    def put(self, obj: StoredObject, key: object, form: Any, size: int) -> None:
        if not self.is_full:
            obj.forms = {**(obj.forms or {}), key: form}


class _Webhook:
    """Turns `spec.a` into `spec.b`. requested: how many objects, each time."""

    def __init__(self) -> None:
        self.requested: list[int] = []

    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
        self.requested.append(len(objects))
        return [
            {**each, "apiVersion": desired, "spec": {"b": each["spec"].get("a", each["spec"].get("b"))}}
            for each in objects
        ]


class _Cache:
    """The definition as it is cached, and as it is stored."""

    def __init__(
        self, cached: KeyVersion[StoredObject] | None, stored: KeyVersion[StoredObject] | None
    ) -> None:
        self._cached, self._stored = cached, stored

    def get_cached(self, key: str) -> KeyVersion[StoredObject] | None:
        return self._cached

    async def get(self, key: str) -> KeyVersion[StoredObject] | None:
        return self._stored


OFFLOAD: Final = Offload()


def _versions(
    *,
    stored: str = "v1",
    converter: _Webhook | None = None,
    view_cache: _ViewCache | None = None,
    v1: Callable[[Document], bool] | None = None,
) -> DefinitionVersions:
    return DefinitionVersions(
        group_resource=WIDGETS,
        kind="Widget",
        schemas={
            "v1": FakeSchema(v1, v1, v1) if v1 else _schema({"a", "both"}, {}),
            "v2": _schema({"b", "both"}, {"b": "late"}),
        },
        storage_version=stored,
        converter=converter,
        view_cache=view_cache or _ViewCache(),
        offload=OFFLOAD,
        guards=_guards(_Cache(None, None)),
    )


def _guards(cache: _Cache) -> CreationGuards:
    return CreationGuards(WIDGETS, "/registry/definition", cache)


def _python_calls(frames: list[str]) -> Callable[[FrameType, str, Any], None]:
    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            frames.append(frame.f_code.co_name)

    return note


async def test_a_converted_object_that_is_not_pruned_is_encoded_once() -> None:
    codec = CustomResourceCodec(_versions(converter=_Webhook()), "v2")
    objects = [_found("v1", a="x") for _ in range(10)]
    names: list[str] = []
    sys.setprofile(_python_calls(names))
    try:
        views = await codec.views(objects, OFFLOAD)
    finally:
        sys.setprofile(None)
    assert [each.document()["spec"] for each in views] == [{"b": "x"}] * 10
    assert names.count("encode") == 10
    assert "size_class_of_document" not in names


def _found(version: str, **spec: Any) -> StoredObject:
    head = head_of(f"{GROUP}/{version}", "Widget")
    document = {"metadata": {"name": "a", "uid": "u"}, "spec": spec}
    return StoredObject.of(Stored(KEY, encode(document, head), 7, 7))


def _cached_view(codec: CustomResourceCodec, found: StoredObject) -> StoredObject:
    view = codec.cached_view(found)
    assert view is not None
    return view


def test_an_object_that_conforms_is_its_own_view() -> None:
    """Reads copy bytes, as those of built-in types do; the object is examined once."""
    examined = 0

    def counting(document: Document) -> bool:
        nonlocal examined
        examined += 1
        return False

    codec = CustomResourceCodec(_versions(v1=counting), "v1")
    found = _found("v1", a="x")
    assert _cached_view(codec, found) is found
    assert _cached_view(codec, found) is found
    assert examined == 1


@pytest.mark.parametrize("is_full", [False, True])
@given(
    spec=st.dictionaries(st.sampled_from(["a", "b", "both", "gone"]), st.text(max_size=3)),
    stored_in=st.sampled_from(["v1", "v2", "v0"]),
    version=st.sampled_from(["v1", "v2"]),
)
def test_a_view_conforms_to_the_schema_of_its_version(
    spec: dict[str, str], stored_in: str, version: str, is_full: bool
) -> None:
    """The schema of the stored version prunes and defaults, the view's own prunes; v0 has been removed."""
    codec = CustomResourceCodec(_versions(view_cache=_ViewCache(is_full=is_full)), version)
    found = _found(stored_in, **spec)
    view = _cached_view(codec, found)
    document = view.document()
    fields = {"v1": {"a", "both"}, "v2": {"b", "both"}}
    kept = set(spec) & fields[version] & fields.get(stored_in, set(spec))
    expected = {name: spec[name] for name in kept}
    if version == stored_in == "v2":
        expected.setdefault("b", "late")
    assert document["spec"] == expected
    assert (document["apiVersion"], document["kind"]) == (f"{GROUP}/{version}", "Widget")
    assert document["metadata"] == {"resourceVersion": "7", "name": "a", "uid": "u"}
    assert _cached_view(codec, view) is view
    assert _cached_view(codec, found).json == view.json
    assert (_cached_view(codec, found) is view) or is_full


async def test_a_webhook_converts_all_objects_at_once_and_each_once() -> None:
    webhook = _Webhook()
    codec = CustomResourceCodec(_versions(converter=webhook), "v2")
    objects = [_found("v1", a="1"), _found("v2", b="2"), _found("v1", a="3")]
    assert codec.cached_view(objects[0]) is None
    views = await codec.views(objects, OFFLOAD)
    assert [each.document()["spec"] for each in views] == [{"b": "1"}, {"b": "2"}, {"b": "3"}]
    assert webhook.requested == [2]
    assert [each.json for each in await codec.views(objects, OFFLOAD)] == [each.json for each in views]
    assert _cached_view(codec, objects[0]) is views[0]
    assert webhook.requested == [2]


async def test_conversions_are_parts_of_a_request() -> None:
    codec = CustomResourceCodec(_versions(converter=_Webhook()), "v2")
    trace = RequestTrace("some-id")
    CURRENT_TRACE.set(trace)
    try:
        await codec.views([_found("v1", a="1")], OFFLOAD)
        document = {"kind": "Widget", "metadata": {"name": "a"}, "spec": {"a": "1"}}
        await codec.encode({"apiVersion": f"{GROUP}/v2", **document})
        await codec.converted([{"apiVersion": f"{GROUP}/v1", **document}])
    finally:
        CURRENT_TRACE.set(None)
    assert [name for name, *_ in trace.parts] == 3 * ["conversion"]


async def test_views_of_the_same_version_are_no_conversions() -> None:
    trace = RequestTrace("some-id")
    CURRENT_TRACE.set(trace)
    try:
        for converter in (None, _Webhook()):
            await CustomResourceCodec(_versions(converter=converter), "v1").views(
                [_found("v1", a=LARGE)], OFFLOAD
            )
    finally:
        CURRENT_TRACE.set(None)
    assert "conversion" not in [name for name, *_ in trace.parts]


LARGE: Final = "x" * 20_000


async def test_large_objects_are_pruned_in_a_thread_once_for_all_who_wait() -> None:
    made_in = []

    def prune(document: Document) -> bool:
        made_in.append(threading.current_thread())
        return document["spec"].pop("old", None) is not None

    codec = CustomResourceCodec(_versions(v1=prune), "v1")
    conforming, other = _found("v1", a=LARGE), _found("v1", a=LARGE, old=1)
    assert codec.cached_view(conforming) is codec.cached_view(other) is None
    first, second = await asyncio.gather(*(codec.views([conforming, other], OFFLOAD) for _ in range(2)))
    assert first == second
    assert [each.document()["spec"] for each in first] == [{"a": LARGE}] * 2
    assert first[0] is conforming
    assert len(made_in) == 2
    assert threading.main_thread() not in made_in
    assert [codec.cached_view(conforming), codec.cached_view(other)] == first


async def test_large_objects_are_converted_beside_small_ones_and_in_their_order() -> None:
    webhook = _Webhook()
    codec = CustomResourceCodec(_versions(converter=webhook), "v2")
    found = [_found("v1", a="1"), _found("v2", b=LARGE), _found("v1", a=LARGE), _found("v2", b="2")]
    views = await codec.views(found, OFFLOAD)
    assert [each.document()["spec"]["b"] for each in views] == ["1", LARGE, LARGE, "2"]


async def test_objects_are_encoded_in_the_storage_version() -> None:
    document = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"a": "x"}}
    before = orjson.dumps(document)
    assert orjson.loads(await CustomResourceCodec(_versions(), "v1").encode(document)) == document
    renamed = orjson.loads(await CustomResourceCodec(_versions(stored="v2"), "v1").encode(document))
    assert (renamed["apiVersion"], renamed["spec"]) == (f"{GROUP}/v2", {}), "it has the client's defaults"
    by_webhook = CustomResourceCodec(_versions(stored="v2", converter=_Webhook()), "v1")
    converted = orjson.loads(await by_webhook.encode(document))
    assert (converted["apiVersion"], converted["spec"]) == (f"{GROUP}/v2", {"b": "x"})
    assert orjson.dumps(document) == before


async def test_what_admission_sees_in_another_version_is_neither_pruned_nor_defaulted() -> None:
    spec = {"a": "x", "gone": "y"}
    document = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}
    [renamed] = await CustomResourceCodec(_versions(), "v2").converted([document])
    assert renamed == document | {"apiVersion": f"{GROUP}/v2"}
    [by_webhook] = await CustomResourceCodec(_versions(converter=_Webhook()), "v2").converted([document])
    assert (by_webhook["apiVersion"], by_webhook["spec"]) == (f"{GROUP}/v2", {"b": "x"})


def test_an_object_of_other_types_than_the_schema_has_is_its_own_view() -> None:
    """It was stored when less was checked: a read must not fail for it."""

    def refuse(document: Document) -> bool:
        raise TypeMismatch("no")

    found = _found("v1", a="x")
    assert _cached_view(CustomResourceCodec(_versions(v1=refuse), "v1"), found) is found


# ---- what must hold when an object is created


def _definition(revision: int, **meta: str) -> KeyVersion[StoredObject]:
    value = orjson.dumps({"apiVersion": "v1", "kind": "D", "metadata": {"name": "d", **meta}, "spec": {}})
    found = StoredObject.of(Stored("d", value, 1, revision))
    return KeyVersion("/registry/definition", found, revision=revision, create_revision=1)


async def test_a_create_depends_on_the_definition_as_it_was_seen() -> None:
    guard = await _guards(_Cache(_definition(5), _definition(6))).create("a")
    assert (guard.condition.key, guard.condition.mod_revision) == ("/registry/definition", 5)
    assert (await guard.renew()).mod_revision == 6


async def test_a_create_is_refused_while_the_definition_goes_and_after() -> None:
    going = _definition(5, deletionTimestamp="2026-01-01T00:00:00Z")
    with pytest.raises(Forbidden, match="while custom resource definition is terminating"):
        await _guards(_Cache(going, going)).create("a")
    with pytest.raises(NoSuchEndpoint):
        await _guards(_Cache(None, None)).create("a")
    guard = await _guards(_Cache(_definition(4), going)).create("a")
    with pytest.raises(Forbidden):
        await guard.renew()
