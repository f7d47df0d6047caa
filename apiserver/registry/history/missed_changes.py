"""Reads from the store the changes that the recorder has missed, with the values that they have replaced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from apiserver.storage.errors import StorageError
from apiserver.storage.history.changes import Span
from apiserver.storage.interface import Event, ReadAt, Storage, Stored, Watch
from apiserver.storage.keys import prefix_range, resource_of
from apiserver.storage.watch_cache.reflector import PROGRESS_INTERVAL_S

# What is recorded in one transaction.
AT_ONCE: Final = 500
# The values that are kept meanwhile; others are read from the store again.
BYTES_MAX: Final = 4 * 1024 * 1024


class MissedValue:
    """A value in the store, and the revision at which it was written."""

    __slots__ = ("_value", "revision", "size_bytes")

    def __init__(self, stored: Stored) -> None:
        self.revision, self.size_bytes = stored.mod_revision, len(stored.value)
        self._value: Stored | bytes = stored

    def recorded_form(self, form_of: Callable[[Stored], bytes]) -> bytes:
        """Returns its recorded form, which is made once, as two changes need it."""
        if isinstance(self._value, Stored):
            self._value = form_of(self._value)
        return self._value


class MissedChange(NamedTuple):
    """A change of an object: the values before and after it, if there are any."""

    key: str
    revision: int
    before: MissedValue | None
    after: MissedValue | None


class MissedChanges(NamedTuple):
    """All changes of objects in a span, in order. notes: about their authors, by revision."""

    changes: Sequence[MissedChange]
    notes: Mapping[int, bytes]
    span: Span


async def missed_changes(store: Storage, prefix: str, span: Span) -> AsyncGenerator[MissedChanges]:
    """Yields the changes in a span, part by part. prefix: of all keys. Raises StorageError."""
    values = _Values(store)
    changes: list[MissedChange] = []
    notes: dict[int, bytes] = {}
    size, yielded = 0, span.after
    watch = store.watch(prefix_range(prefix + "/"), after=span.after)
    # The last revisions may be of keys that the watch does not deliver.
    progress = asyncio.create_task(_request_progress(watch), name="history-progress")
    try:
        async for batch in watch:
            for event in batch.events:
                if event.mod_revision > span.until:
                    break
                if event.note:
                    notes[event.mod_revision] = event.note
                if resource_of(prefix, event.key) is not None:
                    changes.append(change := await values.change(event))
                    size += sum(each.size_bytes for each in (change.before, change.after) if each)
            reached = min(batch.revision, span.until)
            if len(changes) >= AT_ONCE or size > BYTES_MAX or reached == span.until:
                yield MissedChanges(changes, notes, Span(yielded, reached))
                changes, notes, size, yielded = [], {}, 0, reached
            if reached == span.until:
                return
    finally:
        progress.cancel()
        await watch.close()


async def _request_progress(watch: Watch) -> None:
    """Request progress again and again, as a store may drop a request."""
    while True:
        await asyncio.sleep(PROGRESS_INTERVAL_S)
        with contextlib.suppress(StorageError):
            await watch.request_progress()


class _Values:
    """The last values of keys while the events of a store are read, within a bound."""

    def __init__(self, store: Storage) -> None:
        self._store = store
        self._last: dict[str, MissedValue] = {}
        self._bytes = 0

    async def change(self, event: Event) -> MissedChange:
        """Returns the change that an event reports. Raises StorageError."""
        key, revision = event.key, event.mod_revision
        before = self._last.pop(key, None)
        if before is not None:
            self._bytes -= before.size_bytes
        elif not event.is_create:
            stored = (await self._store.get(key, ReadAt.exactly(revision - 1))).stored
            before = None if stored is None else MissedValue(stored)
        after = None
        if event.value is not None:
            after = MissedValue(Stored(key, event.value, event.create_revision, revision))
            self._keep(key, after)
        return MissedChange(key, revision, before, after)

    def _keep(self, key: str, value: MissedValue) -> None:
        self._last[key] = value
        self._bytes += value.size_bytes
        while self._bytes > BYTES_MAX:
            oldest = self._last.pop(next(iter(self._last)))
            self._bytes -= oldest.size_bytes
