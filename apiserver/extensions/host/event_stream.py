"""The events of one watch, as the server reads them from a runner."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from apiserver.extensions.event_streams import EVENTS_UNREAD_MAX
from apiserver.extensions.host.runner import HookFailed

# Of one extension, in this process. More are refused.
STREAMS_MAX: Final = 1_000


class EventStream:
    """The events that a function yields, which the server may not trust.

    on_read: called with the number of events that have been read. on_close: called when no more are wanted.
    """

    def __init__(self, on_read: Callable[[int], None], on_close: Callable[[], None]) -> None:
        self._on_read, self._on_close = on_read, on_close
        self._events: deque[Any] = deque()
        self._changed = asyncio.Event()
        self._failure: HookFailed | None = None
        self._is_ended = self._is_closed = False
        # What the function says at its end, such as a refusal.
        self.result: Mapping[str, Any] = {}

    # ---- for the runner

    def receive(self, event: Any) -> bool:
        """Add an event. Returns False if more are unread than the function may send."""
        if not self._is_closed:
            self._events.append(event)
            self._changed.set()
        return len(self._events) <= EVENTS_UNREAD_MAX

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
