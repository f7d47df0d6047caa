"""Watches on the embedded store: history from the file first, then batches as they are committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

from storage.errors import StorageUnavailable
from storage.interface import Event, EventBatch, KeyRange

# Batches that may wait for a watch to take them. One that has more goes back to reading the file, where
# the events wait for free.
BATCHES_QUEUED_MAX: Final = 1_000


class HistoryPage(NamedTuple):
    """Some events of a range in order; `is_last` if the file had no more when it was read."""

    batch: EventBatch
    is_last: bool


ReadHistory = Callable[[KeyRange, int], Awaitable[HistoryPage]]


class EmbeddedWatch:
    """One watch; see `storage.interface.Watch`.

    read_history: the first page of events in a range after a revision.
    forget: called with the watch when it is closed.
    """

    def __init__(
        self,
        keys: KeyRange,
        after: int,
        *,
        read_history: ReadHistory,
        forget: Callable[[EmbeddedWatch], None],
    ) -> None:
        self._keys = keys
        self._reached = after  # everything up to here has been yielded
        self._read_history = read_history
        self._forget = forget
        self._live: deque[EventBatch] = deque()
        self._is_behind = True  # what comes next is in the file, not in `_live`
        self._is_closed = False
        self._wake: asyncio.Future[None] | None = None

    def offer(self, events: list[Event], revision: int) -> None:
        """Take a committed group, unless it will be read from the file anyway."""
        if self._is_behind:
            return
        if len(self._live) >= BATCHES_QUEUED_MAX:
            self.fall_behind()
            return
        keys = self._keys
        self._live.append(EventBatch([event for event in events if event.key in keys], revision))
        self._notify()

    def fall_behind(self) -> None:
        """Forget what is queued; the next batch comes from the file."""
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
            else:
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
                continue
            # Groups that were committed while the file was read may come twice, and a watch may begin
            # in the future: only what is new counts.
            if batch.revision > self._reached or not is_established:
                events = [event for event in batch.events if event.mod_revision > self._reached]
                self._reached = max(self._reached, batch.revision)
                is_established = True
                yield EventBatch(events, self._reached)
        raise StorageUnavailable("the watch is closed")

    async def _catch_up(self) -> EventBatch:
        # Listen first and read then, so that nothing falls between; what comes twice is dropped above.
        self._is_behind = False
        try:
            page = await self._read_history(self._keys, self._reached)
        except BaseException:
            self.fall_behind()  # Whoever iterates on after a cancellation must find no hole.
            raise
        if not page.is_last:
            self.fall_behind()
        return page.batch

    async def request_progress(self) -> None:
        """Nothing to do: every commit reaches every watch, with or without events for it."""

    async def close(self) -> None:
        self._is_closed = True
        self._forget(self)
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
