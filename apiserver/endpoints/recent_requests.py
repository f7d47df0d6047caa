"""Serves /debug/requests: the last requests that were slow, that were refused, or that failed, and why.

Like a slow query log, for clients that cannot read the server's log, which has no refused requests either.
Requests that found nothing (404), conflicts (409) and expired revisions (410) are everyday life and are
not kept.
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from operator import attrgetter
from typing import Any, Final, NamedTuple

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.confidentiality import redacted_uri
from apiserver.endpoints.responses import send_document, unicode_of
from apiserver.meta import timestamps
from apiserver.meta.errors import BadRequest
from apiserver.meta.options import first, require_only
from apiserver.meta.vocabulary import UNAUTHENTICATED, Document
from apiserver.storage.event_loop_turns import in_turns
from apiserver.tracing.request_trace import Part

REQUESTS_PATH: Final = "debug/requests"
# `pretty` and `timeout` are those of all requests.
PARAMETERS: Final = ("user", "agent", "since", "pretty", "timeout")
# The first status code of errors, and those of clients that behave well.
ERROR_MIN: Final = 400
EVERYDAY: Final = frozenset({404, 409, 410})
_SERVER_ERROR_MIN: Final = 500
# Of each kind: about a page for people. One with texts of usual lengths takes 1 to 2 KiB.
KEPT_MAX: Final = 256
# Texts may be chosen by clients to be as long as allowed.
KEPT_BYTES_MAX: Final = 512 * 1024
# Characters of a path with its query, and of a message.
TEXT_LENGTH_MAX: Final = 512
# Characters of a user, a user agent, and the detail of a part, as a webhook.
NAME_LENGTH_MAX: Final = 256
# Of the parts of a request the longest.
PARTS_MAX: Final = 10
# What a request and a part take beside their texts.
_REQUEST_BYTES: Final = 512
_PART_BYTES: Final = 192


class Outcome(enum.Enum):
    """Why a request is kept: slow ones have the status that their clients expect."""

    SLOW = "slow"
    REFUSED = "refused"
    FAILED = "failed"


class RecentRequest(NamedTuple):
    """A request that has ended.

    number: how many were kept before it, and it. ended: seconds since 1970.
    path: with its query, in which credentials are redacted.
    user: empty if the credentials were refused. impersonator: empty unless it was handled as another user.
    status: 0 if the client left before the answer.
    reason, message: of the Status that the client got; empty if the answer was none.
    parts: the longest ones, in the order of their ends. omitted: how many more there were.
    other_s: the seconds that are in no part.
    """

    number: int
    ended: float
    outcome: Outcome
    method: str
    verb: str
    path: str
    user: str
    impersonator: str
    user_agent: str
    audit_id: str
    status: int
    reason: str
    message: str
    seconds: float
    parts: tuple[Part, ...]
    omitted: int
    other_s: float

    @property
    def size_bytes(self) -> int:
        """How much memory it takes, roughly."""
        texts = (
            *(self.method, self.verb, self.path, self.user, self.impersonator, self.user_agent),
            *(self.audit_id, self.reason, self.message, *(part.detail for part in self.parts)),
        )
        return _REQUEST_BYTES + _PART_BYTES * len(self.parts) + sum(map(sys.getsizeof, texts))


class _Kept:
    """The last requests of one kind, within bounds."""

    __slots__ = ("_bytes", "requests")

    def __init__(self) -> None:
        self.requests: deque[tuple[RecentRequest, int]] = deque()
        self._bytes = 0

    def add(self, request: RecentRequest) -> None:
        size = request.size_bytes
        self.requests.append((request, size))
        self._bytes += size
        while len(self.requests) > KEPT_MAX or self._bytes > KEPT_BYTES_MAX:
            self._bytes -= self.requests.popleft()[1]


class RecentRequests:
    """The last requests that were slow, refused, or failed. clock: seconds since 1970.

    Each outcome is kept separately, and so are refused requests without valid credentials: a client that is
    refused all the time does not displace what is slow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[tuple[Outcome, bool], _Kept] = {}
        self._counts = dict.fromkeys(Outcome, 0)
        self._number = 0

    def add(self, call: ApiCall, seconds: float) -> None:
        """Keep a request that has just ended, and took `seconds`."""
        outcome = _outcome(call.status)
        self._number += 1
        self._counts[outcome] += 1
        user = call.known_user
        is_unauthenticated = outcome is Outcome.REFUSED and (user is None or UNAUTHENTICATED in user.groups)
        key = outcome, is_unauthenticated
        if key not in self._kept:
            self._kept[key] = _Kept()
        # As exact as the texts are, so that `since` selects a request by its own time.
        self._kept[key].add(_request(call, self._number, round(self._clock(), 6), seconds))

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many there were since the server started."""
        return self._counts

    def newest_first(self) -> Iterator[RecentRequest]:
        """Returns those that are kept, as they are now."""
        lists = [[request for request, _ in reversed(kept.requests)] for kept in self._kept.values()]
        return merge(*lists, key=attrgetter("number"), reverse=True)


class RecentRequestList:
    """Lists recent requests. worker: the `worker_identity` of this process."""

    def __init__(self, recent: RecentRequests, worker: Mapping[str, Any]) -> None:
        self._recent, self._worker = recent, worker

    async def respond(self, call: ApiCall) -> None:
        """Serve those that the query selects. Raises BadRequest."""
        query = call.query
        require_only(query, PARAMETERS)
        user, agent, since = (first(query, name) for name in ("user", "agent", "since"))
        begins = timestamps.from_text(since) if since else 0.0
        if begins is None:
            raise BadRequest(f"since must be a time as in RFC 3339, not {since[:NAME_LENGTH_MAX]!r}")
        counts = {outcome.value: count for outcome, count in self._recent.counts.items()}
        requests = [
            _document(each)
            async for each in in_turns(self._recent.newest_first())
            if each.ended >= begins and user in each.user and agent in each.user_agent
        ]
        await send_document(call, {**self._worker, "counts": counts, "requests": requests})


def _outcome(status: int) -> Outcome:
    if status >= _SERVER_ERROR_MIN:
        return Outcome.FAILED
    return Outcome.REFUSED if status >= ERROR_MIN and status not in EVERYDAY else Outcome.SLOW


def _request(call: ApiCall, number: int, ended: float, seconds: float) -> RecentRequest:
    info, user, (reason, message) = call.info, call.known_user, call.error or ("", "")
    longest = call.trace.longest_parts(seconds, PARTS_MAX)
    # Cut before the query is searched for credentials, which takes its time.
    query = call.request.raw_path.partition("?")[2][:TEXT_LENGTH_MAX]
    return RecentRequest(
        number,
        ended,
        _outcome(call.status),
        info.method[:NAME_LENGTH_MAX],
        info.verb[:NAME_LENGTH_MAX],
        _cut(redacted_uri(f"{info.path[:TEXT_LENGTH_MAX]}?{query}" if query else info.path), TEXT_LENGTH_MAX),
        "" if user is None else _cut(user.name, NAME_LENGTH_MAX),
        "" if call.impersonator is None else _cut(call.impersonator.name, NAME_LENGTH_MAX),
        _cut(unicode_of(call.user_agent), NAME_LENGTH_MAX),
        call.trace.audit_id,
        call.status,
        reason,
        _cut(message, TEXT_LENGTH_MAX),
        seconds,
        tuple(part._replace(detail=_cut(part.detail, NAME_LENGTH_MAX)) for part in longest.parts),
        longest.omitted,
        longest.other_s,
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _document(request: RecentRequest) -> Document:
    return {
        "number": request.number,
        "time": timestamps.to_micro_text(request.ended),
        "outcome": request.outcome.value,
        "method": request.method,
        "verb": request.verb,
        "path": unicode_of(request.path),
        "user": request.user,
        **({"impersonator": request.impersonator} if request.impersonator else {}),
        "userAgent": request.user_agent,
        "auditID": unicode_of(request.audit_id),
        "status": request.status,
        "reason": request.reason,
        "message": request.message,
        "milliseconds": _milliseconds(request.seconds),
        "phases": [
            {"name": part.name, "detail": part.detail, "milliseconds": _milliseconds(part.seconds)}
            for part in request.parts
        ],
        "otherPhases": request.omitted,
        "otherMilliseconds": _milliseconds(request.other_s),
    }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 3)
