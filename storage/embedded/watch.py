"""Watches on the embedded store, which read past events from the file, then take batches as committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.interface import Event, EventBatch, KeyRange

# Batches that may wait for a watch. When there are more, it goes back to reading the file, where events take
# no memory.
BATCHES_QUEUED_MAX: Final = 1_000


class HistoryPage(NamedTuple):
    """Some events of a range in order. is_last: whether the file had no more when it was read."""

    batch: EventBatch
    is_last: bool


ReadHistory = Callable[[KeyRange, int], Awaitable[HistoryPage]]


class EmbeddedWatch:
    """A watch on the file and on later commits; see `storage.interface.Watch`.

    is_behind: whether the store may have events after that revision already.
    read_history: returns the first page of events in a range after a revision.
    on_close: called with the watch when it is closed.
    """

    def __init__(
        self,
        keys: KeyRange,
        after: int,
        *,
        is_behind: bool,
        read_history: ReadHistory,
        on_close: Callable[[EmbeddedWatch], None],
    ) -> None:
        self._keys = keys
        self._reached = after  # everything up to here has been yielded
        self._read_history = read_history
        self._on_close = on_close
        self._live: deque[EventBatch] = deque()
        self._is_behind = is_behind  # what comes next is in the file, not in `_live`
        self._is_closed = False
        self._wake: asyncio.Future[None] | None = None

    def offer(self, events: list[Event], revision: int) -> None:
        """Queue the events of a committed group, unless they will be read from the file anyway."""
        if self._is_behind:
            return
        if len(self._live) >= BATCHES_QUEUED_MAX:
            self.fall_behind()
            return
        start, end = self._keys
        self._live.append(EventBatch([event for event in events if start <= event.key < end], revision))
        self._notify()

    def fall_behind(self) -> None:
        """Drops the queued events, which are read from the file instead."""
        self._live.clear()
        self._is_behind = True
        self._notify()

    async def __aiter__(self) -> AsyncIterator[EventBatch]:
        is_established = False
        while not self._is_closed:
            if self._live:
                batch = self._live.popleft()
            elif self._is_behind:
                batch = await self._catch_up()
            elif not is_established:
                batch = EventBatch([], self._reached)
            else:
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
                continue
            # Groups that were committed while the file was read may come twice, and a watch may start at a
            # later revision than the store's: yield only what is new.
            if batch.revision > self._reached or not is_established:
                if batch.revision < self._reached or (
                    batch.events and batch.events[0].mod_revision <= self._reached
                ):
                    events = [event for event in batch.events if event.mod_revision > self._reached]
                    batch = EventBatch(events, max(self._reached, batch.revision))
                self._reached = batch.revision
                is_established = True
                yield batch
        raise StorageUnavailable("the watch is closed")

    async def _catch_up(self) -> EventBatch:
        # Take offers first and read then, so that no event is missed; what comes twice is dropped above.
        self._is_behind = False
        try:
            page = await self._read_history(self._keys, self._reached)
        except BaseException:
            self.fall_behind()  # Iteration may go on after a cancellation, and must not skip events.
            raise
        if not page.is_last:
            self.fall_behind()
        return page.batch

    async def request_progress(self) -> None:
        """Does nothing, as every commit reaches every watch, with or without events for it."""

    async def close(self) -> None:
        self._is_closed = True
        self._on_close(self)
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
