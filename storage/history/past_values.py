"""What the history says of the past: values at a revision, versions, and changes of all keys."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from apiserver.storage.history.changes import Author, KeyChange, RecordedChange, Span


class Value(NamedTuple):
    """A value of a key, and the revision at which it was written."""

    value: bytes
    revision: int


class PastValue(NamedTuple):
    """The value of a key at a past revision; None if it had none, `LOST` if that is not known any more.

    was_created_since: whether the key has been created since, again if it had a value.
    is_thinned: whether the version at this revision was dropped: the value is that of the last version before
        it that was not, and the caller knows what both have in common. See `thinning`.
    """

    value: Value | None
    was_created_since: bool
    is_thinned: bool = False


class RecordedVersion(NamedTuple):
    """A version of a key: what a change has made of it.

    value: None if the change was a deletion, or if it is lost: see `is_lost`. Lost is also what could not be
        read when it was recorded.
    is_purged: whether the change, and others before it, were removed: see `UndoLog.purge`.
    thinned: how many versions before it were dropped: see `thinning`.
    author: None if the change was made before the history begins; then the time is unknown, too.
    """

    revision: int
    value: bytes | None
    is_lost: bool
    at_ms: int
    author: Author | None
    audit_id: str
    is_purged: bool = False
    thinned: int = 0


class Scan(NamedTuple):
    """Part of the changes of all keys, the newest first.

    found: the wanted ones. rows: how many changes were looked at.
    position: that of the last one that was looked at; the rest is below.
    is_complete: whether there is no rest.
    gaps: those of the whole history, the newest first; also what is missing at the end of the span.
    """

    found: Sequence[KeyChange]
    rows: int
    position: int
    is_complete: bool
    gaps: Sequence[Span]


# Stands for a value that cannot be decoded any more, or has not been recorded.
LOST: Final = Value(b"", -1)


PURGED: Final = RecordedVersion(0, None, True, 0, None, "", is_purged=True)


class HistoryGap(Exception):
    """The history does not have all changes since a revision. oldest: the oldest revision to read."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"the history begins at revision {oldest}")
        self.oldest = oldest


def recorded_version(change: RecordedChange, value: Value | None) -> RecordedVersion:
    is_lost = not change.is_deletion and (value is None or not value.value)
    known = None if change.is_deletion or is_lost or value is None else value.value
    return RecordedVersion(
        *(change.revision, known, is_lost, change.at_ms, change.author, change.audit_id),
        thinned=change.thinned,
    )


def version_before_history(value: Value) -> RecordedVersion:
    return RecordedVersion(value.revision, value.value, is_lost=False, at_ms=0, author=None, audit_id="")


def with_marks(found: Sequence[RecordedVersion], marks: Set[int]) -> list[RecordedVersion]:
    """Returns versions, and those that stand for purged ones, the newest first. marks: their revisions."""
    known = {each.revision for each in found}
    marked = [each._replace(is_purged=True) if each.revision in marks else each for each in found]
    marked += [PURGED._replace(revision=each) for each in marks - known]
    return sorted(marked, key=lambda each: each.revision, reverse=True)
