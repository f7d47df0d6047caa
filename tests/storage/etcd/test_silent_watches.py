"""Watches that have no response are given up, and those that only wait for their reader are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import grpc
import grpc.aio
import pytest

from apiserver.storage.errors import StorageError, StorageUnavailable
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.call_timeouts import TICK_S
from apiserver.storage.etcd.client import HTTP2, PATIENCE_S
from apiserver.storage.etcd.watch import SILENCE_MAX_S, EtcdWatch
from apiserver.storage.interface import Event
from tests.support.etcd_stores import ALL, P
from tests.support.eventually import WITHIN_S

KEY: Final = P.encode()
INTERVAL_S: Final = 0.1  # between requests for progress, as the watch cache makes them
# Longer than a watch may be silent.
LONG_S: Final = 2 * (SILENCE_MAX_S + TICK_S)

ServicerContext = grpc.aio.ServicerContext[pb.WatchRequest, pb.WatchResponse]
Responses = AsyncIterator[pb.WatchResponse]
Read = Callable[[pb.RangeRequest, Any], Awaitable[pb.RangeResponse]]
CREATION: Final = pb.WatchRequest(create_request=pb.WatchCreateRequest(key=KEY))
CREATED: Final = pb.WatchResponse(created=True)


def event(revision: int, *, is_fragment: bool = False) -> pb.WatchResponse:
    kv = pb.KeyValue(key=KEY, mod_revision=revision, create_revision=revision)
    return pb.WatchResponse(
        header=pb.Header(revision=revision), events=[pb.WatchEvent(kv=kv)], fragment=is_fragment
    )


async def in_slow_fragments(_: AsyncIterator[pb.WatchRequest]) -> Responses:
    yield CREATED
    for revision in range(1, 6):
        await asyncio.sleep(LONG_S / 4)
        yield event(revision, is_fragment=revision < 5)


async def at_once(_: AsyncIterator[pb.WatchRequest]) -> Responses:
    yield CREATED
    for revision in range(1, 6):
        yield event(revision)
    await asyncio.sleep(WITHIN_S)


async def to_the_second_request(requests: AsyncIterator[pb.WatchRequest]) -> Responses:
    await anext(requests)
    yield CREATED
    await anext(requests)
    await anext(requests)
    yield event(1)
    await asyncio.sleep(WITHIN_S)


async def again_and_again(_: AsyncIterator[pb.WatchRequest]) -> Responses:
    yield CREATED
    for revision in range(1, 1_000):
        await asyncio.sleep(PATIENCE_S / 8)
        yield event(revision)


async def never(_: AsyncIterator[pb.WatchRequest]) -> Responses:
    yield CREATED
    await asyncio.sleep(WITHIN_S)


class WatchServer:
    """An etcd that has nothing but its status and a watch.

    has_status: whether it responds to a call for the status. peers: the addresses from which watches were
    opened. was_asked: whether there was such a call. read: responds to reads of keys.
    """

    def __init__(
        self,
        respond: Callable[[AsyncIterator[pb.WatchRequest]], Responses],
        *,
        has_status: bool = True,
        read: Read | None = None,
    ) -> None:
        self.peers: set[str] = set()
        self.was_asked = asyncio.Event()
        self._respond = respond
        self._has_status = has_status
        self._server = grpc.aio.server()
        method = grpc.stream_stream_rpc_method_handler(
            self._watch, pb.WatchRequest.FromString, pb.WatchResponse.SerializeToString
        )
        status = grpc.unary_unary_rpc_method_handler(
            self._status, pb.StatusRequest.FromString, pb.StatusResponse.SerializeToString
        )
        handlers: dict[str, dict[str, Any]] = {
            "Watch": {"Watch": method},
            "Maintenance": {"Status": status},
        }
        if read is not None:
            reading = grpc.unary_unary_rpc_method_handler(
                read, pb.RangeRequest.FromString, pb.RangeResponse.SerializeToString
            )
            handlers["KV"] = {"Range": reading}
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(f"etcdserverpb.{name}", its)
                for name, its in handlers.items()
            ]
        )
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    async def __aenter__(self) -> WatchServer:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def _status(self, request: pb.StatusRequest, context: object) -> pb.StatusResponse:
        self.was_asked.set()
        if not self._has_status:
            await asyncio.sleep(WITHIN_S)
        return pb.StatusResponse(version="3.6.0")

    async def _watch(self, requests: AsyncIterator[pb.WatchRequest], context: ServicerContext) -> Responses:
        self.peers.add(context.peer())
        async for response in self._respond(requests):
            yield response


def watch_on(client: EtcdClient) -> EtcdWatch:
    return EtcdStore(client, prefix="/registry").watch(ALL, after=0)


@asynccontextmanager
async def asked(client: EtcdClient) -> AsyncIterator[EtcdWatch]:
    """A watch whose progress is requested all the time."""

    async def ask() -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            with suppress(StorageUnavailable):
                await watch.request_progress()

    watch = watch_on(client)
    asking = asyncio.create_task(ask())
    try:
        async with asyncio.timeout(WITHIN_S):
            yield watch
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await watch.close()


@pytest.fixture
async def open_client(transport: str) -> AsyncIterator[Callable[..., EtcdClient]]:
    clients: list[EtcdClient] = []

    def opened(*servers: WatchServer) -> EtcdClient:
        clients.append(EtcdClient([each.url for each in servers], transport=transport))
        return clients[-1]

    yield opened
    for client in clients:
        await client.close()


OpenClient = Callable[..., EtcdClient]


async def read(watch: EtcdWatch, count: int, *, busy_s: float = 0) -> list[Event]:
    """Returns the first events. busy_s: how long the reader is busy once the watch is open."""
    found: list[Event] = []
    async for batch in watch:
        found += batch.events
        if len(found) >= count:
            break
        await asyncio.sleep(busy_s)
        busy_s = 0
    return found


async def test_a_response_in_fragments_takes_as_long_as_it_needs(open_client: OpenClient) -> None:
    """etcd sends all that a watch has missed in fragments. To open it again would begin with them again."""
    async with WatchServer(in_slow_fragments) as etcd, asked(open_client(etcd)) as watch:
        assert len(await read(watch, 5)) == 5


async def test_a_watch_waits_for_a_reader_that_is_busy(open_client: OpenClient) -> None:
    """As the watch cache is when it decodes many events, or reads the revision of a store first."""
    async with WatchServer(at_once) as etcd, asked(open_client(etcd)) as watch:
        assert len(await read(watch, 5, busy_s=LONG_S)) == 5


async def test_a_watch_without_a_response_is_given_up(open_client: OpenClient) -> None:
    """The next one uses another endpoint."""
    async with WatchServer(never) as silent, WatchServer(at_once) as other:
        client = open_client(silent, other)
        async with asked(client) as watch:
            began = asyncio.get_running_loop().time()
            with pytest.raises(StorageUnavailable, match=f"{silent.url}: etcd does not respond to the watch"):
                await read(watch, 1)
            assert asyncio.get_running_loop().time() - began > SILENCE_MAX_S
        async with asked(client) as watch:
            assert len(await read(watch, 5)) == 5


async def test_a_watch_without_a_byte_moves_with_calls_that_are_not_answered(open_client: OpenClient) -> None:
    """Nobody has asked for its progress: what waits for it would have to find out again that etcd hangs."""
    async with WatchServer(never, has_status=False) as hanging, WatchServer(at_once) as other:
        client = open_client(hanging, other)

        async def follow() -> None:
            async with client.watch(0) as call:
                await call.write(CREATION)
                await call.read()
                reading = asyncio.ensure_future(call.read())
                await client.status()
                await reading

        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(StorageUnavailable, match=f"{hanging.url}: etcd does not respond"):
                await follow()


async def test_a_watch_whose_bytes_come_stays_when_a_call_is_not_answered(open_client: OpenClient) -> None:
    async with WatchServer(again_and_again, has_status=False) as slow, WatchServer(at_once) as other:
        client = open_client(slow, other)
        async with asyncio.timeout(WITHIN_S), client.watch(0) as call:
            await call.write(CREATION)
            asking = asyncio.ensure_future(client.status())
            while not asking.done():
                assert await call.read()
            for _ in range(5):
                assert await call.read()


async def finds_nothing(request: pb.RangeRequest, context: Any) -> pb.RangeResponse:
    return pb.RangeResponse()


async def refuses(request: pb.RangeRequest, context: Any) -> pb.RangeResponse:
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")
    raise AssertionError


@pytest.mark.parametrize("read", [finds_nothing, refuses])
async def test_a_watch_stays_on_a_member_that_has_responded_to_another_call_since(
    open_client: OpenClient, read: Read
) -> None:
    async with (
        WatchServer(never, has_status=False, read=read) as slow,
        WatchServer(at_once) as other,
        asyncio.timeout(WITHIN_S),
    ):
        client = open_client(slow, other)
        async with client.watch(0) as call:
            await call.write(CREATION)
            await call.read()
            reading = asyncio.ensure_future(call.read())
            asking = asyncio.ensure_future(client.status())
            await slow.was_asked.wait()
            with suppress(StorageError):
                await client.range(pb.RangeRequest(key=b"a"))
            await asking
            await asyncio.wait([reading], timeout=TICK_S)
            assert not reading.done()
            reading.cancel()


async def test_a_request_for_progress_that_etcd_has_dropped_ends_no_watch(open_client: OpenClient) -> None:
    """The read that made it has gone, and the next one makes another."""
    async with WatchServer(to_the_second_request) as etcd, asyncio.timeout(WITHIN_S):
        watch = watch_on(open_client(etcd))
        batches = aiter(watch)
        await anext(batches)
        next_batch = asyncio.ensure_future(anext(batches))
        await watch.request_progress()
        await asyncio.sleep(LONG_S)
        await watch.request_progress()
        assert (await next_batch).events
        await watch.close()


@pytest.mark.parametrize("transport", [HTTP2], indirect=True)
async def test_the_next_watch_on_the_only_endpoint_uses_another_connection(open_client: OpenClient) -> None:
    """A firewall that has forgotten a connection drops what is sent over it. A new one passes."""
    async with WatchServer(never) as etcd:
        client = open_client(etcd)
        for _ in range(2):
            async with asked(client) as watch:
                with pytest.raises(StorageUnavailable, match="etcd does not respond to the watch"):
                    await read(watch, 1)
    assert len(etcd.peers) == 2
