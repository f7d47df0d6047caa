"""The segments of a history: the oldest first, and the last one is written.

A segment that turns out to be damaged is taken out, and becomes a gap.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Final, NamedTuple

from apiserver.storage.history.changes import Cipher, Span
from apiserver.storage.history.damage import (
    DAMAGED,
    SegmentDamaged,
    SegmentOutdated,
    put_aside,
    remove_log,
    remove_old_damaged,
)
from apiserver.storage.history.digests import key_digests
from apiserver.storage.history.floors import Floors
from apiserver.storage.history.segment import Segment
from apiserver.storage.private_directories import lock, make_directory

log = logging.getLogger(__name__)

_SUFFIX: Final = ".history"
# Of the process or the processes that use a directory, and of the one of them that writes.
DIRECTORY_LOCK: Final = "history.lock"
RECORDER_LOCK: Final = "recorder.lock"


class _File(NamedTuple):
    """A file, and not another one at the same path. device, inode: of the file."""

    path: Path
    device: int
    inode: int


def _file_at(path: Path) -> _File | None:
    """Returns the file at a path, if there is one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return _File(path, found.st_dev, found.st_ino)


class SegmentList:
    """The segments in a directory, or in memory.

    segments: change only while `writing` is held; a reader takes a copy.
    spans: the revisions whose changes all are recorded, the oldest first. Between them are gaps.
    digest: makes digests of keys, with the key in the directory.
    floors: what was purged.
    writing: held by what writes, and by what changes which segments there are.
    """

    def __init__(
        self,
        directory: Path | None,
        cipher: Cipher,
        *,
        follows: bool = False,
        lock_name: str = DIRECTORY_LOCK,
    ) -> None:
        """directory: None for segments in memory. Raises OSError, DataDirectoryError if it is in use.

        follows: whether another process writes them: see `snapshot`. lock_name: see `UndoLog`.
        """
        self._directory, self._cipher = directory, cipher
        # Of one that follows: its files, and those that are damaged.
        self._followed: dict[Segment, _File] = {}
        self._left_out: set[_File] = set()
        self.segments: list[Segment] = []
        self.spans: Sequence[Span] = []
        # The history begins at this revision, though there may be older changes.
        self._begin = 0
        self.writing = RLock()
        self._next_number = 1
        self._lock = -1
        if directory is not None and not follows:
            make_directory(directory)
            self._lock = lock(directory / lock_name)
        try:
            self.digest = key_digests(directory, waits=follows)
            self.floors = Floors(None if follows else directory, self.digest)
            if directory is not None and not follows:
                self._open_all(directory)
        except BaseException:
            self.close()
            raise
        self.note_spans()

    def _open_all(self, directory: Path) -> None:
        """Open the segments that exist. Those that cannot be read are put aside: they become a gap."""
        outdated: Counter[str] = Counter()
        for path in sorted(directory.glob(f"*{_SUFFIX}")):
            if not (path.stem.isdigit() and path.is_file()):
                continue
            self._next_number = int(path.stem) + 1
            try:
                self.segments.append(self._opened(path))
            except SegmentDamaged as error:
                put_aside(path, error)
            except SegmentOutdated as error:
                outdated[str(error)] += 1
                path.unlink()
                remove_log(path)
        for reason, count in outdated.items():
            log.warning("%d files of the history in %s were removed: %s", count, directory, reason)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Runs the body with what another process has written by now, whatever it writes meanwhile.

        Raises OSError.
        """
        try:
            self._refresh()
            yield
        finally:
            with self.writing, ExitStack() as ending:
                # If one cannot end, the others do, too: the process that writes waits for all.
                for segment in self.segments:
                    ending.callback(self._end_snapshot, segment)

    def _end_snapshot(self, segment: Segment) -> None:
        with self.damage_of(segment):
            segment.end_snapshot()

    def _refresh(self) -> None:
        assert self._directory is not None
        with self.writing:
            files = {each for path in self._directory.glob(f"*{_SUFFIX}") if (each := _file_at(path))}
            self._left_out &= files
            for segment, file in [*self._followed.items()]:
                if file not in files:
                    self._leave_out(segment)
            for file in sorted(files - self._left_out - {*self._followed.values()}):
                self._follow(file, is_newest=file == max(files))
            self.segments.sort(key=self._followed.__getitem__)
            # The oldest first, in which order a purge writes them: where it was already, it was before, too.
            for segment in self.segments.copy():
                with self.damage_of(segment):
                    segment.begin_snapshot()
            self.note_spans()

    def _follow(self, file: _File, *, is_newest: bool) -> None:
        """Open a segment that another process writes."""
        path = file.path
        try:
            segment = Segment(path, self._cipher, self.digest, follows=True)
        except SegmentDamaged as error:
            self._ignore(file, error)
        except SegmentOutdated as error:
            # The process that writes has removed such files, and made a key.
            raise OSError(f"{path} cannot be read before a restart: {error}") from None
        except OSError:
            # The newest one may be in the making, and the oldest ones are dropped.
            if not is_newest and path.exists():
                raise
        else:
            self.segments.append(segment)
            self._followed[segment] = file

    def _ignore(self, file: _File, error: SegmentDamaged) -> None:
        """Do not read a file any more. It may just have been dropped, and be no file by now."""
        if file == _file_at(file.path):
            log.error("the history in %s is damaged: %s", file.path, error)
            self._left_out.add(file)

    @property
    def newest_ms(self) -> int:
        """The time of the last change, in milliseconds since 1970; 0 if there is none."""
        with self.writing:
            for segment in reversed(self.segments.copy()):
                with self.damage_of(segment):
                    if found := segment.newest_ms:
                        return found
        return 0

    @property
    def size_bytes(self) -> int:
        """The size of all segments, without the log of the one that is written."""
        size = 0
        with self.writing:
            for segment in self.segments.copy():
                with self.damage_of(segment):
                    size += segment.size_bytes
        return size

    def note_spans(self) -> None:
        """Note which revisions the segments have, after one was written."""
        self.spans = [
            Span(max(each.after, self._begin), each.until)
            for each in spans_of(self.segments)
            if each.until >= self._begin
        ]

    @contextmanager
    def beginning_at(self, revision: int) -> Iterator[None]:
        """Runs the body, which removes all before a revision. From its beginning on, no read sees that.

        A read that finds a part of it missing would take that for unchanged. If the body raises, what is
        still there can be read again.
        """
        self._begin = revision
        self.note_spans()
        try:
            yield
        finally:
            self._begin = 0
            self.note_spans()

    def writable(self, bytes_max: int, before_ms: int) -> Segment:
        """Returns the segment for the next changes, which is the last one.

        It is a new one if the one before has this size, or has changes and was begun before a time.
        Raises OSError.
        """
        for last in self.segments[-1:]:
            with self.damage_of(last):
                begun_ms = last.begun_ms
                is_old = begun_ms is not None and begun_ms < before_ms and last.newest_ms > 0
                if last.size_bytes < bytes_max and not is_old:
                    return last
                last.finish()
        segment = self._new()
        self.segments.append(segment)
        return segment

    def _new(self) -> Segment:
        if self._directory is None:
            return self._opened(None)
        path = self._directory / f"{self._next_number:08}{_SUFFIX}"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            segment = self._opened(path)
        except (OSError, SegmentDamaged, SegmentOutdated) as error:
            path.unlink()
            raise OSError(str(error)) from None
        self._next_number += 1
        return segment

    def _opened(self, path: Path | None) -> Segment:
        return Segment(path, self._cipher, self.digest, deltas_before=self._deltas_before)

    def _deltas_before(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Returns `deltas` of the last change of each of some keys before the last segment."""
        found: dict[str, int] = {}
        for segment in self.segments[-2::-1]:
            # An estimate is enough: what is not known only makes a chain of differences longer.
            with self.damage_of(segment), suppress(OSError):
                found.update(segment.last_deltas([key for key in keys if key not in found]))
            if len(found) == len(keys):
                break
        return found

    @contextmanager
    def damage_of(self, segment: Segment) -> Iterator[None]:
        """Takes a segment out of the history if it turns out to be damaged."""
        try:
            yield
        except SegmentDamaged as error:
            self.set_aside(segment, error)

    def set_aside(self, segment: Segment, error: SegmentDamaged) -> None:
        """Take a damaged segment out of the history, in which it becomes a gap."""
        with self.writing:
            if segment in self.segments:
                file = self._followed.get(segment)
                self._leave_out(segment)
                if file is not None:
                    self._ignore(file, error)
                else:
                    put_aside(segment.path, error)

    def remove(self, segment: Segment) -> None:
        """Remove a segment and its file."""
        self._leave_out(segment)
        if (path := segment.path) is not None:
            path.unlink(missing_ok=True)
            remove_log(path)

    def _leave_out(self, segment: Segment) -> None:
        """Read nothing of a segment any more, whatever becomes of its file."""
        self.segments.remove(segment)
        self._followed.pop(segment, None)
        self.note_spans()
        segment.close()

    def drop_old(self, before_ms: int, bytes_max: int) -> int:
        """Remove the oldest segments, but never the one that is written. Returns how many.

        before_ms: a segment is removed if the next one that has states began before this time.
        bytes_max: the size of the others together.
        """
        count = 0
        if self._directory is not None:
            remove_old_damaged(self._directory, before_ms)
        with self.writing:
            while len(self.segments) > 1:
                oldest = self.segments[0]
                begun_ms = self._next_states_begin_ms()
                is_old = begun_ms is not None and begun_ms < before_ms
                if not is_old and self.size_bytes <= bytes_max:
                    break
                # Some of them may have turned out to be damaged.
                if len(self.segments) > 1 and self.segments[0] is oldest:
                    self.remove(oldest)
                    count += 1
        return count

    def _next_states_begin_ms(self) -> int | None:
        """Returns when the states after the oldest segment begin; None if there are none."""
        for segment in self.segments[1:]:
            with self.damage_of(segment):
                if (begun_ms := segment.begun_ms) is not None:
                    return begun_ms
        return None

    def remove_damaged(self, purged: Sequence[Segment]) -> None:
        """Remove what was kept of damaged segments, as nobody can tell what is in it.

        Raises OSError if one of these was damaged: what was in it may be recorded again from the store.
        """
        if self._directory is not None:
            (self._directory / DAMAGED).unlink(missing_ok=True)
        if len(self.segments) < len(purged):
            raise OSError("a file of the history is damaged, and its changes may be recorded again")

    def close(self) -> None:
        with self.writing:
            for each in self.segments:
                each.close()
            self.segments.clear()
            self.note_spans()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1


def spans_of(segments: Sequence[Segment]) -> Sequence[Span]:
    """Returns the spans of segments, each joined with those that it continues."""
    found: list[Span] = []
    for span in sorted(span for each in segments for span in each.spans):
        if found and span.after <= found[-1].until:
            found[-1] = Span(found[-1].after, max(found[-1].until, span.until))
        else:
            found.append(span)
    return found
