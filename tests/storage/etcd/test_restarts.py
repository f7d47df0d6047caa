"""One server that stops and starts, and requests and answers that are lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from apiserver.storage.errors import (
    KeyExists,
    OutcomeUnknown,
    RevisionCompacted,
    StorageError,
    StorageUnavailable,
)
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.etcd.client import CALL_TIMEOUT_S
from apiserver.storage.etcd.store import HEALTH_TIMEOUT_S
from apiserver.storage.interface import Event, KeyRange, ReadAt, Storage
from apiserver.storage.keys import after, prefix_range
from apiserver.storage.resource_version import REVISION_MAX
from tests.support.etcd_process import EtcdProcess
from tests.support.etcd_stores import ALL, CALLS, P, Stores, events, until_answered, unused_url
from tests.support.eventually import WITHIN_S

pytestmark = pytest.mark.etcd


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_an_etcd_that_does_not_run_is_reported_at_once(
    open_store: Stores, call: Callable[[Storage], Awaitable[object]]
) -> None:
    """With StorageUnavailable, not OutcomeUnknown: what was not sent has not happened."""
    endpoint = unused_url()
    async with asyncio.timeout(CALL_TIMEOUT_S):
        with pytest.raises(StorageUnavailable, match=endpoint):
            await call(open_store(endpoint))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_closed_store_is_unavailable(
    etcd: EtcdProcess, call: Callable[[Storage], Awaitable[object]]
) -> None:
    store = EtcdStore(EtcdClient([etcd.url]), prefix="/registry")
    await store.check_health()
    await store.close()
    await store.close()  # once more does no harm
    with pytest.raises(StorageUnavailable):
        await call(store)


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_after_a_restart_of_etcd_a_watch_resumes_without_loss(
    own_etcd: EtcdProcess, open_store: Stores, how: str
) -> None:
    store = open_store(own_etcd.url)
    revisions = [await store.create(P + "a", b"1")]
    lease = await store.grant_lease(60)
    watch = store.watch(ALL, after=revisions[0] - 1)
    batches, seen = aiter(watch), list[Event]()
    while not seen:
        seen += (await anext(batches)).events
    getattr(own_etcd, how)()
    with pytest.raises(StorageUnavailable):
        async with asyncio.timeout(WITHIN_S):
            seen += (await anext(batches)).events
    with pytest.raises(StorageUnavailable):
        await store.check_health()
    own_etcd.start()
    await until_answered(store.check_health)
    revisions += [await store.create(P + name, b"2", lease=lease) for name in ("b", "c")]
    await store.renew_lease(lease)
    seen += await events(store, ALL, after=seen[-1].mod_revision, count=2)
    assert [event.mod_revision for event in seen] == revisions


@pytest.mark.slow
async def test_calls_to_a_server_that_hangs_time_out(own_etcd: EtcdProcess, open_store: Stores) -> None:
    """A write may still happen, when the server continues, so its outcome is unknown."""
    store = open_store(own_etcd.url)
    await store.create(P + "a", b"1")
    own_etcd.pause()
    began = time.monotonic()

    async def timed(call: Awaitable[object]) -> tuple[type[BaseException], float]:
        with pytest.raises(StorageError) as failed:
            await call
        return failed.type, time.monotonic() - began

    results = await asyncio.gather(
        timed(store.get(P + "a")), timed(store.create(P + "b", b"")), timed(store.check_health())
    )
    own_etcd.resume()
    assert [kind for kind, _ in results] == [StorageUnavailable, OutcomeUnknown, StorageUnavailable]
    limits = [CALL_TIMEOUT_S, CALL_TIMEOUT_S, HEALTH_TIMEOUT_S]
    assert all(limit - 1 < took < WITHIN_S for (_, took), limit in zip(results, limits, strict=True))
    await until_answered(store.check_health)


async def test_revisions_compacted_by_other_clients_are_reported(
    own_etcd: EtcdProcess, open_store: Stores
) -> None:
    """Rows K31, Q01: another client may compact at any time, in the middle of a list or a watch."""
    store = open_store(own_etcd.url)
    revisions = [await store.create(P + name, name.encode()) for name in "abc"]
    page = await store.list(ALL, limit=1)
    last = await store.compare_and_put(P + "a", b"2", expected=revisions[0])
    own_etcd.ctl("compaction", str(last))
    with pytest.raises(RevisionCompacted) as gone:
        await store.list(KeyRange(after(page.items[-1].key), ALL.end), ReadAt.exactly(page.revision))
    assert gone.value.requested == page.revision
    with pytest.raises(RevisionCompacted):
        await store.get(P + "a", ReadAt.exactly(revisions[0]))
    with pytest.raises(RevisionCompacted):
        await store.count(ALL, ReadAt.exactly(revisions[0]))
    with pytest.raises(RevisionCompacted) as gone:
        await events(store, ALL, after=revisions[0], count=1)
    assert gone.value.oldest == last
    assert await store.count(ALL) == 3
    await store.compact(revisions[0])  # what is compacted already does no harm


async def test_a_watch_may_wait_for_the_highest_revision(etcd: EtcdProcess, open_store: Stores) -> None:
    """`after` may lie ahead of the current revision, and resourceVersions go up to REVISION_MAX."""
    watch = open_store(etcd.url).watch(ALL, after=REVISION_MAX)
    async with asyncio.timeout(WITHIN_S):
        assert not (await anext(aiter(watch))).events
    await watch.close()


# ---- lost requests and answers


class Proxy:
    """A connection to etcd that can be cut at a chosen point: before a request or before its answer."""

    def __init__(self, upstream: str) -> None:
        self._upstream_port = int(upstream.rsplit(":", 1)[1])
        self.url = ""
        self.passes_requests = self.passes_answers = True
        self.request_held = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()
        await self._server.wait_closed()

    def accept_no_more(self) -> None:
        self._server.close()

    def cut(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        self._writers += [writer, up_writer]
        await asyncio.gather(
            self._pump(reader, up_writer, is_request=True), self._pump(up_reader, writer, is_request=False)
        )

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_request: bool
    ) -> None:
        try:
            while data := await source.read(65_536):
                if self.passes_requests if is_request else self.passes_answers:
                    sink.write(data)
                    await sink.drain()
                elif is_request:
                    self.request_held.set()
        except OSError:
            pass
        sink.close()


async def test_a_write_whose_answer_is_lost_is_unknown_and_happened(
    etcd: EtcdProcess, open_store: Stores
) -> None:
    """It is not repeated on another endpoint, where its own first attempt would cause KeyExists."""
    direct = open_store(etcd.url)
    start = await direct.current_revision()
    async with Proxy(etcd.url) as proxy:
        store = open_store(proxy.url, etcd.url)
        await store.check_health()
        proxy.passes_answers = False
        writing = asyncio.create_task(store.create("/unknown/a", b"1"))
        await events(direct, prefix_range("/unknown/"), after=start, count=1)
        proxy.cut()
        with pytest.raises(OutcomeUnknown):
            await writing
        assert (await store.get("/unknown/a")).stored is not None  # through the other endpoint
        with pytest.raises(KeyExists):
            await store.create("/unknown/a", b"1")


async def test_a_write_that_does_not_arrive_is_unknown_and_did_not_happen(
    etcd: EtcdProcess, open_store: Stores
) -> None:
    async with Proxy(etcd.url) as proxy:
        store = open_store(proxy.url)
        await store.check_health()
        proxy.passes_requests = False
        writing = asyncio.create_task(store.create("/unknown/b", b"1"))
        async with asyncio.timeout(WITHIN_S):
            await proxy.request_held.wait()
        proxy.cut()
        with pytest.raises(OutcomeUnknown):
            await writing
        proxy.passes_requests = True
        read = await until_answered(lambda: store.get("/unknown/b"))
        assert read.stored is None


async def test_a_read_whose_answer_is_lost_is_repeated_elsewhere(
    etcd: EtcdProcess, open_store: Stores
) -> None:
    async with Proxy(etcd.url) as proxy:
        store = open_store(proxy.url, etcd.url)
        await store.create("/unknown/c", b"1")
        proxy.passes_requests = False
        reading = asyncio.create_task(store.get("/unknown/c"))
        async with asyncio.timeout(WITHIN_S):
            await proxy.request_held.wait()
        proxy.cut()
        read = await reading
        assert read.stored is not None


async def test_a_watch_whose_member_accepts_no_connection_moves_to_another(
    etcd: EtcdProcess, open_store: Stores
) -> None:
    """The member still responds to the calls on the connection that it has accepted."""
    async with Proxy(etcd.url) as proxy:
        store = open_store(proxy.url, etcd.url)
        await store.check_health()
        proxy.accept_no_more()
        with pytest.raises(StorageUnavailable, match=f"{proxy.url}: UNAVAILABLE: .*connect"):
            await anext(aiter(store.watch(ALL, after=REVISION_MAX)))
        watch = store.watch(ALL, after=REVISION_MAX)
        assert not (await anext(aiter(watch))).events
        await watch.close()


async def test_cancelled_calls_do_not_affect_others(etcd: EtcdProcess, open_store: Stores) -> None:
    store = open_store(etcd.url)
    tasks = [asyncio.create_task(store.create(f"/cancelled/{n:02}", b"")) for n in range(60)]
    asked = [asyncio.create_task(store.current_revision()) for _ in range(20)]
    for task in tasks[:20]:
        task.cancel()  # before it began
    await asyncio.sleep(0)
    for task in tasks[20:40] + asked[:10]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, int) for result in results[40:])
    assert all(revision > 0 for revision in await asyncio.gather(*asked[10:]))
    found = [int(item.key[-2:]) for item in (await store.list(prefix_range("/cancelled/"))).items]
    assert not set(found) & set(range(20)), "a write happened that had not begun"
    assert set(found) >= set(range(40, 60))
