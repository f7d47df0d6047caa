"""A queue of keys for controllers, which loses no key and processes none concurrently.

A key that is added while it waits is queued once; one that is added while it is processed is queued again
when that is done. Keys that fail come back after exponential back-off, each with its own.
Source: k8s.io/client-go, util/workqueue (queue.go, delaying_queue.go, default_rate_limiters.go).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from apiserver.metrics.work_queues import QueueCounters

K = TypeVar("K", bound=Hashable)

# Keys that can be processed at once, some 300 bytes each. When there are more, informers deliver nothing
# until there is room.
KEYS_MAX: Final = 100_000


class Timer(Protocol):
    def when(self) -> float: ...

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The clock that the queue needs: seconds, and calls at a later time, as of an event loop."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer: ...


class ShutDown(Exception):
    """The queue is shut down, and no key is left in it."""


class Backoff(NamedTuple):
    """Delays that grow by `factor` with each failure, from `base_s` to `max_s`."""

    base_s: float
    max_s: float
    factor: float = 2.0

    def delay_s(self, failures: int) -> float:
        """Returns the delay after a failure. failures: the number of earlier ones."""
        if failures >= math.log(self.max_s / self.base_s, self.factor):
            return self.max_s
        return min(self.base_s * self.factor**failures, self.max_s)


class WorkQueue(Generic[K]):
    """A rate-limited queue of keys.

    name: the label of its metrics. clock: the running event loop unless tests bring another.
    keys_max: how many keys may wait before `wait_for_room` blocks. `add` never refuses a key, so the bound
        holds for callers that ask for room first. Delayed keys do not count: no work makes room for them, and
        they must not hold up keys that are ready. There are no more of them than objects, if keys of deleted
        objects are removed by `cancel`.
    """

    def __init__(
        self, name: str, backoff: Backoff, *, clock: Clock | None = None, keys_max: int = KEYS_MAX
    ) -> None:
        self.name = name
        self.counters = QueueCounters()
        self._backoff = backoff
        self._clock: Clock = clock if clock is not None else asyncio.get_running_loop()
        self._keys_max = keys_max
        self._ready: deque[K] = deque()
        # Keys that have to be processed, and since when: those that are ready, and those that were added
        # while they are processed or cool down.
        self._dirty: dict[K, float] = {}
        self._processing: dict[K, float] = {}  # and since when
        self._cooling: dict[K, Timer] = {}
        self._delayed: dict[K, Timer] = {}
        self._failures: dict[K, int] = {}
        self._has_ready = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_shut_down = False

    def __len__(self) -> int:
        """Returns the number of keys that wait to be processed, now or later."""
        return len(self._dirty) + len(self._delayed)

    def __contains__(self, key: object) -> bool:
        """Returns whether adding a key would change nothing: it is ready, or will be once it is done."""
        return key in self._dirty

    # ---- adding

    def add(self, key: K) -> None:
        """Schedule `key` as soon as possible, unless it is already."""
        if self._is_shut_down or key in self._dirty:
            return
        self.counters.adds += 1
        self._dirty[key] = self._clock.time()
        if key not in self._processing and key not in self._cooling:
            self._make_ready(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add `key` after some seconds; of several such calls the earliest time counts."""
        if self._is_shut_down:
            return
        self.counters.retries += 1
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.time() + seconds
        timer = self._delayed.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._delayed[key] = self._clock.call_at(due, lambda: self._add_delayed(key))

    def add_rate_limited(self, key: K) -> float:
        """Count a failure of `key`, add it after its back-off, and return the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s = self._backoff.delay_s(failures)
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: K) -> None:
        """Reset the back-off of `key`; a delayed key remains delayed."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Returns how often `key` was added with back-off since it was last forgotten."""
        return self._failures.get(key, 0)

    def is_delayed(self, key: K) -> bool:
        """Returns whether `key` waits for a time."""
        return key in self._delayed

    def cancel(self, key: K) -> None:
        """Remove a delayed `key`, because its object is gone."""
        timer = self._delayed.pop(key, None)
        if timer is not None:
            timer.cancel()
        self.forget(key)

    async def wait_for_room(self) -> None:
        """Return once fewer than `keys_max` keys can be processed, or the queue is shut down."""
        while len(self._dirty) >= self._keys_max and not self._is_shut_down:
            self._has_room.clear()
            await self._has_room.wait()

    # ---- processing

    async def get(self) -> K:
        """Returns the next key, which is not returned again until `done` is called. Raises ShutDown."""
        while not self._ready:
            if self._is_shut_down:
                raise ShutDown
            self._has_ready.clear()
            await self._has_ready.wait()
        key = self._ready.popleft()
        now = self._clock.time()
        self.counters.queue_durations.observe(now - self._dirty.pop(key))
        self._processing[key] = now
        return key

    def done(self, key: K, *, cooldown_s: float = 0.0) -> None:
        """Note that `key`, which `get` returned, has been processed.

        cooldown_s: for how long the key is not returned again; if it is added meanwhile it is ready after
            that.
        """
        now = self._clock.time()
        self.counters.work_durations.observe(now - self._processing.pop(key))
        if cooldown_s > 0 and not self._is_shut_down:
            self._cooling[key] = self._clock.call_at(now + cooldown_s, lambda: self._end_cooldown(key))
        elif key in self._dirty:
            self._make_ready(key)
        self._has_room.set()

    def shut_down(self) -> None:
        """Accept no more keys; ready ones are still returned, delayed ones are dropped."""
        self._is_shut_down = True
        for timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        for key, timer in list(self._cooling.items()):
            timer.cancel()
            self._end_cooldown(key)
        self._has_ready.set()
        self._has_room.set()

    def now(self) -> float:
        """Returns the time in seconds, by the queue's clock."""
        return self._clock.time()

    # ---- metrics

    @property
    def depth(self) -> int:
        """The number of keys that are ready."""
        return len(self._ready)

    @property
    def processing(self) -> int:
        """The number of keys that `get` has returned and that are not done."""
        return len(self._processing)

    def unfinished_work_s(self) -> float:
        """Returns the total time that the keys in work have been processed, in seconds."""
        now = self._clock.time()
        return sum(now - since for since in self._processing.values())

    def longest_running_s(self) -> float:
        now = self._clock.time()
        return max((now - since for since in self._processing.values()), default=0.0)

    # ---- inside

    def _make_ready(self, key: K) -> None:
        self._ready.append(key)
        self._has_ready.set()

    def _add_delayed(self, key: K) -> None:
        del self._delayed[key]
        self.add(key)

    def _end_cooldown(self, key: K) -> None:
        del self._cooling[key]
        if key in self._dirty:
            self._make_ready(key)
