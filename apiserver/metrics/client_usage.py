"""Counts the requests of the last minutes by client, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

# A window of the past, and one that is being counted.
WINDOW_S: Final = 60.0
# Counters of each window, both together 15 MB at most. Clients can invent user agents.
SOURCES_MAX: Final = 2_000
# Counters of sources that share one because they sent few requests, each for one user.
SHARED_MAX: Final = 500
# Characters that are kept of the names of users and user agents, and of groups, resources and subresources.
NAME_LENGTH_MAX: Final = 256
SEGMENT_LENGTH_MAX: Final = 128
# The name in place of those that share a counter.
OTHER: Final = "other"
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
# Before Python 3.12, looking up a member of HTTPStatus is a call.
_SERVER_ERROR_MIN: Final = int(HTTPStatus.INTERNAL_SERVER_ERROR)


class Source(NamedTuple):
    """Requests that are counted together.

    user: empty if authentication failed.
    group, resource, subresource: as the client named them. For other paths, resource is the first segment,
        as `/metrics`, and empty if they lead to nothing.
    """

    user: str
    user_agent: str
    verb: str
    group: str
    resource: str
    subresource: str


# The values of a `Source`, which may be longer.
SourceValues: TypeAlias = tuple[str, str, str, str, str, str]


@dataclass(slots=True)
class Usage:
    """What requests took.

    seconds: their durations, without those of watches and other long-running requests.
    sent_bytes: of the bodies of responses, without those of watches.
    refused, failed: the requests whose responses have the code 401, 403 or 429, and those with a 5xx code.
    """

    requests: int = 0
    seconds: float = 0.0
    sent_bytes: int = 0
    refused: int = 0
    failed: int = 0

    def add(self, other: Usage) -> None:
        self.requests += other.requests
        self.seconds += other.seconds
        self.sent_bytes += other.sent_bytes
        self.refused += other.refused
        self.failed += other.failed


class ClientUsage:
    """Counts requests by source, over the last one to two minutes.

    clock: in seconds, never goes back.

    The busiest sources have their own counters. When there are too many, the less busy half is counted by
    user, and beyond `SHARED_MAX` users all together. So a client that invents user agents is still seen, and
    does not hide others.
    """

    def __init__(self, clock: Callable[[], float], sources_max: int = SOURCES_MAX) -> None:
        self._clock, self._sources_max = clock, sources_max
        self._shared_max = min(SHARED_MAX, sources_max // 4)
        self._window: dict[SourceValues, Usage] = {}
        self._previous: Mapping[SourceValues, Usage] = {}
        self._began = self._previous_began = clock()

    def count(self, source: SourceValues, seconds: float, sent_bytes: int, status: int) -> None:
        """Count a request that has ended."""
        if self._clock() - self._began >= WINDOW_S:
            self._turn()
        usage = self._window.get(source) or self._counter(bounded_source(source))
        usage.requests += 1
        usage.seconds += seconds
        usage.sent_bytes += sent_bytes
        if status in _REFUSED:
            usage.refused += 1
        elif status >= _SERVER_ERROR_MIN:
            usage.failed += 1

    def _counter(self, source: Source) -> Usage:
        if source not in self._window and len(self._window) >= self._sources_max:
            self._window = _condensed(self._window, self._sources_max // 2, self._shared_max)
        return self._window.setdefault(source, Usage())

    def read(self) -> tuple[float, dict[Source, Usage]]:
        """Returns the counts, and over how many seconds they were taken."""
        now = self._clock()
        if now - self._began >= WINDOW_S:
            self._turn()
        return now - self._previous_began, _sums((self._previous, self._window))

    def _turn(self) -> None:
        """Begin a window. What is older than the one that has just ended is forgotten."""
        now = self._clock()
        is_recent = now - self._began < 2 * WINDOW_S
        self._previous = self._window if is_recent else {}
        self._previous_began = self._began if is_recent else now
        self._window, self._began = {}, now


def _sums(windows: Iterable[Mapping[SourceValues, Usage]]) -> dict[Source, Usage]:
    sums: dict[Source, Usage] = {}
    for window in windows:
        for source, usage in window.items():
            sums.setdefault(Source._make(source), Usage()).add(usage)
    return sums


def _condensed(window: Mapping[SourceValues, Usage], kept: int, shared_max: int) -> dict[SourceValues, Usage]:
    """Returns the counters of the `kept` busiest sources, and sums of the others by user."""
    ordered = sorted(window.items(), key=lambda item: item[1].requests, reverse=True)
    by_user: dict[str, Usage] = {}
    for (user, *_), usage in ordered[kept:]:
        by_user.setdefault(user, Usage()).add(usage)
    users = sorted(((usage.requests, user) for user, usage in by_user.items()), reverse=True)
    alone = set(map(itemgetter(1), users[:shared_max]))
    result = dict(ordered[:kept])
    for user, usage in by_user.items():
        result.setdefault(shared_source(user if user in alone else OTHER), Usage()).add(usage)
    return result


def bounded_source(values: SourceValues) -> Source:
    """Returns a source with names of bounded lengths."""
    user, user_agent, verb, *rest = values
    return Source(
        user[:NAME_LENGTH_MAX],
        user_agent[:NAME_LENGTH_MAX],
        verb,
        *(each[:SEGMENT_LENGTH_MAX] for each in rest),
    )


def shared_source(user: str) -> Source:
    """Returns the source that stands for several of a user; of all users if it is `OTHER`."""
    return Source(user, OTHER, OTHER, "", OTHER, "")
