"""The one thread that writes, and the groups in which it commits."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from storage.embedded.checkpoint_lock import CheckpointLock
from storage.embedded.database import BUSY_TIMEOUT_MS
from storage.errors import (
    KeyExists,
    LeaseNotFound,
    OutcomeUnknown,
    RevisionMismatch,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from storage.interface import NO_LEASE, Condition, Delete, Event, Put

log = logging.getLogger(__name__)

# More operations in a group would make its first wait longer than its own fsync saves.
GROUP_OPERATIONS_MAX: Final = 512
# What may wait for the thread before callers are told that the store cannot keep up.
QUEUED_OPERATIONS_MAX: Final = 20_000

# Overwriting a page proves nothing: that often still fits where a new object does not.
PROBE_BYTES: Final = 64 * 1024

# Once the log has more than this, it is emptied. That waits for reads to end, while no other begins and
# nothing is written. Those of this process end: a list of 1,000 values of 1 KB takes 8 ms, and one of 50,000,
# which the server does not ask for, 0.2 s. Another process's is over at once, or saves a snapshot, which no
# wait that can be afforded would outlast.
LOG_BYTES_MAX: Final = 64 * 1024 * 1024
OWN_READS_WAIT_S: Final = 1.0
FOREIGN_READS_WAIT_MS: Final = 50
# How long a log that could not be emptied is left alone. Writes that fill a gigabyte meanwhile are possible,
# but freezing all of them again and again is worse.
LOG_RETRY_S: Final = 10.0
# To ask for the log's size gives the interpreter's lock away, too. It is asked for only once the writes since
# may have made the log too long. A row changes pages of 4 KiB, each with 24 bytes more in the log, of the
# table and of three indexes: at worst on each level of each, with their neighbours and what tells where they
# all are. That is far more than most do (six), yet one look is enough for some thirty rows.
ROW_LOG_BYTES_MAX: Final = 400 * (4096 + 24)
# The pages that a value has alone: a little of each is not the value's, and each may be told of in another.
VALUE_LOG_FACTOR_MAX: Final = 2.1

T = TypeVar("T")

_LATEST: Final = """
    SELECT revision, create_revision FROM versions WHERE key = ? ORDER BY revision DESC LIMIT 1
"""
_INSERT: Final = """
    INSERT INTO versions (revision, key, create_revision, previous_revision, lease, value) VALUES
