"""The basic workloads. Each yields its results; the keys of WORKLOADS are the command line's names."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.interface import Storage
from benchmarks import load, processes, watch_clients
from benchmarks.bodies import config_map, pod
from benchmarks.fan_out import Body, FanOut, Round
from benchmarks.processes import Measured
from benchmarks.report import Result
from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.server_process import ServerProcess

CONNECTIONS: Final = 16
# Connections for lists.
LISTING: Final = 4
LISTED_OBJECTS: Final = 5_000
STORED_OBJECTS: Final = 100_000
WATCHERS: Final = 200
EVENTS: Final = 300
# A Pod of 4 KB has hundreds of values, with rules for nearly all; its bare limit validates none of them.
POD_LEAST: Final = 0.25
# How often the server and its bare limit alternate; the medians of the rounds count.
ROUNDS: Final = 5
STARTS: Final = 5
MIB: Final = 1024 * 1024
CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"
PODS: Final = "/api/v1/namespaces/{}/pods"


# How long each rate is measured by default.
SECONDS: Final = 5.0


# The stores by name, with the flags of a server besides its URL. The first is in the server's process.
EMBEDDED: Final = "embedded"
STORES: Final[Mapping[str, tuple[str, ...]]] = {
    EMBEDDED: (),
    "etcd": (),
    "etcd-grpc": ("--etcd-transport=grpc",),
}
DEFAULT_STORES: Final = (EMBEDDED, "etcd")


@dataclass(frozen=True, slots=True)
class Settings:
    """seconds: how long each rate is measured. stores: names of those that the basic workloads measure."""

    seconds: float
    directory: Path
    stores: Sequence[str] = DEFAULT_STORES

    def at_most(self, count: int) -> int:
        """Returns `count`, or proportionally fewer in a shorter run."""
        return max(1, round(count * min(1.0, self.seconds / SECONDS)))


Workload = Callable[[Settings], AsyncIterator[Result]]


# ---- common parts


@contextmanager
def server(
    settings: Settings, *flags: str, module: str | None = None
) -> Iterator[tuple[ServerProcess, Measured]]:
    """Runs a server. module: as in `ServerProcess`."""
    with tempfile.TemporaryDirectory(dir=settings.directory) as directory:
        process = ServerProcess(Path(directory) / "data", "--controllers=-*", *flags, module=module)
        with process:
            yield process, Measured(process.pid, process.url)


@contextmanager
def etcd(settings: Settings) -> Iterator[str]:
    """Run an etcd and yield its URL; empty if there is no etcd."""
    binary = next(iter(etcd_binaries().values()), None)
    if binary is None:
        yield ""
        return
    with tempfile.TemporaryDirectory(dir=settings.directory) as directory:
        etcd = EtcdProcess(binary, Path(directory)).start()
        try:
            yield etcd.url
        finally:
            etcd.stop()


class Store(NamedTuple):
    """A store to measure. flags: of its server. location: an etcd's URL, or a directory."""

    name: str
    flags: tuple[str, ...]
    location: str


def stores(settings: Settings) -> Iterator[Store]:
    """Yields each store, while its etcd runs. Those whose etcd this machine lacks are left out."""
    for name in settings.stores:
        if name == EMBEDDED:
            with tempfile.TemporaryDirectory(dir=settings.directory) as directory:
                yield Store(name, (), directory)
            continue
        with etcd(settings) as url:
            if url:
                yield Store(name, (f"--etcd-servers={url}", *STORES[name]), url)
            else:
                print(f"{name}: NOT MEASURED: this machine has no etcd")


@contextmanager
def bare_bytes(settings: Settings, body: bytes, kind: str = "bytes") -> Iterator[Measured]:
    path = settings.directory / "body"
    path.write_bytes(body)
    with processes.bare(kind, str(path)) as measured:
        yield measured


async def make_namespace(url: str, name: str) -> None:
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
    await load.run(url, load.each_of(iter([load.request("POST", "/api/v1/namespaces", body)])), connections=1)


async def create(url: str, target: str, body: Callable[[int], bytes], count: int) -> None:
    """Create `count` objects. body: makes one from its number."""
    creates = (load.request("POST", target, body(n)) for n in range(count))
    await load.run(url, load.each_of(creates), connections=32)


async def fill(url: str, namespace: str, count: int) -> None:
    """Create `count` ConfigMaps of 1 KB, one in ten labelled tenth=yes."""

    def body(number: int) -> bytes:
        return config_map(f"c-{number:06}", {"tenth": "no" if number % 10 else "yes"})

    await make_namespace(url, namespace)
    await create(url, CONFIGMAPS.format(namespace), body, count)


