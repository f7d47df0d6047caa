"""What changes the history beside its recorder: purges, and values that get another encryption key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from apiserver.registry.history.recorder import Recorder
from apiserver.storage.history.purges import Purged
from apiserver.storage.history.rewrites import Rewritten
from apiserver.storage.history.undo_log import ALL_KEYS, UndoLog
from apiserver.storage.interface import KeyRange
from apiserver.storage.keys import CORE_GROUP, after, resource_of


class HistoryWrites(Protocol):
    """Changes what is recorded. All methods raise OSError, StorageError, CannotEncrypt."""

    async def purge_key(self, key: str) -> Purged:
        """Remove all changes of a key."""
        ...

    async def purge_namespace(self, name: str) -> Purged:
        """Remove all changes of a Namespace, and of what is or was in it."""
        ...

    async def purge_until(self, revision: int) -> Purged:
        """Remove all changes up to a revision. See `UndoLog.purge_until`."""
        ...

    async def rewrite(self, position: int, prefixes: Sequence[str]) -> Rewritten:
        """Encrypt values again. prefixes: of the keys that are wanted. See `UndoLog.rewrite`."""
        ...


def namespace_scope(prefix: str, name: str) -> str:
    """Returns the scope of the purge of a namespace. prefix: of all keys.

    No key has this prefix, and no read: a Namespace has nothing below its key.
    """
    return f"{prefix}/{CORE_GROUP}/namespaces/{name}/"


class OwnWrites:
    """Changes the history that this process records. prefix: of all keys."""

    def __init__(self, history: UndoLog, recorder: Recorder, prefix: str) -> None:
        self._history, self._recorder, self._prefix = history, recorder, prefix

    async def purge_key(self, key: str) -> Purged:
        return await self._purge(key.__eq__, key, KeyRange(key, after(key)))

    async def purge_namespace(self, name: str) -> Purged:
        return await self._purge(partial(self._is_in, name), namespace_scope(self._prefix, name))

    async def purge_until(self, revision: int) -> Purged:
        return await self._recorder.write(partial(self._history.purge_until, revision))

    async def rewrite(self, position: int, prefixes: Sequence[str]) -> Rewritten:
        wanted = tuple(prefixes)
        work = partial(self._history.rewrite, position, lambda key: key.startswith(wanted))
        return await self._recorder.write(work)

    async def _purge(self, matches: Callable[[str], bool], scope: str, within: KeyRange = ALL_KEYS) -> Purged:
        return await self._recorder.write(partial(self._history.purge, matches, scope, within))

    def _is_in(self, namespace: str, key: str) -> bool:
        resource = resource_of(self._prefix, key)
        if resource is None:
            return False
        owner, slash, _ = key.removeprefix(resource).partition("/")
        if slash:
            return owner == namespace
        return owner == namespace and resource == f"{self._prefix}/{CORE_GROUP}/namespaces/"
