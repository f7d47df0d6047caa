"""Who makes a write: noted in the transaction of the write itself, so that every replica knows it.

The note is a small key below the server's own records. A few keys are used in turn: what counts is that the
store delivers them with the write, at the same revision.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import orjson

from apiserver.meta.vocabulary import UserInfo
from apiserver.storage.history.changes import Author
from apiserver.storage.interface import Event, Put
from apiserver.storage.keys import INTERNAL_GROUP

# So many keys are used in turn: one alone would have all the versions that a store keeps.
SLOTS: Final = 64
# Of user agents and other text from clients; as long as in audit events.
TEXT_LENGTH_MAX: Final = 1024
# The name of the server itself. Source: k8s.io/apiserver, pkg/authentication/user, APIServerUser.
SERVER: Final = "system:apiserver"
_GROUPS_DIGEST_LENGTH: Final = 16
# The names of asyncio's tasks without an explicit name.
_NO_NAME: Final = "Task-"


class WritingCall(Protocol):
    """The request that a task handles."""

    def author(self) -> Author: ...

    @property
    def audit_id(self) -> str: ...


# The request that the running task handles, if it may write.
CURRENT_CALL: Final[ContextVar[WritingCall | None]] = ContextVar("writing-call", default=None)


class AuthorNote(NamedTuple):
    """The author of the writes at one revision. at_ms: when they were made, in milliseconds since 1970."""

    author: Author
    audit_id: str
    at_ms: int


class AuthorNotes:
    """The keys of notes. prefix: of all keys."""

    def __init__(self, prefix: str, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._folder = f"{prefix}/{INTERNAL_GROUP}/history/authors/"
        self._clock = clock
        self._slots = itertools.cycle(range(SLOTS))

    def put(self) -> Put:
        """Returns the note about the author of a write by the running task."""
        call = CURRENT_CALL.get()
        if call is None:
            author, audit_id = Author(SERVER, manager=_task_name()), ""
        else:
            author, audit_id = call.author(), call.audit_id
        note = [*author, audit_id, int(self._clock() * 1000)]
        return Put(f"{self._folder}{next(self._slots)}", orjson.dumps(note))

    def is_note(self, event: Event) -> bool:
        """Whether an event of the store is one of a note."""
        return event.key.startswith(self._folder) and event.value is not None

    def read(self, event: Event) -> AuthorNote | None:
        """Returns the note in an event of the store; None if it is none."""
        try:
            *author, audit_id, at_ms = orjson.loads(event.value or b"")
            found = AuthorNote(Author(*author), audit_id, at_ms)
        except (ValueError, TypeError):
            return None
        texts = all(isinstance(each, str) for each in (*found.author, audit_id))
        return found if texts and isinstance(at_ms, int) else None


def groups_digest(user: UserInfo) -> str:
    """Returns a digest of the groups of a user, which shows whether they were the same."""
    return _digest(tuple(user.groups))


@lru_cache(maxsize=256)
def _digest(groups: Sequence[str]) -> str:
    text = "\n".join(sorted(groups)).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:_GROUPS_DIGEST_LENGTH]


def _task_name() -> str:
    task = asyncio.current_task()
    name = "" if task is None else task.get_name()
    return "" if name.startswith(_NO_NAME) else name