async def body_of(url: str, target: str, headers: Mapping[str, str] = load.NO_HEADERS) -> bytes:
    """The body of a GET. Raises UnexpectedAnswer."""
    reader, writer = await asyncio.open_connection(*load.address(url), ssl=load.tls_context())
    # HTTP/1.0: the answer ends with the connection, and has no chunks.
    writer.write(load.request("GET", target, headers=headers).replace(b" HTTP/1.1", b" HTTP/1.0", 1))
    answer = await reader.read(-1)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise load.UnexpectedAnswer(answer[:500].decode(errors="replace"))
    return body


async def rate(
    measured: Measured, next_request: load.NextRequest, connections: int = CONNECTIONS
) -> tuple[load.Load, float]:
    """Run a load; returns it, and the server's CPU time for each answer in microseconds."""
    async with load.Connections.to(measured.url, connections) as opened:
        return await rate_on(opened, measured, next_request)


async def rate_on(
    opened: load.Connections, measured: Measured, next_request: load.NextRequest
) -> tuple[load.Load, float]:
    """Do the same on connections that are open already."""
    before = measured.cpu_s()
    done = await opened.run(next_request)
    return done, (measured.cpu_s() - before) / done.answers * 1e6


# Makes requests for a number of seconds.
RequestsFor = Callable[[float], load.NextRequest]


def repeatedly(target: str, headers: Mapping[str, str] = load.NO_HEADERS) -> RequestsFor:
    """Repeat one GET."""
    request = load.request("GET", target, headers=headers)
    return lambda for_s: load.repeated(request, for_s=for_s)


def posts(target: str, body: Callable[[str], bytes]) -> RequestsFor:
    """Creates of objects with new names."""
    numbers = itertools.count()
    return lambda for_s: load.generated(
        lambda: load.request("POST", target, body(f"c-{next(numbers):06}")), for_s=for_s
    )


class LoadTarget(NamedTuple):
    """A server, and the requests to send to it."""

    measured: Measured
    requests: RequestsFor


async def compare(
    settings: Settings,
    work: str,
    target_ratio: float,
    ours: LoadTarget,
    limit: LoadTarget,
    connections: int = CONNECTIONS,
) -> Result:
    """The medians of rounds that alternate between the server and its limit."""
    rates, limit_rates, costs = [], [], []
    for_s = settings.seconds / ROUNDS
    # Opened before the rounds, which may be short.
    async with (
        load.Connections.to(limit.measured.url, connections) as to_limit,
        load.Connections.to(ours.measured.url, connections) as to_ours,
    ):
        for _ in range(ROUNDS):
            bare, _ = await rate_on(to_limit, limit.measured, limit.requests(for_s))
            done, cpu_us = await rate_on(to_ours, ours.measured, ours.requests(for_s))
            rates.append(done.per_second)
            limit_rates.append(bare.per_second)
            costs.append(cpu_us)
    median = statistics.median
    return Result(work, "/s", median(rates), median(limit_rates), target_ratio, cpu_us=median(costs))


# ---- reads


async def gets(settings: Settings) -> AsyncIterator[Result]:
    """Gets of one object of 1 KB."""
    for store in stores(settings):
        with server(settings, *store.flags) as (_, measured):
            await fill(measured.url, "bench", 10)
            target = CONFIGMAPS.format("bench") + "/c-000001"
            for work, query, target_ratio in (
                ("GET from cache (RV=0)", "?resourceVersion=0", 0.45),
                ("GET consistent", "", 0.45 if store.name == EMBEDDED else 0.35),
            ):
                yield await compare_get_with_bare(
                    settings, measured, f"{work}, {store.name}", target + query, target_ratio
                )


async def compare_get_with_bare(
    settings: Settings, measured: Measured, work: str, target: str, target_ratio: float
) -> Result:
    with bare_bytes(settings, await body_of(measured.url, target)) as limit:
        ours = LoadTarget(measured, repeatedly(target))
        return await compare(settings, work, target_ratio, ours, LoadTarget(limit, repeatedly("/")))


async def lists(settings: Settings) -> AsyncIterator[Result]:
    """Lists of 5,000 objects of 1 KB."""
    for store in stores(settings):
        with server(settings, *store.flags) as (_, measured):
            await fill(measured.url, "bench", LISTED_OBJECTS)
            target = CONFIGMAPS.format("bench")
            for work, query, target_ratio in (
                ("LIST 5,000 x 1 KB from cache", "?resourceVersion=0", 0.8),
                ("LIST 5,000 x 1 KB consistent", "", 0.8),
                ("LIST limit=500", "?limit=500", 0.6),
                ("LIST label 1 in 10", "?labelSelector=tenth%3Dyes", 0.0),
            ):
                ours = LoadTarget(measured, repeatedly(target + query))
                with bare_bytes(settings, await body_of(measured.url, target + query)) as limit:
                    bare = LoadTarget(limit, repeatedly("/"))
                    work = f"{work}, {store.name}"
                    yield await compare(settings, work, target_ratio, ours, bare, LISTING)


