"""Several endpoints, of which some do not answer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from apiserver.storage.errors import KeyExists, OutcomeUnknown, StorageUnavailable, ValueTooLarge
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.etcd import etcd_subset_pb2 as pb
from apiserver.storage.etcd.client import CALL_TIMEOUT_S
from apiserver.storage.interface import Event, Put, Storage
from apiserver.storage.keys import prefix_range
from tests.support.etcd_process import EtcdCluster, EtcdProcess
from tests.support.etcd_stores import ALL, CALLS, P, Stores, binary, events, until_answered, unused_url
from tests.support.eventually import WITHIN_S

pytestmark = pytest.mark.etcd

FIRST_CALLS = {name: CALLS[name] for name in ("get", "list", "create", "grant_lease", "check_health")}


@pytest.mark.parametrize("call", FIRST_CALLS.values(), ids=FIRST_CALLS)
async def test_the_next_endpoint_takes_over_when_the_first_is_down(
    own_etcd: EtcdProcess, open_store: Stores, call: Callable[[Storage], Awaitable[object]]
) -> None:
    async with asyncio.timeout(CALL_TIMEOUT_S):
        await call(open_store(unused_url(), unused_url(), own_etcd.url))


async def test_a_failover_is_logged_once_an_endpoint_responds(
    etcd: EtcdProcess, open_store: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """While none does, the callers say so. The log has no credentials."""
    first, second = unused_url(), unused_url()
    with pytest.raises(StorageUnavailable):
        await CALLS["get"](open_store(first, second))
    assert caplog.messages == []
    await CALLS["get"](open_store(first.replace("//", "//me:hush@"), second, etcd.url))
    (line,) = caplog.messages
    assert line.startswith(f"etcd at {first}: UNAVAILABLE: ")
    assert line.endswith(f"; using {etcd.url}")


async def test_renewals_fail_over(etcd: EtcdProcess, open_store: Stores) -> None:
    """A server whose only calls are renewals must not lose its leases with one endpoint."""
    lease = await open_store(etcd.url).grant_lease(60)
    store = open_store(unused_url(), etcd.url)
    await until_answered(lambda: store.renew_lease(lease))


@pytest.mark.parametrize("call", FIRST_CALLS.values(), ids=FIRST_CALLS)
async def test_many_concurrent_calls_fail_over_once(
    etcd: EtcdProcess, open_store: Stores, call: Callable[[Storage], Awaitable[object]]
) -> None:
    """Calls that fail together switch to the next endpoint once, not once each."""
    store = open_store(unused_url(), etcd.url, prefix=f"/{uuid.uuid4()}")
    answers = await asyncio.gather(*(call(store) for _ in range(10)), return_exceptions=True)
    assert not any(isinstance(answer, StorageUnavailable | OutcomeUnknown) for answer in answers)


async def test_closing_raises_errors_and_cancels_no_task(own_etcd: EtcdProcess, transport: str) -> None:
    """Calls that wait for an answer raise a storage error, as for any other failure."""
    store = EtcdStore(EtcdClient([own_etcd.url], transport=transport), prefix="/registry")
    await store.create(P + "a", b"")
    own_etcd.pause()
    calls = [
        asyncio.create_task(store.current_revision()),
        asyncio.create_task(store.get(P + "a")),
        asyncio.create_task(store.create(P + "b", b"")),
        asyncio.create_task(events(store, prefix_range(P), after=0, count=100)),
    ]
    await asyncio.sleep(0.2)
    await store.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    own_etcd.resume()
    kinds = [type(answer) for answer in answers]
    assert kinds == [StorageUnavailable, StorageUnavailable, OutcomeUnknown, StorageUnavailable]


class SilentServer:
    """A server that accepts connections and sends nothing."""

    def __init__(self) -> None:
        self.url = ""
        self.accepted = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> SilentServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.accepted.set()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_closing_while_connecting_ends_every_call(
    call: Callable[[Storage], Awaitable[object]], transport: str
) -> None:
    """With a server that accepts and sends nothing, gRPC leaves some calls waiting for ever."""
    async with SilentServer() as mute:
        store = EtcdStore(EtcdClient([mute.url], transport=transport), prefix="/registry")
        calling: asyncio.Future[object] = asyncio.ensure_future(call(store))
        await mute.accepted.wait()
        await store.close()
        with pytest.raises((StorageUnavailable, OutcomeUnknown)):
            async with asyncio.timeout(WITHIN_S):
                await calling


async def test_a_watch_that_is_given_up_while_it_connects_moves_to_another_endpoint(
    etcd: EtcdProcess, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with SilentServer() as mute, asyncio.timeout(WITHIN_S):
        client = EtcdClient([mute.url, etcd.url], transport=transport)

        async def give_up() -> None:
            async with client.watch(0) as call:
                opening = asyncio.ensure_future(call.write(pb.WatchRequest()))
                await mute.accepted.wait()
                call.give_up("no response")
                await opening

        with pytest.raises(StorageUnavailable, match=f"{mute.url}: no response"):
            await give_up()
        await client.status()
        await client.close()
    assert caplog.messages == [f"etcd at {mute.url}: no response; using {etcd.url}"]


async def test_watches_and_calls_after_closing_report_the_closed_store(
    etcd: EtcdProcess, transport: str
) -> None:
    """Not gRPC's UsageError, which no caller expects."""
    client = EtcdClient([etcd.url], transport=transport)
    store = EtcdStore(client, prefix="/registry")
    begun, fresh = (store.watch(ALL, after=1) for _ in range(2))
    async for _ in begun:
        break
    parts = client.snapshot()
    await store.close()
    calls: dict[str, Awaitable[object]] = {
        "a watch that nobody has read from": anext(aiter(fresh)),
        "its progress": fresh.request_progress(),
        "the progress of one that was read from": begun.request_progress(),
        "a renewal": client.keep_lease_alive(pb.LeaseKeepAliveRequest(id=1)),
        "a write": client.put_repeatedly(pb.PutRequest(key=b"a")),
        "a snapshot": anext(parts),
        "the version": store.version_and_endpoint(),
    }
    results = await asyncio.gather(*calls.values(), return_exceptions=True)
    expected = (StorageUnavailable, "the store is closed")
    assert {
        name: (type(each), str(each)) for name, each in zip(calls, results, strict=True)
    } == dict.fromkeys(calls, expected)


