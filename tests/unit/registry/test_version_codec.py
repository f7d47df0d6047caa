"""What `registry.version_codec.VersionCodec` promises, held against the codecs of all built-in resources.

The codec of custom resources has tests of its own, in `tests/unit/custom_resources`.
"""

from __future__ import annotations

import threading
from typing import Final

import orjson
import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.load.offload import Offload
from apiserver.load.size_class import HUGE_BYTES, LARGE_BYTES
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry import version_codec
from apiserver.registry.builtin_version_codec import BuiltinCodec, HubVersion
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, encode
from apiserver.registry.version_codec import IdentityCodec
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.interface import Stored

TABLE: Final = Catalogue(Brand(), BuiltinSchemas((1, 34))).resources(RuntimeConfig({"api/all": True}))
STORED: Final = [each for each in TABLE.resources if "get" in each.verbs]
KEY: Final = "/registry/a"
OFFLOAD: Final = Offload()

each_resource = pytest.mark.parametrize(
    "resource", STORED, ids=[f"{each.api_version} {each.resource}" for each in STORED]
)


def document_of(resource: ServedResource) -> Document:
    document: Document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "a", "uid": "u"},
    }
    resource.check(document)
    return document


def at(value: bytes, revision: int) -> StoredObject:
    return StoredObject.of(Stored(KEY, value, revision, revision))


@each_resource
async def test_what_is_read_is_written_back_the_same(resource: ServedResource) -> None:
    """Row C02: through the hub version and the stored bytes, and back to the client's version."""
    codec = resource.codec
    value = await codec.encode(codec.to_hub(document_of(resource)))
    assert value.startswith(codec.stored_head)
    shown = (await version_codec.view(codec, at(value, 7), OFFLOAD)).document()
    assert (shown["apiVersion"], shown["kind"]) == (resource.api_version, resource.kind)
    assert shown["metadata"] == {**document_of(resource)["metadata"], "resourceVersion": "7"}
    assert orjson.loads(await codec.encode(codec.to_hub(shown))) == orjson.loads(value)


@each_resource
async def test_all_ways_to_read_show_the_same(resource: ServedResource) -> None:
    codec = resource.codec
    stored = at(await codec.encode(codec.to_hub(document_of(resource))), 7)
    cached = codec.cached_view(stored)
    assert codec.is_immediate
    assert cached is not None
    assert [each.json for each in await codec.views([stored], OFFLOAD)] == [cached.json]
    assert codec.view_of_hub(await codec.hub(stored)).json == cached.json


@each_resource
async def test_the_hub_version_is_written_back_unchanged(resource: ServedResource) -> None:
    codec = resource.codec
    value = await codec.encode(codec.to_hub(document_of(resource)))
    stored = at(value, 7)
    hub = await codec.hub(stored)
    assert codec.is_up_to_date(stored, hub)
    assert await codec.encode(hub.document()) == value


@each_resource
def test_the_hub_is_the_clients_version_unless_it_is_converted(resource: ServedResource) -> None:
    document = document_of(resource)
    in_hub = resource.codec.to_hub(document_of(resource))
    assert (in_hub == document) is not resource.codec.converts_hub
    assert (resource.codec.stored_head == resource.head) is not resource.codec.converts_hub


def test_most_resources_are_stored_as_clients_see_them() -> None:
    assert all(isinstance(each.codec, IdentityCodec) is not each.codec.converts_hub for each in STORED)
    assert all(isinstance(each.codec, IdentityCodec) is each.codec.is_identity for each in STORED)
    assert {each.api_version for each in STORED if each.codec.converts_hub} >= {
        "autoscaling/v1",
        "events.k8s.io/v1",
    }


@each_resource
async def test_a_damaged_object_is_passed_on_for_whoever_sends_it(resource: ServedResource) -> None:
    damaged = at(b"garbage", 7)
    assert resource.codec.cached_view(damaged) is damaged
    assert await resource.codec.views([damaged], OFFLOAD) == [damaged]


@pytest.mark.parametrize(
    ("size_bytes", "is_on_loop"),
    [(100, True), (LARGE_BYTES + 1, False), (HUGE_BYTES + 1, False)],
    ids=["small", "large", "huge"],
)
async def test_large_objects_are_converted_beside_the_event_loop(size_bytes: int, is_on_loop: bool) -> None:
    """For reads and lists. Watches have `view_of_hub` called there."""
    converted_in: list[threading.Thread] = []

    def from_hub(document: Document) -> None:
        converted_in.append(threading.current_thread())

    hub = HubVersion(GroupResource("example.com", "as"), "example.com/v2", "A", lambda _: None, from_hub)
    codec = BuiltinCodec("example.com/v1", "A", hub)
    stored = at(encode({"metadata": {"name": "a"}, "data": "v" * size_bytes}, codec.stored_head), 7)
    cached = codec.cached_view(stored)
    assert (cached is not None) is is_on_loop
    (view,) = await codec.views([stored], OFFLOAD)
    assert (
        view.json == (await version_codec.view(codec, stored, OFFLOAD)).json == codec.view_of_hub(stored).json
    )
    assert view.json == stored.json.replace(b"/v2", b"/v1")
    is_loops = [each is threading.current_thread() for each in converted_in]
    assert is_loops == ([True] * 4 if is_on_loop else [False, False, True])
