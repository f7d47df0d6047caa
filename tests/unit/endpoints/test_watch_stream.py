"""Watch streams of objects that a webhook has to convert first (row S02), or a thread to encode."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, cast

import orjson
import pytest
from aiohttp import web

from apiserver.custom_resources.serving.custom_resource_codec import (
    CreationGuards,
    CustomResourceCodec,
    DefinitionReader,
    DefinitionVersions,
)
from apiserver.endpoints.connection import Server
from apiserver.endpoints.negotiation import ResponseForm
from apiserver.endpoints.representation import Encoder, FormCaches
from apiserver.endpoints.representation.json_forms import JsonEncoder, PartialEncoder
from apiserver.endpoints.request_info import parse_query, parse_target
from apiserver.endpoints.watch_stream import WatchStream, WatchStreams
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.errors import NotAcceptable
from apiserver.meta.vocabulary import Document, GroupResource, GroupVersion
from apiserver.metrics.requests import RequestMetrics
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, encode, head_of
from apiserver.schema.structural import Schema
from apiserver.storage.watch_cache import KeyVersion, Watcher
from apiserver.storage.watch_cache.events import CacheEvent, WatcherEvent
from tests.support.eventually import WITHIN_S
from tests.unit.custom_resources.serving.version_schemas import FakeSchema
from tests.unit.endpoints.connections import connected
from tests.unit.endpoints.handlers import calls

PATH: Final = "/apis/example.com/v2/widgets"
V1: Final = head_of("example.com/v1", "Widget")
DAMAGED: Final = StoredObject("/damaged", b"", b"")


OFFLOAD: Final = Offload()


def _unchanged(document: Document) -> bool:
    return False


class _Webhook:
    """Moves `spec.old` to `spec.new`."""

    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
        return [{**each, "apiVersion": desired, "spec": {"new": each["spec"]["old"]}} for each in objects]


def _resource() -> ServedResource:
    group_resource = GroupResource("example.com", "widgets")
    versions = DefinitionVersions(
        group_resource=group_resource,
        kind="Widget",
        schemas=dict.fromkeys(("v1", "v2"), FakeSchema(_unchanged, _unchanged, _unchanged)),
        storage_version="v1",
        converter=_Webhook(),
        view_cache=FormCaches().objects,
        offload=OFFLOAD,
        guards=CreationGuards(group_resource, "/definition", cast(DefinitionReader, None)),
    )
    return ServedResource(
        GroupVersion("example.com", "v2"),
        "widgets",
        "Widget",
        is_namespaced=True,
        schema=lambda: cast(Schema, None),
        version_codec=CustomResourceCodec(versions, "v2"),
        is_custom=True,
    )


def _stored(name: str, old: str) -> StoredObject:
    document = {"metadata": {"name": name}, "spec": {"old": old}}
    return StoredObject(f"/{name}", V1, encode(document, V1)[len(V1) :])


RESOURCE: Final = _resource()


@asynccontextmanager
async def watching(
    *created: StoredObject, encoder: Encoder | None = None
) -> AsyncIterator[AsyncIterator[Any]]:
    """The events that a client gets when these objects are created."""
    async with watching_all(*created, encoder=encoder, count=1) as [events]:
        yield events


@asynccontextmanager
async def watching_all(
    *created: StoredObject, encoder: Encoder | None = None, count: int
) -> AsyncIterator[Sequence[AsyncIterator[Any]]]:
    """The events that each of some clients gets."""
    loop, resource = asyncio.get_running_loop(), RESOURCE
    streams = WatchStreams(RequestMetrics(), loop.time)
    chosen = JsonEncoder(resource, Brand()) if encoder is None else encoder
    happened = [
        CacheEvent(KeyVersion(obj.key, obj, revision=revision, create_revision=revision))
        for revision, obj in enumerate(created, 1)
    ]

    async def watch(request: web.BaseRequest) -> web.StreamResponse:
        info, query = parse_target("GET", PATH, True), parse_query("watch=1")
        call = calls.made(request, info, query, received_at=loop.time(), offload=OFFLOAD)
        call.resource = resource
        stream = WatchStream(call, chosen, resource, streams, lifetime_s=2 * WITHIN_S)
        watcher = Watcher[StoredObject](after=0, predicate=None, on_ready=stream.on_event)
        for event in happened:
            watcher.offer(WatcherEvent(event.type, event))
        with streams.open(stream):
            await stream.run(watcher, [], initial_bookmark=None, progress=lambda: 0, sends_bookmarks=False)
        return calls.sent(call)

    async def events(reader: asyncio.StreamReader) -> AsyncIterator[Any]:
        while line := await reader.readline():
            yield orjson.loads(line)

    async with AsyncExitStack() as stack:
        readers = []
        for _ in range(count):
            reader, writer = await stack.enter_async_context(connected(Server(watch)))
            writer.write(f"GET {PATH}?watch=1 HTTP/1.0\r\n\r\n".encode())
            readers.append(reader)
        for reader in readers:
            await reader.readuntil(b"\r\n\r\n")
        yield [events(reader) for reader in readers]
        streams.end_all()


async def test_objects_are_sent_as_the_webhook_converts_them() -> None:
    async with watching(_stored("a", "1"), _stored("b", "2")) as events:
        for name, new in (("a", "1"), ("b", "2")):
            event = await anext(events)
            assert (event["type"], event["object"]["apiVersion"]) == ("ADDED", "example.com/v2")
            assert (event["object"]["metadata"]["name"], event["object"]["spec"]) == (name, {"new": new})


async def test_a_damaged_value_behind_one_to_be_converted_ends_the_stream() -> None:
    async with watching(_stored("a", "1"), DAMAGED) as events:
        [event] = [each async for each in events]
        assert (event["type"], event["object"]["code"]) == ("ERROR", 500)


# ---- large objects


LARGE: Final = "x" * 20_000
HUGE: Final = "x" * 200_000


async def test_events_of_large_objects_keep_their_place() -> None:
    """Among small ones, and behind a webhook that converts them all."""
    objects = [_stored(f"o{n}", old) for n, old in enumerate(("1", HUGE, "2", LARGE, LARGE, "3", HUGE))]
    async with watching(*objects, encoder=_Encoder()) as events:
        for n in range(len(objects)):
            event = await anext(events)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", f"o{n}")


class _Encoder(PartialEncoder):
    """Tells what it has encoded, and where."""

    def __init__(self, fails: Callable[[str], Exception | None] = lambda name: None) -> None:
        super().__init__(RESOURCE, Brand(), ResponseForm(kind="PartialObjectMetadata"), caches=FormCaches())
        self.encoded: list[tuple[str, bool]] = []
        self._fails = fails

    def event(self, kind: str, obj: StoredObject, tail: bytes, *, is_first: bool) -> bytes:
        name = obj.key.removeprefix("/")
        self.encoded.append((name, threading.current_thread() is threading.main_thread()))
        if failure := self._fails(name):
            raise failure
        return super().event(kind, obj, tail, is_first=is_first)


async def test_a_large_event_is_encoded_once_for_all_streams_and_in_a_thread() -> None:
    encoder = _Encoder()
    objects = [_stored("a", "1"), _stored("b", HUGE), _stored("c", "2")]
    async with watching_all(*objects, encoder=encoder, count=5) as clients:
        for events in clients:
            for name in ("a", "b", "c"):
                assert (await anext(events))["object"]["metadata"]["name"] == name
    assert encoder.encoded == [("a", True), ("b", False), ("c", True)]


FAILURES: Final = {
    "that clients are told": (NotAcceptable("no such form"), 406),
    "that is a bug": (ZeroDivisionError(), 500),
}


@pytest.mark.parametrize(("failure", "code"), FAILURES.values(), ids=FAILURES)
async def test_a_large_event_that_cannot_be_encoded_ends_the_stream(failure: Exception, code: int) -> None:
    """Without it the stream would have a hole."""
    encoder = _Encoder(lambda name: failure if name == "b" else None)
    objects = [_stored("a", "1"), _stored("b", HUGE), _stored("c", "2")]
    async with watching_all(*objects, encoder=encoder, count=2) as clients:
        for events in clients:
            first, *rest = [each async for each in events]
            assert first["type"] == "ADDED"
            assert [(each["type"], each["object"]["code"]) for each in rest] == [("ERROR", code)]