# ---- writes


async def writes(settings: Settings) -> AsyncIterator[Result]:
    """Writes, compared with parsing and putting the same bytes into the same kind of store."""
    for store in stores(settings):
        async for result in _writes(settings, store):
            yield result


async def _writes(settings: Settings, store: Store) -> AsyncIterator[Result]:
    target, target_ratio = CONFIGMAPS.format("bench"), 0.45 if store.name == EMBEDDED else 0.4
    with server(settings, *store.flags) as (_, measured):
        await make_namespace(measured.url, "bench")
        with processes.bare("put", store.location) as limit:
            turns = itertools.count()

            def update() -> bytes:
                turn = next(turns)
                name = f"c-{turn % 200:06}"
                return load.request("PUT", f"{target}/{name}", config_map(name, marker=str(turn)))

            def updates(for_s: float) -> load.NextRequest:
                return load.generated(update, for_s=for_s)

            for work, work_target_ratio, requests, body in (
                ("create", target_ratio, posts(target, config_map), config_map),
                ("update", target_ratio, updates, config_map),
                ("create of a Pod of 4 KB", POD_LEAST, posts(PODS.format("bench"), pod), pod),
            ):
                ours, bare = LoadTarget(measured, requests), LoadTarget(limit, posts("/", body))
                yield await compare(settings, f"{work}, {store.name}", work_target_ratio, ours, bare)
        alone = await _store_alone(store, settings.seconds)
        yield Result(f"  (the {store.name} store's client alone)", "/s", alone)


async def _store_alone(measured: Store, seconds: float) -> float:
    """Puts per second into a store without a server, as many at a time as there are connections."""
    store: Storage
    if measured.name == EMBEDDED:
        store = await EmbeddedStore.open(Path(measured.location) / "alone")
    else:
        transport = "grpc" if measured.name == "etcd-grpc" else "http2"
        store = EtcdStore(EtcdClient([measured.location], transport=transport), prefix="/alone")
    value, count, ends = config_map("c"), itertools.count(), time.perf_counter() + seconds

    async def put() -> None:
        while time.perf_counter() < ends:
            await store.create(f"/alone/{next(count):09}", value)

    began = time.perf_counter()
    await asyncio.gather(*(put() for _ in range(CONNECTIONS)))
    per_second = next(count) / (time.perf_counter() - began)
    await store.close()
    return per_second


# ---- watches


async def watches(settings: Settings) -> AsyncIterator[Result]:
    """300 events to 200 watchers: deliveries per second, and their delays."""
    for store in stores(settings):
        async with fan_outs(settings, WATCHERS, *store.flags) as (ours, bare):
            rounds = [(await ours.round(EVENTS), await bare.round(EVENTS)) for _ in range(ROUNDS)]
        yield full_speed_result(f"fan-out, {WATCHERS} watchers x {EVENTS}, {store.name}", rounds)
        for name in ("p50", "p99"):
            yield delay_result(name, rounds)


class WatchedResource(NamedTuple):
    """A resource to watch. target: its path, with `{}` for the namespace. body: makes an object."""

    target: str
    body: Body

    def unstamped(self, number: int) -> bytes:
        return self.body(number, "")


def _stamped_config_map(number: int, stamp: str) -> bytes:
    return config_map(f"c-{number:06}", marker=stamp)


WATCHED_CONFIGMAPS: Final = WatchedResource(CONFIGMAPS, _stamped_config_map)
# For the watches, and for the sample of an event that the bare limit sends: names of one length.
_WATCHED_NAMESPACE: Final = "bench"
_SAMPLE_NAMESPACE: Final = "other"


@asynccontextmanager
async def fan_outs(settings: Settings, watchers: int, *flags: str) -> AsyncIterator[tuple[FanOut, FanOut]]:
    """The fan-outs of ConfigMaps of the server and of the bare limit."""
    with server(settings, *flags) as (_, measured):
        await make_fan_out_namespaces(measured.url)
        async with fan_outs_on(WATCHED_CONFIGMAPS, measured, watchers) as both:
            yield both


async def make_fan_out_namespaces(url: str) -> None:
    for name in (_WATCHED_NAMESPACE, _SAMPLE_NAMESPACE):
        await make_namespace(url, name)


