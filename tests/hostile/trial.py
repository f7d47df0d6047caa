"""One attack on one server, from its start to what is left of the attack."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from tests.hostile.attack import Attack, Stage
from tests.hostile.probe import Waits
from tests.hostile.site import permissions
from tests.hostile.support import LongestTurn, Stalls, longest_between, stalls_of
from tests.hostile.targets import Target
from tests.hostile.victim import Experience

SECONDS: Final = 8.0
# What this server logs of a long turn of its event loop.
STALLED: Final = "the event loop was blocked"
# What the server keeps of what clients have stored: objects, and the history that watches are promised.
_DATA: Final = re.compile(r"^apiserver_watch_cache_(?:object|history)_bytes\{[^}]*\} (\S+)$", re.MULTILINE)
# How long memory has time to come back.
SETTLE_S: Final = 20.0
SAMPLE_S: Final = 0.02
# Tries to have the server tell its turns; a scrape may be refused while it works on others.
SCRAPES_MAX: Final = 100
# The end of a process that was told to end: an answer that the victim still waits for is waited for.
END_WITHIN_S: Final = 120.0

# The bounds that every attack keeps.
GET_P99_MS: Final = 100.0
WRITE_P99_MS: Final = 250.0
TURN_S: Final = 0.050
PEAK_BYTES: Final = 512_000_000
# What clients have stored is not the attack's: it stays until it is deleted.
RETURNED: Final = 1.2


@dataclass
class Memory:
    """The resident memory of the server in bytes.

    data: by how much more of it are objects and their history after the attack, as the server tells.
    settled_s: when it had come back; None if it did not.
    """

    before: int = 0
    peak: int = 0
    after: int = 0
    data: int = 0
    settled_s: float | None = None

    @property
    def growth(self) -> float:
        """How many times as much is in use as before, beside what is data."""
        return (self.after - self.data) / max(1, self.before)


class Bound(enum.Enum):
    """What an attack must not do: to the server, and to those who have nothing to do with it."""

    ALIVE = enum.auto()
    REFUSED = enum.auto()
    FAILED = enum.auto()
    TURN = enum.auto()
    PEAK = enum.auto()
    RETURNED = enum.auto()
    DELAY = enum.auto()


@dataclass
class Trial:
    """The outcome of an attack.

    victim: by what it does. turn: the longest, if the server tells. answers: what the attackers got.
    stalls: what the server says that held it up.
    """

    attack: str
    finding: str
    scale: int
    victim: dict[str, Experience] = field(default_factory=dict)
    turn: LongestTurn | None = None
    waits: Waits = field(default_factory=Waits)
    memory: Memory = field(default_factory=Memory)
    answers: Counter[str] = field(default_factory=Counter)
    stalls: list[str] = field(default_factory=list)
    is_alive: bool = True

    def delay_ms(self, what: str, quantile: float) -> float:
        """A quantile of the victim's delays, by nearest rank."""
        delays = sorted(self.victim[what].delays_ms)
        return delays[math.ceil(len(delays) * quantile) - 1] if delays else math.inf

    @property
    def refused(self) -> Counter[str]:
        """What the victim and the health probe were refused, and how."""
        found = Counter(f"{what} {how}" for what, got in self.victim.items() for how in got.refusals)
        found.update(f"livez {how}" for how in self.waits.refusals)
        return found

    def missed(self, *, slowness: float = 1.0) -> dict[Bound, str]:
        """The bounds that were not kept, and how they were missed.

        slowness: how many times longer a turn may take, on a machine that is slower, or shared.
        """
        memory = self.memory
        found = {}
        if not self.is_alive:
            found[Bound.ALIVE] = "the server ended"
        if self.refused:
            found[Bound.REFUSED] = f"refused: {dict(self.refused)}"
        if failed := self.answers["500"]:
            found[Bound.FAILED] = f"{failed} answers 500"
        if self.turn is not None and self.turn.thread_cpu_s > slowness * TURN_S:
            found[Bound.TURN] = f"a turn of up to {self.turn.thread_cpu_s * 1e3:.0f} ms"
        if memory.peak - memory.before > PEAK_BYTES:
            found[Bound.PEAK] = f"peak {(memory.peak - memory.before) / 1e6:.0f} MB above before"
        if memory.growth > RETURNED:
            found[Bound.RETURNED] = f"memory after is {memory.growth:.2f} x before, beside what is data"
        delays = {"get": GET_P99_MS, "write": WRITE_P99_MS, "lease": WRITE_P99_MS}
        if late := [what for what, bound_ms in delays.items() if self.delay_ms(what, 0.99) > bound_ms]:
            found[Bound.DELAY] = f"p99 of {', '.join(late)}"
        return found


