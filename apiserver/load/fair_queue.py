"""Queues on the event loop: `FairQueue` serves its holders in turn, `TurnQueue` works in order of time.

Long lists are in neither: `storage.event_loop_turns` splits them into pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from apiserver.tracing.request_trace import no_request

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue whose holders take turns: an item of one holder, then one of the next.

    So a holder with hundreds of items does not delay a holder with one.
    """

    __slots__ = ("_by_holder",)

    def __init__(self) -> None:
        # The holders in the order of their turns, each with its urgent items and its other items.
        self._by_holder: dict[str, tuple[deque[T], deque[T]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_holder)

    def count(self, holder: str) -> int:
        """Returns the number of items of a holder."""
        return sum(map(len, self._by_holder.get(holder, ())))

    def append(self, holder: str, item: T, *, is_urgent: bool = False) -> None:
        """Add an item after those of its holder, or, if urgent, only after the urgent ones."""
        items = self._by_holder.get(holder)
        if items is None:
            items = self._by_holder[holder] = deque(), deque()
        items[not is_urgent].append(item)

    def popleft(self) -> T:
        """Returns the next item of the holder that has waited longest since its last one."""
        holder = next(iter(self._by_holder))
        urgent, others = items = self._by_holder.pop(holder)
        item = (urgent or others).popleft()
        if urgent or others:
            self._by_holder[holder] = items  # behind all other holders
        return item

    def discard(self, holder: str, item: T) -> bool:
        """Remove an item; returns whether it was there."""
        urgent, others = self._by_holder.get(holder) or (deque[T](), deque[T]())
        for items in (urgent, others):
            if item in items:
                items.remove(item)
                if not urgent and not others:
                    del self._by_holder[holder]
                return True
        return False


class TurnQueue(Generic[T]):
    """Works on items in order, for some time in each round of the event loop.

    Otherwise simultaneous work for a thousand clients would block the loop until all of it is done.
    """

    def __init__(self, turn_s: float, work: Callable[[T], None], on_failure: Callable[[T], None]) -> None:
        """on_failure: called in the handler of an exception of `work`; other items are processed
        nevertheless.
        """
        self._loop = asyncio.get_running_loop()
        self._turn_s, self._work, self._on_failure = turn_s, work, on_failure
        self._waiting: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, item: T) -> None:
        """Schedule an item for after the current code has returned to the event loop, or later in this
        turn.
        """
        if not self._waiting:
            self._loop.call_soon(self._work_on_some, context=no_request())
        self._waiting.append(item)

    def _work_on_some(self) -> None:
        waiting, work = self._waiting, self._work
        turn_ends = monotonic() + self._turn_s
        try:
            while waiting and monotonic() < turn_ends:
                # It stays in the queue meanwhile, so that `append` does not schedule another call.
                item = waiting[0]
                try:
                    work(item)
                except Exception:
                    self._on_failure(item)
                finally:
                    waiting.popleft()
        finally:  # Also if `on_failure` raises, which the event loop logs: the others still have their turns.
            if waiting:
                self._loop.call_soon(self._work_on_some, context=no_request())
