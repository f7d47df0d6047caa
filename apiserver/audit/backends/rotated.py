"""The rotated files of a log: their names, compression, and deletion.

`audit.log` becomes `audit-2026-05-01T10-11-12.123.log`, in UTC, and with `.gz` if it is compressed.
Source: gopkg.in/natefinch/lumberjack.v2.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.audit.backends.options import RotationOptions

GZ: Final = ".gz"
_FORMAT: Final = "%Y-%m-%dT%H-%M-%S"
_TEMPORARY: Final = ".tmp"
_COPIED_BYTES: Final = 256 * 1024
_DAY_S: Final = 24 * 3600
# Files that have not been written to for so long are not being compressed by any process.
ABANDONED_AFTER_S: Final = 3600.0
_MILLISECOND: Final = timedelta(milliseconds=1)


class RotatedFile(NamedTuple):
    """A rotated file of the log. at: the time of its rotation."""

    path: Path
    at: datetime

    @property
    def is_compressed(self) -> bool:
        return self.path.suffix == GZ


def new_name(path: Path, now: float) -> Path:
    """Returns a free name for the rotated file. now: seconds since 1970."""
    at = datetime.fromtimestamp(now, UTC)
    while True:
        text = f"{at.strftime(_FORMAT)}.{at.microsecond // 1000:03d}"
        found = path.with_name(f"{path.stem}-{text}{path.suffix}")
        if not os.path.lexists(found) and not os.path.lexists(f"{found}{GZ}"):
            return found
        at += _MILLISECOND


def rotated_files(path: Path) -> list[RotatedFile]:
    """Returns the rotated files of a log, the newest first."""
    found = list(_rotated_files(path))
    return sorted(found, key=lambda each: (each.at, each.path.name), reverse=True)


def _rotated_files(path: Path) -> Iterator[RotatedFile]:
    for each in path.parent.iterdir():
        if (at := _rotated_at(path, each.name.removesuffix(GZ))) is not None:
            yield RotatedFile(each, at)


def _rotated_at(path: Path, name: str) -> datetime | None:
    """Returns the time at which a log was rotated to a name; None if it is not the name of a rotated file."""
    prefix = f"{path.stem}-"
    if not (name.startswith(prefix) and name.endswith(path.suffix)):
        return None
    text = name[len(prefix) : len(name) - len(path.suffix)]
    try:
        return datetime.strptime(text, f"{_FORMAT}.%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def clean(path: Path, options: RotationOptions, now: float) -> None:
    """Delete the files that are too many or too old, and compress the others. Raises OSError."""
    _delete_abandoned(path, now)
    kept: set[str] = set()
    # Any number of days: the time may be earlier than any that a datetime can have.
    oldest = now - options.max_age_days * _DAY_S
    for each in rotated_files(path):
        # A file and what is being made of it are one.
        name = each.path.name.removesuffix(GZ)
        is_too_many = options.max_backups and name not in kept and len(kept) >= options.max_backups
        if is_too_many or (options.max_age_days and each.at.timestamp() < oldest):
            with contextlib.suppress(FileNotFoundError):  # Another process was faster.
                each.path.unlink()
            continue
        kept.add(name)
        if options.compresses and not each.is_compressed:
            with contextlib.suppress(FileNotFoundError):
                _compress(each.path)


def _delete_abandoned(path: Path, now: float) -> None:
    """Delete the incomplete files of processes that ended while they compressed. Raises OSError."""
    for each in path.parent.glob(f".*{_TEMPORARY}"):
        name, _, _ = each.name[1:].removesuffix(_TEMPORARY).rpartition(".")
        if _rotated_at(path, name) is None:
            continue
        with contextlib.suppress(FileNotFoundError):
            if now - each.stat().st_mtime > ABANDONED_AFTER_S:
                each.unlink()


def _compress(path: Path) -> None:
    """Replace a file by a compressed one, which appears only when it is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY}")
    try:
        with (
            path.open("rb") as source,
            open(temporary, "wb", opener=_private) as target,
            gzip.GzipFile(filename="", fileobj=target, mode="wb", mtime=0) as compressed,
        ):
            shutil.copyfileobj(source, compressed, _COPIED_BYTES)
        shutil.copymode(path, temporary)
        temporary.rename(path.with_name(f"{path.name}{GZ}"))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    path.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
