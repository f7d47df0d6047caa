"""Sends each event to all backends of a server, truncated where it is too large."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

from apiserver.audit.backends.dropped_events import DroppedEvents
from apiserver.audit.backends.options import TruncateOptions
from apiserver.audit.events import AuditBackend, Render, size_of, truncated
from apiserver.metrics.audit import AuditMetrics

# What an event's line has beside what its size counts: kind, version and braces, about.
_AROUND_BYTES: Final = 64


class Backend(AuditBackend, Protocol):
    """An audit backend that can be closed."""

    async def close(self) -> None:
        """Write the remaining events, within a bounded time."""
        ...


class TruncatingBackend:
    """Passes events on, without their objects if they are too large.

    annotation: the key that marks truncated events.
    """

    def __init__(
        self, backend: Backend, options: TruncateOptions, annotation: str, metrics: AuditMetrics
    ) -> None:
        self._backend, self._annotation = backend, annotation
        self._size_max = options.max_event_size - _AROUND_BYTES
        self._losses = DroppedEvents("truncate", metrics)
        self.keeps_order = backend.keeps_order

    def process(self, render: Render, size: int) -> Awaitable[bool] | None:
        event = render()
        size = size_of(event)
        if size > self._size_max and not isinstance(event, bytes):
            event = truncated(event, self._annotation)
            size = len(event)
        if size > self._size_max:
            self._losses.lost(1, "an event is too large even after truncation")
            return None
        return self._backend.process(lambda: event, size)

    async def close(self) -> None:
        await self._backend.close()


class Backends:
    """Sends each event to all backends."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = tuple(backends)
        self.keeps_order = all(each.keeps_order for each in backends)

    def process(self, render: Render, size: int) -> Awaitable[bool] | None:
        waiting = [each for backend in self._backends if (each := backend.process(render, size)) is not None]
        if not waiting:
            return None
        return waiting[0] if len(waiting) == 1 else _all(waiting)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._backends))


async def _all(waiting: Sequence[Awaitable[bool]]) -> bool:
    return all(await asyncio.gather(*waiting))
