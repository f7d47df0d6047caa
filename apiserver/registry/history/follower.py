"""The history in several processes: one of them records, and the others read its files.

The one that records has the lock of the directory, and listens on a socket there, on which the others ask it
to complete the history before they read, and to change it. If it ends, another process that starts takes its
place; until then, the history cannot be read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from apiserver.meta.errors import ApiError
from apiserver.registry.history.past import PastReads
from apiserver.registry.history.recorder import CANNOT_RECORD, with_keys
from apiserver.registry.history.writes import HistoryWrites
from apiserver.storage.history.purges import Purged
from apiserver.storage.history.rewrites import Rewritten
from apiserver.storage.history.undo_log import UndoLog

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_SOCKET: Final = "recorder.sock"
# Of the path of a socket; Linux has 108, and macOS 104.
PATH_BYTES_MAX: Final = 100
# Of a message: names of resources are the longest.
MESSAGE_BYTES_MAX: Final = 1024 * 1024
# A purge rewrites files.
ANSWER_WITHIN_S: Final = 60.0
# After how long it is tried again to listen.
RETRY_S: Final = 5.0


def require_short(directory: Path) -> None:
    """Check that the path of a directory is short enough for a socket in it. Raises OSError."""
    if len(os.fsencode(directory / _SOCKET)) > PATH_BYTES_MAX:
        raise OSError(f"with --workers, its path may have {PATH_BYTES_MAX - len(_SOCKET) - 1} bytes at most")


class Follower:
    """Reads the history that another process records. directory: of the history."""

    def __init__(self, history: UndoLog, directory: Path) -> None:
        self._history, self._path = history, directory / _SOCKET
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history-reads")

    async def wait_for(self, revision: int) -> None:
        """Wait until the history has all changes up to a revision. Raises OSError."""
        await self.ask("complete")
        await self.read(lambda: None)
        if self._history.recorded < revision:
            raise OSError("the process that records the history has not read the store yet")

    async def read(self, work: Callable[[], _T]) -> _T:
        """Returns the result of `work`, which reads the history, in a thread. Raises OSError."""

        def read() -> _T:
            with self._history.snapshot():
                return work()

        return await with_keys(self._thread, read)

    async def ask(self, what: str, *arguments: object) -> list[Any]:
        """Returns what the process that records the history answers. Raises OSError."""
        message = json.dumps([what, *arguments]).encode() + b"\n"
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MESSAGE_BYTES_MAX)
                with contextlib.closing(writer):
                    writer.write(message)
                    answer = json.loads(await reader.readline() or b"{}")
        except (OSError, ValueError) as error:
            raise OSError(f"the process that records the history does not answer: {error}") from None
        if "result" not in answer:
            raise OSError(answer.get("error", "the process that records the history has ended"))
        found: list[Any] = answer["result"]
        return found

    async def purge_key(self, key: str) -> Purged:
        return Purged(*await self.ask("purge_key", key))

    async def purge_namespace(self, name: str) -> Purged:
        return Purged(*await self.ask("purge_namespace", name))

    async def purge_until(self, revision: int) -> Purged:
        return Purged(*await self.ask("purge_until", revision))

    async def rewrite(self, position: int, prefixes: Sequence[str]) -> Rewritten:
        return Rewritten(*await self.ask("rewrite", position, list(prefixes)))

    async def run(self) -> None:
        """Keep the files open until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            self._thread.shutdown()
            self._history.close()


class RecorderEndpoint:
    """Answers the other processes, in the one that records. directory: of the history."""

    def __init__(
        self, past: PastReads, writes: HistoryWrites, directory: Path, *, retry_s: float = RETRY_S
    ) -> None:
        self._path, self._retry_s = directory / _SOCKET, retry_s

        async def complete() -> Sequence[int]:
            return (await past.complete(),)

        self._handlers: dict[str, Callable[..., Awaitable[Sequence[int]]]] = {
            "complete": complete,
            "purge_key": writes.purge_key,
            "purge_namespace": writes.purge_namespace,
            "purge_until": writes.purge_until,
            "rewrite": writes.rewrite,
        }

    async def run(self) -> None:
        """Answer until cancelled; later, if that is not possible, for example because the disk is full."""
        last = ""
        while True:
            try:
                await self._listen()
            except OSError as error:  # Nothing of a server depends on its history.
                if str(error) != last:
                    log.error("other workers cannot read the history at present: %s", error)
                last = str(error)
                await asyncio.sleep(self._retry_s)

    async def _listen(self) -> None:
        """Answer until cancelled. Raises OSError."""
        # That of a process that has ended, as the lock is ours.
        self._path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._serve, self._path, limit=MESSAGE_BYTES_MAX)
        # A directory that existed before may be open to others.
        self._path.chmod(0o600)
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            what, *arguments = json.loads(await reader.readline() or b'["none"]')
            answer: dict[str, object]
            try:
                answer = {"result": [*await self._handlers[what](*arguments)]}
            except (*CANNOT_RECORD, ApiError, LookupError) as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            with contextlib.suppress(OSError):
                await writer.drain()