@asynccontextmanager
async def fan_outs_on(
    watched: WatchedResource, measured: Measured, watchers: int
) -> AsyncIterator[tuple[FanOut, FanOut]]:
    """The fan-outs of the server and of the bare limit, which sends the same bytes to as many connections.

    The namespaces must exist, without objects of `watched`.
    """
    target = watched.target.format(_WATCHED_NAMESPACE)
    with processes.bare("fan-out") as limit:
        event = await _event(measured.url, watched)
        async with (
            FanOut.on(measured, f"{target}?watch=true", target, watched.body, watchers=watchers) as ours,
            FanOut.on(
                limit, "/", "/", lambda _, stamp: event.replace(b"STAMP", stamp.encode()), watchers=watchers
            ) as bare,
        ):
            yield ours, bare


def full_speed_result(work: str, rounds: Sequence[tuple[Round, Round]]) -> Result:
    """Deliveries per second: the medians of rounds that alternate between server and bare limit."""
    middle, bare_middle = (
        sorted(side, key=lambda one: one.deliveries_per_second)[len(side) // 2]
        for side in zip(*rounds, strict=True)
    )
    return Result(
        work,
        "/s",
        middle.deliveries_per_second,
        bare_middle.deliveries_per_second,
        0.6,
        cpu_us=middle.cpu_us,
        note=f"ours {middle.shares}: {middle.limit}\n"
        f"bare {bare_middle.shares}: {bare_middle.limit}\n"
        f"the server's CPU for a delivery: ours {middle.cpu_us:.1f} us, bare {bare_middle.cpu_us:.1f} us",
    )


def delay_result(name: str, rounds: Sequence[tuple[Round, Round]], at_most_ms: float = 0) -> Result:
    """The median of the rounds. name: the statistic of the delays, as `p99`."""
    return Result(
        f"  delay of a delivery, {name}",
        "ms",
        statistics.median(ours.received.delays_s[name] for ours, _ in rounds) * 1e3,
        statistics.median(bare.received.delays_s[name] for _, bare in rounds) * 1e3,
        at_most_ms,
        is_bound=bool(at_most_ms),
    )


async def _event(url: str, watched: WatchedResource) -> bytes:
    """The event of a create as a watch receives it, with STAMP for the stamp."""
    target = watched.target.format(_SAMPLE_NAMESPACE)
    stamp = watch_clients.stamp()
    creates = iter([load.request("POST", target, watched.body(0, stamp))])
    await load.run(url, load.each_of(creates), connections=1)
    events = await body_of(url, f"{target}?watch=true&timeoutSeconds=1")
    return (events.partition(b"\n")[0] + b"\n").replace(stamp.encode(), b"STAMP")


# ---- start and memory


async def start(settings: Settings) -> AsyncIterator[Result]:
    """The time from the command to the `ready` line, with an empty and with a used directory."""
    with tempfile.TemporaryDirectory(dir=settings.directory) as directory:
        first = processes.seconds_until_ready(Path(directory) / "data")
        times = [processes.seconds_until_ready(Path(directory) / "data") for _ in range(STARTS)]
    yield Result("start to ready, the very first", "s", first, target=0.8, is_bound=True)
    yield Result("start to ready", "s", statistics.median(times), target=0.8, is_bound=True)


async def memory(settings: Settings) -> AsyncIterator[Result]:
    """Resident memory, and how one list of everything affects it and other requests."""
    # A forked one has imported what it needs only later.
    with server(settings, module="apiserver") as (_, measured):
        yield Result("memory idle", "MB", measured.memory_bytes() / MIB, target=80, is_bound=True)
        await fill(measured.url, "bench", STORED_OBJECTS)
        yield Result(
            f"memory with {STORED_OBJECTS:,} x 1 KB",
            "MB",
            measured.memory_bytes() / MIB,
            target=400,
            is_bound=True,
        )
        before = measured.memory_bytes()
        peak, stall = await _list_while_pinging(measured, settings)
        size = f"{STORED_OBJECTS * 1.2 / 1e3:.0f} MB"
        yield Result(
            f"memory that a list of {size} adds", "MB", (peak - before) / MIB, target=20, is_bound=True
        )
        yield Result(f"longest stall during a list of {size}", "ms", stall * 1e3, target=50, is_bound=True)


async def _list_while_pinging(measured: Measured, settings: Settings) -> tuple[int, float]:
    """The peak memory while everything is listed three times, and the longest wait of a ping meanwhile."""
    peak = 0

    async def watch_memory() -> None:
        nonlocal peak
        while True:
            peak = max(peak, measured.memory_bytes())
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch_memory())
    lists_left = itertools.repeat(load.request("GET", CONFIGMAPS.format("bench")), 3)
    async with processes.pings(measured.url) as pings:
        await load.run(measured.url, load.each_of(lists_left), connections=1)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    return peak, pings.longest_s


WORKLOADS: Final[Mapping[str, Workload]] = {
    "get": gets,
    "list": lists,
    "write": writes,
    "watch": watches,
    "start": start,
    "memory": memory,
}
