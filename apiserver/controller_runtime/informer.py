"""Informs controllers of objects: delivers all existing ones, then each change.

It reads the watch cache, so that it costs the store nothing, and keeps no copies of objects: controllers read
the current ones from the cache, too.
Source of the idea: k8s.io/client-go, tools/cache (reflector.go, shared_informer.go).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.storage.errors import RevisionCompacted, StorageError
from apiserver.storage.event_loop_turns import Turn
from apiserver.storage.keys import prefix_range
from apiserver.storage.watch_cache import EVERYTHING, KeyVersion, WatchCache, Watcher, WatchScope

log = logging.getLogger(__name__)

# It lists from memory, and what it informs of (roles, definitions) must not be old for long.
RESTART: Final = Backoff(base_s=0.2, max_s=1.0)
BATCH_MAX: Final = 100


class Notification(NamedTuple):
    """One object was added, updated or deleted.

    revision: that of the change; for a listed object, that of its last change.
    old: the object before; None if it did not exist, or is unknown.
    new: the object now; None if it was deleted.
    """

    key: str
    namespace: str
    name: str
    revision: int
    old: StoredObject | None
    new: StoredObject | None


class ListWatch(NamedTuple):
    """The objects that an informer lists and watches.

    prefix: that of the resource's keys. scope: the relevant objects, if not all of the resource.
    lists: whether existing objects are delivered, too: at the start, and again each time the watch was lost.
        Without it, changes made while it was lost are missed.
    restart: the delays between a watch that ended and the next one.
    selects: selects the relevant objects, if not all: those for which it is true before or after a change. It
        is called for every changed object.
    """

    cache: WatchCache[StoredObject]
    prefix: str
    scope: WatchScope = EVERYTHING
    lists: bool = True
    restart: Backoff = RESTART
    selects: Callable[[StoredObject], bool] | None = None


def _nothing() -> None:
    """Does nothing, as the default of callbacks."""


class InformerCallbacks(NamedTuple):
    """The callbacks of an informer besides its handler, whose errors are logged.

    on_batch: called when the handler has received all listed objects, and after each batch of changes.
    on_failure: called when the resource could not be listed, or its watch was lost.
    on_listed: called each time the handler has received all listed objects.
    """

    on_batch: Callable[[], None] = _nothing
    on_failure: Callable[[], None] = _nothing
    on_listed: Callable[[], None] = _nothing


NO_CALLBACKS: Final = InformerCallbacks()


class Informer:
    """Notifies a handler of the objects of one resource, in the order of their changes.

    handler: called for each notification; it must not block. If it returns an awaitable, that is awaited
        before the next notification. Its errors are logged, and the next notification is delivered.
    callbacks: those besides the handler.
    reports_missed_deletions: whether objects that were deleted while the watch was lost are reported, for
        which the informer remembers all keys.
    wait_for_room: awaited between batches (`WorkQueue.wait_for_room`).
    batch_max: how many changes are delivered before `on_batch` is called, and `wait_for_room`.
    """

    def __init__(
        self,
        source: ListWatch,
        handler: Callable[[Notification], Awaitable[None] | None],
        *,
        callbacks: InformerCallbacks = NO_CALLBACKS,
        reports_missed_deletions: bool = False,
        wait_for_room: Callable[[], Awaitable[None]] | None = None,
        batch_max: int = BATCH_MAX,
    ) -> None:
        self._source = source
        self._cache = source.cache
        self._prefix = source.prefix
        self._handler = handler
        self._callbacks = callbacks
        self._keys: set[str] | None = set() if reports_missed_deletions else None
        self._wait_for_room = wait_for_room
        self._batch_max = batch_max
        # While changes are delivered: where they come from, and up to which revision all are.
        self._watcher: Watcher[StoredObject] | None = None
        self._is_delivering = False
        self._delivered = 0
        # Set when the handler has received all objects that existed at the start.
        self.has_synced = asyncio.Event()

    def has_delivered(self, revision: int) -> bool:
        """Returns whether the handler has received all changes up to a revision that the cache has
        reached.
        """
        watcher = self._watcher
        if watcher is None or watcher.is_ended:
            return False
        return self._delivered >= revision or not (self._is_delivering or len(watcher))

    async def run(self) -> None:
        """Deliver notifications until cancelled."""
        await self._cache.wait_until_filled()
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                await self._list_and_watch()
            except (RevisionCompacted, StorageError) as error:
                log.warning("cannot watch %s, retrying: %s", self._prefix, error)
            except Exception:  # It must not stop the server.
                log.exception("cannot watch %s, retrying", self._prefix)
            self._call(self._callbacks.on_failure)
            # One that ran for a while was not lost for the same reason again.
            failures = 0 if loop.time() - began > self._source.restart.max_s else failures
            await asyncio.sleep(self._source.restart.delay_s(failures))
            failures += 1

    async def _list_and_watch(self) -> None:
        """List and watch, and return when changes may have been missed.

        Raises RevisionCompacted, and the storage's errors.
        """
        versions: Sequence[KeyVersion[StoredObject]] = ()
        revision = self._cache.revision
        scope, selects = self._source.scope, self._source.selects
        # Most resources are empty, and there are many. What comes later comes by the watch.
        if self._source.lists and not self._cache.is_empty(self._prefix):
            keys = prefix_range(scope.key_prefix or self._prefix)
            listing = await self._cache.list(keys, predicate=selects)
            versions, revision = listing.versions, listing.revision
        has_changes = asyncio.Event()
        watcher: Watcher[StoredObject] = Watcher(after=revision, on_ready=has_changes.set, predicate=selects)
        self._cache.watch(self._prefix, watcher, scope)
        turn = Turn()
        try:
            await self._deliver_listed(versions, revision, turn)
            self._delivered, self._watcher = revision, watcher
            self._end_list()
            self.has_synced.set()
            while not watcher.is_ended:
                self._is_delivering = True
                for delivery in watcher.take(self._batch_max):
                    if turn.is_over():
                        await turn.next()
                    previous = delivery.event.previous
                    old = previous.value if previous is not None else None
                    if (rest := self._notify(delivery.event.version, old)) is not None:
                        await self._finish(rest, delivery.event.version.key)
                    # More of the same revision may come.
                    self._delivered = delivery.event.revision - 1
                self._is_delivering = False
                self._end_batch()
                if self._wait_for_room is not None:
                    await self._wait_for_room()
                if not len(watcher):
                    await has_changes.wait()
                    has_changes.clear()
        finally:
            self._watcher, self._is_delivering = None, False
            self._cache.unwatch(self._prefix, watcher, scope)

    async def _deliver_listed(
        self, versions: Sequence[KeyVersion[StoredObject]], revision: int, turn: Turn
    ) -> None:
        if self._keys is not None:
            for key in self._keys - {version.key for version in versions}:
                gone = KeyVersion[StoredObject](key, None, revision=revision, create_revision=0)
                if (rest := self._notify(gone, None)) is not None:
                    await self._finish(rest, key)
        for number, version in enumerate(versions, 1):
            if turn.is_over():
                await turn.next()
            if (rest := self._notify(version, None)) is not None:
                await self._finish(rest, version.key)
            if number % self._batch_max == 0 and self._wait_for_room is not None:
                await self._wait_for_room()

    def _end_list(self) -> None:
        self._call(self._callbacks.on_listed)
        self._end_batch()

    def _end_batch(self) -> None:
        self._call(self._callbacks.on_batch)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            log.exception("cannot handle a batch of changes of %s", self._prefix)

    def _notify(self, version: KeyVersion[StoredObject], old: StoredObject | None) -> Awaitable[None] | None:
        """Call the handler, and return its awaitable, if any."""
        key, new = version.key, version.value
        if self._keys is not None:
            if new is None:
                self._keys.discard(key)
            else:
                self._keys.add(key)
        namespace, _, name = key[len(self._prefix) :].rpartition("/")
        try:
            return self._handler(Notification(key, namespace, name, version.revision, old, new))
        except Exception as error:  # One object that breaks a controller must not hide the others from it.
            _log_failure(key, error)
            return None

    async def _finish(self, rest: Awaitable[None], key: str) -> None:
        try:
            await rest
        except Exception as error:  # As above.
            _log_failure(key, error)


def resource_informer(
    registry: Registry,
    resource: ServedResource,
    handler: Callable[[Notification], Awaitable[None] | None],
    *,
    queue: WorkQueue[Any] | None = None,
    callbacks: InformerCallbacks = NO_CALLBACKS,
    reports_missed_deletions: bool = False,
) -> Informer:
    """Returns an informer of all objects of a resource. queue: the informer waits until it has room."""
    return Informer(
        ListWatch(registry.cache, registry.prefix_of(resource)),
        handler,
        callbacks=callbacks,
        reports_missed_deletions=reports_missed_deletions,
        wait_for_room=None if queue is None else queue.wait_for_room,
    )


def _log_failure(key: str, error: Exception) -> None:
    if isinstance(error, CorruptObject):
        log.error("skipping a damaged object: %s", error.text)
    else:
        log.error("cannot handle a change of %s", key, exc_info=error)