class ProcessEnded(Exception):
    """One of our processes ended early: the attack, or the measurement, has a mistake."""


class _Process:
    """One of our processes: begins to work at `begin`, and prints what it found after `end`."""

    def __init__(self, process: asyncio.subprocess.Process, module: str) -> None:
        self._process, self._module = process, module

    @classmethod
    @asynccontextmanager
    async def of(cls, module: str, *arguments: str) -> AsyncIterator[_Process]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"tests.hostile.{module}", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=16_000_000,
        )
        try:
            started = cls(process, module)
            await started._line()
            yield started
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await self._process.stdin.drain()

    async def end(self) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(END_WITHIN_S):
            found = json.loads(await self._line())
            await self._process.wait()
            return found

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise ProcessEnded(f"{self._module} ended early; its error is above")
        return line


def resident_bytes(pid: int) -> int:
    """The resident memory of a process and of its children. 0 if it has ended."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return 0
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0


async def _sample(pid: int, memory: Memory) -> None:
    while True:
        memory.peak = max(memory.peak, resident_bytes(pid))
        await asyncio.sleep(SAMPLE_S)


async def _settle(pid: int, memory: Memory, settle_s: float) -> None:
    """Wait until memory is back, or until it has had its time."""
    began = time.monotonic()
    while True:
        memory.after = resident_bytes(pid)
        passed_s = time.monotonic() - began
        if memory.growth <= RETURNED:
            memory.settled_s = passed_s
            return
        if passed_s > settle_s:
            return
        await asyncio.sleep(0.1)


async def run_trial(
    attack: Attack,
    target: Target,
    directory: Path,
    *,
    scale: int = 1,
    seconds: float = SECONDS,
    settle_s: float = SETTLE_S,
) -> Trial:
    """Start a server, attack it for some seconds, and tell what others noticed.

    Raises NotPrepared, ProcessEnded.
    """
    with ExitStack() as processes:
        flags = attack.flags
        if attack.before is not None:
            flags += await asyncio.to_thread(attack.before, directory, processes)
        server = await asyncio.to_thread(target, directory, flags, processes)
        site = replace(server.site, scale=scale)
        trial = Trial(attack.name, attack.finding, scale)
        async with AsyncExitStack() as stack:
            await _attack(attack, Stage(site, stack), trial, seconds)
            await _settle(site.pid, trial.memory, settle_s)
        trial.is_alive = resident_bytes(site.pid) > 0
        trial.stalls = [line for line in server.log().splitlines() if STALLED in line]
        return trial


class Told(NamedTuple):
    """What a scrape tells: of long turns, which not every server knows, and how many bytes are data."""

    stalls: Stalls
    data_bytes: int


async def _scrape(stage: Stage) -> Told:
    async with stage.admin() as session:
        # The one who asks is told of the turn that is under way only by the next answer.
        await session.ask("GET", "/version")
        for _ in range(SCRAPES_MAX):
            status, body = await session.ask("GET", "/metrics")
            if status == HTTPStatus.OK:
                text = body.decode()
                return Told(stalls_of(text), round(sum(map(float, _DATA.findall(text)))))
        return Told({}, 0)


async def _attack(attack: Attack, stage: Stage, trial: Trial, seconds: float) -> None:
    await stage.make(*permissions())
    if attack.prepare is not None:
        await attack.prepare(stage)
    site, argument = stage.site, stage.site.to_argument()
    async with AsyncExitStack() as stack:
        victim = await stack.enter_async_context(_Process.of("victim", argument))
        probe = await stack.enter_async_context(_Process.of("probe", argument))
        attackers = [
            await stack.enter_async_context(_Process.of("attacker", argument, attack.name, str(number)))
            for number in range(attack.processes)
        ]
        before = await _scrape(stage)
        trial.memory.before = resident_bytes(site.pid)
        sampling = asyncio.create_task(_sample(site.pid, trial.memory))
        for process in (victim, probe, *attackers):
            await process.begin()
        await asyncio.sleep(max(seconds, attack.seconds_min))
        for attacker in attackers:
            trial.answers.update(await attacker.end())
        # What the attackers left behind still belongs to the attack.
        await asyncio.sleep(1.0)
        trial.victim = {name: Experience(**each) for name, each in (await victim.end()).items()}
        trial.waits = Waits(**await probe.end())
        after = await _scrape(stage)
        trial.memory.data = max(0, after.data_bytes - before.data_bytes)
        if before.stalls and after.stalls:
            trial.turn = longest_between(before.stalls, after.stalls)
        sampling.cancel()
        await asyncio.wait([sampling])
