"""Records every change of an object in the history, as the watch cache sees it.

The cache calls the recorder on the event loop, which only appends what it gets to a list. A thread encodes
and writes what has been collected, a few times a second, or at once if a read waits for it. Reads have
their own thread, so that no write waits until a long list has been read.

What the recorder has missed, since the server was not running, or the disk was too slow, it reads from the
store; what the store has compacted meanwhile becomes a gap.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

from apiserver.registry.history.authors import read_note
from apiserver.registry.history.forms import RecordedForms
from apiserver.registry.history.missed_changes import MissedChange, MissedChanges, missed_changes
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.encryption.chains import CannotEncrypt, KeyNeeded
from apiserver.storage.errors import RevisionCompacted, RevisionTooLarge, StorageError
from apiserver.storage.history.changes import UNKNOWN_AUTHOR, Author, Change, Span
from apiserver.storage.history.undo_log import UndoLog
from apiserver.storage.interface import Event, ReadAt, Storage, Stored
from apiserver.storage.watch_cache import CacheEvent

log = logging.getLogger(__name__)

# How long changes are collected before they are written together.
COLLECT_S: Final = 0.25
# What may be collected. Beyond that, the recorder reads the changes from the store, when it gets there.
COLLECTED_BYTES_MAX: Final = 8 * 1024 * 1024
# How often a read or write is tried again because a key had to be fetched, as in `storage.encryption.store`.
KEY_FETCHES_MAX: Final = 8
_SHUTTING_DOWN: Final = "the server is shutting down"
RETRY_FIRST_S: Final = 1.0
RETRY_MAX_S: Final = 30.0
_ENTRY_BYTES: Final = 400

# Why changes may not be recorded now; the recorder tries again.
CANNOT_RECORD: Final = (OSError, StorageError, CannotEncrypt)

_T = TypeVar("_T")


# Changes that the cache has seen, and when, in milliseconds since 1970.
_Seen: TypeAlias = tuple[int, Sequence[CacheEvent[StoredObject]]]


class Recorder:
    """The follower of a watch cache that fills an `UndoLog`.

    failure: why changes cannot be written at present; None if they can.
    changes_total: how many changes have been recorded.
    size_bytes: of the history, when changes were last written. gaps: how many it had then.
    """

    def __init__(
        self,
        history: UndoLog,
        store: Storage,
        decode: Callable[[Stored], StoredObject],
        forms: RecordedForms,
        *,
        prefix: str,
        clock: Callable[[], float],
    ) -> None:
        """prefix: of all keys. clock: seconds since 1970."""
        self._history, self._store, self._decode, self._forms = history, store, decode, forms
        self._prefix, self._clock = prefix, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._reading_thread = ThreadPoolExecutor(1, thread_name_prefix="history-reads")
        self.failure: Exception | None = None
        self.changes_total = 0
        self.size_bytes = self.gaps = 0
        self._measure()
        # When the oldest change was made that is not recorded, in milliseconds since 1970; 0 if all are.
        self._behind_since_ms = 0
        self._is_closed = False
        self._filled_at = self._filled_ms = 0  # the revision, and the time
        self._is_filled = False
        # The revisions whose changes are collected.
        self._after = self._until = 0
        self._seen: list[_Seen] = []
        self._notes: dict[int, bytes] = {}  # about their authors, by revision
        self._bytes = 0
        # Used by the thread.
        self._written_ms = history.newest_ms
        # The last revisions of changes that were dropped, by the prefixes of their resources.
        self._dropped: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._is_wanted = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    # ---- what the cache sees

    def filled(self, revision: int) -> None:
        """The cache was filled: what was collected before is read from the store."""
        self._filled_at, self._is_filled = revision, True
        self._filled_ms = int(self._clock() * 1000)
        self._forget(revision)

    def changed(self, changes: Sequence[CacheEvent[StoredObject]], events: Sequence[Event]) -> None:
        """Collect changes of objects, and the notes about their authors."""
        size = _ENTRY_BYTES * len(changes)
        for event in events:
            if event.note:
                self._notes[event.mod_revision] = event.note
                size += len(event.note) + _ENTRY_BYTES
        for change in changes:
            before = change.previous
            if before is not None and before.value is not None:
                size += len(before.value.tail)
        # All events come in the order of their revisions; `changes` are sorted by resource.
        self._until = max(self._until, events[-1].mod_revision)
        self._bytes += size
        if self._bytes > COLLECTED_BYTES_MAX:
            self._forget(self._until)
        elif changes:
            at_ms = int(self._clock() * 1000)
            if not self._seen:
                self._wake.set()
                self._behind_since_ms = self._behind_since_ms or at_ms
            self._seen.append((at_ms, changes))

    def _forget(self, revision: int) -> None:
        """Collect from a revision on; the changes before are read from the store."""
        self._seen, self._notes, self._bytes = [], {}, 0
        self._after = self._until = revision
        if self._history.recorded != revision:
            self._behind_since_ms = self._behind_since_ms or int(self._clock() * 1000)
        self._wake.set()

    # ---- what is measured

    @property
    def dropped_total(self) -> int:
        """How many segments were dropped because of the limits."""
        return self._history.dropped_total

    def lag_s(self) -> float:
        """Returns how long the oldest change has waited that is not recorded; 0 if all are."""
        if not self._behind_since_ms:
            return 0.0
        return max(0.0, self._clock() - self._behind_since_ms / 1000)

    # ---- writing

    async def run(self) -> None:
        """Write what is collected, until cancelled; then write the rest."""
        retry_s = RETRY_FIRST_S
        try:
            while True:
                await self._wake.wait()
                await self._wait_for_more()
                try:
                    await self.flush()
                except Exception as error:  # Nothing of a server depends on its history.
                    if self.failure is None:
                        is_expected = isinstance(error, CANNOT_RECORD)
                        log.error(
                            "the history cannot be written, and will be completed later: %s",
                            error,
                            exc_info=None if is_expected else error,
                        )
                    self.failure = error
                    self._fail_waiters(OSError(str(error)))
                    await asyncio.sleep(retry_s)
                    retry_s = min(retry_s * 2, RETRY_MAX_S)
                    self._wake.set()
                else:
                    self.failure, retry_s = None, RETRY_FIRST_S
        finally:
            self._is_closed = True
            self._fail_waiters(OSError(_SHUTTING_DOWN))
            await asyncio.shield(self._close())

    async def _close(self) -> None:
        """Write what is collected, unless more would have to be read before."""
        try:
            if self._is_filled and self._history.recorded == self._after:
                await self.flush()
        except Exception as error:  # As in `run`.
            log.warning("the last changes are not in the history yet: %s", error)
        finally:
            await self._in_thread(self._history.close)

    async def _wait_for_more(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(COLLECT_S):
                await self._is_wanted.wait()
        except TimeoutError:
            pass
        self._is_wanted.clear()

    async def flush(self) -> None:
        """Write what is collected. Raises OSError, StorageError, CannotEncrypt."""
        # More than can be collected may come meanwhile.
        while self._history.recorded != self._after:
            await self._catch_up(self._after)
        span, seen, notes = Span(self._after, self._until), self._seen, self._notes
        self._seen, self._notes, self._bytes = [], {}, 0
        self._after = span.until
        await self._in_thread(lambda: self._append(self._seen_changes(seen, notes), span))
        self._note_recorded()

    # ---- in the thread

    def _append(self, changes: Sequence[Change], span: Span, at_ms: int | None = None) -> None:
        """Write changes. at_ms: when the beginning of the span was the newest revision; now by default."""
        now_ms = int(self._clock() * 1000)
        self._written_ms = max(self._written_ms, now_ms if at_ms is None else at_ms)
        self._history.append(changes, span, self._written_ms, self._dropped)
        self._dropped = {}
        self._history.drop_old(max(now_ms, self._written_ms))
        self.changes_total += len(changes)
        self._measure()

    def _measure(self) -> None:
        self.size_bytes, self.gaps = self._history.size_bytes, max(0, len(self._history.spans) - 1)

    def _seen_changes(self, seen: Iterable[_Seen], notes: Mapping[int, bytes]) -> Sequence[Change]:
        """Returns changes that the cache has seen, in order, as they are recorded."""
        ordered = [(event.revision, at_ms, event) for at_ms, events in seen for event in events]
        ordered.sort(key=itemgetter(0))
        ordered = [each for each in ordered if self._is_kept(each[2].version.key, each[0])]
        return [self._change(event, notes.get(revision), at_ms) for revision, at_ms, event in ordered]

    def _change(self, event: CacheEvent[StoredObject], note: bytes | None, at_ms: int) -> Change:
        version, before = event.version, event.previous
        key, after = version.key, version.value
        previous, since = None, 0
        # The value after a create is never looked at.
        newer = None if after is None else b""
        if before is not None and before.value is not None:
            previous, since = self._forms.of(key, before.value), before.revision
            newer = None if after is None else self._forms.of(key, after)
        return Change(key, event.revision, since, previous, newer, *self._made(note, at_ms))

    def _is_kept(self, key: str, revision: int) -> bool:
        """Whether the policy keeps the changes of a key. Notes what it drops."""
        if resource := self._forms.policy.dropped_resource(key):
            self._dropped[resource] = max(revision, self._dropped.get(resource, 0))
        return not resource

    def _made(self, noted: bytes | None, at_ms: int | None) -> tuple[int, Author, str]:
        """Returns when a change was made, who made it, and the audit ID, as in `Change`.

        noted: the note about it, if there is one. at_ms: when the cache has seen it; None if it has not.
        """
        note = None if noted is None else read_note(noted)
        author, audit_id = (UNKNOWN_AUTHOR, "") if note is None else (note.author, note.audit_id)
        if at_ms is None:
            # The clock of another replica may be ahead.
            at_ms = 0 if note is None else min(note.at_ms, int(self._clock() * 1000))
        # Times are in the order of revisions, though clocks differ, and are set back.
        if at_ms > self._written_ms:
            self._written_ms = at_ms
        return self._written_ms, author, audit_id

    # ---- reading the store

    async def _catch_up(self, until: int) -> None:
        """Record the changes up to a revision from the store. Raises OSError, StorageError."""
        recorded = self._history.recorded
        if recorded and not (recorded <= until and await self._is_of_this_store()):
            log.warning("the store is another one than that of the history, or was restored: it begins again")
            await self._in_thread(self._history.clear)
        # A look at the newest segment may have shown that it is damaged.
        recorded = self._history.recorded
        if not recorded:
            recorded = min(self._filled_at, until)
            # What was written since is not as late as now.
            await self._begin_span(recorded, self._filled_ms if recorded == self._filled_at else None)
        after = recorded
        while after < until:
            try:
                await self._read_store(after, until)
            except RevisionCompacted as error:
                after = min(error.oldest, until)
                log.warning(
                    "the history has a gap: the store has compacted its changes from revision %d to %d",
                    *(self._history.recorded, after),
                )
                await self._begin_span(after)
            else:
                after = until
        if self._history.recorded != until:
            await self._begin_span(until)

    async def _is_of_this_store(self) -> bool:
        """Whether the store has the last change that is recorded, as far as it still knows.

        Raises StorageError. A store that was restored from a snapshot uses revisions a second time.
        """
        last = await self._in_thread(self._history.last_change)
        if last is None:
            return True
        key, change = last
        try:
            stored = (await self._store.get(key, ReadAt.exactly(change.revision))).stored
        except RevisionCompacted:
            return True
        except RevisionTooLarge:
            return False
        if stored is None:
            return change.is_deletion
        return not change.is_deletion and stored.mod_revision == change.revision

    async def _begin_span(self, revision: int, at_ms: int | None = None) -> None:
        """Record from a revision on, after a gap. at_ms: see `_append`."""
        await self._in_thread(lambda: self._append([], Span(revision, revision), at_ms))

    async def _read_store(self, after: int, until: int) -> None:
        """Record what the store has of the changes in a span. Raises OSError, StorageError."""
        async with aclosing(missed_changes(self._store, self._prefix, Span(after, until))) as parts:
            async for missed in parts:
                await self._in_thread(partial(self._append_missed, missed))

    def _append_missed(self, missed: MissedChanges) -> None:
        """Write changes that were read from the store, in the thread."""
        kept = [each for each in missed.changes if self._is_kept(each.key, each.revision)]
        changes = [self._missed_change(each, missed.notes.get(each.revision)) for each in kept]
        # Not now: those that are read next were made before, too.
        self._append(changes, missed.span, self._written_ms)

    def _missed_change(self, change: MissedChange, note: bytes | None) -> Change:
        key, revision, before, after = change
        previous, since = None, 0
        newer = None if after is None else b""
        if before is not None:
            previous, since = before.recorded_form(self._form_of), before.revision
            newer = None if after is None else after.recorded_form(self._form_of)
        return Change(key, revision, since, previous, newer, *self._made(note, None))

    def _form_of(self, stored: Stored) -> bytes:
        return self._forms.of(stored.key, self._decode(stored))

    # ---- reads of the history

    async def read(self, work: Callable[[], _T]) -> _T:
        """Returns the result of `work`, which reads the history in the thread for reads. Raises OSError."""
        if not self._is_closed:
            found = await with_keys(self._reading_thread, work)
        # A history that was closed meanwhile may have shown only a part of what it has.
        if self._is_closed:
            raise OSError(_SHUTTING_DOWN)
        return found

    async def write(self, work: Callable[[], _T]) -> _T:
        """Returns the result of `work`, which changes what is recorded. Raises OSError."""
        if self._is_closed:
            raise OSError(_SHUTTING_DOWN)
        found = await self._in_thread(work)
        await self._in_thread(self._measure)
        return found

    async def wait_for(self, revision: int) -> None:
        """Wait until the history has all changes up to a revision that the cache has reached.

        Raises OSError, StorageError, CannotEncrypt if they cannot be written.
        """
        if self._is_closed:
            raise OSError(_SHUTTING_DOWN)
        if not self._is_filled:
            raise OSError("the server has not read the store yet")
        # A store that was restored is behind the history until that has begun again.
        if revision <= self._history.recorded <= self._after:
            return
        if self.failure is not None:
            raise OSError(str(self.failure))
        done = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, done))
        self._until = max(self._until, revision)
        self._wake.set()
        self._is_wanted.set()
        await done

    def _note_recorded(self) -> None:
        recorded = self._history.recorded
        if recorded == self._after:
            self._behind_since_ms = self._seen[0][0] if self._seen else 0
        for revision, done in self._waiters:
            if revision <= recorded and not done.done():
                done.set_result(None)
        self._waiters = [each for each in self._waiters if not each[1].done()]

    def _fail_waiters(self, error: Exception) -> None:
        for _, done in self._waiters:
            if not done.done():
                done.set_exception(error)
        self._waiters.clear()

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """Returns the result of `work`, done in the thread that writes."""
        return await with_keys(self._thread, work)


async def with_keys(thread: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
    """Returns the result of `work` in a thread, which is done again when a key of encryption was fetched."""
    for _ in range(KEY_FETCHES_MAX):
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work)
        except KeyNeeded as needed:
            await needed.fetch()
    raise OSError("a key of encryption at rest is not available")
