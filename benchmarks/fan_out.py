"""One writer and many watches: deliveries per second, their delay, and which process is the limit."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

from benchmarks import load
from benchmarks.processes import Measured, WatchClients, machine_cpu_s
from benchmarks.watch_clients import Received, stamp

# At full speed, few enough that the server is never behind by more events than it sends together.
WRITERS: Final = 4
# At a given rate, enough that a slow answer does not delay other writes.
PACED_WRITERS: Final = 16
# A process that uses this share of a core is the limit.
_BUSY: Final = 0.85
# If other processes use this share of a core, a figure is not reliable.
_DISTURBED: Final = 0.2

# Makes the body of a write from its number and its stamp.
Body = Callable[[int, str], bytes]


@dataclass(frozen=True, slots=True)
class Round:
    """The figures of one round.

    seconds: from the first write until the last watch has read the last event.
    written: the writes, at the rate that was reached. The shares are of one core.
    """

    received: Received
    written: load.Load
    seconds: float
    server_share: float
    readers_share: float
    writers_share: float
    others_share: float

    @property
    def deliveries_per_second(self) -> float:
        return self.received.deliveries / self.seconds

    @property
    def cpu_us(self) -> float:
        """The server's CPU time for each delivery."""
        return self.server_share * self.seconds / self.received.deliveries * 1e6

    @property
    def shares(self) -> str:
        return (
            f"of a core: server {self.server_share:.0%}, reading client {self.readers_share:.0%}, "
            f"writing client {self.writers_share:.0%}, other processes {self.others_share:.0%}"
        )

    @property
    def limit(self) -> str:
        """Which process kept the round from being faster, in words."""
        if self.others_share >= _DISTURBED:
            return "OTHER PROCESSES DISTURB: do not trust this"
        if self.readers_share >= _BUSY:
            also = " as much as the server" if self.server_share >= _BUSY else ", not the server"
            return f"THE READING CLIENT IS THE LIMIT{also}: the server could do more"
        if self.writers_share >= _BUSY:
            return "THE WRITING CLIENT IS THE LIMIT: the server could do more"
        if self.server_share >= _BUSY:
            return "the server is the limit"
        return "nobody is busy all the time: they wait for each other or for the disk"


class FanOut:
    """Watches and writers of one server that stay connected over several rounds."""

    def __init__(
        self,
        measured: Measured,
        watch_clients: WatchClients,
        writers: load.Connections,
        paced_writers: load.Connections,
        target: str,
        body: Body,
    ) -> None:
        self._measured = measured
        self._followers = watch_clients
        self._writers, self._paced_writers = writers, paced_writers
        self._target, self._body = target, body
        self._numbers = itertools.count()

    @classmethod
    @asynccontextmanager
    async def on(
        cls, measured: Measured, watch_target: str, write_target: str, body: Body, *, watchers: int
    ) -> AsyncIterator[Self]:
        url = measured.url
        async with (
            WatchClients.of(url, watch_target, watchers) as watch_clients,
            load.Connections.to(url, WRITERS) as writers,
            load.Connections.to(url, PACED_WRITERS) as paced_writers,
        ):
            yield cls(measured, watch_clients, writers, paced_writers, write_target, body)

    async def round(self, events: int, *, per_second: float = 0) -> Round:
        """Send `events` to all watches. per_second: the rate of writes; 0 for as fast as answers come."""
        left = iter(range(events))

        def write() -> bytes | None:
            if next(left, None) is None:
                return None
            return load.request("POST", self._target, self._body(next(self._numbers), stamp()))

        await self._followers.expect(events)
        everybody_before, server_before = machine_cpu_s(), self._measured.cpu_s()
        writers_before = time.process_time()
        began = time.perf_counter()
        if per_second:
            written = await self._paced_writers.paced(write, per_second=per_second)
        else:
            written = await self._writers.run(write)
        received = await self._followers.received()
        writers_s = time.process_time() - writers_before
        server_s = self._measured.cpu_s() - server_before
        everybody_s = machine_cpu_s() - everybody_before
        seconds = received.ended_at - began
        return Round(
            received=received,
            written=written,
            seconds=seconds,
            server_share=server_s / seconds,
            readers_share=received.cpu_s / seconds,
            writers_share=writers_s / seconds,
            others_share=max(0.0, everybody_s - server_s - received.cpu_s - writers_s) / seconds,
        )
