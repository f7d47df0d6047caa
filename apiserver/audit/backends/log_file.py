"""The audit log's file: appends whole lines from any number of processes, and rotates by size.

All calls block, and are made in a separate thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from apiserver.audit.backends import rotated
from apiserver.audit.backends.options import RotationOptions
from apiserver.storage.private_directories import make_directory

log = logging.getLogger(__name__)

_FILE_MODE: Final = 0o600
# What the system takes in one call.
_PIECES_MAX: Final = 512
# How long to wait for another process that writes. After it lines may mix, which is better than none.
LOCK_WAIT_S: Final = 1.0
_LOCK_POLL_S: Final = 0.002
# The longest time for which one process keeps the file locked while it writes continuously. Then it locks the
# file for each write for a while: waiting processes try some five times meanwhile.
HOLD_S: Final = 0.03
HOLD_PAUSE_S: Final = 5 * _LOCK_POLL_S
# While it is opened others may rotate it again.
_ATTEMPTS_MAX: Final = 20


class LogOutput(Protocol):
    """A destination of lines."""

    def write(self, pieces: Sequence[bytes]) -> None:
        """Write whole lines. Raises OSError; then none of them is written, if that can be undone."""
        ...

    def release(self) -> None:
        """Unlock the file for other processes, which `write` may have kept out: no lines follow at the
        moment.
        """
        ...

    def close(self) -> None: ...


class LogFile:
    """A log file that follows its path when the file is renamed.

    on_rotated: called after a rotation.
    hold_s: the time for which the file stays locked after a write, if more lines follow. Locking, and
        checking for a rename, takes several times as long as writing.
    """

    def __init__(
        self,
        path: Path,
        rotation: RotationOptions,
        on_rotated: Callable[[], None],
        clock: Callable[[], float] = time.time,
        *,
        hold_s: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """clock: seconds since 1970. monotonic: seconds, for durations. Raises OSError."""
        self._path, self._rotation, self._on_rotated, self._clock = path, rotation, on_rotated, clock
        self._hold_s, self._monotonic = hold_s, monotonic
        self._file = -1
        self._identity = (0, 0)
        self._is_regular = True
        self._has_complained = False
        # While it stays locked: where it ends. Then until when, and from when on again, by `monotonic`.
        self._held_end: int | None = None
        self._hold_until = self._hold_after = 0.0
        self._open()

    def _open(self) -> None:
        """Open the file, and remember its identity. Raises OSError."""
        self.close()
        make_directory(self._path.parent)
        # An error at once if the pipe has no reader.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        self._file = os.open(self._path, flags, _FILE_MODE)
        os.set_blocking(self._file, True)
        opened = os.fstat(self._file)
        self._identity = opened.st_dev, opened.st_ino
        self._is_regular = stat.S_ISREG(opened.st_mode)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)  # Which gives up the lock.
            self._file = -1
        self._held_end = None

    def release(self) -> None:
        if self._held_end is not None:
            self._held_end = None
            # Then other processes, which try every few milliseconds, have their turn.
            self._hold_after = self._monotonic() + HOLD_PAUSE_S
            unlock(self._file)

    def write(self, pieces: Sequence[bytes]) -> None:
        try:
            self._write(pieces)
        except OSError as error:
            error.filename = error.filename or str(self._path)
            raise

    def _write(self, pieces: Sequence[bytes]) -> None:
        size = sum(map(len, pieces))
        for _ in range(_ATTEMPTS_MAX):
            if self._file < 0:
                self._open()
            if not self._is_regular:
                write_all(self._file, pieces)
                return
            if self._held_end is not None and self._append_held(pieces, size):
                return
            if self._append_locked(pieces, size):
                return
            self.close()
        raise OSError(errno.EBUSY, "another program renames the file repeatedly", str(self._path))

    def _append_held(self, pieces: Sequence[bytes], size: int) -> bool:
        """Append to the file that is still locked; returns False if it is unlocked, or full."""
        end, limit = self._held_end, self._rotation.max_size
        assert end is not None
        if self._monotonic() > self._hold_until or (limit and end + size > limit):
            self.release()
            return False
        self._held_end = None  # If it fails, the end of the file is unknown.
        try:
            self._append(pieces, end)
        except OSError:
            unlock(self._file)
            raise
        self._held_end = end + size
        return True

    def _append_locked(self, pieces: Sequence[bytes], size: int) -> bool:
        """Lock the file, and append to it; returns False if it was renamed or rotated."""
        is_locked = lock(self._file)
        try:
            end = self._named_size()
            if end is None:
                return False
            limit = self._rotation.max_size
            if is_locked and limit and end and end + size > limit and self._rotate():
                return False
            self._append(pieces, end if is_locked else None)
            now = self._monotonic()
            if is_locked and self._hold_s and now >= self._hold_after:
                is_locked, self._held_end, self._hold_until = False, end + size, now + self._hold_s
            return True
        finally:
            if is_locked:
                unlock(self._file)

    def _named_size(self) -> int | None:
        """Returns the size of the open file; None if its path names another file."""
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return None
        return named.st_size if (named.st_dev, named.st_ino) == self._identity else None

    def _append(self, pieces: Sequence[bytes], end: int | None) -> None:
        """end: the end of the file, if no other process writes to it."""
        try:
            write_all(self._file, pieces)
        except OSError:
            if end is not None:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, end)  # Half a line would spoil the next.
            raise

    def _rotate(self) -> bool:
        """Rename the file, and return whether that succeeded: otherwise the file only grows.

        Afterwards no process writes to it: those that waited for the lock see that it was renamed.
        """
        mode = stat.S_IMODE(os.fstat(self._file).st_mode)
        try:
            self._path.rename(rotated.new_name(self._path, self._clock()))
        except OSError as error:
            if not self._has_complained:
                log.error("cannot rotate the audit log %s: %s", self._path, error.strerror)
            self._has_complained = True
            return False
        self._has_complained = False
        with contextlib.suppress(OSError):  # If it cannot be made now, the next attempt reports the error.
            created = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _FILE_MODE)
            try:
                os.fchmod(created, mode)
            finally:
                os.close(created)
        self._on_rotated()
        return True


class StandardOutput:
    """Standard output as an audit log.

    lock: a file that processes lock while they write; None if there is only one process.
    """

    def __init__(self, lock: Path | None) -> None:
        """Raises OSError."""
        self._file = sys.stdout.fileno()
        self._lock = -1 if lock is None else os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)

    def write(self, pieces: Sequence[bytes]) -> None:
        if self._lock < 0:
            write_all(self._file, pieces)
            return
        is_locked = lock(self._lock)
        try:
            write_all(self._file, pieces)
        finally:
            if is_locked:
                unlock(self._lock)

    def release(self) -> None:
        pass  # It stays locked for no longer than it is written to.

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def lock(file: int) -> bool:
    """Lock a file, unless another process holds the lock for too long, or it cannot be locked.

    Returns whether the file is locked.
    """
    give_up_at = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                return False
            time.sleep(_LOCK_POLL_S)
        except OSError:
            return False  # Some file systems have no locks.
        else:
            return True


def unlock(file: int) -> None:
    fcntl.flock(file, fcntl.LOCK_UN)


def write_all(file: int, pieces: Sequence[bytes]) -> None:
    """Write all pieces, in as few calls as the system allows. Raises OSError."""
    views = [memoryview(piece) for piece in pieces if piece]
    first = 0
    while first < len(views):
        try:
            written = os.writev(file, views[first : first + _PIECES_MAX])
        except BlockingIOError:
            # Another process that shares standard output may have made it so; a part of a line may be written
            # already.
            _wait_until_writable(file)
            continue
        while first < len(views) and written >= len(views[first]):
            written -= len(views[first])
            first += 1
        if written:
            views[first] = views[first][written:]


def _wait_until_writable(file: int) -> None:
    """Wait until the descriptor is writable, or its reader is gone: then the next write raises."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    poll.poll()
