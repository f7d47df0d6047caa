"""A resource cache of bytes with some watchers, driven event by event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from apiserver.storage.interface import Event
from apiserver.storage.keys import prefix_range
from apiserver.storage.watch_cache import HistoryLimits, Watcher, WatchScope
from apiserver.storage.watch_cache.events import Trigger
from apiserver.storage.watch_cache.resource import ResourceCache

P = "/registry/core/configmaps/"
ALL = prefix_range(P)


def no_history(resource_prefix: str) -> HistoryLimits:
    return HistoryLimits(events_max=0)


def put(key: str, value: bytes, revision: int, created: int | None = None) -> Event:
    return Event(P + key, value, created or revision, revision)


def delete(key: str, revision: int) -> Event:
    return Event(P + key, None, 0, revision)


@dataclass
class FakeClock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Harness:
    """A resource cache of bytes with some watchers, driven event by event."""

    clock: FakeClock = field(default_factory=FakeClock)
    limits: HistoryLimits = field(default_factory=HistoryLimits)

    def __post_init__(self) -> None:
        self.cache: ResourceCache[bytes] = ResourceCache(
            decode=lambda stored: stored.value, size_of=len, limits=self.limits, clock=self.clock, floor=0
        )

    def watcher(
        self,
        scope: WatchScope = WatchScope(),  # noqa: B008  immutable
        *,
        after: int = 0,
        predicate: Callable[[bytes], bool] | None = None,
        trigger: Trigger[bytes] | None = None,
        tests_late: bool = False,
        queued_events_max: int = 100,
    ) -> tuple[Watcher[bytes], list[str]]:
        calls: list[str] = []
        watcher: Watcher[bytes] = Watcher(
            after=after,
            predicate=predicate,
            trigger=trigger,
            tests_late=tests_late,
            on_ready=lambda: calls.append("ready"),
            queued_events_max=queued_events_max,
        )
        self.cache.watch(watcher, scope)
        return watcher, calls


def taken(watcher: Watcher[bytes]) -> list[tuple[str, str, int]]:
    """What one call takes: a part, if a predicate has to look at past events."""
    return [(d.type.name, d.event.version.key.removeprefix(P), d.event.revision) for d in watcher.take()]


def all_taken(watcher: Watcher[bytes]) -> list[tuple[str, str, int]]:
    events = taken(watcher)
    while len(watcher):
        events += taken(watcher)
    return events
