"""The one thread that writes, with group commit."""

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
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, TypeVarTuple

from apiserver.storage.embedded.checkpoint_lock import CheckpointLock
from apiserver.storage.embedded.database import BUSY_TIMEOUT_MS
from apiserver.storage.errors import (
    KeyExists,
    LeaseNotFound,
    OutcomeUnknown,
    RevisionMismatch,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from apiserver.storage.interface import NO_LEASE, Condition, Delete, Event, Put

log = logging.getLogger(__name__)

# With more operations in a group, the first would wait longer than sharing the fsync saves.
GROUP_OPERATIONS_MAX: Final = 512
# Operations that may wait for the thread; more are refused with StorageUnavailable.
QUEUED_OPERATIONS_MAX: Final = 20_000
# Callers that are answered in a round of the event loop: what each does next is a part of that round.
ANSWERED_PER_ROUND: Final = 64

# The size of a test write that shows whether a full disk has space again. Overwriting a page would prove
# nothing: that often still fits where a new object does not.
PROBE_BYTES: Final = 64 * 1024

# Once the log has more than this, it is emptied. That waits for reads to end, while no other begins and
# nothing is written. Reads of this process end soon: a list of 1,000 values of 1 KB takes 8 ms, and one of
# 50,000, which the server does not ask for, 0.2 s. A read of another process either ends at once, or saves a
# snapshot, for which no acceptable wait is long enough.
LOG_BYTES_MAX: Final = 64 * 1024 * 1024
OWN_READS_WAIT_S: Final = 1.0
FOREIGN_READS_WAIT_MS: Final = 50
# How long to wait before another attempt to empty the log. Writes could fill a gigabyte meanwhile, but to
# block all of them again and again is worse.
LOG_RETRY_S: Final = 10.0
# Asking for the size of the log releases the interpreter's lock, too. So it is done only once the writes
# since may have made the log too long. A row changes pages of 4 KiB, each with 24 bytes more in the log, of
# the table and of three indexes: at worst on each level of each tree, with neighbours and pointer maps. That
# is far more than the six pages of most rows, and still one check is enough for some thirty rows.
ROW_LOG_BYTES_MAX: Final = 400 * (4096 + 24)
# A value fills separate overflow pages: each has a header, and may have an entry in a pointer map.
VALUE_LOG_FACTOR_MAX: Final = 2.1

T = TypeVar("T")
_Args = TypeVarTuple("_Args")

_LATEST: Final = """
    SELECT revision, create_revision FROM versions WHERE key = ? ORDER BY revision DESC LIMIT 1
"""
_INSERT: Final = """
    INSERT INTO main.versions (revision, key, create_revision, previous_revision, lease, value, note) VALUES
"""
_ROW: Final = "(?, ?, ?, ?, ?, ?, ?)"
# Each statement releases the interpreter's lock and must get it back from a busy event loop: rows that are
# inserted together need that once. SQLite caches a statement for each number of rows.
ROWS_INSERTED_MAX: Final = 64
_SET_REVISION: Final = "UPDATE numbers SET value = ? WHERE name = 'revision'"


class Transaction:
    """The SQLite transaction of a group, which its operations use before it is committed.

    An operation sees the writes of those before it in the group. It raises before it writes, or not at all:
    so many can share one SQLite transaction without savepoints.
    """

    def __init__(self, connection: sqlite3.Connection, revision: int) -> None:
        self._connection = connection
        self.revision = revision  # the last one given out, by this group included
        self.events: list[Event] = []
        self._is_counted = True  # whether all that was written is in `events`
        self._rows: list[tuple[object, ...]] = []  # not yet inserted
        self._known: dict[str, tuple[int, int]] = {}  # last and create revision of keys that were looked up

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection for other statements; all written rows have been inserted."""
        self._is_counted = False
        self.flush()
        return self._connection

    def flush(self) -> None:
        """Insert the written rows."""
        rows, self._rows = self._rows, []
        for start in range(0, len(rows), ROWS_INSERTED_MAX):
            some = rows[start : start + ROWS_INSERTED_MAX]
            self._connection.execute(_INSERT + ", ".join([_ROW] * len(some)), [*itertools.chain(*some)])

    def run(self, conditions: Sequence[Condition], writes: Sequence[Put | Delete], note: bytes = b"") -> int:
        """Do `writes` at the next revision if all conditions hold; returns the same as `write`."""
        for condition in conditions:
            found = self.mod_revision(condition.key)
            if found != condition.mod_revision:
                if condition.mod_revision == 0:
                    raise KeyExists(condition.key, mod_revision=found)
                raise RevisionMismatch(condition.key, expected=condition.mod_revision, found=found)
        return self.write(writes, note)

    def write(self, writes: Sequence[Put | Delete], note: bytes = b"") -> int:
        """Do `writes` at the next revision; returns it, or the current one if nothing changed.

        note: of all these writes; empty for none. Each row has it, as compaction deletes single rows.
        """
        for write in writes:
            if isinstance(write, Put) and write.lease != NO_LEASE:
                self.require_lease(write.lease)
        revision = self.revision + 1
        stored_note = note or None
        changed = False
        for write in writes:
            previous, created = self._latest(write.key)
            if isinstance(write, Put):
                created = created or revision
                event = Event(write.key, write.value, created, revision, write.lease, note)
            elif created:
                event = Event(write.key, None, 0, revision, NO_LEASE, note)
            else:
                continue
            created = event.create_revision
            self._rows.append((revision, write.key, created, previous, event.lease, event.value, stored_note))
            self._known[write.key] = (revision, created)
            self.events.append(event)
            changed = True
        if changed:
            self.revision = revision
        return self.revision

    def raise_revision(self, minimum: int) -> int:
        """Raise the revision to at least `minimum`; returns it."""
        self.revision = max(self.revision, minimum)
        self.connection.execute(_SET_REVISION, (self.revision,))
        return self.revision

    def mod_revision(self, key: str) -> int:
        """Returns the revision at which `key` was last written, or 0 if it has no value."""
        revision, created = self._latest(key)
        return revision if created else 0

    def probe(self) -> None:
        """Write as many bytes as other writes may have, to see whether they fit, without changing a value."""
        self.connection.execute("CREATE TABLE IF NOT EXISTS probes (filler BLOB)")
        self.connection.execute("INSERT INTO probes VALUES (zeroblob(?))", (PROBE_BYTES,))

    def forget_probes(self) -> None:
        self.connection.execute("DELETE FROM probes")

    def require_lease(self, lease: int) -> None:
        # Not `connection`, which would insert all rows: none of them is for this table.
        if self._connection.execute("SELECT 1 FROM leases WHERE id = ?", (lease,)).fetchone() is None:
            raise LeaseNotFound(lease)

    def log_bytes_max(self) -> float:
        """Returns the most by which the log may grow with the commit, in bytes."""
        if not self._is_counted:
            return math.inf
        values_bytes = sum(len(event.value) for event in self.events if event.value is not None)
        return len(self.events) * ROW_LOG_BYTES_MAX + values_bytes * VALUE_LOG_FACTOR_MAX

    def _latest(self, key: str) -> tuple[int, int]:
        found = self._known.get(key)
        if found is None:
            # Keys of rows that are not inserted yet are all known.
            row: tuple[int, int] | None = self._connection.execute(_LATEST, (key,)).fetchone()
            found = self._known[key] = row or (0, 0)
        return found


class CommittedGroup(NamedTuple):
    """The writes of a group of operations, passed to the event loop after the commit."""

    events: list[Event]
    revision: int


_Operation: TypeAlias = tuple[Callable[[Transaction], Any], asyncio.Future[Any]]  # the future of its result
_Answer: TypeAlias = tuple[asyncio.Future[Any], Any]  # the caller, and its result or StorageError


class WriterListener(NamedTuple):
    """Callbacks of the writer thread, in the event loop.

    on_commit: called in the loop after each commit that changed something, before any caller of the group is
        answered, so that a caller that gets an answer finds its effects published already.
    on_reopen: called in the loop when the outcome of a commit is unknown and the file was reopened; gets the
        revision in the file.
    on_full: called in the loop when there was no space for a group.
    """

    on_commit: Callable[[CommittedGroup], None]
    on_reopen: Callable[[int], None]
    on_full: Callable[[], None]


class WriterThread:
    """Runs operations in a thread, and commits all queued operations together.

    log_path: the path of the write-ahead log, whose size is bounded here; None if there is none.
    checkpoint_lock: blocks reads while the log is emptied, after those under way have ended.
    commits_exclude_reads: whether it also blocks reads while a group is committed.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        log_path: Path | None,
        checkpoint_lock: CheckpointLock,
        commits_exclude_reads: bool,
        listener: WriterListener,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._log_path = None if log_path is None else os.fspath(log_path)
        self._commits_exclude_reads = commits_exclude_reads
        self._checkpoint_lock = checkpoint_lock
        self._monotonic = monotonic
        connection = connect()
        self._connection: sqlite3.Connection | None = connection
        self._on_commit, self._on_reopen, self._on_full = listener
        self._loop = asyncio.get_running_loop()
        self._collected: list[_Operation] = []  # in this iteration of the event loop
        self._unanswered = 0
        # An empty list ends the thread.
        self._queue: queue.SimpleQueue[list[_Operation]] = queue.SimpleQueue()
        self.revision = _revision_in(connection)  # used by the thread only, once that runs
        self.failure: StorageUnavailable | None = None  # why the last group failed; None after a success
        # While only operations that free space may run; set when the others may run again.
        self._pause: asyncio.Event | None = None
        self._closing = False
        self._wants_checkpoint = False
        self._log_allowance_bytes: float = 0  # what the log may grow by before its size has to be read
        self._log_is_stuck = False  # whether a reader or an error kept it from being emptied, last time
        self._log_retry_at = -math.inf
        self._has_ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="embedded-store-writer", daemon=True)
        self._thread.start()

    async def do(self, run: Callable[[Transaction], T], *, frees_space: bool = False) -> T:
        """Run `run` in a transaction and return its result once that is committed.

        frees_space: whether it is part of freeing space on a full disk; all other operations wait meanwhile.
        Raises the errors of `run`, StorageFull or StorageUnavailable (nothing was written), OutcomeUnknown.
        """
        if self._pause is not None and not frees_space:
            await self._pause.wait()
        if self._closing:
            self.require_open()
        if self._unanswered >= QUEUED_OPERATIONS_MAX:
            raise StorageUnavailable(f"{QUEUED_OPERATIONS_MAX} writes are already waiting")
        answer: asyncio.Future[T] = self._loop.create_future()
        # Operations of one iteration of the loop are handed over together. One by one, the first would be
        # committed alone while the requests of the others are read: at 16 writers that is half the rate.
        if not self._collected:
            self._loop.call_soon(self._hand_over)
        self._collected.append((run, answer))
        self._unanswered += 1
        try:
            return await answer
        finally:
            # An exception refers to this frame, which refers to the future, which refers to the exception:
            # what the callers hold, the object too, would wait for a full garbage collection.
            del answer

    def require_open(self) -> None:
        if self._closing:
            raise StorageUnavailable("the store is closed")

    def pause(self) -> None:
        """Let all operations wait, until `resume` is called, except for those that free space."""
        if self._pause is None:
            self._pause = asyncio.Event()

    def resume(self) -> None:
        """Let all operations run again."""
        if self._pause is not None:
            self._pause.set()
            self._pause = None

    async def checkpoint(self, *, frees_space: bool = False) -> None:
        """Move the log into the file and free its space, now or when reads allow it."""
        self._wants_checkpoint = True
        await self.do(lambda _: None, frees_space=frees_space)  # the thread limits the log after each group

    async def release_memory(self) -> None:
        """Lets SQLite free its page cache, which it reads again when needed."""
        await self.do(_shrink_memory)

    def clear_full(self) -> None:
        """Accepts writes again, because there is space again."""
        if isinstance(self.failure, StorageFull):
            self.failure = None

    async def close(self) -> None:
        """Finish the queued operations, then end the thread and close the connection."""
        if not self._closing:
            self._closing = True
            self._hand_over()
            self._queue.put([])
            await self._has_ended.wait()
            self._thread.join()

    def _hand_over(self) -> None:
        if self._collected:
            self._queue.put(self._collected)
            self._collected = []

    def _run(self) -> None:
        try:
            self._write_until_closed()
        finally:
            self._call_in_loop(self._has_ended.set)

    def _write_until_closed(self) -> None:
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
                del collected  # Else it would keep the operations, and what they hold, until the next ones.
            if pending:
                group = [pending.popleft() for _ in range(min(len(pending), GROUP_OPERATIONS_MAX))]
                if self._commits_exclude_reads:
                    self._commit_without_reads(group)
                else:
                    self._commit(group)
                del group  # As above.
                self._limit_log_size()
        if self._connection is not None:
            self._connection.close()

    def _commit_without_reads(self, operations: list[_Operation]) -> None:
        """Commit a group while no read is under way; a read that takes too long meets SQLite's own lock."""
        self._checkpoint_lock.block_reads(wait_s=OWN_READS_WAIT_S)
        try:
            self._commit(operations)
        finally:
            self._checkpoint_lock.allow_reads()

    def _commit(self, operations: list[_Operation]) -> None:
        """Run a group in one SQLite transaction, and resolve each operation in the event loop."""
        answers: list[_Answer] = []
        committing = False
        try:
            connection = self._opened()
            transaction = Transaction(connection, self.revision)
            connection.execute("BEGIN IMMEDIATE")
            for run, answer in operations:
                try:
                    answers.append((answer, run(transaction)))
                # (Without the traceback, which refers to this frame, and so to all operations of the group.)
                except StorageError as refusal:
                    answers.append((answer, refusal.with_traceback(None)))
                except (UnicodeError, OverflowError) as unfit:
                    # A key or number that SQLite cannot store; raised before anything was written.
                    answers.append((answer, unfit.with_traceback(None)))
            if transaction.events:
                transaction.flush()
                connection.execute(_SET_REVISION, (transaction.revision,))
            committing = True
            connection.execute("COMMIT")
        except Exception as error:  # Whatever it is, no caller of this group may be left waiting.
            # Only errors of SQLite are expected here; their message is enough, and others are logged in full.
            is_bug = not isinstance(error, sqlite3.Error)
            # As an error only once, not for each of perhaps hundreds of groups a second.
            level = logging.ERROR if is_bug or self.failure is None else logging.DEBUG
            log.log(level, "a group of %d writes failed: %s", len(operations), error, exc_info=is_bug)
            self._fail(operations, error, unknown=committing and not _is_full(error))
            return
        self.revision = transaction.revision
        self._log_allowance_bytes -= transaction.log_bytes_max()
        if not isinstance(self.failure, StorageFull):
            self.failure = (
                None  # A small write that fits does not show that a full disk has space: see `clear_full`.
            )
        self._call_in_loop(self._publish, CommittedGroup(transaction.events, transaction.revision), answers)

    def _limit_log_size(self) -> None:
        """Empty the log when it is too long, as SQLite's own checkpoints cannot finish while reads
        overlap.
        """
        if self._log_path is None:
            return
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
            obstacle = None if self._truncate_log() else "a read is in progress"
        except (OSError, sqlite3.Error) as error:
            obstacle = str(error)
        if obstacle is not None:
            self._log_retry_at = self._monotonic() + LOG_RETRY_S
            if not self._log_is_stuck:  # Logged once, not at every attempt.
                log.warning("cannot checkpoint the write-ahead log, which keeps growing: %s", obstacle)
        self._log_is_stuck = obstacle is not None

    def _truncate_log(self) -> bool:
        """Move the log into the file; returns False if reads took longer than the timeout."""
        connection = self._opened()
        try:
            if not self._checkpoint_lock.block_reads(wait_s=OWN_READS_WAIT_S):
                return False
            connection.execute(f"PRAGMA busy_timeout = {FOREIGN_READS_WAIT_MS}")
            (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not is_busy
        finally:
            self._checkpoint_lock.allow_reads()
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def _fail(self, operations: list[_Operation], error: Exception, *, unknown: bool) -> None:
        """Roll the group back, and reopen the file if its commit may have happened."""
        reason = f"the embedded store cannot write: {error}"
        self.failure = StorageFull(reason) if _is_full(error) else StorageUnavailable(reason)
        if _is_full(error):
            self._call_in_loop(self._on_full)
        outcome: StorageError = OutcomeUnknown(reason) if unknown else self.failure
        self._log_allowance_bytes = 0  # What was rolled back may be in the log all the same.
        try:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if unknown:
                self._reopen()
        except sqlite3.Error:
            log.exception("cannot reopen the store; the server will try again at the next write")
        answers: list[_Answer] = [(answer, outcome) for _, answer in operations]
        self._call_in_loop(self._resolve, answers)

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
        self._call_in_loop(self._on_reopen, revision)

    def _publish(self, committed: CommittedGroup, answers: list[_Answer]) -> None:
        if committed.events:
            self._on_commit(committed)
        self._resolve(answers)

    def _resolve(self, answers: list[_Answer], first: int = 0) -> None:
        """Resolve the callers from one on, a bounded number of them in a round of the loop."""
        after = first + ANSWERED_PER_ROUND
        if len(answers) > after:
            self._loop.call_soon(self._resolve, answers, after)
            answers = answers[first:after]
        elif first:
            answers = answers[first:]
        self._unanswered -= len(answers)
        for answer, result in answers:
            if answer.done():  # The caller was cancelled.
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

    def _call_in_loop(self, callback: Callable[[*_Args], None], *args: *_Args) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # The loop is closed, so no caller waits for a result.
            log.debug("the event loop was closed before the store's writer")


def _revision_in(connection: sqlite3.Connection) -> int:
    (revision,) = connection.execute("SELECT value FROM numbers WHERE name = 'revision'").fetchone()
    assert isinstance(revision, int)
    return revision


def _shrink_memory(transaction: Transaction) -> None:
    transaction.connection.execute("PRAGMA shrink_memory")


def _is_full(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