@pytest.mark.parametrize("is_closed_first", [True, False], ids=["closed first", "cancelled first"])
async def test_a_task_cancelled_while_its_watch_is_closed_is_cancelled(
    etcd: EtcdProcess, open_store: Stores, is_closed_first: bool
) -> None:
    """An error in place of the cancellation would let a task go on that was cancelled."""
    watch, is_established = open_store(etcd.url).watch(ALL, after=1), asyncio.Event()

    async def follow() -> None:
        async for _ in watch:
            is_established.set()

    task = asyncio.create_task(follow())
    await is_established.wait()
    if is_closed_first:
        await watch.close()
        task.cancel()
    else:
        task.cancel()
        await watch.close()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_request_above_etcds_limit_is_too_large_and_not_unknown(
    etcd: EtcdProcess, open_store: Stores
) -> None:
    store = open_store(etcd.url, prefix=f"/{uuid.uuid4()}")
    with pytest.raises(ValueTooLarge):
        await store.transact([], [Put(P + name, b"x" * 1_400_000) for name in ("a", "b")])


ENDPOINTS = {
    "no scheme": "127.0.0.1:2379",
    "another scheme": "ftp://127.0.0.1:2379",
    "no host": "http://:2379",
    "nothing": "",
    "a port that is no number": "http://127.0.0.1:etcd",
    "a port that is too large": "http://127.0.0.1:65536",
}


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)
async def test_an_invalid_endpoint_is_refused_by_name(endpoint: str, transport: str) -> None:
    with pytest.raises(ValueError, match="is not of the form http://HOST:PORT or https://HOST:PORT"):
        EtcdClient([endpoint], transport=transport)


def test_an_invalid_endpoint_does_not_show_its_password(transport: str) -> None:
    with pytest.raises(ValueError, match="etcd endpoint 'ftp://host' is not of the form"):
        EtcdClient(["ftp://user:secret@host"], transport=transport)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(binary(), tmp_path).start()
    yield cluster
    cluster.kill()


@pytest.mark.slow
async def test_a_cluster_of_three_works_without_any_one_member(
    cluster: EtcdCluster, open_store: Stores
) -> None:
    """Each member in turn is lost: no answered write is lost, and no event is missed or repeated."""
    store, seen, answered = open_store(*cluster.urls), list[Event](), dict[str, int]()
    start = await until_answered(store.current_revision)
    keys = [f"{P}{n:03}" for n in range(300)]

    async def follow() -> None:
        reached = start
        # The last event, not the last answer, which may come after it: then no other event would come.
        while not (seen and seen[-1].key == keys[-1]):
            try:
                for event in await events(store, ALL, after=reached, count=1):
                    seen.append(event)
                    reached = event.mod_revision
            except StorageUnavailable:
                await asyncio.sleep(0.05)

    async def write() -> None:
        for n, key in enumerate(keys):
            if n % 100 == 50:
                cluster.members[n // 100].kill()
            if n % 100 == 99:
                cluster.members[n // 100].start()
            async with asyncio.timeout(WITHIN_S):  # a call or two that hang, and an election
                while key not in answered:
                    try:
                        answered[key] = await store.create(key, b"")
                    except (StorageUnavailable, OutcomeUnknown):
                        await asyncio.sleep(0.05)
                    except KeyExists as unknown_one:
                        answered[key] = unknown_one.mod_revision

    async with asyncio.timeout(5 * WITHIN_S):
        await asyncio.gather(write(), follow())
    found = {item.key: item.mod_revision for item in (await store.list(ALL)).items}
    assert found == answered
    assert {event.key: event.mod_revision for event in seen} == answered
    assert [event.mod_revision for event in seen] == sorted(answered.values())


@pytest.mark.slow
async def test_without_a_quorum_nothing_is_answered_until_it_is_back(
    cluster: EtcdCluster, open_store: Stores
) -> None:
    store = open_store(cluster.members[0].url)
    revision = await until_answered(lambda: store.create(P + "a", b"1"))
    batches = aiter(store.watch(ALL, after=revision))
    await anext(batches)
    for member in cluster.members[1:]:
        member.kill()
    with pytest.raises(StorageUnavailable):  # It does not stay silent.
        async with asyncio.timeout(WITHIN_S):
            await anext(batches)
    async with asyncio.timeout(WITHIN_S):  # Each call has a timeout of its own.
        with pytest.raises(StorageUnavailable):
            await store.check_health()
        with pytest.raises((StorageUnavailable, OutcomeUnknown)):
            await store.create(P + "b", b"1")
    for member in cluster.members[1:]:
        member.start(awaits_health=False)
    await until_answered(store.check_health)
    stored = (await store.get(P + "a")).stored
    assert stored is not None
    assert stored.mod_revision == revision
