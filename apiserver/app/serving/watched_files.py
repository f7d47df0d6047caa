"""Watches files for changes, so that a running server can reload them.

Files are looked at again and again, in a thread: a call for each detects whether it was replaced or written
to, also where only a link to it was changed, as Kubernetes does with the files of mounted Secrets and
ConfigMaps. They are read when they have stayed the same for a moment: half a file can be as valid as the
whole of it, and say something else. Files that cannot be read, or that their user refuses, change nothing:
the previous contents stay in use until valid ones appear.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import stat
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
# How long a file that has changed must stay as it is before it is read.
SETTLE_S: Final = 0.25
# How often files are read that look unchanged, since times can be set: and what was refused is tried again,
# because the reason may lie elsewhere. Kubernetes' interval.
REREAD_S: Final = 60.0
_REFUSED: Final = "%s: cannot use the changed files; keeping the previous configuration: %s"
# A bundle of all CAs that browsers trust has a quarter of this.
FILE_BYTES_MAX: Final = 1024 * 1024

# Takes the contents of the files, in their order. An exception means that they are refused.
Apply: TypeAlias = Callable[[Sequence[bytes]], Awaitable[None]]


def read_file(path: Path) -> bytes:
    """Returns the contents of a file that may be watched. Raises OSError with its name, also if the file is
    too large.
    """
    with path.open("rb") as file:
        return _content(file, path)


class WatchedFiles:
    """Watches files, and applies their contents when one of them has changed.

    paths: files that belong together, as a certificate and its key: all are read when one has changed.
    """

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        contents: Sequence[bytes],
        apply: Apply,
        *,
        observe: Callable[[bool], None] = lambda is_applied: None,
        message: str = _REFUSED,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """what: the name of the files in the log.

        contents: the contents in use, read from the files before.
        apply: awaited on the event loop with the new contents, one call after the other. The text of OSError
            and ValueError is logged, so it must not contain secrets.
        observe: called after each change with whether it was applied.
        message: logged if the new contents are refused, with `what` and the reason.
        """
        self._what, self._paths = what, tuple(paths)
        self._apply, self._observe, self._message = apply, observe, message
        self._interval_s = interval_s
        self._rounds_between_readings = max(1, round(REREAD_S / interval_s))
        # What the user of the files has, or has last refused.
        self._given = _digest(contents)
        self._is_refused = False
        self._complaint = ""
        # How the files were when they were last read, and when they were last looked at.
        self._read_at: _Look | None = None
        self._seen: _Look | None = None
        self._rounds = 0

    @property
    def paths(self) -> Sequence[Path]:
        return self._paths

    def watch(self, paths: Sequence[Path], contents: Sequence[bytes]) -> None:
        """Watch these files from now on. contents: those in use."""
        self._paths, self._given = tuple(paths), _digest(contents)
        self._read_at = self._seen = None

    async def run(self) -> None:
        """Watches the files until cancelled."""
        while True:
            is_settled = self._seen == self._read_at
            await asyncio.sleep(self._interval_s if is_settled else min(SETTLE_S, self._interval_s))
            await self.look()

    async def look(self) -> None:
        """Checks the files once. A change is applied by the second call that finds the files unchanged since
        the first.
        """
        self._rounds += 1
        is_due = self._rounds >= self._rounds_between_readings
        before, self._seen = self._seen, await asyncio.to_thread(_look_at, self._paths)
        if self._seen != before or (self._seen == self._read_at and not is_due):
            return
        try:
            found = await asyncio.to_thread(_read, self._paths, self._seen)
        except OSError as error:
            self._rounds, self._read_at = 0, self._seen
            self._complain(f"{error.filename}: {error.strerror}")
            return
        if found is None:
            self._seen = None  # The file is still being written.
            return
        self._rounds, self._read_at = 0, self._seen
        await self._take(found, is_due)

    async def _take(self, contents: Sequence[bytes], is_due: bool) -> None:
        """Apply contents that differ from those in use. is_due: whether to retry contents that were refused
        before.
        """
        digest = _digest(contents)
        if digest == self._given and not self._is_refused:
            self._complaint = ""  # They had been away.
            return
        if digest == self._given and not is_due:
            return
        if digest != self._given:
            self._complaint = ""  # of others
        self._given, self._is_refused = digest, True
        try:
            await self._apply(contents)
        except (OSError, ValueError) as error:
            self._complain(str(error))
        except Exception as error:
            if self._complain(type(error).__name__):
                # Not its text, which may quote the files.
                log.error("%s: %s", self._what, "".join(traceback.format_tb(error.__traceback__)))
        else:
            self._is_refused, self._complaint = False, ""
            log.info("%s: reloaded", self._what)
            self._observe(True)

    def _complain(self, reason: str) -> bool:
        """Log why the files cannot be used. Returns False if the same reason was logged last."""
        if reason == self._complaint:
            return False
        self._complaint = reason
        log.error(self._message, self._what, reason)
        self._observe(False)
        return True


# Detects a change of files without reading them: each file's device, number, size and times, or the error.
_Look: TypeAlias = tuple[tuple[int, ...] | str, ...]


def _look_at(paths: Sequence[Path]) -> _Look:
    return tuple(map(_signature, paths))


def _signature(path: Path) -> tuple[int, ...] | str:
    try:
        return _signature_of(path.stat())
    except OSError as error:
        return error.strerror or str(error)


def _signature_of(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(paths: Sequence[Path], expected: _Look) -> list[bytes] | None:
    """Returns the contents of the files; None if they are not, or no longer, as they were seen.

    Raises OSError, with the file's name.
    """
    contents, signatures = [], []
    for path in paths:
        with open(path, "rb", opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", str(path))
            contents.append(_content(file, path))
            signatures.append(_signature_of(found))
    is_as_seen = tuple(signatures) == expected and _look_at(paths) == expected
    return contents if is_as_seen else None


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without blocking on a pipe that nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)


def _content(file: BinaryIO, path: Path) -> bytes:
    """Read an open file. Raises OSError."""
    content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise OSError(errno.EFBIG, f"is longer than {FILE_BYTES_MAX} bytes", str(path))
    return content


def _digest(contents: Sequence[bytes]) -> bytes:
    """Returns a digest that tells contents apart, since the contents may be keys and are not kept."""
    return hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in contents)).digest()
