"""What there was at each revision: the writes of a history put in order, and whether that makes sense.

A write whose answer was lost has happened if anybody saw what it wrote. That is enough, because every
update and deletion names the version it replaces, which its client must have seen. The revision of a
deletion is in no answer: a watch tells it, or else it lies between what surely was before and after.
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
    Kind,
    Outcome,
    Read,
    Seen,
    Selector,
    State,
    Verb,
    Write,
)

FAR: Final = 1 << 62


@dataclass(frozen=True)
class KeyVersion:
    """What an object was from some revision on; it lies between `earliest` and `latest`, both included.

    state: None if there was none any more.
    """

    state: State | None
    earliest: int
    latest: int
    write: Write | None = None

    @property
    def seen(self) -> Seen | None:
        return Seen(self.earliest, self.state) if self.state is not None else None


@dataclass(frozen=True)
class Transition:
    """A change as a watch with some selector has to show it. state: as it was, for DELETED."""

    type: EventType
    state: State
    earliest: int
    latest: int


class Timeline:
    """problems: what cannot be true of a store that keeps its promises. lost: answered writes among them."""

    def __init__(self, history: History) -> None:
        self.problems: list[str] = []
        self.lost: list[Write] = []
        self.revisions: dict[str, int] = {}  # of each value that was stored
        self._history = history
        self._final = _final_read(history)
        self._bounds = _Bounds(history.writes)
        self._find_revisions()
        self._find_deletions()
        names = sorted({write.name for write in history.writes})
        self._versions: dict[str, list[KeyVersion]] = {name: list(self._chain(name)) for name in names}
        self._check_revisions()
        self._transitions: dict[Selector, list[Transition]] = {}

    @property
    def names(self) -> Iterable[str]:
        return self._versions

    def value_at(self, name: str, revision: int) -> str | None:
        """The value of the version of `name` that was written at `revision`, if there is one."""
        return self._values.get((name, revision))

    def possible(self, name: str, revision: int) -> set[Seen | None]:
        """What a read of `name` at `revision` may show: more than one only around deletions nobody saw."""
        versions = self._versions.get(name, [])
        # Whoever surely began later than `revision` is out; whoever surely was replaced, too.
        begun = bisect.bisect_right(versions, revision, key=lambda version: version.earliest)
        found: set[Seen | None] = set()
        for index in range(begun - 1, -1, -1):
            found.add(versions[index].seen)
            if versions[index].latest <= revision:
                return found
        return found | {None}

    def transitions(self, selector: Selector) -> list[Transition]:
        """All changes that a watch with this selector has to show, by revision."""
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
        """Of every value that was answered or seen."""
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
                self._say(f"{write.verb} of {value!r} was refused with {write.status}, and has happened")
            if len(found) > 1:
                self._say(f"{value!r} has several revisions: {sorted(found)}")
            if found:
                self.revisions[value] = write.revision or min(found)
        self._written = written
        self._values = {(written[value].name, revision): value for value, revision in self.revisions.items()}

    def _check_sighting(self, written: dict[str, Write], state: State) -> None:
        if state.value not in written:
            self._say(f"{state} was seen, and nobody wrote it")
        elif written[state.value].state != state:
            self._say(f"{state} was seen, and {written[state.value].state} was written")

    def _find_deletions(self) -> None:
        """Of every version that went, by its revision: where watches say it went."""
        self._gone_at: dict[int, int] = {}
        for watch in self._history.watches:
            for event in watch.changes:
                assert event.state is not None
                if event.type is not EventType.DELETED or (event.state.name, event.revision) in self._values:
                    continue  # It left the selection by an update.
                version = self.revisions.get(event.state.value, 0)
                known = self._gone_at.setdefault(version, event.revision)
                if known != event.revision:
                    self._say(f"{event.state} was deleted at {known} and at {event.revision}")
        self._deletions: dict[int, list[Write]] = defaultdict(list)
        for write in self._history.writes:
            if write.verb is Verb.DELETE:
                self._deletions[write.expected].append(write)
        for version, revision in self._gone_at.items():
            outcomes = {write.outcome for write in self._deletions[version]}
            if not outcomes - {Outcome.REFUSED}:
                how = "its deletion was refused" if outcomes else "nobody deleted it"
                self._say(f"the version of {version} was deleted at {revision}, and {how}")

    # ---- order

    def _chain(self, name: str) -> Iterator[KeyVersion]:
        """The versions of an object, each of which follows from the one before."""
        writes = [
            (self.revisions[value], write)
            for value, write in self._written.items()
            if write.name == name and value in self.revisions
        ]
        writes.sort(key=lambda each: each[0])
        last: tuple[int, Write] | None = None
        for revision, write in writes:
            if write.verb is Verb.UPDATE and (last is None or last[0] != write.expected):
                self._lose(last, f"{name} was updated from {write.expected} to {revision} over it")
            elif write.verb is Verb.CREATE and last is not None:
                gone = self._tombstone(last[0], before=revision, must=True)
                if gone is None:
                    self._lose(last, f"{name} was created anew at {revision}, and nobody deleted it")
                else:
                    yield gone
            yield KeyVersion(write.state, revision, revision, write)
            last = (revision, write)
        if last is not None:
            found = self._finally(name)
            was_absent = self._final is not None and found is None
            before = self._final.revision + 1 if was_absent and self._final else FAR
            gone = self._tombstone(last[0], before=before, must=was_absent)
            if gone is not None:
                yield gone
            if self._final is not None:
                self._check_end(name, writes, gone, found)

    def _tombstone(self, version: int, *, before: int, must: bool) -> KeyVersion | None:
        """The end of the version written at `version`, if it came. must: there is proof that it did."""
        deletions = [write for write in self._deletions[version] if write.outcome is not Outcome.REFUSED]
        answered = [write for write in deletions if write.outcome is Outcome.ANSWERED]
        if len(answered) > 1:
            self._say(f"the version of {version} was deleted {len(answered)} times")
        if version in self._gone_at:
            revision = self._gone_at[version]
            return KeyVersion(None, revision, revision, next(iter(answered or deletions), None))
        if not answered and not (deletions and must):
            return None
        write = (answered or deletions)[0]
        earliest = max(version + 1, self._bounds.surely_before(write.began) + 1)
        latest = before - 1
        if answered:
            latest = min(latest, self._bounds.surely_after(write.ended) - 1)
        return KeyVersion(None, earliest, latest, write)

    def _finally(self, name: str) -> Seen | None:
        items = self._final.items if self._final else ()
        return next((item for item in items if item.state.name == name), None)

    def _check_end(
        self, name: str, writes: list[tuple[int, Write]], gone: KeyVersion | None, found: Seen | None
    ) -> None:
        if gone is not None:
            if found is not None:
                self._lose((gone.earliest, gone.write or writes[-1][1]), f"{name} is there in the end")
        elif found is None:
            self._lose(writes[-1], f"{name} is not there in the end")
        else:
            for each in writes:
                if each[0] > found.revision:
                    self._lose(each, f"{name} is at {found.revision} in the end")

    def _check_revisions(self) -> None:
        users: dict[int, set[str]] = defaultdict(set)
        for name, versions in self._versions.items():
            for version in versions:
                if version.earliest == version.latest:
                    users[version.earliest].add(f"{name} = {version.state and version.state.value}")
        for revision, several in users.items():
            if len(several) > 1:
                self._say(f"revision {revision} was used more than once: {sorted(several)}")
        for write in self._history.writes:
            if write.outcome is Outcome.ANSWERED and write.revision:
                earlier = self._bounds.surely_before(write.began)
                if write.revision <= earlier:
                    self._say(f"{write} is not above {earlier}, which had been answered before")

    def _lose(self, which: tuple[int, Write] | None, why: str) -> None:
        if which is None:
            self._say(why.replace("over it", "over nothing"))
        elif which[1].outcome is Outcome.ANSWERED:
            self.lost.append(which[1])
            self._say(f"the {which[1].verb} answered at {which[0]} is lost: {why}")
        else:
            self._say(f"the {which[1].verb} seen at {which[0]} is lost: {why}")

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


class _Bounds:
    """Revisions that surely were before, or came after, a moment."""

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
        return self._lowest[index - 1] if index else FAR


def _transitions(versions: list[KeyVersion], selector: Selector) -> Iterator[Transition]:
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
    is_whole = last.kind is Kind.MOST_RECENT and last.selector == EVERYTHING
    is_after_all = all(write.ended <= last.began for write in history.writes)
    return last if is_whole and is_after_all else None
