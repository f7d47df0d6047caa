"""Runs functions that yield the events of a watch, no faster than these are read.

`EventWindow` bounds the events that a function is ahead of the server: while it is full, the function waits
at its `yield`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import orjson

from apiserver.extensions.errors import ApiError, Denied
from apiserver.extensions.frames import FRAME_BYTES_MAX
from apiserver.extensions.invocation import Call, WrongResult
from apiserver.extensions.outcomes import describe_error, refusal_of

EVENT_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
# How many events of one watch are on their way, and about how large they are together.
EVENTS_UNREAD_MAX: Final = 64
EVENT_BYTES_UNREAD_MAX: Final = 1024 * 1024
# Of one event, or of the refusal that ends a watch. The rest is for what is around it in its message.
EVENT_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024


class EventWindow:
    """Counts the events of one watch that are sent and not read. It is closed until `open`."""

    def __init__(self) -> None:
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._is_open = False
        self._room = asyncio.Event()

    def open(self) -> None:
        """Let events be sent from now on."""
        self._is_open = True
        self._update()

    async def wait(self) -> None:
        """Wait until the next event can be sent."""
        await self._room.wait()

    def add(self, size_bytes: int) -> None:
        """Note that an event is sent."""
        self._sizes.append(size_bytes)
        self._bytes += size_bytes
        self._update()

    def read(self, count: int) -> None:
        """Note that so many events are read."""
        for _ in range(min(count, len(self._sizes))):
            self._bytes -= self._sizes.popleft()
        self._update()

    def _update(self) -> None:
        if self._is_open and len(self._sizes) < EVENTS_UNREAD_MAX and self._bytes < EVENT_BYTES_UNREAD_MAX:
            self._room.set()
        else:
            self._room.clear()


async def send_events(call: Call, window: EventWindow, send: Callable[[bytes], None]) -> dict[str, Any]:
    """Run a function for a watch until it ends or is cancelled. Returns what to say about its end.

    send: sends an event, as JSON.
    """
    task = asyncio.current_task()
    assert task is not None
    try:
        async with aclosing(call.run()) as events:
            async for each in events:
                encoded = orjson.dumps(_event(each))
                if len(encoded) > EVENT_BYTES_MAX:
                    raise WrongResult(f"must not yield an event of {len(encoded)} bytes")
                await window.wait()
                if task.cancelling():  # The function has ignored it.
                    break
                send(encoded)
                window.add(len(encoded))
                await asyncio.sleep(0)  # It may never wait for anything.
    except (Denied, ApiError) as error:
        if (status := refusal_of(error)) is not None and _can_be_sent(status):
            return {"denied": status}
        return {"error": describe_error(error)}
    except asyncio.CancelledError:
        pass
    except BaseException as error:
        return {"error": describe_error(error)}
    return {}


def _can_be_sent(status: Mapping[str, Any]) -> bool:
    try:
        return len(orjson.dumps(status)) <= EVENT_BYTES_MAX
    except TypeError:
        return False


def _event(yielded: Any) -> Mapping[str, Any]:
    """Returns an event for the server. Raises WrongResult."""
    match yielded:
        case (str(kind), dict(document)) if kind in EVENT_TYPES:
            return {"type": kind, "object": document}
        case (str(kind), dict()):
            raise WrongResult(f'must yield "ADDED", "MODIFIED" or "DELETED", not {kind!r:.100}')
    raise WrongResult(f'must yield pairs like ("ADDED", object), not {type(yielded).__name__}')