"""
_ROW: Final = "(?, ?, ?, ?, ?, ?)"
# Each statement gives the interpreter's lock away and must get it back from a busy loop: rows that go in
# together need that once. Statements are kept by their number of rows.
ROWS_INSERTED_MAX: Final = 64
_SET_REVISION: Final = "UPDATE numbers SET value = ? WHERE name = 'revision'"


class Transaction:
    """One operation's view of the store, inside a group that is not committed yet.

    It sees the operations before it in the group. An operation raises before it writes, or not at all:
    that is what lets many share one SQLite transaction without savepoints.
    """

    def __init__(self, connection: sqlite3.Connection, revision: int) -> None:
        self._connection = connection
        self.revision = revision  # the last one given out, by this group included
        self.events: list[Event] = []
        self._is_counted = True  # all that it does is in its events
        self._rows: list[tuple[object, ...]] = []  # not yet inserted
        self._known: dict[str, tuple[int, int]] = {}  # keys that were looked up, as they are now

    @property
    def connection(self) -> sqlite3.Connection:
        """For statements of one's own; all rows are in their table."""
        self._is_counted = False
        self.flush()
        return self._connection

    def flush(self) -> None:
        """Insert the rows that were written."""
        rows, self._rows = self._rows, []
        for start in range(0, len(rows), ROWS_INSERTED_MAX):
            some = rows[start : start + ROWS_INSERTED_MAX]
            self._connection.execute(_INSERT + ", ".join([_ROW] * len(some)), [*itertools.chain(*some)])

    def check(self, conditions: Sequence[Condition]) -> None:
        for condition in conditions:
            found = self.mod_revision(condition.key)
            if found != condition.mod_revision:
                if condition.mod_revision == 0:
                    raise KeyExists(condition.key, mod_revision=found)
                raise RevisionMismatch(condition.key, expected=condition.mod_revision, found=found)

    def write(self, writes: Sequence[Put | Delete]) -> int:
        """Do `writes` at the next revision; returns it, or the current one if nothing changed."""
        for write in writes:
            if isinstance(write, Put) and write.lease != NO_LEASE:
                self.require_lease(write.lease)
        revision = self.revision + 1
        changed = False
        for write in writes:
            previous, created = self._latest(write.key)
            if isinstance(write, Put):
                created = created or revision
                row: tuple[object, ...] = (revision, write.key, created, previous, write.lease, write.value)
                event = Event(write.key, write.value, created, revision, write.lease)
            elif created:
                row = (revision, write.key, 0, previous, NO_LEASE, None)
                event = Event(write.key, None, 0, revision)
            else:
                continue
            self._rows.append(row)
            self._known[write.key] = (revision, event.create_revision)
            self.events.append(event)
            changed = True
        if changed:
            self.revision = revision
        return self.revision

    def mod_revision(self, key: str) -> int:
        """The revision `key` was last written at, or 0 if it has no value."""
        revision, created = self._latest(key)
        return revision if created else 0

    def probe(self) -> None:
        """Write as many bytes as a write may well have: fails where that would, and changes no value."""
        self.connection.execute("CREATE TABLE IF NOT EXISTS probes (filler BLOB)")
        self.connection.execute("INSERT INTO probes VALUES (zeroblob(?))", (PROBE_BYTES,))

    def forget_probes(self) -> None:
        self.connection.execute("DELETE FROM probes")

    def require_lease(self, lease: int) -> None:
        # Not `connection`, for which all rows would be inserted: this table has none of them.
        if self._connection.execute("SELECT 1 FROM leases WHERE id = ?", (lease,)).fetchone() is None:
            raise LeaseNotFound(lease)

    def log_bytes_max(self) -> float:
        """By how much the log grows with its commit, at most."""
        if not self._is_counted:
            return math.inf
        values_bytes = sum(len(event.value) for event in self.events if event.value is not None)
        return len(self.events) * ROW_LOG_BYTES_MAX + values_bytes * VALUE_LOG_FACTOR_MAX

    def _latest(self, key: str) -> tuple[int, int]:
        found = self._known.get(key)
        if found is None:
            # Rows that wait to be inserted are all known.
            row: tuple[int, int] | None = self._connection.execute(_LATEST, (key,)).fetchone()
            found = self._known[key] = row or (0, 0)
        return found


class CommittedGroup(NamedTuple):
    """What one group changed, as told to the loop after its commit."""

    events: list[Event]
    revision: int


class _Operation(NamedTuple):
    run: Callable[[Transaction], Any]
    answer: asyncio.Future[Any]


_Answer: TypeAlias = tuple[asyncio.Future[Any], Any]  # the caller, and its result or StorageError


