"""The notes about the authors of writes, which another server may have written, or another program."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

import pytest

from apiserver.registry.history.authors import (
    CURRENT_CALL,
    TEXT_LENGTH_MAX,
    AuthorNote,
    AuthorNotes,
    encoded,
    read_note,
)
from apiserver.storage.history.changes import Author
from apiserver.storage.interface import NOTE_BYTES_MAX

NOTES: Final = AuthorNotes(lambda: 1_700_000_000.1239)
AT_MS: Final = 1_700_000_000_123
ANN: Final = Author("ann", "0123456789abcdef", "kubectl/v1", "kubectl", "patch", "scale")


class Call(NamedTuple):
    """A request. audit_id: as the client sent it."""

    author: Author
    audit_id: str

    def encoded_author(self) -> bytes:
        return encoded(self.author)


CALLS = {
    "a request": (Call(ANN, "id"), AuthorNote(ANN, "id", AT_MS)),
    "an audit ID with any characters": (Call(ANN, "i d\n7 é"), AuthorNote(ANN, "i d\n7 é", AT_MS)),
    "an audit ID that is not UTF-8": (Call(ANN, "i\udce9"), AuthorNote(ANN, "i?", AT_MS)),
    "a line feed in a name": (
        Call(ANN._replace(user="a\nb"), ""),
        AuthorNote(ANN._replace(user="a\nb"), "", AT_MS),
    ),
}


@pytest.mark.parametrize(("call", "expected"), CALLS.values(), ids=CALLS)
async def test_a_note_has_the_request_that_the_task_handles(call: Call, expected: AuthorNote) -> None:
    CURRENT_CALL.set(call)
    assert read_note(NOTES.note()) == expected


async def test_a_note_of_the_server_itself_has_the_name_of_its_task() -> None:
    async def note() -> bytes:
        return NOTES.note()

    named, unnamed = asyncio.create_task(note(), name="garbage-collector"), asyncio.create_task(note())
    for task, name in ((named, "garbage-collector"), (unnamed, "")):
        found = read_note(await task)
        assert found == AuthorNote(Author("system:apiserver", manager=name), "", AT_MS)


async def test_the_longest_texts_of_clients_fit_into_a_note() -> None:
    text = "\0" * TEXT_LENGTH_MAX
    CURRENT_CALL.set(Call(Author(text, text, text, text, text, text), "\U0010ffff" * TEXT_LENGTH_MAX * 2))
    assert len(NOTES.note()) <= NOTE_BYTES_MAX


FOREIGN = {
    "nothing": b"",
    "other bytes": b"\xff\xfe",
    "no time": encoded(ANN) + b"\n id",
    "a time with a sign": encoded(ANN) + b"\n-5 id",
    "a time that no database holds": encoded(ANN) + b"\n" + b"9" * 19 + b" id",
    "a number instead of a name": b'[7,"","","","",""]\n5 id',
    "too many fields": b'["","","","","","",""]\n5 id',
    "an object": b'{"user":"ann"}\n5 id',
}


@pytest.mark.parametrize("note", FOREIGN.values(), ids=FOREIGN)
def test_what_is_no_note_names_no_author(note: bytes) -> None:
    assert read_note(note) is None
