"""Posts events to a server, as an EventList.

Source: k8s.io/apiserver, plugin/pkg/audit/webhook.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from apiserver.audit.backends.batches import HELD_BYTES_MAX, STOPPED, Batches
from apiserver.audit.backends.dropped_events import DroppedEvents
from apiserver.audit.backends.options import BATCH, BLOCKING_STRICT, DeliveryOptions
from apiserver.audit.events import Event, Render, pieces_of
from apiserver.metrics.audit import AuditMetrics
from apiserver.webhooks.errors import CallFailed

# Batches that are sent at the same time: to a server that is slow, or does not answer.
CONCURRENT_SENDS_MAX: Final = 32
# How long the last batches may take when the server stops.
FLUSH_S: Final = 10.0
_STOPPED: Final = "the server stopped before the events were sent"


class EventServer(Protocol):
    """The server that receives events."""

    async def tell(self, body: bytes) -> None:
        """Post a body, and retry if that fails. Raises CallFailed."""
        ...


class WebhookBackend:
    """Posts events; requests wait for them in blocking modes. head: the start of an EventList, up to its
    items.
    """

    # What one request after the other posts may arrive in another order.
    keeps_order: Final = False

    def __init__(
        self,
        server: EventServer,
        delivery: DeliveryOptions,
        metrics: AuditMetrics,
        *,
        head: bytes,
        batch_bytes_max: int,
        flush_s: float = FLUSH_S,
    ) -> None:
        """flush_s: the time limit for the last events when the server stops."""
        self._server, self._head, self._flush_s = server, head, flush_s
        self._losses = DroppedEvents("webhook", metrics)
        self._is_strict = delivery.mode == BLOCKING_STRICT
        self._loop = asyncio.get_running_loop()
        self._sending: set[asyncio.Task[bool]] = set()
        # Of what is being sent without batches: a request that is cancelled leaves its event here.
        self._held_bytes = 0
        # How much may wait, and what is said of more: nothing, when the backend is closed.
        self._held_max, self._full = HELD_BYTES_MAX, f"{HELD_BYTES_MAX} bytes of events are already waiting"
        self._batches: Batches | None = None
        if delivery.mode == BATCH:
            self._batches = Batches(
                delivery,
                self._deliver,
                DroppedEvents("buffered", metrics),
                deliveries_max=CONCURRENT_SENDS_MAX,
                batch_bytes_max=batch_bytes_max,
            )
            self._running = self._loop.create_task(self._batches.run(), name="audit-webhook")

    def process(self, render: Render, size: int) -> asyncio.Future[bool] | None:
        """Take an event. Returns a future of whether the request may continue, if the request has to wait."""
        if self._batches is not None:
            self._batches.add(render, size)
            return None
        if self._held_bytes + size > self._held_max:
            self._losses.lost(1, self._full)
            refused: asyncio.Future[bool] = self._loop.create_future()
            refused.set_result(not self._is_strict)
            return refused
        self._held_bytes += size
        sending = self._loop.create_task(self._send_one(render(), size))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        # If the client goes, the event is sent all the same.
        return asyncio.shield(sending)

    async def _send_one(self, event: Event, size: int) -> bool:
        """size: the bytes of the buffer that it takes."""
        try:
            return await self._send((event,)) or not self._is_strict
        finally:
            self._held_bytes -= size

    async def _deliver(self, batch: Sequence[Event]) -> None:
        await self._send(batch)

    async def _send(self, events: Sequence[Event]) -> bool:
        """Returns whether the server has accepted the events."""
        pieces = [self._head]
        for event in events:
            pieces += (b",{" if len(pieces) > 1 else b"{", *pieces_of(event), b"}")
        pieces.append(b"]}\n")
        try:
            await self._server.tell(b"".join(pieces))
        except CallFailed as failed:
            self._losses.lost(len(events), str(failed))
            return False
        return True

    async def close(self) -> None:
        """Send the remaining events, within a bounded time."""
        if self._batches is None:
            if self._sending:
                _, unsent = await asyncio.wait(self._sending, timeout=self._flush_s)
                if unsent:
                    self._losses.lost(len(unsent), _STOPPED)
                for each in unsent:
                    each.cancel()
            self._held_max, self._full = -1, STOPPED
            return
        self._batches.close()
        _, unfinished = await asyncio.wait([self._running], timeout=self._flush_s)
        if unfinished:
            self._losses.lost(self._batches.abandon(), _STOPPED)
            self._running.cancel()
