"""Delivers the events of one resource to its watchers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from storage.watch_cache.events import CacheEvent, Delivery
from storage.watch_cache.watcher import Watcher

T = TypeVar("T")


class Scope(NamedTuple):
    """The keys of a resource that a watcher watches: those with `key_prefix`, or the one `key`, or all.

    key_prefix: that of a namespace, ending in a slash.
    """

    key_prefix: str | None = None
    key: str | None = None

    def includes(self, key: str) -> bool:
        if self.key is not None:
            return key == self.key
        return self.key_prefix is None or key.startswith(self.key_prefix)


EVERYTHING = Scope()


class Fanout(Generic[T]):
    """Holds the watchers of one resource by their scope."""

    def __init__(self) -> None:
        # A scope without watchers has no entry. The inner dict is an ordered set.
        self._watchers: dict[Scope, dict[Watcher[T], None]] = {}
        self.dropped_total = 0  # watchers that did not keep up

    def __len__(self) -> int:
        return sum(map(len, self._watchers.values()))

    def __iter__(self) -> Iterator[Watcher[T]]:
        for watchers in self._watchers.values():
            yield from watchers

    def add(self, watcher: Watcher[T], scope: Scope) -> None:
        self._watchers.setdefault(scope, {})[watcher] = None

    def remove(self, watcher: Watcher[T], scope: Scope) -> None:
        watchers = self._watchers.get(scope, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._watchers.pop(scope, None)

    def deliver(self, events: Sequence[CacheEvent[T]]) -> None:
        """Offer `events` to the watchers they may concern, then notify each that had nothing to take before.

        Watchers whose queue is full are removed and ended.
        """
        if not self._watchers:
            return
        newly_ready: list[Watcher[T]] = []
        overrun: list[tuple[Watcher[T], Scope]] = []
        for event in events:
            delivery = Delivery(event.type, event)
            first_overrun = len(overrun)
            for scope in scopes_of(event.version.key):
                for watcher in self._watchers.get(scope, ()):
                    if watcher.offer(delivery):
                        newly_ready.append(watcher)
                    elif watcher.is_overrun:
                        overrun.append((watcher, scope))
            for watcher, scope in overrun[first_overrun:]:
                self.remove(watcher, scope)
        for watcher in newly_ready:
            watcher.notify()
        for watcher, _ in overrun:
            watcher.end()
        self.dropped_total += len(overrun)

    def drop_late(self, revision: int) -> None:
        """Remove and end the watchers that still need events up to `revision`, which the history has evicted.

        What waits for a watcher costs nothing while the history holds it, too. After that it would be memory
        without a bound.
        """
        late = [
            (watcher, scope)
            for scope, watchers in self._watchers.items()
            for watcher in watchers
            if watcher.needs_events_up_to(revision)
        ]
        for watcher, scope in late:
            self.remove(watcher, scope)
            watcher.overrun()
        self.dropped_total += len(late)

    def end_all(self) -> None:
        """Remove and end every watcher."""
        watchers = list(self)
        self._watchers.clear()
        for watcher in watchers:
            watcher.end()


def scopes_of(key: str) -> tuple[Scope, Scope, Scope]:
    """The scopes that an event of `key` concerns."""
    return EVERYTHING, Scope(key_prefix=key[: key.rindex("/") + 1]), Scope(key=key)
