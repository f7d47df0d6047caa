"""The last writes to the store, with their users, for authors of clients."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from apiserver.storage.interface import NO_LEASE, Condition, Delete, Put, Storage
from apiserver.storage.wrapper import StorageWrapper
from apiserver.testkit.request_history import RecordedRequest, RequestEntry, RequestHistory

# More than a test writes; a few megabytes.
KEPT_MAX: Final = 10_000
# The name of the server itself. Source: k8s.io/apiserver, pkg/authentication/user, APIServerUser.
SERVER: Final = "system:apiserver"
# The names of asyncio's tasks without an explicit name.
_NO_NAME: Final = "Task-"


@dataclass(frozen=True, slots=True)
class StoreWrite:
    """A transaction that wrote or deleted objects in the store.

    at: the Unix time at which the transaction was committed, in seconds.
    revision: the revision of the transaction. The written objects have this revision as their
        resourceVersion.
    keys: the store keys that the transaction wrote or deleted.
    request: the request that caused the transaction. The value is None if the server itself caused the
        transaction, for example in a controller.
    task: the name of the server task that wrote the objects, or an empty string if a request caused the
        transaction.
    """

    at: float
    revision: int
    keys: tuple[str, ...]
    request: RecordedRequest | None
    task: str

    @property
    def user(self) -> str:
        """The user who sent the request, or `system:apiserver` if the server itself made the write."""
        return SERVER if self.request is None else self.request.user

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.at, UTC).strftime("%H:%M:%S.%f")[:-3]
        verb, how = (
            ("wrote", self.task) if self.request is None else (self.request.verb, self.request.user_agent)
        )
        return f"{at} {self.revision} {self.user}{f' ({how})' if how else ''}: {verb} {', '.join(self.keys)}"


class WriteHistory:
    """Keeps the last writes of a server. requests: those under way. clock: seconds since 1970."""

    def __init__(self, requests: RequestHistory, clock: Callable[[], float]) -> None:
        self._requests, self._clock = requests, clock
        # Each write without its request, which may still be under way, and that.
        self._entries: deque[tuple[StoreWrite, RequestEntry | None]] = deque(maxlen=KEPT_MAX)

    def in_front_of(self, store: Storage) -> Storage:
        """Returns a store that records its writes here; a reset server has another store."""
        self._entries.clear()
        return _RecordingStorage(store, self)

    def done(self, revision: int, *keys: str) -> int:
        """Note that the current task has written, and return the revision."""
        task = asyncio.current_task()
        request = self._requests.answered_by(task)
        name = task.get_name() if task is not None and request is None else ""
        if name.startswith(_NO_NAME):
            name = ""
        self._entries.append((StoreWrite(self._clock(), revision, keys, None, name), request))
        return revision

    def all(self) -> list[StoreWrite]:
        """Returns the last writes, in the order in which they were answered; may be called in any thread."""
        return [
            write if request is None else replace(write, request=request.record())
            for write, request in list(self._entries)
        ]


class _RecordingStorage(StorageWrapper):
    """A Storage in front of another one that records its writes."""

    def __init__(self, store: Storage, history: WriteHistory) -> None:
        super().__init__(store)
        self._done = history.done

    async def create(self, key: str, value: bytes, *, lease: int = NO_LEASE) -> int:
        return self._done(await self._store.create(key, value, lease=lease), key)

    async def compare_and_put(self, key: str, value: bytes, *, expected: int, lease: int = NO_LEASE) -> int:
        written = await self._store.compare_and_put(key, value, expected=expected, lease=lease)
        return self._done(written, key)

    async def compare_and_delete(self, key: str, *, expected: int) -> int:
        return self._done(await self._store.compare_and_delete(key, expected=expected), key)

    async def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete], *, note: bytes = b""
    ) -> int:
        revision = await self._store.transact(conditions, writes, note=note)
        return self._done(revision, *(each.key for each in writes)) if writes else revision
