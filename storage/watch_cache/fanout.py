"""Delivers the events of one resource to its watchers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from apiserver.storage.watch_cache.events import ANY_VALUE, CacheEvent, Predicate, WatcherEvent
from apiserver.storage.watch_cache.watcher import Watcher

T = TypeVar("T")


class WatchScope(NamedTuple):
    """The keys of a resource that a watcher watches: those with `key_prefix`, or the one `key`, or all.

    key_prefix: that of a namespace, ending in a slash.
    """

    key_prefix: str | None = None
    key: str | None = None

    def includes(self, key: str) -> bool:
        if self.key is not None:
            return key == self.key
        return self.key_prefix is None or key.startswith(self.key_prefix)


EVERYTHING = WatchScope()
_Scope: TypeAlias = tuple[str | None, str | None]  # a WatchScope, or one that is equal to it


# Watchers by their predicates, of which equal ones are one. The inner dict is an ordered set.
_ByPredicate: TypeAlias = dict[Predicate[T], dict[Watcher[T], None]]


class _Watchers(Generic[T]):
    """The watchers of one scope.

    everything: those without a predicate. selective: those whose predicates test every event.
    indexed: those with a trigger, by its index and value. late: those that test events when they take them.
    Entries without watchers are removed.
    """

    def __init__(self) -> None:
        self.everything: dict[Watcher[T], None] = {}
        self.selective: _ByPredicate[T] = {}
        self.indexed: dict[Callable[[T], object], dict[object, _ByPredicate[T]]] = {}
        self.late: dict[Watcher[T], None] = {}

    def __bool__(self) -> bool:
        return bool(self.everything or self.selective or self.indexed or self.late)

    def __iter__(self) -> Iterator[Watcher[T]]:
        yield from self.everything
        yield from self.late
        for watchers in self.selective.values():
            yield from watchers
        for by_value in self.indexed.values():
            for by_predicate in by_value.values():
                for watchers in by_predicate.values():
                    yield from watchers

    def add(self, watcher: Watcher[T]) -> None:
        predicate, trigger = watcher.predicate, watcher.trigger
        if predicate is None:
            self.everything[watcher] = None
        elif watcher.tests_late:
            self.late[watcher] = None
        elif trigger is None:
            self.selective.setdefault(predicate, {})[watcher] = None
        else:
            by_predicate = self.indexed.setdefault(trigger.index, {}).setdefault(trigger.value, {})
            by_predicate.setdefault(predicate, {})[watcher] = None

    def remove(self, watcher: Watcher[T]) -> None:
        """Remove a watcher, which may have been removed before."""
        predicate, trigger = watcher.predicate, watcher.trigger
        if predicate is None:
            self.everything.pop(watcher, None)
        elif watcher.tests_late:
            self.late.pop(watcher, None)
        elif trigger is None:
            _remove(self.selective, predicate, watcher)
        else:
            by_value = self.indexed.get(trigger.index, {})
            by_predicate = by_value.get(trigger.value, {})
            _remove(by_predicate, predicate, watcher)
            if not by_predicate:
                by_value.pop(trigger.value, None)
            if not by_value:
                self.indexed.pop(trigger.index, None)

    def concerned(self, event: CacheEvent[T]) -> list[tuple[WatcherEvent[T], Collection[Watcher[T]]]]:
        """Returns an event as watchers see it, with these watchers, once for each predicate."""
        found: list[tuple[WatcherEvent[T], Collection[Watcher[T]]]] = []
        if self.everything:
            found.append((WatcherEvent(event.type, event), self.everything))
        if self.selective:
            found += _selecting(event, self.selective)
        for index, by_value in self.indexed.items():
            for by_predicate in _triggered(event, index, by_value):
                found += _selecting(event, by_predicate)
        return found


def _remove(by_predicate: _ByPredicate[T], predicate: Predicate[T], watcher: Watcher[T]) -> None:
    watchers = by_predicate.get(predicate, {})
    watchers.pop(watcher, None)
    if not watchers:
        by_predicate.pop(predicate, None)


def _selecting(
    event: CacheEvent[T], by_predicate: _ByPredicate[T]
) -> Iterator[tuple[WatcherEvent[T], Collection[Watcher[T]]]]:
    for predicate, watchers in by_predicate.items():
        kind = event.type_for(predicate)
        if kind is not None:
            yield WatcherEvent(kind, event), watchers


def _triggered(
    event: CacheEvent[T], index: Callable[[T], object], by_value: dict[object, _ByPredicate[T]]
) -> Iterable[_ByPredicate[T]]:
    """Returns the predicates that may select an object as it was before the event, or after it."""
    previous = event.previous.value if event.previous is not None else None
    values = {index(value) for value in (event.version.value, previous) if value is not None}
    if ANY_VALUE in values:
        return by_value.values()
    return [by_value[value] for value in values if value in by_value]


class Fanout(Generic[T]):
    """Holds the watchers of one resource by their scope, their triggers and their predicates.

    So an event costs nothing to watchers that it cannot concern, and is tested once for all watchers with
    equal predicates.
    """

    def __init__(self) -> None:
        # A scope without watchers has no entry.
        self._watchers: dict[_Scope, _Watchers[T]] = {}
        self.dropped_total = 0  # watchers that did not keep up

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Watcher[T]]:
        for watchers in self._watchers.values():
            yield from watchers

    def add(self, watcher: Watcher[T], scope: WatchScope) -> None:
        watchers = self._watchers.get(scope)
        if watchers is None:
            watchers = self._watchers[scope] = _Watchers()
        watchers.add(watcher)

    def remove(self, watcher: Watcher[T], scope: _Scope) -> None:
        watchers = self._watchers.get(scope)
        if watchers is not None:
            watchers.remove(watcher)
            if not watchers:
                del self._watchers[scope]

    def deliver(self, events: Sequence[CacheEvent[T]]) -> None:
        """Offer `events` to the watchers they concern, then notify each whose queue was empty before.

        Watchers whose queue is full are removed and ended.
        """
        if not self._watchers:
            return
        newly_ready: list[Watcher[T]] = []
        overrun: list[tuple[Watcher[T], _Scope]] = []
        for event in events:
            first_overrun = len(overrun)
            for scope in scopes_of(event.version.key):
                in_scope = self._watchers.get(scope)
                if in_scope is None:
                    continue
                for delivery, watchers in in_scope.concerned(event):
                    for watcher in watchers:
                        if watcher.offer(delivery):
                            newly_ready.append(watcher)
                        elif watcher.is_overrun:
                            overrun.append((watcher, scope))
                if in_scope.late:
                    newly_ready += [watcher for watcher in in_scope.late if watcher.note_event(event)]
            for watcher, scope in overrun[first_overrun:]:
                self.remove(watcher, scope)
        for watcher in newly_ready:
            watcher.on_ready()
        for watcher, _ in overrun:
            watcher.end()
        self.dropped_total += len(overrun)

    def drop_late(self, revision: int) -> None:
        """Remove and end the watchers that still need events up to `revision`, which the history has evicted.

        Events that wait for a watcher cost nothing while the history holds them, too. After that their memory
        would be unbounded.
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


def scopes_of(key: str) -> tuple[_Scope, _Scope, _Scope]:
    """Returns the scopes that an event of `key` concerns, equal to those of its watchers."""
    return EVERYTHING, (key[: key.rindex("/") + 1], None), (None, key)