class Writer:
    """Runs operations in a thread, as many to a commit as have queued.

    log_path: of the write-ahead log, whose size is bounded here.
    gate: shut to reads while the log is emptied, which waits for those that are under way.
    on_commit: called in the loop after each commit that changed something, before any of the group's
        callers hears: whoever sees an answer finds its effects already published.
    on_failure: called in the loop when a commit's outcome is unknown and the connection was made anew;
        gets the revision that the file holds now.
    on_full: called in the loop when there was no room for a group.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        log_path: Path,
        gate: CheckpointLock,
        on_commit: Callable[[CommittedGroup], None],
        on_reopen: Callable[[int], None],
        on_full: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._log_path = os.fspath(log_path)
        self._checkpoint_lock = gate
        self._monotonic = monotonic
        connection = connect()
        self._connection: sqlite3.Connection | None = connection
        self._on_commit, self._on_failure, self._on_full = on_commit, on_reopen, on_full
        self._loop = asyncio.get_running_loop()
        self._collected: list[_Operation] = []  # in this turn of the loop
        self._unanswered = 0
        # An empty list asks the thread to end.
        self._queue: queue.SimpleQueue[list[_Operation]] = queue.SimpleQueue()
        self.revision = _revision_in(connection)  # touched by the thread only, once it runs
        self.failure: StorageUnavailable | None = None  # why the last group failed, until one succeeds
        self.writes_allowed = asyncio.Event()  # cleared while only what makes room may write
        self.writes_allowed.set()
        self._closing = False
        self._wants_checkpoint = False
        self._log_allowance_bytes: float = 0  # what may be written before the log has to be looked at
        self._log_is_stuck = False  # by a reader, or by what went wrong, when it was last to be emptied
        self._log_retry_at = -math.inf
        self._thread = threading.Thread(target=self._run, name="embedded-store-writer", daemon=True)
        self._thread.start()

    async def do(self, run: Callable[[Transaction], T], *, frees_space: bool = False) -> T:
        """Run `run` in a transaction and return its result once that is committed.

        makes_room: it is part of what cures a full disk; everything else waits meanwhile.
        Raises what `run` raises, StorageFull or StorageUnavailable (nothing was written), OutcomeUnknown.
        """
        self.require_open()
        if not (frees_space or self.writes_allowed.is_set()):
            await self.writes_allowed.wait()
            self.require_open()
        if self._unanswered >= QUEUED_OPERATIONS_MAX:
            raise StorageUnavailable(f"{QUEUED_OPERATIONS_MAX} writes are waiting already")
        answer: asyncio.Future[T] = self._loop.create_future()
        # What one turn of the loop brings goes over in one piece. Handed over one by one, the first would be
        # committed alone while the others are still being read: at 16 writers that is half the rate.
        if not self._collected:
            self._loop.call_soon(self._hand_over)
        self._collected.append(_Operation(run, answer))
        self._unanswered += 1
        return await answer

    def require_open(self) -> None:
        if self._closing:
            raise StorageUnavailable("the store is closed")

    async def checkpoint(self, *, frees_space: bool = False) -> None:
        """Have the log moved into the file, and its space given back: now, or once readers allow."""
        self._wants_checkpoint = True
        await self.do(lambda _: None, frees_space=frees_space)  # it is looked after behind each group

    def clear_full(self) -> None:
        """There is room again."""
        if isinstance(self.failure, StorageFull):
            self.failure = None

    async def close(self) -> None:
        """Finish what is queued, then end the thread and close the connection."""
        if not self._closing:
            self._closing = True
            self._hand_over()
            self._queue.put([])
            await self._loop.run_in_executor(None, self._thread.join)

    def _hand_over(self) -> None:
        if self._collected:
            self._queue.put(self._collected)
            self._collected = []

    def _run(self) -> None:
        pending: deque[_Operation] = deque()
        is_ending = False
        while pending or not is_ending:
            while len(pending) < GROUP_OPERATIONS_MAX and not is_ending:
                try:
                    collected = self._queue.get(block=not pending)
                except queue.Empty:
                    break
                pending += collected
                is_ending = not collected
            if pending:
                self._commit([pending.popleft() for _ in range(min(len(pending), GROUP_OPERATIONS_MAX))])
                self._limit_log_size()
        if self._connection is not None:
            self._connection.close()

    def _commit(self, operations: list[_Operation]) -> None:
        """Run a group in one SQLite transaction and tell the loop how each operation ended."""
        answers: list[_Answer] = []
        committing = False
        try:
            connection = self._opened()
            transaction = Transaction(connection, self.revision)
            connection.execute("BEGIN IMMEDIATE")
            for operation in operations:
                try:
                    answers.append((operation.answer, operation.run(transaction)))
                except StorageError as refusal:
                    answers.append((operation.answer, refusal))
                except (UnicodeError, OverflowError) as unfit:
                    # A key or number that SQLite does not take; found before anything was written.
                    answers.append((operation.answer, unfit))
            if transaction.events:
                transaction.flush()
                connection.execute(_SET_REVISION, (transaction.revision,))
            committing = True
            connection.execute("COMMIT")
        except Exception as error:  # Whatever it was, nobody may be left waiting for this group.
            # Nobody but SQLite is known to fail here, and its message says it all.
            is_bug = not isinstance(error, sqlite3.Error)
            # Once, not for every group: as long as it lasts there may be hundreds in a second.
            level = logging.ERROR if is_bug or self.failure is None else logging.DEBUG
            log.log(level, "a group of %d writes failed: %s", len(operations), error, exc_info=is_bug)
            self._fail(operations, error, unknown=committing and not _is_full(error))
            return
        self.revision = transaction.revision
        self._log_allowance_bytes -= transaction.log_bytes_max()
        if not isinstance(self.failure, StorageFull):
            self.failure = None  # That a small write fits is not a full disk's end: see `clear_full`.
        committed = CommittedGroup(transaction.events, transaction.revision)
        self._tell(lambda: self._publish(committed, answers))

    def _limit_log_size(self) -> None:
        """SQLite's own checkpoints give up where a reader is at work, and with enough readers always."""
        try:
            if not self._wants_checkpoint:
                if not self._log_is_stuck and self._log_allowance_bytes > 0:
                    return
                if self._monotonic() < self._log_retry_at:
                    return
                if not self._log_is_stuck:
                    self._log_allowance_bytes = LOG_BYTES_MAX - os.stat(self._log_path).st_size
                    if self._log_allowance_bytes >= 0:
                        return
            self._wants_checkpoint = False
            obstacle = None if self._truncate_log() else "a reader is at work"
        except (OSError, sqlite3.Error) as error:
            obstacle = str(error)
        if obstacle is not None:
            self._log_retry_at = self._monotonic() + LOG_RETRY_S
            if not self._log_is_stuck:  # Told once, not at every attempt.
                log.warning("the log could not be moved into the file, and grows: %s", obstacle)
        self._log_is_stuck = obstacle is not None

    def _truncate_log(self) -> bool:
        """Move the log into the file, unless reads take longer than can be waited for."""
        connection = self._opened()
        try:
            if not self._checkpoint_lock.block_reads(wait_s=OWN_READS_WAIT_S):
                return False
            connection.execute(f"PRAGMA busy_timeout = {FOREIGN_READS_WAIT_MS}")
            (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not is_busy
        finally:
            self._checkpoint_lock.open()
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def _fail(self, operations: list[_Operation], error: Exception, *, unknown: bool) -> None:
        """Undo the group. If its commit may have happened, start over from what the file says."""
        reason = f"the embedded store cannot write: {error}"
        self.failure = StorageFull(reason) if _is_full(error) else StorageUnavailable(reason)
        if _is_full(error):
            self._tell(self._on_full)
        outcome: StorageError = OutcomeUnknown(reason) if unknown else self.failure
        self._log_allowance_bytes = 0  # What did not fit into memory may be in the log all the same.
        try:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if unknown:
                self._reopen()
        except sqlite3.Error:
            log.exception("the store could not be opened again; the next write tries once more")
        answers: list[_Answer] = [(operation.answer, outcome) for operation in operations]
        self._tell(lambda: self._resolve(answers))

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._reopen()
        assert self._connection is not None
        return self._connection

    def _reopen(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        connection = self._connect()
        revision = self.revision = _revision_in(connection)
        self._connection = connection
        self._tell(lambda: self._on_failure(revision))

    def _publish(self, committed: CommittedGroup, answers: list[_Answer]) -> None:
        if committed.events:
            self._on_commit(committed)
        self._resolve(answers)

    def _resolve(self, answers: list[_Answer]) -> None:
        self._unanswered -= len(answers)
        for answer, result in answers:
            if answer.done():  # The caller was cancelled.
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # The loop is gone, and with it everyone who waits for an answer.
            log.debug("the event loop ended before the store's writer")


def _revision_in(connection: sqlite3.Connection) -> int:
    (revision,) = connection.execute("SELECT value FROM numbers WHERE name = 'revision'").fetchone()
    assert isinstance(revision, int)
    return revision


def _is_full(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
