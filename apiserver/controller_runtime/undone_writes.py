"""Detects writes of a controller that another client keeps undoing, and slows them down.

Otherwise two writers with conflicting goals would write as fast as the store allows, forever.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from apiserver.controller_runtime.work_queue import Backoff, WorkQueue

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

# Another client may undo a write by mistake, or write at the same time; that is corrected at once.
FREE_MAX: Final = 3
BACKOFF: Final = Backoff(base_s=1.0, max_s=300.0)
# When no write was undone for so long, counting starts again. Longer than the longest delay.
FORGET_S: Final = 900.0
# All keys of a controller may be concerned; one of them is named, once in this time.
LOG_PERIOD_S: Final = 300.0
# Writes that are remembered, some 200 bytes each. Of more, the oldest may be undone unnoticed.
KEYS_MAX: Final = 10_000


@dataclass(slots=True)
class _Write:
    content: Hashable
    at: float
    times_undone: int = 0


class UndoneWrites(Generic[K]):
    """The last write to each key. queue: that of the writing controller, for its name, clock and counters."""

    def __init__(self, queue: WorkQueue[Any]) -> None:
        self._queue = queue
        self._writes: dict[K, _Write] = {}  # those written last at the end
        self._logged_at = -math.inf

    def cooldown_s(self, key: K, content: Hashable) -> float:
        """Note that `content` had to be written to `key`; returns for how long to leave the key alone.

        content: identifies what was written. If it equals the last one, another client has undone that.
        """
        now = self._queue.now()
        last = self._writes.pop(key, None)
        written = self._writes[key] = _Write(content, now)
        if len(self._writes) > KEYS_MAX:
            del self._writes[next(iter(self._writes))]
        if last is None or last.content != content or now - last.at > FORGET_S:
            return 0.0
        self._queue.counters.undone += 1
        written.times_undone = last.times_undone + 1
        if written.times_undone <= FREE_MAX:
            return 0.0
        delay_s = BACKOFF.delay_s(written.times_undone - FREE_MAX - 1)
        if now - self._logged_at >= LOG_PERIOD_S:
            self._logged_at = now
            log.warning(
                "%s: another client reverted %d writes to %s; backing off for %.3g s",
                self._queue.name,
                written.times_undone,
                key,
                delay_s,
            )
        return delay_s
