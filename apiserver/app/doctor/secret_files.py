"""Checks who can read the files with keys, tokens and passwords."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from apiserver.app.doctor import configured_files
from apiserver.app.doctor.report import Finding, error, ok, warning
from apiserver.app.doctor.units import count
from apiserver.cli.config import Config


class SecretFile(NamedTuple):
    """A file. mode: its permissions. problem: why it cannot be read; empty if it can be."""

    name: str
    path: Path
    mode: int = 0o600
    problem: str = ""


def gather(config: Config) -> list[SecretFile]:
    return [_look_at(*each) for each in configured_files.secrets(config)]


def examine(files: Iterable[SecretFile]) -> Iterator[Finding]:
    """Yields findings about files that others can read or replace, or that nobody can read.

    The group may read a file: volumes of Kubernetes belong to a group.
    """
    private = 0
    for name, path, mode, problem in files:
        if problem:
            yield error(
                f"{path} ({name}) cannot be read: {problem}",
                "Change the owner of the file to the user of the server.",
            )
        elif mode & (stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
            others = "all users can read it" if mode & stat.S_IROTH else "other users can write to it"
            yield warning(
                f"{path} ({name}) has mode {mode:04o}: {others}",
                f"Run: chmod 600 {path}",
            )
        else:
            private += 1
    if private:
        yield ok(f"only the owner or the group can read {count(private, 'file')} with secrets")


def _look_at(name: str, path: Path) -> SecretFile:
    """Looks at a file without opening it.

    Closing a descriptor of the embedded store would release all locks of this process on it, also those of
    the connection that checks its integrity; and opening a named pipe waits for a writer.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as failure:
        return SecretFile(name, path, problem=failure.strerror or str(failure))
    return SecretFile(name, path, mode, "" if os.access(path, os.R_OK) else os.strerror(errno.EACCES))
