"""The buffer of a backend in batch mode: holds events, and sends them in batches.

Source: k8s.io/apiserver, plugin/pkg/audit/buffered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from apiserver.audit.backends.dropped_events import DroppedEvents
from apiserver.audit.backends.options import DeliveryOptions
from apiserver.audit.events import Event, Render, size_of
from apiserver.load.token_bucket import TokenBucket

# What waits and what is being sent, together: objects of requests and responses may be large.
HELD_BYTES_MAX: Final = 128 * 1024 * 1024
# Where batches are of one event, as many are sent together as have come in this time.
_LINGER_S: Final = 0.05
# Why events are lost that come when the last ones were written.
STOPPED: Final = "the server has stopped"


class Batches:
    """Collects events, and delivers them in batches.

    deliver: sends a batch. As many as `deliveries_max` are sent at the same time.
    """

    def __init__(
        self,
        options: DeliveryOptions,
        deliver: Callable[[Sequence[Event]], Awaitable[None]],
        losses: DroppedEvents,
        *,
        deliveries_max: int,
        batch_bytes_max: int,
    ) -> None:
        """batch_bytes_max: the size of a batch, unless it has only one event."""
        self._batch_bytes_max = batch_bytes_max
        self._options, self._deliver, self._losses = options, deliver, losses
        self._deliveries_max = deliveries_max
        self._events: list[tuple[Render, int]] = []
        self._held_bytes = self._bytes_in_delivery = 0
        self._in_delivery = 0
        # How many may wait, and what is said of more: none, when the buffer has ended.
        self._events_max = options.buffer_size
        self._full = f"{options.buffer_size} events are already waiting"
        self._changed = asyncio.Event()
        self._is_closing = False
        self._sending: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._throttle = TokenBucket(options.qps, options.burst, loop.time) if options.is_throttled else None
        # Batches of one event that nothing holds back may as well be larger.
        self._is_immediate = options.max_size == 1 and not options.is_throttled
        self._batch_max = options.buffer_size if self._is_immediate else options.max_size

    def add(self, render: Render, size: int) -> None:
        """Hold an event, if there is room for it. size: about how many bytes it will have."""
        events = self._events
        waiting = len(events)
        held = self._held_bytes + size
        if waiting >= self._events_max:
            self._losses.lost(1, self._full)
            return
        if held > HELD_BYTES_MAX:
            self._losses.lost(1, f"{HELD_BYTES_MAX} bytes of events are already waiting")
            return
        self._held_bytes = held
        events.append((render, size))
        if not waiting or self._is_full:
            self._changed.set()

    @property
    def _is_full(self) -> bool:
        """Whether the waiting events fill a batch: large events do not wait for others."""
        waiting_bytes = self._held_bytes - self._bytes_in_delivery
        return len(self._events) >= self._batch_max or waiting_bytes >= self._batch_bytes_max

    async def run(self) -> None:
        """Send batches until the buffer is closed and empty, or the task is cancelled; then take no more
        events.
        """
        try:
            await self._run()
        finally:
            self._take_no_more()

    async def _run(self) -> None:
        while True:
            while not self._events:
                if self._is_closing:
                    if self._sending:
                        await asyncio.wait(self._sending)
                    return
                await self._wait(None)
            await self._wait_for_more()
            if self._throttle is not None and (pause_s := self._throttle.reserve()):
                await asyncio.sleep(pause_s)
            while len(self._sending) >= self._deliveries_max:
                await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
            batch, size = self._take()
            sending = self._loop.create_task(self._send(batch, size))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    def _take(self) -> tuple[Sequence[Event], int]:
        """Returns the next batch, and its bytes of the buffer."""
        batch: list[Event] = []
        size = held = 0
        events = self._events
        for render, estimate in events[: self._batch_max]:
            event = render()
            size += size_of(event)
            if batch and size > self._batch_bytes_max:
                break  # It is made again, for the next one.
            batch.append(event)
            held += estimate
        self._events = events[len(batch) :]
        self._bytes_in_delivery += held
        self._in_delivery += len(batch)
        return batch, held

    async def _wait_for_more(self) -> None:
        """Wait until a batch is full, or its first event has waited for as long as it may."""
        wait_s = _LINGER_S if self._is_immediate else self._options.max_wait_s
        until = self._loop.time() + wait_s
        while not self._is_full and not self._is_closing:
            remaining_s = until - self._loop.time()
            if remaining_s <= 0:
                return
            await self._wait(remaining_s)

    async def _wait(self, timeout_s: float | None) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

    async def _send(self, batch: Sequence[Event], size: int) -> None:
        try:
            await self._deliver(batch)
        finally:
            self._in_delivery -= len(batch)
            self._bytes_in_delivery -= size
            self._held_bytes -= size

    def close(self) -> None:
        """Send the remaining events, and let `run` return."""
        self._is_closing = True
        self._changed.set()

    def _take_no_more(self) -> None:
        self._events_max, self._full = 0, STOPPED

    def abandon(self) -> int:
        """Forget the remaining events, and take no more. Returns how many events are lost."""
        self._take_no_more()
        count = len(self._events) + self._in_delivery
        self._events = []
        self._held_bytes = self._bytes_in_delivery
        for sending in self._sending:
            sending.cancel()
        return count
