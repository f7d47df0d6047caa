"""What etcd has sent of a watch, and nobody has read yet, is bounded: as it waits it grows old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import grpc
import grpc.aio

from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.client import WATCH_WINDOW_BYTES, EtcdClient
from tests.support.eventually import WITHIN_S

VALUE: Final = b"v" * 1_000
RESPONSES: Final = 20_000
# The window, what the server's gRPC has taken from it, and what one task does before another has its turn.
UNREAD_MAX: Final = 4 * WATCH_WINDOW_BYTES // len(VALUE)
# Turns of the loop that others have for each response that is read.
OTHER_TURNS: Final = 3


class BusyStore:
    """A server with a watch that sends as fast as it can. unread_max: how many responses waited at most."""

    def __init__(self) -> None:
        self.url = ""
        self.read = self.unread_max = 0
        self._server = grpc.aio.server()
        watch = grpc.stream_stream_rpc_method_handler(
            self._watch, pb.WatchRequest.FromString, pb.WatchResponse.SerializeToString
        )
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("etcdserverpb.Watch", {"Watch": watch})]
        )

    async def __aenter__(self) -> BusyStore:
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def _watch(
        self, requests: AsyncIterator[pb.WatchRequest], context: object
    ) -> AsyncIterator[pb.WatchResponse]:
        for revision in range(1, RESPONSES + 1):
            event = pb.WatchEvent(kv=pb.KeyValue(key=b"/k", value=VALUE, mod_revision=revision))
            yield pb.WatchResponse(header=pb.Header(revision=revision), events=[event])
            self.unread_max = max(self.unread_max, revision - self.read)


async def test_a_slow_reader_makes_etcd_wait(transport: str) -> None:
    async with BusyStore() as etcd, asyncio.timeout(WITHIN_S):
        client = EtcdClient([etcd.url], transport=transport)
        async with client.watch(0) as watch:
            await watch.write(pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"/k")))
            while (response := await watch.read()) is not None:
                etcd.read = response.header.revision
                for _ in range(OTHER_TURNS):
                    await asyncio.sleep(0)
        await client.close()
    assert etcd.read == RESPONSES
    assert etcd.unread_max < UNREAD_MAX
