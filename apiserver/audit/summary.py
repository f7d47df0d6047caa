"""Sums up audit events: the users, verbs and objects of requests, and the denied requests.

Each request counts once, by its last event. Memory is bounded for any number of events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from apiserver.audit.policy import PANIC, RESPONSE_COMPLETE, RESPONSE_STARTED, STAGES

# Beyond so many rows, requests that would need another one are summed up in one.
ROWS_MAX: Final = 100_000
# The number of object names that a row shows; more are counted, up to a limit.
NAMES_TOLD_MAX: Final = 5
NAMES_MAX: Final = 1_000
NAMES_OF_ALL_ROWS_MAX: Final = 500_000
# A longer text is cut: clients choose them.
TEXT_LENGTH_MAX: Final = 200
DIMENSIONS: Final = ("user", "verb", "resource", "namespace", "name", "code")
_LAST_STAGES: Final = frozenset({RESPONSE_COMPLETE, PANIC})
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403


class AuditedRequest(NamedTuple):
    """A request as its last event describes it. at: the time at which it was received."""

    values: tuple[str, ...]
    name: str
    code: int
    is_denied: bool
    at: str


@dataclass(slots=True)
class SummaryRow:
    """A row of requests that are alike. names: of their objects. failed: without those that were denied."""

    requests: int = 0
    denied: int = 0
    failed: int = 0
    names: set[str] = field(default_factory=set)
    has_more_names: bool = False
    first: str = ""
    last: str = ""

    def add(self, request: AuditedRequest, *, may_name: bool) -> bool:
        """Count a request. Returns whether its object is a new name."""
        self.requests += 1
        self.denied += request.is_denied
        self.failed += request.code >= 400 and not request.is_denied
        if request.at:
            self.first = min(self.first or request.at, request.at)
            self.last = max(self.last, request.at)
        if not request.name or request.name in self.names:
            return False
        if not may_name or len(self.names) >= NAMES_MAX:
            self.has_more_names = True
            return False
        self.names.add(request.name)
        return True


class Summary:
    """Audit events, counted in rows by some `DIMENSIONS`. denied_only: whether only denied requests count."""

    def __init__(self, by: Sequence[str], *, denied_only: bool = False) -> None:
        self._by, self._denied_only = tuple(by), denied_only
        self.events = 0
        self.malformed = 0
        self.total = SummaryRow()
        self.others = SummaryRow()
        self._rows: dict[tuple[str, ...], SummaryRow] = {}
        self._names = 0

    def add_line(self, line: bytes) -> None:
        """Count the event in a line; other lines count as malformed."""
        if not line.strip():
            return
        try:
            event = orjson.loads(line)
            request = self._request(event)
        except (ValueError, TypeError, AttributeError, OverflowError):
            self.malformed += 1
            return
        self.events += 1
        if request is None or (self._denied_only and not request.is_denied):
            return
        self.total.add(request, may_name=False)
        row = self._rows.get(request.values)
        if row is None:
            if len(self._rows) >= ROWS_MAX:
                self.others.add(request, may_name=False)
                return
            row = self._rows[request.values] = SummaryRow()
        self._names += row.add(request, may_name=self._names < NAMES_OF_ALL_ROWS_MAX)

    def _request(self, event: Any) -> AuditedRequest | None:
        """Returns the request of an event; None if it is not the last of its request. Raises ValueError,
        TypeError.
        """
        stage = event.get("stage") if "auditID" in event else None
        if stage not in STAGES:
            raise ValueError("no event")
        status = event.get("responseStatus") or {}
        code = int(status.get("code") or 0)
        # A request that failed authentication has no other.
        is_only = stage == RESPONSE_STARTED and not (event.get("user") or {}).get("username")
        if stage not in _LAST_STAGES and not is_only:
            return None
        reference = event.get("objectRef") or {}
        values = {
            "user": _user(event),
            "verb": _text(event.get("verb")),
            "resource": _resource(event, reference),
            "namespace": _text(reference.get("namespace")),
            "name": _text(reference.get("name")),
            "code": str(code),
        }
        return AuditedRequest(
            tuple(values[each] for each in self._by),
            values["name"],
            code,
            code in (_UNAUTHORIZED, _FORBIDDEN),
            _text(event.get("requestReceivedTimestamp")),
        )

    def rows(self, count: int) -> Iterator[tuple[tuple[str, ...], SummaryRow]]:
        """Yields the rows with the most requests. count: 0 for all."""
        ordered = sorted(self._rows.items(), key=lambda each: (-each[1].requests, each[0]))
        yield from ordered[:count] if count else ordered

    @property
    def row_count(self) -> int:
        return len(self._rows)


def _text(value: Any) -> str:
    """Returns a text on one line, of bounded length."""
    if not isinstance(value, str):
        return ""
    value = value[:TEXT_LENGTH_MAX]
    return value if value.isprintable() else "".join(c if c.isprintable() else "?" for c in value)


def _user(event: dict[str, Any]) -> str:
    name = _text((event.get("user") or {}).get("username")) or "<unauthenticated>"
    other = event.get("impersonatedUser")
    return f"{name} as {_text(other.get('username'))}" if other else name


def _resource(event: dict[str, Any], reference: dict[str, Any]) -> str:
    """Returns the resource, as `deployments.apps/scale`, or the path of a request without a resource."""
    resource = _text(reference.get("resource"))
    if not resource:
        return _text(event.get("requestURI")).partition("?")[0]
    group, subresource = _text(reference.get("apiGroup")), _text(reference.get("subresource"))
    whole = f"{resource}.{group}" if group else resource
    return f"{whole}/{subresource}" if subresource else whole
