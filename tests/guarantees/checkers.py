"""One checker for each guarantee, which yields what in a history breaks it, in words.

Sources: https://kubernetes.io/docs/reference/using-api/api-concepts/ (resource versions, watches);
https://etcd.io/docs/v3.5/learning/api_guarantees/, whose words the names are: ordered, unique, reliable,
atomic, resumable, bookmarkable.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tests.guarantees.history import (
    NEVER,
    Event,
    EventType,
    History,
    NoAnswer,
    Observation,
    Outcome,
    Read,
    ReadKind,
    Verb,
    Watch,
    Write,
)
from tests.guarantees.linearizability import Operation, Step, Value, first_contradiction
from tests.guarantees.timeline import Timeline, Transition

Checker = Callable[[History, Timeline], Iterable[str]]


def check(history: History) -> dict[str, list[str]]:
    """Returns the problems of a history by the guarantee that they break."""
    timeline = Timeline(history)
    found = {name: list(checker(history, timeline)) for name, checker in CHECKERS.items()}
    return {name: problems for name, problems in found.items() if problems}


# ---- writes


def durable(history: History, timeline: Timeline) -> Iterable[str]:
    """An answered write stays until one that names its version replaces it, and no refused write happens.

    No revision is used twice or out of order, and all clients observe the same content of a write.
    """
    return timeline.problems


def answered(history: History, timeline: Timeline) -> Iterator[str]:
    """Every request ends in time: with a success, or with a Status that gives the reason."""
    for answer in history.answers:
        where = f"{answer.request}: {answer.status or answer.cut} {answer.message}"
        if answer.cut is NoAnswer.HUNG:
            yield f"{where}: no answer in {answer.ended - answer.began:.1f} s"
        elif answer.cut is None and answer.status not in _STATUSES:
            yield f"{where}: not a status that a client can expect"
        elif answer.status >= 400 and not answer.is_status:
            yield f"{where}: no Status"


# 404 and 409 are about the state, 410 about compaction; after the others a client retries.
_STATUSES: Final = (200, 201, 404, 409, 410, 429, 500, 503, 504)


# ---- watches


def ordered(history: History, timeline: Timeline) -> Iterator[str]:
    """Revisions rise from each event to the next, and all are above the start of the watch."""
    for watch in history.watches:
        revision = watch.start
        for event in watch.changes:
            if event.revision < revision:
                yield f"{_name(watch)}: {_text(event)} after {revision}"
            revision = event.revision


def unique(history: History, timeline: Timeline) -> Iterator[str]:
    """No event comes twice, and none from before the start."""
    for watch in history.watches:
        counts = Counter(event.revision for event in watch.changes)
        yield from (
            f"{_name(watch)}: {count} events at {revision}" for revision, count in counts.items() if count > 1
        )
        if watch.start in counts:
            yield f"{_name(watch)}: the event at {watch.start}, which the client had, comes again"


def atomic(history: History, timeline: Timeline) -> Iterator[str]:
    """The object in an event is all of what was written at its revision; in a deletion, the last version."""
    for watch in history.watches:
        for event in watch.changes:
            assert event.state is not None
            if event.type is EventType.DELETED:
                before = timeline.before(event.state.name, event.revision)
                if before != event.state:
                    yield f"{_name(watch)}: {_text(event)}, and {before} was there before"
            else:
                written = {
                    seen.state for seen in timeline.possible_at(event.state.name, event.revision) if seen
                }
                revision = timeline.revisions.get(event.state.value)
                if revision != event.revision or event.state not in written:
                    yield f"{_name(watch)}: {_text(event)}, and it was written at {revision} as {written}"


def reliable(history: History, timeline: Timeline) -> Iterator[str]:
    """A watch sends every event of its selection between its start and its last revision, and no other."""
    for watch in history.watches:
        yield from _missed_events(watch, timeline)


def resumable(history: History, timeline: Timeline) -> Iterator[str]:
    """A watch resumed at the last revision received goes on as if it had never ended."""
    last: dict[str, Watch] = {}
    for watch in history.watches:
        joined = watch
        if watch.resumes:
            before = last[watch.client]
            if watch.start != before.last:
                yield f"{_name(watch)}: the previous watch ended at {before.last}"
            joined = Watch(
                watch.client,
                watch.selector,
                before.start,
                events=before.events + watch.events,
                reaches=watch.reaches,
            )
            for earlier, later in itertools.pairwise(joined.changes):
                if later.revision <= earlier.revision:
                    yield f"{_name(joined)}: {_text(later)} after {_text(earlier)}"
            yield from _missed_events(joined, timeline)
        last[watch.client] = joined


def bookmarkable(history: History, timeline: Timeline) -> Iterator[str]:
    """All events up to a bookmark have been sent before it, so that a watch resumed there misses none."""
    for watch in history.watches:
        for number, event in enumerate(watch.events):
            if event.type is EventType.BOOKMARK:
                before, later = watch.events[:number], watch.events[number + 1 :]
                yield from (
                    f"{_name(watch)}: the bookmark {event.revision} after {_text(each)}"
                    for each in before
                    if each.revision > event.revision
                )
                yield from (
                    f"{_name(watch)}: {_text(each)} after the bookmark {event.revision}"
                    for each in later
                    if each.revision < event.revision
                    or (each.revision == event.revision and each.type is not EventType.BOOKMARK)
                )
                until = Watch(
                    watch.client, watch.selector, watch.start, events=before, reaches=event.revision
                )
                yield from _missed_events(until, timeline)


def _missed_events(watch: Watch, timeline: Timeline) -> Iterator[str]:
    reached = max(watch.last, watch.reaches)
    transitions = timeline.transitions(watch.selector)
    came: dict[tuple[str, EventType, str], list[int]] = defaultdict(list)
    for event in watch.changes:
        assert event.state is not None
        came[event.state.name, event.type, event.state.value].append(event.revision)
    first = bisect.bisect_right(transitions, watch.start, key=lambda change: change.latest)
    for change in itertools.islice(transitions, first, None):
        if change.latest > reached:
            break
        revisions = came.pop((change.state.name, change.type, change.state.value), [])
        if change.earliest > watch.start and not any(
            change.earliest <= revision <= change.latest for revision in revisions
        ):
            yield f"{_name(watch)}: missed {_change(change)}, and reached {reached}"
    for (_, kind, value), revisions in came.items():
        yield f"{_name(watch)}: {kind} {value!r} at {revisions} is not an event of the selection"


# ---- reads


def recent(history: History, timeline: Timeline) -> Iterator[str]:
    """A Most Recent list is not at a lower revision than any client had received before it began."""
    known: list[tuple[float, int]] = [
        (write.ended, write.revision) for write in history.writes if write.outcome is Outcome.ANSWERED
    ]
    known += [
        (read.ended, max([read.revision, *(item.revision for item in read.items)])) for read in history.reads
    ]
    known.sort()
    ends = [ended for ended, _ in known]
    highest = list(itertools.accumulate((revision for _, revision in known), max))
    for read in history.reads:
        index = bisect.bisect_left(ends, read.began)
        if read.kind is ReadKind.MOST_RECENT and index and read.revision < highest[index - 1]:
            yield f"{_read(read)}, and {highest[index - 1]} was known before"


def linearizable(history: History, timeline: Timeline) -> Iterator[str]:
    """The reads and writes of each object by all clients are linearizable."""
    by_name: dict[str, list[Operation]] = defaultdict(list)
    for write in history.writes:
        operation = _operation(write, timeline)
        if operation is not None:
            by_name[write.name].append(operation)
    for read in history.reads:
        if read.kind is ReadKind.GET:
            value = read.items[0].state.value if read.items else None
            text = f"{read.client} reads {value!r}"
            by_name[read.name].append(Operation(text, read.began, read.ended, _sees(value)))
    for name, operations in by_name.items():
        found = first_contradiction(operations)
        if found is not None:
            yield f"{name}: {found.text}, from {found.began:.4f} to {found.ended:.4f}, cannot be"


def _operation(write: Write, timeline: Timeline) -> Operation | None:
    """The write as an operation on a register; None for one that proves nothing."""
    new = write.state.value if write.state else None
    old = timeline.value_at(write.name, write.expected) if write.expected else None
    text = f"{write.client}: {write.verb} {old!r} to {new!r} {write.outcome} {write.status}"
    match write.outcome:
        case Outcome.ANSWERED:
            return Operation(text, write.began, write.ended, _becomes(old, new))
        case Outcome.UNKNOWN:
            return Operation(text, write.began, NEVER, _becomes(old, new))
        case _ if write.status == 404 or write.status == 409:
            return Operation(text, write.began, write.ended, _refuses(write, old))
    return None


def _sees(expected: Value) -> Step:
    return lambda value: value if value == expected else False


def _becomes(old: Value, new: Value) -> Step:
    return lambda value: new if value == old else False


def _refuses(write: Write, old: Value) -> Step:
    if write.status == 404:
        return _sees(None)
    if write.verb is Verb.CREATE:
        return lambda value: value if value is not None else False
    return lambda value: value if value != old else False


def not_older(history: History, timeline: Timeline) -> Iterator[str]:
    """A read with a minimum revision is not below it."""
    for read in history.reads:
        if read.kind is ReadKind.NOT_OLDER_THAN and read.revision < read.at:
            yield _read(read)


def exact(history: History, timeline: Timeline) -> Iterator[str]:
    """A read at an exact revision is at that, and returns the state after the writes up to it."""
    for read in history.reads:
        if read.kind is ReadKind.EXACT:
            if read.revision != read.at:
                yield _read(read)
            yield from _differences(read, timeline)


def consistent(history: History, timeline: Timeline) -> Iterator[str]:
    """Every list, of any kind, returns the state at its own revision."""
    for read in history.reads:
        if read.kind not in (ReadKind.GET, ReadKind.EXACT) and not read.pages:
            yield from _differences(read, timeline)


def paged(history: History, timeline: Timeline) -> Iterator[str]:
    """The pages of a list are of one revision, and together hold each object once, in order."""
    for read in history.reads:
        if read.pages:
            names = [item.state.name for item in read.items]
            if set(read.pages) != {read.revision}:
                yield f"{_read(read)}: pages at {read.pages}"
            if names != sorted(set(names)):
                yield f"{_read(read)}: {names}"
            yield from _differences(read, timeline)


def _differences(read: Read, timeline: Timeline) -> Iterator[str]:
    found = {item.state.name: item for item in read.items}
    if len(found) != len(read.items):
        yield f"{_read(read)}: an object twice"
    for name in {*timeline.names, *found}:
        possible = {
            seen if seen and read.selector.selects(seen.state) else None
            for seen in timeline.possible_at(name, read.revision)
        }
        if found.get(name) not in possible:
            yield f"{_read(read)}: {_seen(found.get(name))}, and it was {' or '.join(map(_seen, possible))}"


# ---- texts of problems


def _name(watch: Watch) -> str:
    return f"{watch.client} from {watch.start}"


def _text(event: Event) -> str:
    return f"{event.type} {event.state.value if event.state else ''!r} at {event.revision}"


def _change(change: Transition) -> str:
    when = f"{change.latest}" if change.earliest == change.latest else f"{change.earliest}-{change.latest}"
    return f"{change.type} {change.state.name} {change.state.value!r} at {when}"


def _read(read: Read) -> str:
    asked = f" {read.at}" if read.at else ""
    return f"{read.client}, {read.kind}{asked} from {read.began:.4f}, is at {read.revision}"


def _seen(seen: Observation | None) -> str:
    return f"{seen.state.name} {seen.state.value!r} at {seen.revision}" if seen else "nothing"


CHECKERS: Final[dict[str, Checker]] = {
    checker.__name__: checker
    for checker in (
        durable,
        answered,
        ordered,
        unique,
        atomic,
        reliable,
        resumable,
        bookmarkable,
        recent,
        linearizable,
        not_older,
        exact,
        consistent,
        paged,
    )
}
# The checkers that report events that were not sent.
MISSED_EVENT_CHECKERS: Final = ("reliable", "resumable", "bookmarkable")
