"""Histories with changes that a test knows, and what becomes of their files."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path

from apiserver.storage.history.changes import PLAIN, Author, Change, Cipher, Span
from apiserver.storage.history.deltas import InvalidDelta
from apiserver.storage.history.past_values import Value
from apiserver.storage.history.undo_log import Limits, UndoLog
from apiserver.storage.interface import KeyRange

ALL = KeyRange("/", "0")
ROOMY = Limits(bytes_max=64 * 1024 * 1024, age_s_max=7 * 86_400)
SMALL = Limits(bytes_max=16 * 64 * 1024, age_s_max=1e9)
KEYS = ["/a/x", "/a/y", "/b/x"]


class Model:
    """A store whose states are all remembered, and that records its changes."""

    def __init__(self) -> None:
        self.revision = 1
        self.live: dict[str, Value] = {}
        self.states: dict[int, dict[str, Value]] = {1: {}}
        self.versions: dict[str, list[tuple[int, bytes | None]]] = {}
        self.changes: list[Change] = []

    def write(self, key: str, value: bytes | None, author: str = "ann", at_ms: int | None = None) -> None:
        before = self.live.get(key)
        if value is None and before is None:
            return
        self.revision += 1
        self.changes.append(
            Change(
                key,
                self.revision,
                before.revision if before else 0,
                before.value if before else None,
                value,
                self.revision * 1_000 if at_ms is None else at_ms,
                Author(author),
                f"audit-{self.revision}",
            )
        )
        self.versions.setdefault(key, []).append((self.revision, value))
        if value is None:
            del self.live[key]
        else:
            self.live[key] = Value(value, self.revision)
        self.states[self.revision] = dict(self.live)

    def record(self, log: UndoLog) -> None:
        """Record what has not been recorded yet."""
        log.append(self.changes, Span(log.recorded or 1, self.revision), at_ms=self.revision * 1_000)
        self.changes.clear()

    def read(self, log: UndoLog, revision: int, keys: KeyRange = ALL) -> dict[str, Value]:
        """Returns a state as the history has it, of which no version was dropped."""
        found = {key: value for key, value in self.live.items() if key in keys}
        changed = log.changed_since(keys, revision, self.revision, self.live.get)
        for key, (value, _, is_thinned) in changed.items():
            assert not is_thinned
            found.pop(key, None)
            if value is not None:
                found[key] = value
        return found


def text(number: int) -> bytes:
    return b'{"metadata":{"name":"one"},"status":{"count":%d}}' % number


def damage(path: Path, how: str) -> None:
    match how:
        case "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case "no database":
            path.write_bytes(b"nonsense" * 10_000)
        case "empty":
            path.write_bytes(b"")
        case "deleted":
            path.unlink()
        case "another root page":
            connection = sqlite3.connect(path)
            query = "SELECT rootpage FROM sqlite_schema WHERE name = 'changes'"
            (root,) = connection.execute(query).fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            connection.close()
            with path.open("r+b") as file:
                file.seek((root - 1) * page_bytes)
                file.write(b"\xff" * 8)
        case "altered":
            connection = sqlite3.connect(path)
            connection.execute("UPDATE changes SET author = (SELECT max(id) FROM authors), since = since + 1")
            connection.commit()
            connection.close()


def rows(directory: Path, statement: str) -> None:
    """Change the newest segment behind the back of the history."""
    with contextlib.closing(sqlite3.connect(max(directory.glob("*.history")))) as connection:
        connection.execute(statement)
        connection.commit()


def everything_in(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(directory.iterdir()))


class Purging:
    """A history of several files in which each key, value and author has a text that nothing else has."""

    def __init__(self, directory: Path | None, limits: Limits = SMALL, cipher: Cipher = PLAIN) -> None:
        self.model, source = Model(), random.Random(1)
        self.log = UndoLog(directory, limits, cipher)
        self.changes: list[Change] = []
        for number in range(120):
            key = f"/r/things/{'ab'[number % 2]}/n{number % 6}"
            value = b"<value of %b>" % key.encode() + source.randbytes(1_500) + b"%d" % number
            is_deleted = number % 17 == 11
            self.model.write(key, None if is_deleted else value, author=f"author of {key}")
            self.changes += self.model.changes
            self.model.record(self.log)

    def state(self, revision: int) -> dict[str, Value]:
        return self.model.read(self.log, revision)


class Keyed:
    """Encrypts nothing, but notes with each value the key that it would have been encrypted with.

    decrypted: how many values were.
    """

    def __init__(self, key: bytes) -> None:
        self.key, self.known = key, {key}
        self.decrypted = 0

    def use(self, key: bytes, *others: bytes) -> None:
        self.key, self.known = key, {key, *others}

    def encrypt(self, key: str, data: bytes) -> bytes:
        return b"<%b>" % self.key + data

    def decrypt(self, key: str, data: bytes) -> bytes:
        self.decrypted += 1
        name, _, value = data[1:].partition(b">")
        if name not in self.known:
            raise InvalidDelta("its key is gone")
        return value

    def renewed(self, key: str, data: bytes) -> bytes | None:
        value = self.decrypt(key, data)
        return None if data.startswith(b"<%b>" % self.key) else self.encrypt(key, value)
