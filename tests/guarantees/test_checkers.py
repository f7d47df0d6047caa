"""Each checker on handwritten histories: sound ones pass, and each kind of violation is reported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.guarantees.checkers import CHECKERS, check
from tests.guarantees.history import (
    EVERYTHING,
    NEVER,
    Answer,
    Event,
    EventType,
    History,
    NoAnswer,
    Observation,
    Outcome,
    Read,
    ReadKind,
    Selector,
    State,
    Verb,
    Watch,
    WatchEnd,
    Write,
)
from tests.guarantees.linearizability import Operation, Step, Value, first_contradiction
from tests.guarantees.timeline import Timeline

Record: TypeAlias = Write | Read | Watch | Answer

A: Final = Selector(("a",))
B: Final = Selector(("b",))
UNKNOWN: Final = Outcome.UNKNOWN
REFUSED: Final = Outcome.REFUSED


def state(value: str) -> State:
    """The state of object `x` with the value `x1`; `x1b` is in tier b."""
    return State(value[0], value, "b" if value.endswith("b") else "a")


def created(value: str, revision: int, began: float, outcome: Outcome = Outcome.ANSWERED) -> Write:
    """A creation of one unit of time, as all operations here unless they say otherwise."""
    return Write("w", Verb.CREATE, value[0], began, began + 1, outcome, state(value), revision)


def updated(value: str, over: int, revision: int, began: float, outcome: Outcome = Outcome.ANSWERED) -> Write:
    return Write("w", Verb.UPDATE, value[0], began, began + 1, outcome, state(value), revision, over)


def deleted(name: str, over: int, began: float, outcome: Outcome = Outcome.ANSWERED) -> Write:
    return Write("w", Verb.DELETE, name, began, began + 1, outcome, expected=over)


def got(name: str, item: str, began: float) -> Read:
    """item: as in `seen`; empty if there was no object."""
    return Read("r", ReadKind.GET, began, began + 1, seen(item), name=name)


def listed(
    items: str,
    revision: int,
    began: float,
    kind: ReadKind = ReadKind.MOST_RECENT,
    at: int = 0,
    **more: object,
) -> Read:
    return replace(Read("r", kind, began, began + 1, seen(items), revision, at), **more)  # type: ignore[arg-type]


def seen(text: str) -> tuple[Observation, ...]:
    """Parses `x1@5 y1@8`."""
    items = (item.split("@") for item in text.split())
    return tuple(Observation(int(revision), state(value)) for value, revision in items)


def watched(events: str, start: int = 4, selector: Selector = EVERYTHING, **more: object) -> Watch:
    """Parses `+x1@5 ~x2@6 -x2@7 =9`: added, modified, deleted, bookmark."""
    kinds = {"+": EventType.ADDED, "~": EventType.MODIFIED, "-": EventType.DELETED, "=": EventType.BOOKMARK}
    parsed = []
    for text in events.split():
        value, _, revision = text[1:].rpartition("@")
        parsed.append(Event(kinds[text[0]], int(revision), state(value) if value else None))
    return replace(Watch("o", selector, start, events=parsed), **more)  # type: ignore[arg-type]


def history(*records: Record) -> History:
    def of(kind: type[Record]) -> Iterable[Record]:
        return [record for record in records if isinstance(record, kind)]

    return History(*(list(of(kind)) for kind in (Write, Read, Watch, Answer)))  # type: ignore[arg-type]


# x is created, updated, deleted, created again in the other tier, and moved back; y is created in between.
WRITES: Final = (
    created("x1", 5, 1),
    updated("x2", 5, 6, 3),
    deleted("x", 6, 5),
    created("y1", 8, 7),
    created("x3b", 9, 9),
    updated("x4", 9, 10, 11),
)
ALL: Final = "+x1@5 ~x2@6 -x2@7 +y1@8 +x3b@9 ~x4@10"
END: Final = listed("x4@10 y1@8", 10, 20)

SOUND: Final[dict[str, History]] = {
    "nothing happened": history(),
    "a watch shows every change": history(*WRITES, watched(ALL), END),
    "a watch that has not come to the end": history(*WRITES, watched("+x1@5 ~x2@6"), END),
    "a selector turns updates into additions and deletions": history(
        *WRITES,
        watched("+x1@5 ~x2@6 -x2@7 +y1@8 +x4@10", selector=A),
        watched("+x3b@9 -x3b@10", selector=B),
        watched("+y1@8", selector=Selector(name="y"), reaches=10),
    ),
    "a watch ends, and its next one goes on": history(
        *WRITES, watched("+x1@5 ~x2@6", end=WatchEnd.BROKEN), watched("-x2@7 +y1@8", start=6, resumes=True)
    ),
    "a bookmark advances where nothing is selected": history(
        *WRITES, watched("=8", selector=B), watched("+x3b@9 -x3b@10 =10", start=8, selector=B, resumes=True)
    ),
    "lists of every kind": history(
        *WRITES,
        listed("x1@5", 5, 2),
        listed("x1@5", 5, 15, ReadKind.EXACT, at=5),
        listed("y1@8", 8, 15, ReadKind.EXACT, at=8),
        listed("x2@6", 6, 15, ReadKind.ANY),
        listed("x4@10 y1@8", 10, 15, ReadKind.NOT_OLDER_THAN, at=8),
        listed("x3b@9", 9, 15, ReadKind.EXACT, at=9, selector=B),
        listed("x4@10 y1@8", 10, 15, pages=(10, 10)),
    ),
    "a deletion that no watch showed, before and after": history(
        created("x1", 5, 1),
        deleted("x", 5, 3),
        created("y1", 8, 7),
        listed("x1@5", 6, 15, ReadKind.EXACT, at=6),
        listed("", 6, 15, ReadKind.EXACT, at=6),
        listed("", 7, 15, ReadKind.EXACT, at=7),
    ),
    "reads concurrent with writes return either state": history(
        *WRITES, got("x", "", 1.2), got("x", "x1@5", 1.1)
    ),
    "an unknown write that happened": history(
        created("x1", 5, 1), updated("x2", 5, 0, 3, UNKNOWN), got("x", "x2@6", 9), listed("x2@6", 6, 20)
    ),
    "an unknown write that happened late": history(
        created("x1", 5, 1),
        updated("x2", 5, 0, 3, UNKNOWN),
        got("x", "x1@5", 6),
        got("x", "x2@6", 9),
        listed("x2@6", 6, 20),
    ),
    "an unknown write that did not happen": history(
        created("x1", 5, 1),
        updated("x2", 5, 0, 3, UNKNOWN),
        watched("+x1@5", reaches=9),
        listed("x1@5", 9, 20),
    ),
    "an unknown deletion that happened": history(
        created("x1", 5, 1), deleted("x", 5, 3, UNKNOWN), watched("+x1@5 -x1@6"), listed("", 6, 20)
    ),
    "an unknown deletion that only the final list shows": history(
        created("x1", 5, 1), deleted("x", 5, 3, UNKNOWN), listed("", 6, 20)
    ),
    "an unknown deletion that did not happen": history(
        created("x1", 5, 1), deleted("x", 5, 3, UNKNOWN), listed("x1@5", 6, 20)
    ),
    "a refused write": history(
        created("x1", 5, 1),
        replace(created("x2", 0, 3, REFUSED), status=409),
        replace(updated("x3", 4, 0, 3, REFUSED), status=409),
        replace(deleted("z", 4, 3, REFUSED), status=404),
        listed("x1@5", 5, 20),
    ),
    "errors with a Status": history(
        Answer("GET", 1, 2, 503, is_status=True), Answer("PUT", 1, 2, cut=NoAnswer.BROKEN)
    ),
}


@pytest.mark.parametrize("sound", SOUND.values(), ids=SOUND)
def test_a_sound_history_passes(sound: History) -> None:
    assert check(sound) == {}


# By the checker that has to report it. Others may report it, too.
BROKEN: Final[dict[str, dict[str, History]]] = {
    "durable": {
        "an answered creation is not there in the end": history(created("x1", 5, 1), listed("", 5, 20)),
        "an answered change is not there in the end": history(
            created("x1", 5, 1), updated("x2", 5, 6, 3), listed("x1@5", 6, 20)
        ),
        "a deleted object is there in the end": history(
            created("x1", 5, 1), deleted("x", 5, 3), listed("x1@5", 6, 20)
        ),
        "two updates of one version": history(
            created("x1", 5, 1), updated("x2", 5, 6, 3), updated("x3", 5, 7, 3)
        ),
        "created again without a deletion": history(created("x1", 5, 1), created("x2", 6, 3)),
        "deleted twice": history(created("x1", 5, 1), deleted("x", 5, 3), deleted("x", 5, 5)),
        "a deletion that no client made": history(created("x1", 5, 1), watched("+x1@5 -x1@6")),
        "one revision for two writes": history(created("x1", 5, 1), created("y1", 5, 3)),
        "a revision below one that was answered before": history(created("x1", 5, 1), created("y1", 4, 3)),
        "a refused write that is observed": history(
            created("x1", 5, 1), replace(updated("x2", 5, 0, 3, REFUSED), status=503), got("x", "x2@6", 9)
        ),
        "a refused deletion that is observed": history(
            created("x1", 5, 1), deleted("x", 5, 3, REFUSED), watched("+x1@5 -x1@6")
        ),
        "an unknown write that was observed and is lost": history(
            created("x1", 5, 1), updated("x2", 5, 0, 3, UNKNOWN), got("x", "x2@6", 9), listed("x1@5", 6, 20)
        ),
        "a value that no client wrote": history(created("x1", 5, 1), got("x", "x7@5", 3)),
        "the answer's revision and that of a read differ": history(created("x1", 5, 1), got("x", "x1@6", 3)),
    },
    "answered": {
        "no answer in time": history(Answer("GET", 1, 11, cut=NoAnswer.HUNG)),
        "an error without a Status": history(Answer("GET", 1, 2, 500)),
        "a status that blames the client": history(Answer("GET", 1, 2, 403, is_status=True)),
    },
    "ordered": {"events out of order": history(*WRITES, watched("+x1@5 -x2@7 ~x2@6"))},
    "unique": {
        "an event comes twice": history(*WRITES, watched("+x1@5 ~x2@6 ~x2@6")),
        "the event at the start comes again": history(*WRITES, watched("+x1@5 ~x2@6", start=5)),
    },
    "atomic": {
        "an event with the object of another": history(*WRITES, watched("+x1@5 ~x1@6")),
        "an event in the wrong tier": history(
            *WRITES, Watch("o", EVERYTHING, 4, events=[Event(EventType.ADDED, 5, State("x", "x1", "c"))])
        ),
        "a deletion that shows an older version": history(*WRITES, watched("+x1@5 ~x2@6 -x1@7")),
    },
    "reliable": {
        "an event in the middle is missed": history(*WRITES, watched("+x1@5 -x2@7")),
        "the first event is missed": history(*WRITES, watched("~x2@6")),
        "the last event is missed": history(*WRITES, watched("+x1@5 ~x2@6 -x2@7 +y1@8", reaches=9)),
        "an object leaves the selection without an event": history(
            *WRITES, watched("+x3b@9", selector=B, reaches=10)
        ),
        "an object enters the selection as MODIFIED": history(
            *WRITES, watched("+x1@5 ~x2@6 -x2@7 +y1@8 ~x4@10", selector=A)
        ),
        "an event of an object that is not selected": history(*WRITES, watched("+x3b@9 ~x4@10", selector=B)),
        "a deletion that no watch showed": history(*WRITES, watched("+x1@5 ~x2@6 +y1@8 +x3b@9")),
        "an unknown write that a watch missed": history(
            created("x1", 5, 1), updated("x2", 5, 0, 3, UNKNOWN), got("x", "x2@6", 9), watched("+x1@5 =7")
        ),
    },
    "resumable": {
        "an event between the two watches is missed": history(
            *WRITES, watched("+x1@5 ~x2@6"), watched("+y1@8", start=6, resumes=True)
        ),
        "an event comes in both watches": history(
            *WRITES, watched("+x1@5 ~x2@6"), watched("~x2@6 -x2@7", start=6, resumes=True)
        ),
        "it starts at another revision": history(
            *WRITES, watched("+x1@5 ~x2@6"), watched("+y1@8", start=7, resumes=True)
        ),
    },
    "bookmarkable": {
        "a bookmark below an event before it": history(*WRITES, watched("+x1@5 ~x2@6 =5")),
        "a bookmark above an event after it": history(*WRITES, watched("+x1@5 =6 ~x2@6")),
        "a bookmark that skips an event": history(*WRITES, watched("+x1@5 =6")),
    },
    "recent": {
        "older than an answered write": history(*WRITES, listed("x1@5", 5, 5)),
        "older than another list": history(
            *WRITES,
            listed("x2@6", 6, 3.1, ReadKind.ANY),
            listed("x1@5", 5, 4.2),
            updated("z", 1, 0, 9, REFUSED),
        ),
    },
    "linearizable": {
        "a read older than an answered write": history(*WRITES, got("x", "x1@5", 4.5)),
        "a read goes back to an older value": history(
            created("x1", 5, 1),
            replace(updated("x2", 5, 6, 3), ended=9),
            got("x", "x2@6", 4),
            got("x", "x1@5", 6),
        ),
        "a read of what was deleted": history(*WRITES, got("x", "x2@6", 7)),
        "nothing where there was an object": history(*WRITES, got("x", "", 3)),
        "a read of what is not written yet": history(*WRITES, got("x", "x1@5", -5)),
        "409 where there is no conflict": history(
            created("x1", 5, 1), replace(updated("x2", 5, 0, 3, REFUSED), status=409)
        ),
        "404 where the object exists": history(
            created("x1", 5, 1), replace(deleted("x", 5, 3, REFUSED), status=404)
        ),
        "409 for a creation where no object exists": history(
            replace(created("x1", 0, 3, REFUSED), status=409)
        ),
        "an unknown write is observed and then not": history(
            created("x1", 5, 1), updated("x2", 5, 0, 3, UNKNOWN), got("x", "x2@6", 6), got("x", "x1@5", 9)
        ),
    },
    "not_older": {
        "an older revision": history(*WRITES, listed("x2@6", 6, 15, ReadKind.NOT_OLDER_THAN, at=8))
    },
    "exact": {
        "another revision": history(*WRITES, listed("x2@6", 6, 15, ReadKind.EXACT, at=5)),
        "an object of a later revision": history(*WRITES, listed("x2@6", 5, 15, ReadKind.EXACT, at=5)),
        "an object is missing": history(*WRITES, listed("x4@10", 10, 15, ReadKind.EXACT, at=10)),
        "a deleted object": history(*WRITES, listed("x2@6 y1@8", 8, 15, ReadKind.EXACT, at=8)),
        "an object that is not selected": history(
            *WRITES, listed("x3b@9 y1@8", 9, 15, ReadKind.EXACT, at=9, selector=B)
        ),
        "an object with the revision of the list": history(
            *WRITES, listed("x4@10 y1@10", 10, 15, ReadKind.EXACT, at=10)
        ),
    },
    "consistent": {
        "an object newer than the list": history(*WRITES, listed("x2@6", 5, 15, ReadKind.ANY)),
        "objects of two revisions": history(*WRITES, listed("x3b@9 y1@8", 10, 15)),
    },
    "paged": {
        "pages of two revisions": history(*WRITES, listed("x4@10 y1@8", 10, 15, pages=(10, 11))),
        "an object on two pages": history(*WRITES, listed("x4@10 x4@10 y1@8", 10, 15, pages=(10, 10))),
        "an object on no page": history(*WRITES, listed("x4@10", 10, 15, pages=(10, 10))),
        "pages out of order": history(*WRITES, listed("y1@8 x4@10", 10, 15, pages=(10, 10))),
    },
}
CASES: Final = {
    f"{checker}: {sentence}": (checker, broken)
    for checker, cases in BROKEN.items()
    for sentence, broken in cases.items()
}


@pytest.mark.parametrize(("checker", "broken"), CASES.values(), ids=CASES)
def test_a_broken_history_is_reported(checker: str, broken: History) -> None:
    assert check(broken).get(checker), f"only {check(broken)}"


def test_every_checker_can_fail() -> None:
    assert set(BROKEN) == set(CHECKERS)


def test_lost_answered_writes_are_counted() -> None:
    writes = (created("x1", 5, 1), updated("x2", 5, 6, 3), updated("x3", 6, 7, 5), created("y1", 8, 7))
    lost = Timeline(history(*writes, listed("x1@5", 8, 20))).lost
    assert [write.revision for write in lost] == [6, 7, 8]


@pytest.mark.parametrize("whole", SOUND.values(), ids=SOUND)
def test_a_history_survives_being_saved(whole: History, tmp_path: Path) -> None:
    whole.save(tmp_path / "history.json")
    assert History.load(tmp_path / "history.json") == whole


# ---- linearizability by itself


@st.composite
def linearizable_histories(draw: st.DrawFn) -> list[Operation]:
    """Operations on a register in some order, each of which takes some time around its moment."""
    value: Value = None
    operations = []
    for moment in range(draw(st.integers(1, 12))):
        began = moment - draw(st.floats(0, 4))
        ended = moment + draw(st.floats(0, 4))
        match draw(st.sampled_from(["read", "write", "lost", "never"])):
            case "read":
                operations.append(Operation("read", began, ended, _reads(value)))
            case "never":
                operations.append(Operation("never", began, NEVER, _writes(f"never {moment}")))
            case kind:
                value = f"{moment}"
                operations.append(Operation(kind, began, ended if kind == "write" else NEVER, _writes(value)))
    return draw(st.permutations(operations))


@given(linearizable_histories())
def test_a_linearizable_history_has_no_contradiction(operations: list[Operation]) -> None:
    assert first_contradiction(operations) is None


@given(linearizable_histories(), st.floats(0, 8))
def test_a_read_of_a_value_never_written_is_a_contradiction(
    operations: list[Operation], began: float
) -> None:
    odd = Operation("odd", began, began + 1, _reads("odd"))
    assert first_contradiction([*operations, odd]) is odd


def _reads(expected: Value) -> Step:
    return lambda value: value if value == expected else False


def _writes(new: Value) -> Step:
    return lambda _: new
