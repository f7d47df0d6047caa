"""The records of a run: plain data, in JSON if need be. Times are of one clock that never goes back."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple


class State(NamedTuple):
    """What there is of an object. `value` is made by one write only."""

    name: str
    value: str
    tier: str


class Seen(NamedTuple):
    """A version of an object as a client got it."""

    revision: int
    state: State


class Selector(NamedTuple):
    """Objects with one of the tiers, and the name; empty: any."""

    tiers: tuple[str, ...] = ()
    name: str = ""

    def selects(self, state: State | None) -> bool:
        return (
            state is not None
            and (not self.tiers or state.tier in self.tiers)
            and (not self.name or state.name == self.name)
        )

    @property
    def query(self) -> dict[str, str]:
        query = {}
        if self.tiers:
            query["labelSelector"] = f"tier in ({','.join(self.tiers)})"
        if self.name:
            query["fieldSelector"] = f"metadata.name={self.name}"
        return query


EVERYTHING = Selector()


class Verb(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Outcome(StrEnum):
    ANSWERED = "answered"  # it happened
    REFUSED = "refused"  # it did not: the state forbade it, or the server or the connection was not there
    UNKNOWN = "unknown"  # the answer was lost, or says that nobody knows


@dataclass(frozen=True)
class Write:
    """revision: of what was written; 0 for a deletion, whose answer does not tell, and if not answered.

    expected: the version it is meant for; 0 for a creation. status: of HTTP; 0 without an answer.
    """

    client: str
    verb: Verb
    name: str
    began: float
    ended: float
    outcome: Outcome
    state: State | None = None
    revision: int = 0
    expected: int = 0
    status: int = 0


class Kind(StrEnum):
    """How a read was asked for."""

    GET = "get"  # one object, most recent
    MOST_RECENT = "most recent"
    ANY = "any"
    NOT_OLDER_THAN = "not older than"
    EXACT = "exact"


@dataclass(frozen=True)
class Read:
    """One that was answered with a state. A list in pages is one read, with the revision of each page.

    at: the revision asked for. revision: that of the list; 0 for a GET.
    """

    client: str
    kind: Kind
    began: float
    ended: float
    items: tuple[Seen, ...]
    revision: int = 0
    at: int = 0
    name: str = ""
    selector: Selector = EVERYTHING
    pages: tuple[int, ...] = ()


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Event(NamedTuple):
    type: EventType
    revision: int
    state: State | None = None  # None for bookmarks


class WatchEnd(StrEnum):
    OPEN = "open"  # at the end of the recording
    FINISHED = "finished"  # by the server, in order
    BROKEN = "broken"
    GONE = "gone"  # 410: the start has left the history


@dataclass
class Watch:
    """One stream: changes after `start`. Grows while it is recorded.

    resumes: it begins where the same client's watch before it ended, with nothing read in between.
    reaches: a revision that it had to reach before the recording ended; 0 if it had not.
    """

    client: str
    selector: Selector
    start: int
    resumes: bool = False
    events: list[Event] = field(default_factory=list)
    end: WatchEnd = WatchEnd.OPEN
    reaches: int = 0

    @property
    def last(self) -> int:
        """Where a resumed watch starts."""
        return self.events[-1].revision if self.events else self.start

    @property
    def changes(self) -> list[Event]:
        return [event for event in self.events if event.type is not EventType.BOOKMARK]


class NoAnswer(StrEnum):
    """Why there was no answer."""

    NOT_SENT = "not sent"  # there was no connection
    BROKEN = "broken"
    HUNG = "hung"  # the client gave up, long after the server should have


@dataclass(frozen=True)
class Answer:
    """One request's end, as far as it says how the server behaves.

    status: 0 if there was no answer. is_status: an error with a Status body of the same code.
    """

    request: str
    began: float
    ended: float
    status: int = 0
    is_status: bool = False
    cut: NoAnswer | None = None
    message: str = ""


@dataclass
class History:
    """All of a run, each list in the order of ends. The last read is of everything, after all else."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> History:
        data = json.loads(path.read_text())
        return cls(
            [_write(each) for each in data["writes"]],
            [_read(each) for each in data["reads"]],
            [_watch(each) for each in data["watches"]],
            [Answer(**{**each, "cut": each["cut"] and NoAnswer(each["cut"])}) for each in data["answers"]],
        )


NEVER = math.inf


def _state(data: Any) -> State | None:
    return State(*data) if data else None


def _selector(data: Any) -> Selector:
    return Selector(tuple(data[0]), data[1])


def _write(data: dict[str, Any]) -> Write:
    return Write(
        **{
            **data,
            "verb": Verb(data["verb"]),
            "outcome": Outcome(data["outcome"]),
            "state": _state(data["state"]),
        }
    )


def _read(data: dict[str, Any]) -> Read:
    items = tuple(Seen(revision, State(*state)) for revision, state in data["items"])
    selector = _selector(data["selector"])
    return Read(
        **{
            **data,
            "kind": Kind(data["kind"]),
            "items": items,
            "selector": selector,
            "pages": tuple(data["pages"]),
        }
    )


def _watch(data: dict[str, Any]) -> Watch:
    events = [Event(EventType(kind), revision, _state(state)) for kind, revision, state in data["events"]]
    return Watch(
        **{**data, "selector": _selector(data["selector"]), "events": events, "end": WatchEnd(data["end"])}
    )
