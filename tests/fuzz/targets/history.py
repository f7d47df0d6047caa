"""What requests for the past say, what the history reads of its files, and notes about authors."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from apiserver.endpoints.handlers.history import CHANGES_PARAMETERS
from apiserver.endpoints.request_info import MalformedRequest, parse_request
from apiserver.meta import timestamps
from apiserver.meta.errors import ApiError
from apiserver.meta.options import require_only
from apiserver.registry.history.authors import encoded, read_note
from apiserver.storage.history import deltas
from apiserver.storage.history.changes import Author, Change, Span
from apiserver.storage.history.digests import KeyDigests
from apiserver.storage.history.floors import Floors
from apiserver.storage.history.past_values import LOST, HistoryGap, Value
from apiserver.storage.history.rows import position_after
from apiserver.storage.history.undo_log import Limits, UndoLog
from apiserver.storage.interface import KeyRange
from tests.fuzz.target import fuzzer, require_client_error

_KEYS: Final = ("/r/core/configmaps/default/a", "/r/core/configmaps/default/b")
_LAST: Final = 60


@fuzzer(
    b"GET /at/2026-11-28T10:00:00Z/api/v1/namespaces/a/configmaps/b",
    b"GET /at/2026-11-28T10:00:00.123456+01:00/apis/apps/v1/deployments?limit=5",
    b"GET /at/123/at/456/api/v1/nodes",
    b"GET /at/%32%2F..%2f/../api/v1/namespaces/a/configmaps/b/history",
    b"GET /history?since=5&until=2026-11-28T10:00:00Z&by=a&namespace=b&limit=7&continue=12345",
    b"DELETE /history?before=5",
    b"GET /api/v1/namespaces/a/history?from=1&to=",
    words=b"at history api apis v1 namespaces %2F %00 %ff .. // Z +01:00 T since until by continue before "
    b"from to",
)
def targets(data: bytes) -> None:
    """Paths with moments, and the parameters of changes: a moment is that of the path."""
    if not data.isascii():
        return
    method, _, target = data.decode().partition(" ")
    try:
        info, query = parse_request(method, target, follows_item_watch=True, serves_past=True)
    except MalformedRequest:
        return
    assert not info.moment or target.partition("?")[0].startswith("/at/")
    assert not info.path.startswith("/at/") or not info.moment
    info.moment.encode()
    at = timestamps.from_text(info.moment)
    assert at is None or abs(round(at * 1_000_000)) < 2**90
    try:
        require_only(query, CHANGES_PARAMETERS)
    except ApiError as error:
        require_client_error(error, data)


@fuzzer(
    *(deltas.encode(b"a" * n + b"old" * n + b"z", b"a" * n + b"new" + b"z") for n in (1, 40, 400)),
    deltas.encode_whole(b"value" * 100),
    b"r",
    b"d\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
)
def encoded_values(data: bytes) -> None:
    """An encoded value can be decoded, or says that it cannot; and every value can be encoded."""
    for newer in (None, b"a" * 400 + b"newz", data):
        try:
            found = deltas.decode(data, newer)
        except deltas.InvalidDelta:
            continue
        assert deltas.decode(deltas.encode_whole(found)) == found
    half = len(data) // 2
    value, newer = data[:half], data[half:]
    assert deltas.decode(deltas.encode(value, newer), newer) == value


@fuzzer(
    encoded(Author("ann", "g", "kubectl", "m", "patch", "status")) + b"\n1700000000000 id",
    b'["a","","","","",""]\n-1 x',
    words=b'[ ] "" , \n 1700000000000 \xff',
)
def notes(data: bytes) -> None:
    """A note of the store says who made a write, or nothing."""
    note = read_note(data)
    if note is not None:
        assert 0 <= note.at_ms < 2**63
        assert all(isinstance(each, str) for each in (*note.author, note.audit_id))


@cache
def _content() -> tuple[bytes, dict[str, dict[int, bytes]]]:
    """Returns a file of the history, and the values of keys by revision."""
    values: dict[str, dict[int, bytes]] = {key: {} for key in _KEYS}
    with tempfile.TemporaryDirectory() as directory:
        log = UndoLog(Path(directory), Limits(1 << 30, 1e9))
        changes: list[Change] = []
        for revision in range(2, _LAST + 1):
            key = _KEYS[revision % 2]
            before = max(values[key], default=0)
            values[key][revision] = b'{"n":%d,"text":"%b"}' % (revision, b"x" * revision)
            newer = values[key][revision]
            previous = values[key].get(before)
            changes.append(Change(key, revision, before, previous, newer, revision, Author("ann")))
        log.append(changes, Span(1, _LAST), _LAST)
        log.close()
        return next(Path(directory).glob("*.history")).read_bytes(), values


@fuzzer(
    b"\x00\x00",
    b"\x00\x00SQLite format 3\x00\xff\xff",
    b"\x00\x01" + b"\xff" * 64,
    b"\x00\x40" + b"\x00" * 32,
)
def files(data: bytes) -> None:
    """Of a file with other bytes at a place, nothing is read that was not recorded."""
    content, values = _content()
    at = int.from_bytes(data[:2]) * 8 % len(content)
    altered = content[:at] + data[2:] + content[at + len(data) - 2 :]
    newest = {key: Value(of_key[max(of_key)], max(of_key)) for key, of_key in values.items()}
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "00000001.history").write_bytes(altered)
        try:
            log = UndoLog(Path(directory), Limits(1 << 30, 1e9))
        except OSError:
            return
        try:
            for revision in (1, 2, 17, _LAST - 1):
                _read(log, values, newest, revision)
        except (HistoryGap, OSError):
            pass
        finally:
            log.close()


def _read(log: UndoLog, values: dict[str, dict[int, bytes]], newest: dict[str, Value], revision: int) -> None:
    for key, past in log.changed_since(KeyRange("/", "0"), revision, _LAST, newest.get).items():
        if past.value is not None and past.value is not LOST and key in values:
            assert past.value.value == values[key].get(past.value.revision, b""), (key, past)
    for key, of_key in values.items():
        for version in log.versions(key, newest[key], until=_LAST, before=revision, limit=100):
            assert version.value is None or version.value == of_key[version.revision]
    log.changes(Span(1, _LAST), position_after(_LAST), lambda _: True, found_max=100, rows_max=100)
    log.revision_at(revision)
    log.purged_since(_KEYS[0], revision)


@fuzzer(b"floors 1\n\x00\x00\x00\x00", b"floors 1\n" + b"\x01" * 40 + b"\x00" * 4, b"")
def floors(data: bytes) -> None:
    """A file of floors is read, or is damaged."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "floors").write_bytes(data)
        found = Floors(Path(directory), KeyDigests(b""))
        kept, purged = found.split([Change(_KEYS[0], 5, 0, None, b"", 1)])
        assert len(kept) + len(purged) == 1
