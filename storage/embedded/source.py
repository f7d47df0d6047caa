"""Reads an embedded store that no server uses, or a snapshot of one, without changing it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, Self

from apiserver.storage.embedded.checkpoint_lock import CheckpointLock
from apiserver.storage.embedded.database import FORMAT, READER_CACHE_KIB, configure
from apiserver.storage.embedded.reader import ReaderThreads
from apiserver.storage.errors import DataDirectoryError
from apiserver.storage.interface import MOST_RECENT, KeyRange, Page, ReadAt
from apiserver.storage.private_directories import lock
from apiserver.storage.snapshot_file import verify_checksum

_NUMBER: Final = "SELECT value FROM numbers WHERE name = ?"
_LEASE: Final = "SELECT ttl_s, expires_at FROM leases WHERE id = ?"


class EmbeddedSource:
    """A store that is only read. See `storage.interface.Storage` for what each method promises.

    Leases of a snapshot have their full duration, as after a restore.
    """

    def __init__(
        self, file: Path, mode: str, held: int | None, wall: Callable[[], float] = time.time
    ) -> None:
        """mode: SQLite's parameters. held: the descriptor of the store's lock; None for a snapshot.

        wall: the seconds since 1970, for leases.
        """
        self._uri = f"{file.absolute().as_uri()}?{mode}"
        self._held, self._wall = held, wall
        try:
            with closing(self._connect()) as connection:
                found = connection.execute(_NUMBER, ("format",)).fetchone()
                if found != (FORMAT,):
                    raise DataDirectoryError(
                        f"{file} has format {found and found[0]}; this server reads {FORMAT}"
                    )
                (self._revision,) = connection.execute(_NUMBER, ("revision",)).fetchone()
        except sqlite3.Error as error:
            raise DataDirectoryError(
                f"{file} is damaged or is not a store of this server: {error}"
            ) from error
        self._reader = ReaderThreads(self._connect, CheckpointLock())

    @classmethod
    def of_directory(cls, directory: Path, *, wall: Callable[[], float] = time.time) -> Self:
        """Open the store in a directory, and keep servers out until `close`. Raises DataDirectoryError."""
        file = directory / "store.db"
        if not os.access(file, os.R_OK):
            reason = "cannot be read" if file.exists() else "does not exist"
            raise DataDirectoryError(f"there is no store in {directory}: {file} {reason}")
        try:
            held = lock(directory / "store.lock")
        except OSError as error:
            raise DataDirectoryError(f"cannot use {directory}: {error.strerror}") from error
        try:
            return cls(file, "mode=ro", held, wall)
        except BaseException:
            os.close(held)
            raise

    @classmethod
    def of_snapshot(cls, file: Path) -> Self:
        """Open a snapshot after its checksum was verified. Raises SnapshotError, DataDirectoryError."""
        verify_checksum(file)
        return cls(file, "mode=ro&immutable=1", None)

    async def current_revision(self) -> int:
        return int(self._revision)

    async def list(self, keys: KeyRange, at: ReadAt = MOST_RECENT, *, limit: int = 0) -> Page:
        return await self._reader.list(keys, at, limit)

    async def count(self, keys: KeyRange, at: ReadAt = MOST_RECENT) -> int:
        return await self._reader.count(keys, at)

    async def lease_ttl_s(self, lease: int) -> int:
        """Returns how long a lease still lasts, in seconds; 0 if it has expired."""
        with closing(self._connect()) as connection:
            row = connection.execute(_LEASE, (lease,)).fetchone()
        if row is None:
            return 0
        ttl_s, expires_at = row
        return int(ttl_s) if self._held is None else int(min(max(expires_at - self._wall(), 0), ttl_s))

    async def close(self) -> None:
        await self._reader.close()
        if self._held is not None:
            os.close(self._held)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._uri, uri=True, isolation_level=None, check_same_thread=False)
        configure(connection, READER_CACHE_KIB)
        return connection
