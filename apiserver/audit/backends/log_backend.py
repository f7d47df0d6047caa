"""Writes events to a file, or to standard output, as lines.

Source: k8s.io/apiserver, plugin/pkg/audit/log.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple, cast

import orjson

from apiserver.audit.backends.batches import HELD_BYTES_MAX, STOPPED, Batches
from apiserver.audit.backends.dropped_events import DroppedEvents
from apiserver.audit.backends.log_file import LogOutput
from apiserver.audit.backends.options import BATCH, BLOCKING_STRICT, LEGACY, DeliveryOptions
from apiserver.audit.events import Event, Render, legacy_line, pieces_of, without_objects
from apiserver.metrics.audit import AuditMetrics

# As much is written by one call, unless one event alone is larger.
GROUP_BYTES_MAX: Final = 1024 * 1024
# For so many turns of a busy event loop events wait for others that are written with them. For each group the
# loop and the thread wait for each other, and for the interpreter's lock: on 16 connections a request cost
# 117 us with the events of one turn, which were those of half the connections, and 87 us with two or four.
TURNS_MAX: Final = 4
# How long the last events may take when the server stops.
FLUSH_S: Final = 10.0
# What is written later than this after something else does not follow it.
_FOLLOWS_WITHIN_S: Final = 0.002
_STOPPED: Final = "the server stopped before the events were written"
_END: Final = b"}\n"


class LineGroup(NamedTuple):
    """Lines that are written together. on_written: called on the event loop with the error, if any."""

    pieces: Sequence[bytes]
    on_written: Callable[[OSError | None], None]


class WriterThread:
    """Writes groups of lines one after the other."""

    def __init__(self, output: LogOutput, loop: asyncio.AbstractEventLoop) -> None:
        self._output, self._loop = output, loop
        self._groups: SimpleQueue[LineGroup | None] = SimpleQueue()
        # A disk that hangs must not keep the server from ending.
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)
        self._thread.start()

    def write(self, group: LineGroup) -> None:
        self._groups.put(group)

    def _run(self) -> None:
        while (group := self._next()) is not None:
            error: OSError | None = None
            try:
                self._output.write(group.pieces)
            except OSError as failure:
                error = failure
            with contextlib.suppress(RuntimeError):  # The loop has closed.
                self._loop.call_soon_threadsafe(group.on_written, error)
        self._output.close()

    def _next(self) -> LineGroup | None:
        """Wait for the next group to write; returns None at the end."""
        try:
            return self._groups.get(timeout=_FOLLOWS_WITHIN_S)
        except Empty:
            self._output.release()
        return self._groups.get()

    async def close(self, within_s: float) -> None:
        """Let the thread end after it has written everything, and wait for it for a bounded time."""
        self._groups.put(None)
        await asyncio.to_thread(self._thread.join, within_s)


class LogBackend:
    """Writes events as lines; requests wait for them in blocking modes. head: the start of a JSON line."""

    def __init__(
        self,
        writer: WriterThread,
        delivery: DeliveryOptions,
        metrics: AuditMetrics,
        *,
        head: bytes,
        line_format: str,
        flush_s: float = FLUSH_S,
    ) -> None:
        """flush_s: the time limit for the last events when the server stops."""
        self._writer, self._flush_s = writer, flush_s
        self._losses = DroppedEvents("log", metrics)
        self._head, self._is_legacy = head, line_format == LEGACY
        self._between = _END + head
        self._is_strict = delivery.mode == BLOCKING_STRICT
        self.keeps_order = not self._is_strict
        self._loop = asyncio.get_running_loop()
        self._is_writing = False
        self._waiting: list[tuple[Render, int, asyncio.Future[bool]]] = []
        # Set while the backend is closed: done when nothing waits any more.
        self._all_written: asyncio.Future[None] | None = None
        # Of what waits and what is being written: a request that is cancelled leaves its event here.
        self._held_bytes = self._held_events = 0
        # How much may wait, and what is said of more: nothing, when the backend is closed.
        self._held_max, self._full = HELD_BYTES_MAX, f"{HELD_BYTES_MAX} bytes of events are already waiting"
        self._batches: Batches | None = None
        if delivery.mode == BATCH:
            # One at a time: what comes meanwhile is written together.
            self._batches = Batches(
                delivery,
                self._write,
                DroppedEvents("buffered", metrics),
                deliveries_max=1,
                batch_bytes_max=GROUP_BYTES_MAX,
            )
            self._running = self._loop.create_task(self._batches.run(), name="audit-log")
        # Takes an event. Returns what a request has to wait for, if anything: whether it may go on.
        self.process: Callable[[Render, int], asyncio.Future[bool] | None]
        self.process = self._write_soon if self._batches is None else self._batches.add

    def _write_soon(self, render: Render, size: int) -> asyncio.Future[bool]:
        written: asyncio.Future[bool] = self._loop.create_future()
        if self._held_bytes + size > self._held_max:
            self._losses.lost(1, self._full)
            written.set_result(not self._is_strict)
            return written
        self._held_bytes += size
        self._held_events += 1
        self._waiting.append((render, size, written))
        if not self._is_writing:
            self._is_writing = True
            self._loop.call_soon(self._gather, 1, TURNS_MAX)
        return written

    def _gather(self, before: int, turns: int) -> None:
        """Write the waiting events once a turn of the event loop adds none, or after a number of turns.

        before: the number of events that waited in the last turn.
        """
        waiting = len(self._waiting)
        if waiting > before and turns:
            self._loop.call_soon(self._gather, waiting, turns - 1)
        else:
            self._write_group()

    def _write_group(self) -> None:
        size = 0
        events: list[Event] = []
        futures: list[asyncio.Future[bool]] = []
        for render, estimate, written in self._waiting:
            if events and size + estimate > GROUP_BYTES_MAX:
                break
            size += estimate
            events.append(render())
            futures.append(written)
        del self._waiting[: len(events)]
        self._writer.write(LineGroup(self._lines(events), partial(self._on_group_written, futures, size)))

    def _on_group_written(
        self, waiting: Sequence[asyncio.Future[bool]], size: int, error: OSError | None
    ) -> None:
        """size: the bytes of the buffer that the events took."""
        self._held_bytes -= size
        self._held_events -= len(waiting)
        self._count(len(waiting), error)
        for each in waiting:
            if not each.done():
                each.set_result(error is None or not self._is_strict)
        if self._waiting:
            self._loop.call_soon(self._gather, 0, TURNS_MAX)
            return
        self._is_writing = False
        if self._all_written is not None and not self._all_written.done():
            self._all_written.set_result(None)

    async def _write(self, batch: Sequence[Event]) -> None:
        written: asyncio.Future[OSError | None] = self._loop.create_future()
        self._writer.write(LineGroup(self._lines(batch), partial(_resolve, written)))
        self._count(len(batch), await written)

    def _count(self, events: int, error: OSError | None) -> None:
        if error is not None:
            self._losses.lost(events, f"{error.filename or 'the log'}: {error.strerror or error}")

    def _lines(self, events: Sequence[Event]) -> list[bytes]:
        if self._is_legacy:
            return [_legacy(event) for event in events]
        if {bytes}.issuperset(map(type, events)):
            return [self._head, self._between.join(cast("Sequence[bytes]", events)), _END]
        pieces: list[bytes] = []
        for event in events:
            pieces.append(self._head)
            pieces += pieces_of(event)
            pieces.append(_END)
        return pieces

    async def close(self) -> None:
        """Write the remaining events, within a bounded time."""
        until = self._loop.time() + self._flush_s
        if self._batches is not None:
            self._batches.close()
            _, unfinished = await asyncio.wait([self._running], timeout=self._flush_s)
            if unfinished:
                self._losses.lost(self._batches.abandon(), _STOPPED)
                self._running.cancel()
        elif self._is_writing:
            # Not for the requests that wait: those that were cancelled have left their events here.
            self._all_written = self._loop.create_future()
            await asyncio.wait([self._all_written], timeout=self._flush_s)
            if self._held_events:
                self._losses.lost(self._held_events, _STOPPED)
                self._waiting.clear()
        self._held_max, self._full = -1, STOPPED
        await self._writer.close(max(0.0, until - self._loop.time()))


def _resolve(written: asyncio.Future[OSError | None], error: OSError | None) -> None:
    if not written.done():
        written.set_result(error)


def _legacy(event: Event) -> bytes:
    document = orjson.loads(b"{%b}" % without_objects(event))
    return legacy_line(document).encode("utf-8", "replace") + b"\n"
