"""The events of watches, as the server reads them from a runner."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from apiserver.extensions.event_streams import EVENT_BYTES_UNREAD_MAX, EVENTS_UNREAD_MAX
from apiserver.extensions.host.runner import Failure, HookFailed, HookInfo

# Of one extension, in this process, with those that are beginning. More are refused.
STREAMS_MAX: Final = 1_000
# How large the unread events of a watch may be before another one arrives, which has at most
# `frames.FRAME_BYTES_MAX`. The worker counts events, and the server the messages with them, which are some
# bytes longer.
UNREAD_BYTES_MAX: Final = EVENT_BYTES_UNREAD_MAX + EVENTS_UNREAD_MAX * 64


class EventStream:
    """The events that a function yields, which the server may not trust.

    on_read: called with the number of events that have been read. on_close: called when no more are wanted.
    """

    def __init__(self, on_read: Callable[[int], None], on_close: Callable[[], None]) -> None:
        self._on_read, self._on_close = on_read, on_close
        self._events: deque[Any] = deque()
        self._unread_bytes = 0
        self._changed = asyncio.Event()
        self._failure: HookFailed | None = None
        self._is_ended = self._is_closed = False
        # What the function says at its end, such as a refusal.
        self.result: Mapping[str, Any] = {}

    # ---- for the runner

    def receive(self, event: Any, size_bytes: int) -> bool:
        """Add an event. Returns False if more are unread, or larger ones, than the function may send."""
        if self._is_closed:
            return True
        if len(self._events) >= EVENTS_UNREAD_MAX or self._unread_bytes >= UNREAD_BYTES_MAX:
            return False
        self._events.append(event)
        self._unread_bytes += size_bytes
        self._changed.set()
        return True

    def end(self, failure: HookFailed | None = None, result: Mapping[str, Any] | None = None) -> None:
        """Note that no more events come, as the function has ended, or its worker."""
        self._is_ended, self._failure, self.result = True, failure, result or {}
        self._changed.set()

    # ---- for the watch

    async def read(self) -> Sequence[Any]:
        """Returns the next events, as soon as there are any; none after the end. Raises HookFailed."""
        while not self._events and not self._is_ended:
            self._changed.clear()
            await self._changed.wait()
        found = list(self._events)
        self._events.clear()
        self._unread_bytes = 0
        if found:
            self._on_read(len(found))
        elif self._failure is not None:
            raise self._failure
        return found

    def close(self) -> None:
        """End the function. Can be called repeatedly."""
        if not self._is_closed:
            self._is_closed = True
            self._events.clear()
            if not self._is_ended:
                self._on_close()


class EventStreams:
    """The watches of a worker whose functions have begun, until these end. By the numbers of their calls."""

    def __init__(self) -> None:
        self._streams: dict[int, tuple[HookInfo, EventStream]] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def begin(self, number: int, hook: HookInfo, stream: EventStream) -> None:
        """Note that the function of a watch has begun."""
        self._streams[number] = hook, stream

    def hook_of(self, number: Any) -> HookInfo | None:
        """Returns the function of a watch; None for a number that belongs to no watch."""
        found = self._streams.get(number) if isinstance(number, int) else None
        return None if found is None else found[0]

    def receive(self, number: int, event: Any, size_bytes: int) -> bool:
        """Add an event to a watch: see `EventStream.receive`."""
        _, stream = self._streams[number]
        return stream.receive(event, size_bytes)

    def end(self, number: int, end: Any) -> None:
        """End a watch as its function has ended. end: what the worker says about that."""
        hook, stream = self._streams.pop(number)
        if not isinstance(end, dict):
            stream.end(HookFailed(f"{hook} has no end", Failure.ERROR))
        elif isinstance(error := end.get("error"), dict):
            stream.end(HookFailed.of(hook, error))
        else:
            stream.end(result=end)

    def end_all(self) -> None:
        """End all watches, as if their time were up: their clients begin again."""
        streams, self._streams = self._streams, {}
        for _, stream in streams.values():
            stream.end()
