"""One resource's changes to its many watchers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from storage.watch_cache.events import Change, Delivery
from storage.watch_cache.watcher import Watcher

T = TypeVar("T")


class Scope(NamedTuple):
    """Which keys of a resource a watcher cares for: those below `folder`, or the one `key`, or all.

    folder: the key prefix of a namespace, ending in a slash.
    """

    folder: str | None = None
    key: str | None = None

    def includes(self, key: str) -> bool:
        if self.key is not None:
            return key == self.key
        return self.folder is None or key.startswith(self.folder)


EVERYTHING = Scope()


class Fanout(Generic[T]):
    """Who watches what, found by key and by folder."""

    def __init__(self) -> None:
        # A scope without watchers has no entry. A dict keeps the order of arrival; the values are unused.
        self._watchers: dict[Scope, dict[Watcher[T], None]] = {}
        self.dropped_total = 0  # those that did not keep up

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

    def deliver(self, changes: Sequence[Change[T]]) -> None:
        """Offer `changes` to all whom they may concern, then tell each once that has something to take.

        Whoever has no room left is removed and ended.
        """
        if not self._watchers:
            return
        newly_ready: list[Watcher[T]] = []
        overrun: list[tuple[Watcher[T], Scope]] = []
        for change in changes:
            delivery = Delivery(change.type, change)
            late = len(overrun)
            for scope in scopes_of(change.version.key):
                for watcher in self._watchers.get(scope, ()):
                    if watcher.offer(delivery):
                        newly_ready.append(watcher)
                    elif watcher.is_overrun:
                        overrun.append((watcher, scope))
            for watcher, scope in overrun[late:]:
                self.remove(watcher, scope)
        for watcher in newly_ready:
            watcher.notify()
        for watcher, _ in overrun:
            watcher.end()
        self.dropped_total += len(overrun)

    def drop_late(self, revision: int) -> None:
        """Remove and end those that keep alive what history has let go of.

        What waits for a watcher costs nothing while history has it, too. After that it would be memory
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
    """The scopes that a change of `key` concerns."""
    return EVERYTHING, Scope(folder=key[: key.rindex("/") + 1]), Scope(key=key)
