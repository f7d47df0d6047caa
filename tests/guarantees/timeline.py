"""The versions of each object by revision: the writes of a history in order, if they can be ordered.

A write whose answer was lost has happened if any client observed what it wrote. That is enough, because every
update and deletion names the version it replaces, which its client must have observed. The revision of a
deletion is in no answer: a watch shows it, or it is only known to lie between what was before and after.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.guarantees.history import (
    EVERYTHING,
    NEVER,
    EventType,
    History,
    Observation,
    Outcome,
    Read,
    ReadKind,
    Selector,
    State,
    Verb,
    Write,
)

# Above all revisions.
REVISION_MAX: Final = 1 << 62


@dataclass(frozen=True)
class ObjectVersion:
    """A version of an object. Its revision lies between `earliest` and `latest`, both included.

    state: None for a deletion.
    """

    state: State | None
    earliest: int
    latest: int
    write: Write | None = None

    @property
    def seen(self) -> Observation | None:
        return Observation(self.earliest, self.state) if self.state is not None else None


@dataclass(frozen=True)
class Transition:
    """An event that a watch with some selector has to send. state: for DELETED the last one."""

    type: EventType
    state: State
    earliest: int
    latest: int


class Timeline:
    """The versions of all objects. problems: what breaks a guarantee. lost: answered writes that are gone."""

    def __init__(self, history: History) -> None:
        self.problems: list[str] = []
        self.lost: list[Write] = []
        self.revisions: dict[str, int] = {}  # by value, of those that were stored
        self._history = history
        self._final = _final_read(history)
        self._bounds = _Bounds(history.writes)
        self._find_revisions()
        self._find_deletions()
        names = sorted({write.name for write in history.writes})
        self._versions: dict[str, list[ObjectVersion]] = {name: list(self._chain(name)) for name in names}
        self._check_revisions()
        self._transitions: dict[Selector, list[Transition]] = {}

    @property
    def names(self) -> Iterable[str]:
        return self._versions

    def value_at(self, name: str, revision: int) -> str | None:
        """The value of the version of `name` that was written at `revision`, if there is one."""
        return self._values.get((name, revision))

    def possible_at(self, name: str, revision: int) -> set[Observation | None]:
        """What a read of `name` at `revision` may return: several only near deletions no watch showed."""
        versions = self._versions.get(name, [])
        # Leave out versions that surely began later than `revision`, and those that surely were replaced.
        begun = bisect.bisect_right(versions, revision, key=lambda version: version.earliest)
        found: set[Observation | None] = set()
        for index in range(begun - 1, -1, -1):
            found.add(versions[index].seen)
            if versions[index].latest <= revision:
                return found
        return found | {None}

    def transitions(self, selector: Selector) -> list[Transition]:
        """All events that a watch with this selector has to send, by revision."""
        if selector not in self._transitions:
            changes = itertools.chain.from_iterable(
                _transitions(versions, selector) for versions in self._versions.values()
            )
            self._transitions[selector] = sorted(changes, key=lambda change: change.latest)
        return self._transitions[selector]

    def before(self, name: str, revision: int) -> State | None:
        """The state of `name` that ended at `revision`."""
        versions = self._versions.get(name, [])
        for earlier, later in itertools.pairwise(versions):
            if later.earliest <= revision <= later.latest:
                return earlier.state
        return None

    # ---- evidence

    def _find_revisions(self) -> None:
        """Find the revision of every value that was answered or observed."""
        written = {write.state.value: write for write in self._history.writes if write.state}
        seen: dict[str, set[int]] = defaultdict(set)
        for read in self._history.reads:
            for item in read.items:
                seen[item.state.value].add(item.revision)
                self._check_sighting(written, item.state)
        for watch in self._history.watches:
            for event in watch.changes:
                assert event.state is not None
                self._check_sighting(written, event.state)
                if event.type is not EventType.DELETED:
                    seen[event.state.value].add(event.revision)
        for value, write in written.items():
            found = seen.get(value, set())
            if write.outcome is Outcome.ANSWERED:
                found = found | {write.revision}
            elif write.outcome is Outcome.REFUSED and found:
                self._report(f"{write.verb} of {value!r} was refused with {write.status}, and happened")
            if len(found) > 1:
                self._report(f"{value!r} has several revisions: {sorted(found)}")
            if found:
                self.revisions[value] = write.revision or min(found)
        self._written = written
        self._values = {(written[value].name, revision): value for value, revision in self.revisions.items()}

    def _check_sighting(self, written: dict[str, Write], state: State) -> None:
        if state.value not in written:
            self._report(f"{state} was observed, and no client wrote it")
        elif written[state.value].state != state:
            self._report(f"{state} was observed, and {written[state.value].state} was written")

    def _find_deletions(self) -> None:
        """Find the revision at which each version was deleted, as watches show it."""
        self._gone_at: dict[int, int] = {}
        for watch in self._history.watches:
            for event in watch.changes:
                assert event.state is not None
                if event.type is not EventType.DELETED or (event.state.name, event.revision) in self._values:
                    continue  # An update removed it from the selection.
                version = self.revisions.get(event.state.value, 0)
                known = self._gone_at.setdefault(version, event.revision)
                if known != event.revision:
                    self._report(f"{event.state} was deleted at {known} and at {event.revision}")
        self._deletions: dict[int, list[Write]] = defaultdict(list)
        for write in self._history.writes:
            if write.verb is Verb.DELETE:
                self._deletions[write.expected].append(write)
        for version, revision in self._gone_at.items():
            outcomes = {write.outcome for write in self._deletions[version]}
            if not outcomes - {Outcome.REFUSED}:
                how = "its deletion was refused" if outcomes else "no client deleted it"
                self._report(f"the version of {version} was deleted at {revision}, and {how}")

    # ---- order

    def _chain(self, name: str) -> Iterator[ObjectVersion]:
        """Yields the versions of an object, each of which replaces the one before."""
        writes = [
            (self.revisions[value], write)
            for value, write in self._written.items()
            if write.name == name and value in self.revisions
        ]
        writes.sort(key=lambda each: each[0])
        last: tuple[int, Write] | None = None
        for revision, write in writes:
            if write.verb is Verb.UPDATE and (last is None or last[0] != write.expected):
                self._report_lost(last, f"{name} was updated from {write.expected} to {revision} over it")
            elif write.verb is Verb.CREATE and last is not None:
                gone = self._tombstone(last[0], before=revision, must=True)
                if gone is None:
                    self._report_lost(last, f"{name} was created again at {revision}, but never deleted")
                else:
                    yield gone
            yield ObjectVersion(write.state, revision, revision, write)
            last = (revision, write)
        if last is not None:
            found = self._finally(name)
            was_absent = self._final is not None and found is None
            before = self._final.revision + 1 if was_absent and self._final else REVISION_MAX
            gone = self._tombstone(last[0], before=before, must=was_absent)
            if gone is not None:
                yield gone
            if self._final is not None:
                self._check_end(name, writes, gone, found)

    def _tombstone(self, version: int, *, before: int, must: bool) -> ObjectVersion | None:
        """The deletion of the version written at `version`, if it happened. must: whether there is proof."""
        deletions = [write for write in self._deletions[version] if write.outcome is not Outcome.REFUSED]
        answered = [write for write in deletions if write.outcome is Outcome.ANSWERED]
        if len(answered) > 1:
            self._report(f"the version of {version} was deleted {len(answered)} times")
        if version in self._gone_at:
            revision = self._gone_at[version]
            return ObjectVersion(None, revision, revision, next(iter(answered or deletions), None))
        if not answered and not (deletions and must):
            return None
        write = (answered or deletions)[0]
        earliest = max(version + 1, self._bounds.surely_before(write.began) + 1)
        latest = before - 1
        if answered:
            latest = min(latest, self._bounds.surely_after(write.ended) - 1)
        return ObjectVersion(None, earliest, latest, write)

    def _finally(self, name: str) -> Observation | None:
        items = self._final.items if self._final else ()
        return next((item for item in items if item.state.name == name), None)

    def _check_end(
        self,
        name: str,
        writes: list[tuple[int, Write]],
        gone: ObjectVersion | None,
        found: Observation | None,
    ) -> None:
        if gone is not None:
            if found is not None:
                self._report_lost((gone.earliest, gone.write or writes[-1][1]), f"{name} is there in the end")
        elif found is None:
            self._report_lost(writes[-1], f"{name} is not there in the end")
        else:
            for each in writes:
                if each[0] > found.revision:
                    self._report_lost(each, f"{name} is at {found.revision} in the end")

    def _check_revisions(self) -> None:
        users: dict[int, set[str]] = defaultdict(set)
        for name, versions in self._versions.items():
            for version in versions:
                if version.earliest == version.latest:
                    users[version.earliest].add(f"{name} = {version.state and version.state.value}")
        for revision, several in users.items():
            if len(several) > 1:
                self._report(f"revision {revision} was used more than once: {sorted(several)}")
        for write in self._history.writes:
            if write.outcome is Outcome.ANSWERED and write.revision:
                earlier = self._bounds.surely_before(write.began)
                if write.revision <= earlier:
                    self._report(f"{write} is not above {earlier}, which had been answered before")

    def _report_lost(self, which: tuple[int, Write] | None, why: str) -> None:
        if which is None:
            self._report(why.replace("over it", "over nothing"))
        elif which[1].outcome is Outcome.ANSWERED:
            self.lost.append(which[1])
            self._report(f"the {which[1].verb} answered at {which[0]} is lost: {why}")
        else:
            self._report(f"the {which[1].verb} seen at {which[0]} is lost: {why}")

    def _report(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


class _Bounds:
    """Bounds on the revision at a moment, from the writes that were answered."""

    def __init__(self, writes: Iterable[Write]) -> None:
        answered = [write for write in writes if write.outcome is Outcome.ANSWERED and write.revision]
        by_end = sorted((write.ended, write.revision) for write in answered)
        self._ends = [ended for ended, _ in by_end]
        self._highest = list(itertools.accumulate((revision for _, revision in by_end), max))
        by_begin = sorted(((write.began, write.revision) for write in answered), reverse=True)
        self._begins = [-began for began, _ in by_begin]
        self._lowest = list(itertools.accumulate((revision for _, revision in by_begin), min))

    def surely_before(self, moment: float) -> int:
        """The highest revision that was answered before `moment`; 0 if none was."""
        index = bisect.bisect_left(self._ends, moment)
        return self._highest[index - 1] if index else 0

    def surely_after(self, moment: float) -> int:
        """The lowest revision of the writes that began after `moment`."""
        index = bisect.bisect_left(self._begins, -moment) if moment < NEVER else 0
        return self._lowest[index - 1] if index else REVISION_MAX


def _transitions(versions: list[ObjectVersion], selector: Selector) -> Iterator[Transition]:
    before: State | None = None
    for version in versions:
        was, now = selector.selects(before), selector.selects(version.state)
        if now:
            assert version.state is not None
            kind = EventType.MODIFIED if was else EventType.ADDED
            yield Transition(kind, version.state, version.earliest, version.latest)
        elif was:
            assert before is not None
            yield Transition(EventType.DELETED, before, version.earliest, version.latest)
        before = version.state


def _final_read(history: History) -> Read | None:
    """The last read, if it is of everything and began when all writes had ended."""
    if not history.reads:
        return None
    last = history.reads[-1]
    is_whole = last.kind is ReadKind.MOST_RECENT and last.selector == EVERYTHING
    is_after_all = all(write.ended <= last.began for write in history.writes)
    return last if is_whole and is_after_all else None
