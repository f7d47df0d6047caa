"""Watch streams of objects that a webhook has to convert first. Row S02."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import orjson
from aiohttp import web

from apiserver.brand import Brand
from apiserver.custom_resources.version_codec import (
    CreationGuards,
    CustomResourceCodec,
    DefinitionReader,
    DefinitionVersions,
)
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.connection import Server
from apiserver.endpoints.representation import FormCaches
from apiserver.endpoints.representation.json_forms import JsonEncoder
from apiserver.endpoints.request_info import parse_query, parse_target
from apiserver.endpoints.responses import sent
from apiserver.endpoints.watch_stream import WatchStream, WatchStreams
from apiserver.metrics.requests import RequestMetrics
from apiserver.registry.offload import Offload
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, encode, head_of
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Document, GroupResource, GroupVersion
from storage.watch_cache import KeyVersion, Watcher
from storage.watch_cache.events import CacheEvent, Delivery
from tests.support.eventually import WITHIN_S
from tests.unit.endpoints.connections import connected

PATH: Final = "/apis/example.com/v2/widgets"
V1: Final = head_of("example.com/v1", "Widget")
DAMAGED: Final = StoredObject("/damaged", b"", b"")


class _Webhook:
    """Moves `spec.old` to `spec.new`."""

    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
        return [{**each, "apiVersion": desired, "spec": {"new": each["spec"]["old"]}} for each in objects]


def _resource() -> ServedResource:
    group_resource = GroupResource("example.com", "widgets")
    versions = DefinitionVersions(
        group_resource=group_resource,
        kind="Widget",
        schemas={"v1": lambda document: False, "v2": lambda document: False},
        storage_version="v1",
        webhook=_Webhook(),
        view_cache=FormCaches().objects,
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


@asynccontextmanager
async def watching(*created: StoredObject) -> AsyncIterator[AsyncIterator[Any]]:
    """The events that a client gets when these objects are created."""
    loop = asyncio.get_running_loop()
    resource = _resource()
    streams = WatchStreams(RequestMetrics(), loop.time)

    async def watch(request: web.BaseRequest) -> web.StreamResponse:
        info, query = parse_target("GET", PATH, True), parse_query("watch=1")
        call = ApiCall(request, info, query, "audit", loop.time(), Offload(), resource=resource)
        encoder = JsonEncoder(resource, Brand())
        stream = WatchStream(call, encoder, resource, streams, lifetime_s=2 * WITHIN_S)
        watcher = Watcher[StoredObject](after=0, predicate=None, on_ready=stream.on_event)
        for revision, obj in enumerate(created, 1):
            event = CacheEvent(KeyVersion(obj.key, obj, revision=revision, create_revision=revision))
            watcher.offer(Delivery(event.type, event))
        with streams.open(stream):
            await stream.run(watcher, [], initial_bookmark=None, progress=lambda: 0, sends_bookmarks=False)
        return sent(call)

    async with connected(Server(watch)) as (reader, writer):
        writer.write(f"GET {PATH}?watch=1 HTTP/1.0\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")

        async def events() -> AsyncIterator[Any]:
            while line := await reader.readline():
                yield orjson.loads(line)

        yield events()
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
