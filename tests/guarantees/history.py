"""The records of a run: plain data that can be saved as JSON. All times are of one monotonic clock."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple


class State(NamedTuple):
    """The content of an object. Each `value` is written by one write only."""

    name: str
    value: str
    tier: str


class Observation(NamedTuple):
    """A version of an object as a client received it."""

    revision: int
    state: State


class Selector(NamedTuple):
    """Selects objects by tier and name; empty selects any."""

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
    REFUSED = "refused"  # it did not happen: it was not allowed, or never reached a server
    UNKNOWN = "unknown"  # the answer was lost, or was that the outcome is unknown


@dataclass(frozen=True)
class Write:
    """A request to create, update or delete an object.

    revision: that of the new version; 0 for a deletion, whose answer has none, and if not answered.
    expected: the revision of the version to replace; 0 for a creation.
    status: the HTTP status; 0 without an answer.
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


class ReadKind(StrEnum):
    """The kind of a read: what the client asked for."""

    GET = "get"  # one object, most recent
    MOST_RECENT = "most recent"
    ANY = "any"
    NOT_OLDER_THAN = "not older than"
    EXACT = "exact"


@dataclass(frozen=True)
class Read:
    """A get or list that was answered. A list in pages is one read, with the revision of each page.

    at: the revision asked for. revision: that of the list; 0 for a get.
    """

    client: str
    kind: ReadKind
    began: float
    ended: float
    items: tuple[Observation, ...]
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
    OPEN = "open"  # still open at the end of the recording
    FINISHED = "finished"  # ended by the server, at its timeout
    BROKEN = "broken"
    GONE = "gone"  # 410: the start was compacted


@dataclass
class Watch:
    """A watch stream of the events after `start`. It grows while it is recorded.

    resumes: whether it begins where the same client's previous watch ended, with nothing read in between.
    reaches: a revision that it had to reach before the recording ended; 0 for none.
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
        """The revision at which a watch that resumes this one starts."""
        return self.events[-1].revision if self.events else self.start

    @property
    def changes(self) -> list[Event]:
        return [event for event in self.events if event.type is not EventType.BOOKMARK]


class NoAnswer(StrEnum):
    """Why a request got no answer."""

    NOT_SENT = "not sent"  # no connection could be made
    BROKEN = "broken"
    HUNG = "hung"  # the client timed out, long after the server should have


@dataclass(frozen=True)
class Answer:
    """How one request that did not succeed ended.

    status: 0 if there was no answer. is_status: whether the body is a Status with the same code.
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
    """All records of a run, each list ordered by end. The last read lists everything after all writes."""

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
    items = tuple(Observation(revision, State(*state)) for revision, state in data["items"])
    selector = _selector(data["selector"])
    return Read(
        **{
            **data,
            "kind": ReadKind(data["kind"]),
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
