"""When calls and watches move to another endpoint, with servers that do only as they are asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

import pytest

from apiserver.storage.errors import OutcomeUnknown, StorageUnavailable
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.call_timeouts import TICK_S
from apiserver.storage.etcd.client import PATIENCE_S
from apiserver.storage.etcd.rpc import Code
from tests.storage.etcd.test_http2_channel import Server, opened, respond
from tests.storage.etcd.test_http2_connection import answer, refusal
from tests.support.etcd_stores import ALL

CUT_OFF: Final = b"\x0a\xff"  # a field that is longer than the message

Call = Callable[[EtcdClient], Awaitable[object]]
REPEATABLE: Final[dict[str, Call]] = {
    "a read": lambda client: client.range(pb.RangeRequest(key=b"a")),
    "a renewal": lambda client: client.keep_lease_alive(pb.LeaseKeepAliveRequest(id=1)),
}


class Cluster:
    """Servers, and a client whose endpoint in use is the first."""

    def __init__(self, servers: list[Server]) -> None:
        self.servers = servers
        self.urls = [f"http://{each.endpoint.authority}" for each in servers]
        self.client = EtcdClient(self.urls)


@pytest.fixture
async def cluster_of() -> AsyncIterator[Callable[[int], Awaitable[Cluster]]]:
    async with AsyncExitStack() as stack:

        async def started(size: int) -> Cluster:
            cluster = Cluster([await stack.enter_async_context(Server()) for _ in range(size)])
            stack.push_async_callback(cluster.client.close)
            return cluster

        yield started


Clusters = Callable[[int], Awaitable[Cluster]]


@pytest.mark.parametrize("call", REPEATABLE.values(), ids=REPEATABLE)
async def test_a_response_that_cannot_be_decoded_moves_a_call_to_another_endpoint(
    cluster_of: Clusters, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await cluster_of(2)
    calling = asyncio.ensure_future(call(cluster.client))
    await respond(cluster.servers[0], CUT_OFF)
    await respond(cluster.servers[1], b"")
    await calling
    (line,) = caplog.messages
    assert line.startswith(f"etcd at {cluster.urls[0]}: INTERNAL: a response cannot be decoded")


@pytest.mark.parametrize("call", REPEATABLE.values(), ids=REPEATABLE)
async def test_a_response_that_cannot_be_decoded_is_an_unavailable_store(
    cluster_of: Clusters, call: Call
) -> None:
    cluster = await cluster_of(1)
    calling = asyncio.ensure_future(call(cluster.client))
    await respond(cluster.servers[0], CUT_OFF)
    with pytest.raises(StorageUnavailable, match="a response cannot be decoded"):
        await calling


async def test_a_write_whose_response_cannot_be_decoded_has_an_unknown_outcome(cluster_of: Clusters) -> None:
    cluster = await cluster_of(2)
    writing = asyncio.ensure_future(cluster.client.transact(pb.TxnRequest()))
    await respond(cluster.servers[0], CUT_OFF)
    with pytest.raises(OutcomeUnknown, match="a response cannot be decoded"):
        await writing
    assert cluster.servers[1].opened.empty()


async def test_a_long_turn_of_the_event_loop_moves_no_call(
    cluster_of: Clusters, caplog: pytest.LogCaptureFixture
) -> None:
    """The response has come, and is read when the event loop continues."""
    cluster = await cluster_of(2)
    for _ in range(2):
        reading = asyncio.ensure_future(cluster.client.range(pb.RangeRequest(key=b"a")))
        await respond(cluster.servers[0], b"")
        time.sleep(PATIENCE_S + 2 * TICK_S)
        await reading
    assert caplog.messages == []
    assert cluster.servers[1].opened.empty()


@pytest.mark.parametrize("call", REPEATABLE.values(), ids=REPEATABLE)
async def test_an_endpoint_that_is_only_slow_may_still_be_the_first_to_respond(
    cluster_of: Clusters, call: Call
) -> None:
    """While a leader is elected, all members are silent, and the one in use is as likely to be the first."""
    cluster = await cluster_of(2)
    calling = asyncio.ensure_future(call(cluster.client))
    writer, stream_id = await opened(cluster.servers[0])
    await opened(cluster.servers[1])
    writer.write(answer(stream_id, b""))
    await calling
    again = asyncio.ensure_future(call(cluster.client))
    assert await respond(cluster.servers[0], b"") is writer
    await again


async def test_a_write_that_waits_moves_the_next_call_and_happens_once(cluster_of: Clusters) -> None:
    cluster = await cluster_of(2)
    writing = asyncio.ensure_future(cluster.client.transact(pb.TxnRequest()))
    writer, stream_id = await opened(cluster.servers[0])
    await opened(cluster.servers[0])  # a read, which asks which endpoint responds
    await respond(cluster.servers[1], b"")
    next_call = asyncio.ensure_future(cluster.client.transact(pb.TxnRequest()))
    await respond(cluster.servers[1], b"")
    await next_call
    writer.write(answer(stream_id, b""))
    await writing
    assert cluster.servers[0].opened.empty()


@pytest.mark.parametrize("call", REPEATABLE.values(), ids=REPEATABLE)
async def test_a_member_that_reports_a_new_leader_is_called_again(cluster_of: Clusters, call: Call) -> None:
    """The calls that waited for the election fail, and the former leader stays silent."""
    cluster = await cluster_of(2)
    calling = asyncio.ensure_future(call(cluster.client))
    writer, stream_id = await opened(cluster.servers[0])
    await opened(cluster.servers[1])
    writer.write(refusal(Code.UNAVAILABLE, "etcdserver: leader changed", stream_id))
    await respond(cluster.servers[0], b"")
    await calling


@pytest.mark.parametrize("call", REPEATABLE.values(), ids=REPEATABLE)
async def test_a_member_that_was_silent_until_the_deadline_is_not_called_again(
    cluster_of: Clusters, call: Call
) -> None:
    cluster = await cluster_of(2)
    calling = asyncio.ensure_future(call(cluster.client))
    ends = [await opened(each) for each in cluster.servers]
    for writer, stream_id in ends:
        writer.write(refusal(Code.DEADLINE_EXCEEDED, "etcd did not respond in time", stream_id))
        await asyncio.sleep(TICK_S)
    with pytest.raises(StorageUnavailable, match="etcd did not respond in time"):
        await calling
    assert cluster.servers[0].opened.empty()


async def test_a_read_that_is_cancelled_after_it_has_moved_does_not_move_back(cluster_of: Clusters) -> None:
    cluster = await cluster_of(2)
    reading = asyncio.ensure_future(cluster.client.range(pb.RangeRequest(key=b"a")))
    for each in cluster.servers:
        await opened(each)
    await asyncio.sleep(3 * PATIENCE_S)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    again = asyncio.ensure_future(cluster.client.range(pb.RangeRequest(key=b"a")))
    await respond(cluster.servers[1], b"")
    await again
    assert cluster.servers[0].opened.empty()


async def test_a_watch_is_opened_on_the_member_whose_version_it_knows(cluster_of: Clusters) -> None:
    """Whether its progress reports can be trusted depends on it. Other calls may change the endpoint."""
    cluster = await cluster_of(2)
    watch = EtcdStore(cluster.client, prefix="/registry").watch(ALL, after=1)
    created = asyncio.ensure_future(anext(aiter(watch)))
    status, status_id = await opened(cluster.servers[0])
    other = asyncio.ensure_future(cluster.client.range(pb.RangeRequest(key=b"a")))
    writer, stream_id = await opened(cluster.servers[0])
    writer.write(refusal(Code.UNAVAILABLE, "stopping", stream_id))
    await respond(cluster.servers[1], b"")
    await other
    status.write(answer(status_id, pb.StatusResponse(version="3.6.0").SerializeToString()))
    await respond(cluster.servers[0], pb.WatchResponse(created=True).SerializeToString())
    await created
    await watch.close()


async def test_a_snapshot_comes_from_the_member_that_a_read_has_made_catch_up(cluster_of: Clusters) -> None:
    """It has every write that was answered before, although other calls change the endpoint meanwhile."""
    cluster = await cluster_of(2)
    parts = cluster.client.snapshot()
    first_part = asyncio.ensure_future(anext(parts))
    reading, reading_id = await opened(cluster.servers[0])
    other = asyncio.ensure_future(cluster.client.range(pb.RangeRequest(key=b"a")))
    writer, stream_id = await opened(cluster.servers[0])
    writer.write(refusal(Code.UNAVAILABLE, "stopping", stream_id))
    await respond(cluster.servers[1], b"")
    await other
    reading.write(answer(reading_id, b""))
    await respond(cluster.servers[0], pb.SnapshotResponse(blob=b"database").SerializeToString())
    assert await first_part == b"database"
    await parts.aclose()
