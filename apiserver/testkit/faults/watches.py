"""Applies injected faults to watches: they end, are cut in an event, or pause.

Held events wait in the watcher's queue, as for a client that does not read. So the order is unchanged,
nothing is sent twice, and a watch that is held for too long ends like that of such a client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import split_chunks
from apiserver.endpoints.watch_stream import EventTransport, WatchStream
from apiserver.endpoints.websocket import WebSocketEvents, split_messages
from apiserver.meta.errors import Expired
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.watch_cache import KeyVersion
from apiserver.testkit.faults import CutConnection, EndWatch, Fault, FaultInjector, HoldBookmarks, HoldEvents
from apiserver.testkit.faults.middleware import attributes_of

# Of kube-apiserver.
_TOO_OLD = "The resourceVersion for the provided watch is too old."


@dataclass(slots=True)
class _PendingEnd:
    """A fault that ends a watch after a number of further events."""

    fault: Fault
    effect: EndWatch | CutConnection
    remaining: int


@dataclass(slots=True)
class _ActiveHold:
    """A fault that holds events or bookmarks, until its time is up or it is cleared."""

    fault: Fault
    holds_events: bool
    is_up: bool = False

    @property
    def lasts(self) -> bool:
        return not (self.is_up or self.fault.is_cleared)


class FaultyTransport:
    """Sends events to a client until a fault ends the watch. See `watch_stream.EventTransport`.

    watch: is notified of each end, before its last bytes are written.
    """

    def __init__(self, transport: EventTransport, call: ApiCall, watch: FaultyWatchStream) -> None:
        self._transport, self._call, self._watch = transport, call, watch
        self._split: Callable[[bytes], Sequence[bytes]] = (
            split_messages if isinstance(transport, WebSocketEvents) else split_chunks
        )
        self._endings: list[_PendingEnd] = []
        self._is_over = False

    def end_by(self, fault: Fault, effect: EndWatch | CutConnection) -> None:
        """Ends the watch by a fault, after its number of events."""
        self._endings.append(_PendingEnd(fault, effect, effect.after_events))
        self._end_if_due()

    def finish(self) -> None:
        """Stops writing to the client."""
        self._is_over = True

    @property
    def can_write(self) -> bool:
        """Whether writing is possible: events are not held, and the watch has not ended."""
        return not self._is_over and not self._watch.holds_events and self._transport.can_write

    def write(self, event: bytes) -> None:
        """Write a bookmark or an error."""
        if not self._is_over:
            self._transport.write(event)

    def write_frames(self, frames: bytes) -> None:
        if self._is_over:
            return
        if not self._endings:
            self._transport.write_frames(frames)
            return
        for frame in self._split(frames):
            if self._is_cut(frame):
                return
            self._transport.write_frames(frame)
            for ending in self._endings:
                ending.remaining -= 1
            if self._end_if_due():
                return

    async def drain(self) -> None:
        if not self._is_over:
            await self._transport.drain()

    def abort(self) -> None:
        self._transport.abort()

    async def close(self) -> None:
        await self._transport.close()

    def _is_cut(self, frame: bytes) -> bool:
        """Cut the connection in a frame, if such a fault is due; returns whether it did."""
        for ending in list(self._endings):
            if ending.remaining > 0 or not isinstance(ending.effect, CutConnection):
                continue
            self._endings.remove(ending)
            if ending.fault.hit():
                self._transport.write_frames(frame[: len(frame) // 2])
                self._is_over = self._call.closes_connection = True
                if self._call.request.transport is not None:
                    self._call.request.transport.close()  # what has been written before comes
                self._watch.end_by_fault(EndWatch(silently=True))
                return True
        return False

    def _end_if_due(self) -> bool:
        """End the watch between two events, if such a fault is due; returns whether it did."""
        for ending in list(self._endings):
            if ending.remaining > 0 or not isinstance(ending.effect, EndWatch):
                continue
            self._endings.remove(ending)
            if ending.fault.hit():
                self._watch.end_by_fault(ending.effect)
                self._is_over = True
                return True
        return False


class FaultyWatchStream(WatchStream):
    """A watch with the faults of an injector, also those that are injected while it is open."""

    def __init__(self, injector: FaultInjector, call: ApiCall, *watched: Any, **options: Any) -> None:
        """watched, options: the other arguments of `WatchStream`."""
        super().__init__(call, *watched, **options)
        self._injector = injector
        self._attributes = attributes_of(call)
        self._known: set[int] = set()
        self._holds: list[_ActiveHold] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._released = self._loop.create_future()
        self._faulty: FaultyTransport | None = None

    async def _run(
        self,
        stream: EventTransport,
        initial: list[KeyVersion[StoredObject]],
        initial_bookmark: int | None,
        progress: Callable[[], int] | None,
    ) -> None:
        self._stream = self._faulty = faulty = FaultyTransport(stream, self._call, self)
        self._injector.subscribe(self._review)
        try:
            self._review()
            if self.holds_events:
                self._call.release_slot()  # It does nothing but wait.
                if not await self._is_released(lambda: self.holds_events):
                    return
            await super()._run(faulty, initial, initial_bookmark, progress)
        finally:
            self._injector.unsubscribe(self._review)
            for timer in self._timers:
                timer.cancel()
            self._faulty = None  # It refers to this stream.

    @property
    def holds_events(self) -> bool:
        return any(hold.holds_events and hold.lasts for hold in self._holds)

    @property
    def _holds_bookmarks(self) -> bool:
        return any(hold.lasts for hold in self._holds)

    def _review(self) -> None:
        """Apply the current faults, and no others."""
        for fault in self._injector.of_watches:
            if fault.id not in self._known:
                self._known.add(fault.id)
                if fault.selects(self._attributes):
                    self._begin(fault)
        self._release()

    def _release(self) -> None:
        """Make waiting tasks check whether they are still held."""
        self._released.set_result(None)
        self._released = self._loop.create_future()
        if not self.holds_events:
            self.on_event()

    def _begin(self, fault: Fault) -> None:
        match fault.effect:
            case EndWatch() | CutConnection() as effect if self._faulty is not None:
                self._faulty.end_by(fault, effect)
            case HoldEvents(seconds) | HoldBookmarks(seconds) if fault.hit():
                hold = _ActiveHold(fault, isinstance(fault.effect, HoldEvents))
                self._holds.append(hold)
                if seconds is not None:
                    self._timers.append(self._loop.call_later(seconds, self._end_hold, hold))

    def _end_hold(self, hold: _ActiveHold) -> None:
        hold.is_up = True
        self._release()

    def end_by_fault(self, effect: EndWatch) -> None:
        if not effect.silently and self._faulty is not None:
            # If the client is gone, the watch is about to end; other watches have the fault all the same.
            with contextlib.suppress(ConnectionResetError):
                self._faulty.write(self._encoder.error(Expired(_TOO_OLD).status()))
        self.end()

    async def _is_released(self, is_held: Callable[[], bool]) -> bool:
        """Wait as long as events are held; returns False if the watch ends before."""
        while is_held() and not self._ended.done() and self._clock() < self._ends_at:
            await asyncio.wait(
                (self._released, self._ended),
                timeout=self._ends_at - self._clock(),
                return_when=asyncio.FIRST_COMPLETED,
            )
        return not is_held()

    async def _end_initial_events(self, stream: EventTransport, revision: int) -> None:
        if await self._is_released(lambda: self._holds_bookmarks):
            await super()._end_initial_events(stream, revision)
        elif self._faulty is not None:
            self._faulty.finish()  # What follows would have waited for the bookmark.

    def _send_bookmark(self, revision: int) -> None:
        if not self._holds_bookmarks:
            super()._send_bookmark(revision)
