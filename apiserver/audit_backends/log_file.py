"""The audit log's file: whole lines at its end, from any number of processes, rotated by size.

All of it blocks, and is for a thread of its own.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from apiserver.audit_backends import rotated
from apiserver.audit_backends.options import RotationOptions

log = logging.getLogger(__name__)

_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700
# What the system takes in one call.
_PIECES_MAX: Final = 512
# How long to wait for another process that writes. After it lines may mix, which is better than none.
LOCK_WAIT_S: Final = 1.0
_LOCK_POLL_S: Final = 0.002
# While it is opened others may rotate it again.
_ATTEMPTS_MAX: Final = 20


class LogOutput(Protocol):
    """Where lines are written."""

    def write(self, pieces: Sequence[bytes]) -> None:
        """Write whole lines. Raises OSError; then none of them is there, if that can be undone."""
        ...

    def close(self) -> None: ...


class LogFile:
    """A file that is written to, wherever it is moved.

    on_rotated: called after it was rotated.
    """

    def __init__(
        self,
        path: Path,
        rotation: RotationOptions,
        on_rotated: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """clock: seconds since 1970. Raises OSError."""
        self._path, self._rotation, self._on_rotated, self._clock = path, rotation, on_rotated, clock
        self._file = -1
        self._is_regular = True
        self._has_complained = False
        self._open()

    def _open(self) -> None:
        """Raises OSError."""
        self.close()
        self._path.parent.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
        # A pipe that nobody reads is an error at once.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        self._file = os.open(self._path, flags, _FILE_MODE)
        os.set_blocking(self._file, True)
        self._is_regular = stat.S_ISREG(os.fstat(self._file).st_mode)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

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
            with locked(self._file) as is_locked:
                current = os.fstat(self._file)
                if self._has_name(current):
                    end = current.st_size
                    limit = self._rotation.max_size
                    is_full = is_locked and limit and end and end + size > limit
                    if not (is_full and self._rotate()):
                        self._append(pieces, end if is_locked else None)
                        return
            self.close()
        raise OSError(errno.EBUSY, "the file is moved again and again", str(self._path))

    def _has_name(self, current: os.stat_result) -> bool:
        """Whether the open file, which is `current`, is the one that has the name."""
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, current)

    def _append(self, pieces: Sequence[bytes], end: int | None) -> None:
        """end: of the file, if nobody else writes to it."""
        try:
            write_all(self._file, pieces)
        except OSError:
            if end is not None:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, end)  # Half a line would spoil the next.
            raise

    def _rotate(self) -> bool:
        """Give the file another name, and return whether that was possible: else it only grows.

        Nobody writes to it any more then: others who have waited for the lock see that it was moved.
        """
        mode = stat.S_IMODE(os.fstat(self._file).st_mode)
        try:
            self._path.rename(rotated.new_name(self._path, self._clock()))
        except OSError as error:
            if not self._has_complained:
                log.error("the audit log %s cannot be rotated: %s", self._path, error.strerror)
            self._has_complained = True
            return False
        self._has_complained = False
        with contextlib.suppress(OSError):  # If it cannot be made now, the next attempt tells.
            created = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _FILE_MODE)
            try:
                os.fchmod(created, mode)
            finally:
                os.close(created)
        self._on_rotated()
        return True


class StandardOutput:
    """lock: a file that several processes lock, one after the other, to write; None if there is one only."""

    def __init__(self, lock: Path | None) -> None:
        """Raises OSError."""
        self._file = sys.stdout.fileno()
        self._lock = -1 if lock is None else os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)

    def write(self, pieces: Sequence[bytes]) -> None:
        if self._lock < 0:
            write_all(self._file, pieces)
            return
        with locked(self._lock):
            write_all(self._file, pieces)

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@contextlib.contextmanager
def locked(file: int) -> Iterator[bool]:
    """Lock a file, unless another process keeps it locked for too long, or it cannot be locked at all.

    Yields whether it is locked.
    """
    is_locked = False
    give_up_at = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        except BlockingIOError:
            if time.monotonic() < give_up_at:
                time.sleep(_LOCK_POLL_S)
                continue
        except OSError:
            pass  # Some file systems have no locks.
        break
    try:
        yield is_locked
    finally:
        if is_locked:
            fcntl.flock(file, fcntl.LOCK_UN)


def write_all(file: int, pieces: Sequence[bytes]) -> None:
    """Write all pieces, in as few calls as the system allows. Raises OSError."""
    views = [memoryview(piece) for piece in pieces if piece]
    first = 0
    while first < len(views):
        try:
            written = os.writev(file, views[first : first + _PIECES_MAX])
        except BlockingIOError:
            # Whoever shares standard output may have made it so; a part of a line may be there already.
            _wait_until_writable(file)
            continue
        while first < len(views) and written >= len(views[first]):
            written -= len(views[first])
            first += 1
        if written:
            views[first] = views[first][written:]


def _wait_until_writable(file: int) -> None:
    """Return, too, when nobody reads from it any more: then writing tells."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    poll.poll()
