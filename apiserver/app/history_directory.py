"""The directory of the history, which one server uses: with `--workers`, all its processes, and no others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apiserver.app.serving.listening import CannotStart
from apiserver.cli import flag_values
from apiserver.cli.config import Config
from apiserver.storage.errors import DataDirectoryError
from apiserver.storage.history.segment_list import DIRECTORY_LOCK
from apiserver.storage.private_directories import lock, make_directory


def history_directory(config: Config) -> Path | None:
    """Returns where the history is; None if it is in memory."""
    storage = config.storage
    if storage.storage_backend == flag_values.MEMORY and storage.history_dir is None:
        return None
    return storage.history_dir or config.serving.data_dir / "history"


def cannot_use(directory: Path | None, error: Exception) -> CannotStart:
    return CannotStart(f"cannot use the history in {directory}: {error}")


@contextmanager
def reserved_history(config: Config) -> Iterator[None]:
    """Keeps other servers from the history, if there is one, until this process and all its forks have ended.

    Raises CannotStart if another server has it.
    """
    directory = history_directory(config) if config.storage.history else None
    if directory is None:
        yield
        return
    try:
        make_directory(directory)
        descriptor = lock(directory / DIRECTORY_LOCK)
    except (OSError, DataDirectoryError) as error:
        raise cannot_use(directory, error) from None
    try:
        yield
    finally:
        os.close(descriptor)
