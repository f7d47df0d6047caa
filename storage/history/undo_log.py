"""The history of a store: the value before each change, in segments of which the oldest are dropped.

To read a state of the past, begin with the newest values, and undo the changes since. So what does not change
costs nothing, and the oldest changes can be dropped without a trace in the others.

One thread writes, and another may read meanwhile. A read that finds a segment damaged takes it out of the
history, and waits for the thread that writes only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice, pairwise
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from apiserver.storage.history.changes import (
    PLAIN,
    Change,
    Cipher,
    EncodedValue,
    KeyChange,
    RecordedChange,
    Span,
)
from apiserver.storage.history.damage import SegmentDamaged
from apiserver.storage.history.past_values import (
    LOST,
    HistoryGap,
    PastValue,
    RecordedVersion,
    Scan,
    Value,
    recorded_version,
    version_before_history,
    with_marks,
)
from apiserver.storage.history.purges import NO_DROPS, Purged, PurgedKey, WantedKeys
from apiserver.storage.history.rewrites import NOTHING, Rewritten
from apiserver.storage.history.rows import position_after, revision_at_position
from apiserver.storage.history.segment import Segment
from apiserver.storage.history.segment_list import DIRECTORY_LOCK, SegmentList, spans_of
from apiserver.storage.history.segment_reader import SegmentReader
from apiserver.storage.history.thinning import OldRows, merges
from apiserver.storage.history.value_decoder import ValueDecoder
from apiserver.storage.interface import KeyRange
from apiserver.storage.keys import after

# A limit is kept by dropping this part of it at a time.
SEGMENTS_MAX: Final = 16
_T = TypeVar("_T")
# Keys whose changes are read at once: more are not faster, and these are in memory together.
KEYS_READ_MAX: Final = 64
ALL_KEYS: Final = KeyRange("", "\U0010ffff")


class Limits(NamedTuple):
    """The limits beyond which the oldest segments are dropped.

    bytes_max: of all segments; one segment more may exist for a moment.
    age_s_max: states that are older need not be readable any more. Changes are dropped at most a sixteenth of
        this time later, if any are recorded then.
    """

    bytes_max: int
    age_s_max: float


class UndoLog:
    """The segments in a directory, or in memory.

    dropped_total: how many segments were dropped because of the limits.
    digest: makes the digests of keys in marks.
    """

    def __init__(
        self,
        directory: Path | None,
        limits: Limits,
        cipher: Cipher = PLAIN,
        *,
        follows: bool = False,
        lock_name: str = DIRECTORY_LOCK,
    ) -> None:
        """directory: None for a history in memory. Raises OSError, DataDirectoryError if it is in use.

        follows: whether another process writes it; then it can be read, during a `snapshot`.
        lock_name: of what is locked to write it; another one if the caller has reserved the directory.
        """
        self._limits, self._cipher, self.follows = limits, cipher, follows
        self._decoder = ValueDecoder(cipher)
        self._list = SegmentList(directory, cipher, follows=follows, lock_name=lock_name)
        self.snapshot = self._list.snapshot
        self._segments, self._writing = self._list.segments, self._list.writing
        self.digest = self._list.digest
        self._floors = self._list.floors
        self.dropped_total = 0
        # Odd while versions are being dropped.
        self._thinnings = 0

    def _damage_of(self, segment: Segment) -> AbstractContextManager[None]:
        """Takes a segment out of the history if it turns out to be damaged."""
        return self._list.damage_of(segment)

    def close(self) -> None:
        self._list.close()

    # ---- what is recorded

    @property
    def recorded(self) -> int:
        """The revision up to which the history is complete; 0 if it has none."""
        return self._list.spans[-1].until if self._list.spans else 0

    @property
    def spans(self) -> Sequence[Span]:
        """The revisions whose changes all are recorded, the oldest first. Between them are gaps."""
        return self._list.spans

    def readable_since(self) -> int:
        """Returns the oldest revision whose state can be read; there is no gap since."""
        return self._list.spans[-1].after if self._list.spans else 0

    def listed_since(self) -> int:
        """Returns the oldest revision since which changes are recorded, maybe with gaps."""
        return self._list.spans[0].after if self._list.spans else 0

    @property
    def newest_ms(self) -> int:
        """The time of the last change, in milliseconds since 1970; 0 if there is none."""
        return self._list.newest_ms

    @property
    def size_bytes(self) -> int:
        """The size of all segments, without the log of the one that is written."""
        return self._list.size_bytes

    # ---- writing

    def append(
        self, changes: Sequence[Change], span: Span, at_ms: int, dropped: Mapping[str, int] = NO_DROPS
    ) -> None:
        """Add changes, in the order of their revisions. span: the revisions whose changes all are here then.

        at_ms: now, in milliseconds since 1970.
        dropped: prefixes of keys whose changes are not recorded up to a revision, even so.
        Raises OSError; then nothing is added.
        """
        purged: Sequence[PurgedKey] = ()
        if span.after < self._floors.highest:
            changes, purged = self._floors.split(changes)
        with self._writing:
            segment = self._list.writable(
                self._limits.bytes_max // SEGMENTS_MAX,
                at_ms - int(self._limits.age_s_max * 1000) // SEGMENTS_MAX,
            )
            try:
                segment.append(changes, span, at_ms, dropped, purged)
            except SegmentDamaged as error:
                self._list.set_aside(segment, error)
                raise OSError(str(error)) from None
            self._list.note_spans()

    def drop_old(self, now_ms: int) -> None:
        """Drop the oldest segments beyond the limits, but never the one that is written."""
        before_ms = now_ms - int(self._limits.age_s_max * 1000)
        self.dropped_total += self._list.drop_old(before_ms, self._limits.bytes_max)

    def clear(self) -> None:
        """Remove all that is recorded."""
        with self._writing:
            # First, as this may end in between: without changes, nothing shows that there was another store.
            self._floors.clear()
            for segment in self._segments.copy():
                self._list.remove(segment)

    def purge(self, matches: Callable[[str], bool], scope: str, within: KeyRange = ALL_KEYS) -> Purged:
        """Remove all changes of the keys that match, so that no file has anything of them.

        scope: for which `purged_since` then returns these keys: one of them, or a prefix that only they have.
        within: a range that has all of them; others are not looked at.
        Raises OSError; then it has to be done again. States before the last of these changes have no value of
        these keys: see `purged_since`.
        """
        count = 0
        keys: set[str] = set()
        wanted = WantedKeys(within, matches)
        with self._writing:
            segments = self._segments.copy()
            for segment in segments:
                with self._damage_of(segment):
                    keys |= {*segment.keys(wanted)}
            # Before any of them is removed, as this may end in between.
            self._floors.add(keys, scope, self.recorded, oldest=self.listed_since())
            for segment in self._segments.copy():
                with self._damage_of(segment):
                    removed, found = segment.purge(wanted, scope)
                    count += removed
                    keys |= found
            self._list.remove_damaged(segments)
        return Purged(count, len(keys))

    def purge_until(self, revision: int) -> Purged:
        """Remove all changes up to a revision: the history begins there. Raises as `purge` does.

        Objects that changed in several files are counted several times.
        """
        found = []
        with self._writing:
            revision, segments = min(revision, self.recorded), self._segments.copy()
            with self._list.beginning_at(revision):
                for segment in segments:
                    with self._damage_of(segment):
                        if not segment.spans or segment.spans[0].after < revision:
                            found.append(segment.purge_until(revision))
                        else:
                            segment.clean()
            self._list.remove_damaged(segments)
        return Purged(sum(each.changes for each in found), sum(each.objects for each in found))

    def rewrite(self, position: int, is_wanted: Callable[[str], bool]) -> Rewritten:
        """Encrypt values again that are not encrypted by the current key, some at a time.

        position: 0, and then that of the result before, until it is 0. is_wanted: of a key.
        Afterwards, no file has the values as they were encrypted before, except those that are lost.
        Raises OSError, and as the cipher; then some of them may have been encrypted.
        """
        if self._cipher is PLAIN:
            return NOTHING
        with self._writing:
            for segment in self._segments.copy():
                with self._damage_of(segment):
                    found = segment.rewrite(position, is_wanted)
                    if found.position:
                        return found
            self._list.remove_damaged([])
        return NOTHING

    def old_rows(self, before_ms: int, is_wanted: Callable[[str], bool]) -> tuple[Segment, OldRows] | None:
        """Returns the next rows that are older than a time, for `thin`; None if there are no more.

        is_wanted: of a key. Raises OSError.
        """
        with self._writing:
            for segment in self._segments.copy():
                with self._damage_of(segment):
                    if (found := segment.old_rows(before_ms, is_wanted)) is not None:
                        return segment, found
                    if segment is not self._segments[-1]:
                        segment.shrink()
        return None

    def thin(
        self,
        old: tuple[Segment, OldRows],
        newest: Callable[[str], Value | None],
        until: int,
        is_minor: Callable[[bytes, bytes], bool],
    ) -> int:
        """Drop versions that differ little from the version before, of rows that `old_rows` has returned.

        newest: returns the value of a key at revision `until`. is_minor: whether of two values the second one
        need not be kept. Returns how many were dropped. Raises OSError, and as the cipher.
        """
        segment, count = old[0], 0
        with self._writing, self._damage_of(segment):
            for key, rows in segment.parts_of(old[1]) if segment in self._segments else ():
                span = Span(revision_at_position(rows[-1][0]) + 1, until)
                known = {
                    each.revision: each for each in self._versions(key, newest(key), span, len(rows) + 1)
                }
                self._thinnings += 1
                try:
                    count += segment.thin(key, [*merges(rows, known, is_minor)])
                finally:
                    self._thinnings += 1
        return count

    # ---- reading

    def revision_at(self, at_ms: int) -> int:
        """Returns the revision of the last recorded change up to a time; 0 if there is none."""
        found = 0
        for segment in reversed(self._segments.copy()):
            with self._damage_of(segment):
                if spans := segment.spans:
                    found = segment.reader.revision_at(at_ms, spans[-1].until)
            if found:
                break
        return found

    def changed_since(
        self, keys: KeyRange, revision: int, until: int, newest: Callable[[str], Value | None]
    ) -> dict[str, PastValue]:
        """Returns the values at a revision of the keys in a range that have changed since.

        newest: returns the value of a key at revision `until`. Raises HistoryGap if a change since is not
        recorded.
        """
        return self._unthinned(lambda: self._changed_since(keys, revision, until, newest))

    def _changed_since(
        self, keys: KeyRange, revision: int, until: int, newest: Callable[[str], Value | None]
    ) -> dict[str, PastValue]:
        self._require(revision, until)
        firsts: dict[str, int] = {}
        created: set[str] = set()
        thinned: frozenset[str] = frozenset()
        for segment in self._segments.copy():
            with self._damage_of(segment):
                changes = segment.reader.first_changes(keys, Span(revision, until))
                for key, (first, is_created) in changes.items():
                    firsts.setdefault(key, first)
                    if is_created:
                        created.add(key)
                thinned |= segment.reader.thinned_at(keys, revision)
        found: dict[str, PastValue] = {}
        keys_of_firsts = iter(firsts)
        while part := list(islice(keys_of_firsts, KEYS_READ_MAX)):
            for key, chain in self._chains(part, Span(revision, until)).items():
                value = self._value_at(revision, key, firsts[key], chain, newest(key))
                found[key] = PastValue(value, key in created, key in thinned)
        # Segments may have been dropped meanwhile, or have turned out to be damaged.
        self._require(revision, until)
        return found

    def _unthinned(self, read: Callable[[], _T]) -> _T:
        """Returns the result of `read`, whose parts fit together only if no version is dropped meanwhile."""
        thinnings = self._thinnings
        found = read()
        if thinnings == self._thinnings and not thinnings % 2:
            return found
        with self._writing:
            return read()

    def _require(self, revision: int, until: int) -> None:
        """Raises HistoryGap unless all changes between two revisions are recorded."""
        if not self.readable_since() <= revision <= until <= self.recorded:
            raise HistoryGap(self.readable_since())

    def _value_at(
        self, revision: int, key: str, first: int, chain: Sequence[EncodedValue], newest: Value | None
    ) -> Value | None:
        """Returns the value of a key at a revision. first: that of its first change since."""
        if not chain or chain[0].revision != first:
            return LOST  # The segment has been dropped meanwhile.
        value = self._decoder.before_all(key, chain, newest)
        # A change between them is missing, or the value could not be read when it was recorded.
        if value is not None and (value.revision > revision or not value.value):
            return LOST
        return value

    def purged_since(self, scope: str, revision: int) -> frozenset[bytes]:
        """Returns the digests of the keys in a scope of which a change after a revision was purged.

        scope: a key, or a prefix of keys that ends with a slash. See `digests`.
        """
        return frozenset().union(*self._of_each(lambda reader: reader.purged_keys(scope, revision)))

    def is_thinned(self, key: str, revision: int) -> bool:
        """Whether the version of a key at a revision was dropped. See `thinning`."""
        keys = KeyRange(key, after(key))
        return any(self._of_each(lambda reader: reader.thinned_at(keys, revision)))

    def dropped_until(self, prefix: str) -> int:
        """Returns the last revision up to which changes of a prefix of keys were dropped; 0 if none were.

        prefix: as in `append`.
        """
        return max(self._of_each(lambda reader: reader.dropped_until(prefix)), default=0)

    def last_creation(self, key: str) -> int:
        """Returns the revision at which a key was last created; 0 if that is not recorded."""
        return max(self._of_each(lambda reader: reader.last_creation(key)), default=0)

    def _of_each(self, read: Callable[[SegmentReader], _T]) -> Iterator[_T]:
        """Yields what is read of each segment, but nothing of those that turn out to be damaged."""
        for segment in self._segments.copy():
            with self._damage_of(segment):
                yield read(segment.reader)

    def last_change(self) -> tuple[str, RecordedChange] | None:
        """Returns the newest change, with its key."""
        with self._writing:
            for segment in reversed(self._segments.copy()):
                with self._damage_of(segment):
                    if (found := segment.last_change()) is not None:
                        return found
        return None

    def versions(
        self, key: str, newest: Value | None, *, until: int, before: int = 0, limit: int
    ) -> list[RecordedVersion]:
        """Returns versions of a key, the newest first, also those before a gap.

        newest: the value at revision `until`. before: only versions with smaller revisions; 0 for all.
        """
        return self._unthinned(lambda: self._versions(key, newest, Span(before, until), limit))

    def _versions(self, key: str, newest: Value | None, page: Span, limit: int) -> list[RecordedVersion]:
        before, until = page
        before = min(before, until + 1)
        value = newest if not before else self._before(key, before, until, newest)
        found: list[RecordedVersion] = []
        for change in self._changes(key, Span(0, before - 1 if before else until), limit):
            if value is not None and value is not LOST and value.revision != change.revision:
                # The change that made it is not recorded.
                found.append(version_before_history(value))
                value = LOST
            found.append(recorded_version(change, value))
            value = self._decoder.before(key, change, value)
        if value is not None and value is not LOST:
            found.append(version_before_history(value))
        return self._with_marks(key, before, found)[:limit]

    def _with_marks(self, key: str, before: int, found: list[RecordedVersion]) -> list[RecordedVersion]:
        """Returns versions below a revision, and those that stand for versions that were purged."""
        found_marks = self._of_each(lambda reader: reader.purged_until(key))
        marks = {each for each in found_marks if each and (not before or each < before)}
        return with_marks(found, marks) if marks else found

    def changes(
        self,
        span: Span,
        position: int,
        is_wanted: Callable[[KeyChange], bool],
        *,
        found_max: int,
        rows_max: int,
    ) -> Scan:
        """Returns changes of all keys in a span and below a position, the newest first.

        span: of revisions that were recorded, up to its last one, when the caller made sure of it.
        is_wanted: which of them are returned. found_max, rows_max: after so many changes found, or looked at,
            the rest is left for another call.
        Raises HistoryGap if the history does not go back to the beginning of the span.
        """
        found: list[KeyChange] = []
        rows, is_complete = 0, True
        segments = self._segments.copy()
        for segment in reversed(segments):
            wanted: list[KeyChange] = []
            with self._damage_of(segment):
                for change in segment.reader.changes(position_after(span.after), position):
                    if len(found) + len(wanted) == found_max or rows == rows_max:
                        is_complete = False
                        break
                    rows, position = rows + 1, change.position
                    if is_wanted(change):
                        wanted.append(change)
                # None of a segment that turns out to be damaged, which is a gap.
                found += wanted
            if not is_complete:
                break
        # Of what was scanned: the changes of a newest segment that is damaged may be recorded again by now.
        spans = spans_of([each for each in segments if each in self._segments])
        if not spans or span.after < spans[0].after:
            raise HistoryGap(self.listed_since())
        gaps = [Span(older.until, newer.after) for older, newer in pairwise(spans)]
        if spans[-1].until < span.until:
            gaps.append(Span(spans[-1].until, span.until))
        return Scan(found, rows, position, is_complete, gaps[::-1])

    def _before(self, key: str, revision: int, until: int, newest: Value | None) -> Value | None:
        """Returns the value of a key before a revision; LOST if it cannot be decoded.

        newest: the value at revision `until`.
        """
        return self._decoder.before_all(key, self._chains([key], Span(revision - 1, until))[key], newest)

    def _chains(self, keys: Sequence[str], span: Span) -> dict[str, list[EncodedValue]]:
        """Returns what decodes the value of each key at the beginning of a span, the oldest change first."""
        chains: dict[str, list[EncodedValue]] = {key: [] for key in keys}
        unfinished = keys
        for segment in self._segments.copy():
            with self._damage_of(segment):
                for key, encoded in segment.reader.chains(unfinished, span):
                    chains[key].append(encoded)
            unfinished = [key for key in unfinished if not (chains[key] and chains[key][-1].is_whole)]
            if not unfinished:
                break
        return chains

    def _changes(self, key: str, span: Span, limit: int) -> Iterator[RecordedChange]:
        """Yields the last changes of a key in a span, the newest first."""
        for segment in reversed(self._segments.copy()):
            with self._damage_of(segment):
                found = segment.reader.changes_of(key, span, limit)
                limit -= len(found)
                yield from found
            if limit <= 0:
                return
