"""Who makes a write: noted in the transaction of the write itself, so that every replica knows it.

A note has the author as JSON, a line feed, the time in milliseconds since 1970, a space, and the audit ID.
Most writes have the author of a write before, so both sides keep the last authors, encoded and decoded.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import orjson

from apiserver.storage.history.changes import Author

# Of user agents and other text from clients; as long as in audit events.
TEXT_LENGTH_MAX: Final = 1024
# The name of the server itself. Source: k8s.io/apiserver, pkg/authentication/user, APIServerUser.
SERVER: Final = "system:apiserver"
_GROUPS_DIGEST_LENGTH: Final = 16
# Of milliseconds since 1970: SQLite has integers of 64 bits.
_TIME_DIGITS_MAX: Final = 18
# The names of asyncio's tasks without an explicit name.
_NO_NAME: Final = "Task-"
# Authors that are kept: a few megabytes, if clients send texts as long as they may be.
AUTHORS_KEPT_MAX: Final = 256


class WritingCall(Protocol):
    """The request that a task handles."""

    def encoded_author(self) -> bytes:
        """Returns the author of its writes, as `encoded` does."""
        ...

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
    """Makes notes about the authors of writes. clock: seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def note(self) -> bytes:
        """Returns the note about the author of a write by the running task."""
        call = CURRENT_CALL.get()
        at_ms = int(self._clock() * 1000)
        if call is None:
            return b"%b\n%d " % (_encoded_task(_task_name()), at_ms)
        audit_id = call.audit_id[:TEXT_LENGTH_MAX].encode(errors="replace")
        return b"%b\n%d %b" % (call.encoded_author(), at_ms, audit_id)


def encoded(author: Author) -> bytes:
    """Returns an author as notes have it."""
    return orjson.dumps([*author])


def read_note(note: bytes) -> AuthorNote | None:
    """Returns what a note says; None if it is none, as a store may have been written by something else."""
    encoded_author, _, rest = note.partition(b"\n")
    at_ms, _, audit_id = rest.partition(b" ")
    author = _decoded(encoded_author)
    if author is None or not at_ms.isdigit() or len(at_ms) > _TIME_DIGITS_MAX:
        return None
    return AuthorNote(author, audit_id.decode(errors="replace"), int(at_ms))


def groups_digest(groups: Sequence[str]) -> str:
    """Returns a digest of the groups of a user, which shows whether they were the same."""
    text = "\n".join(sorted(groups)).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:_GROUPS_DIGEST_LENGTH]


@lru_cache(maxsize=AUTHORS_KEPT_MAX)
def _decoded(encoded_author: bytes) -> Author | None:
    try:
        fields = orjson.loads(encoded_author)
    except ValueError:
        return None
    if not (isinstance(fields, list) and len(fields) == len(Author._fields)):
        return None
    return Author(*fields) if all(isinstance(each, str) for each in fields) else None


@lru_cache(maxsize=AUTHORS_KEPT_MAX)
def _encoded_task(name: str) -> bytes:
    return encoded(Author(SERVER, manager=name))


def _task_name() -> str:
    task = asyncio.current_task()
    name = "" if task is None else task.get_name()
    return "" if name.startswith(_NO_NAME) else name
