"""The timed parts of the request that is being handled."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from contextvars import Context, ContextVar
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

# A deletion of a collection has any number of calls to the store.
PARTS_MAX: Final = 200
# How many parts a log line has, the longest ones, and how long the shortest is.
LOGGED_PARTS_MAX: Final = 10
LOGGED_PART_S_MIN: Final = 0.001
# As in kube-apiserver's logs (audit.GetAuditIDTruncated). Audit events have the whole ID.
AUDIT_ID_LENGTH_MAX: Final = 64
# A watch has no end at which they are needed.
LONG_RUNNING_PARTS_MAX: Final = 10
# Parts with the same name in several modules.
QUEUE: Final = "queue"
T = TypeVar("T")
Attributes: TypeAlias = Mapping[str, str | int]


class Part(NamedTuple):
    """A part of a request. began, ended: in seconds of perf_counter. detail: as the host of a webhook.

    has_span: whether it had a span while it lasted.
    """

    name: str
    detail: str
    began: float
    ended: float
    has_span: bool = False

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.name}{detail} {self.seconds * 1e3:.0f} ms"


class LongestParts(NamedTuple):
    """The longest parts of a request, in the order of their ends.

    omitted: how many more there were. other_s: the seconds that are in none of all its parts.
    """

    parts: tuple[Part, ...]
    omitted: int
    other_s: float


class Span(Protocol):
    """A part of a sampled request that is known to the collector. headers: those that identify it."""

    headers: Sequence[tuple[str, str]]

    def child(self, name: str, detail: str, began: float, *, is_call: bool = False) -> Span:
        """Begin a span within this one. is_call: whether it is a call to another server."""
        ...

    def end(self, ended: float, attributes: Attributes, *, is_error: bool = False) -> None: ...


class Tracer(Protocol):
    """Decides which requests are sampled."""

    def sample(
        self, trace: RequestTrace, headers: Mapping[str, str], *, name: str, is_parent_trusted: bool
    ) -> None: ...


class RequestTrace:
    """The trace of one request.

    audit_id: what logs and spans have of it; the client may have chosen it.
    parts: the values of each `Part` that has ended, in the order of their ends. Few are ever looked at.
    omitted: how many more parts there were.
    delayed_s: how long the server has made the client wait on purpose.
    is_ended: whether the request has ended. Timers and tasks that it began keep the trace as their context.
    span: that of the request, if it is sampled.
    """

    __slots__ = ("_parts_max", "audit_id", "began", "delayed_s", "is_ended", "omitted", "parts", "span")

    def __init__(self, audit_id: str, *, is_long_running: bool = False) -> None:
        self.audit_id, self.began = audit_id[:AUDIT_ID_LENGTH_MAX], time.perf_counter()
        self.parts: list[tuple[str, str, float, float, bool]] = []
        self._parts_max = LONG_RUNNING_PARTS_MAX if is_long_running else PARTS_MAX
        self.omitted, self.delayed_s, self.is_ended = 0, 0.0, False
        self.span: Span | None = None

    def add(self, name: str, began: float, detail: str = "", *, has_span: bool = False) -> None:
        """Add a part that has ended now. began: in seconds of perf_counter."""
        if len(self.parts) < self._parts_max:
            self.parts.append((name, detail, began, time.perf_counter(), has_span))
        else:
            self.omitted += 1

    def end_span(self, attributes: Attributes, *, is_error: bool) -> None:
        """End the span of the request, if it has one, with a span for each part."""
        if self.span is None:
            return
        for part in map(Part._make, self.parts):
            if not part.has_span:
                self.span.child(part.name, part.detail, part.began).end(part.ended, {})
        self.span.end(time.perf_counter(), attributes, is_error=is_error)

    def describe(self, seconds: float) -> str:
        """Returns the longest parts, in the order of their ends, and the time that is in none."""
        longest = self.longest_parts(seconds, LOGGED_PARTS_MAX)
        texts = [str(part) for part in longest.parts if part.seconds >= LOGGED_PART_S_MIN]
        if self.omitted:
            texts.append(f"{self.omitted} more parts")
        return ", ".join([*texts, f"other {longest.other_s * 1e3:.0f} ms"])

    def longest_parts(self, seconds: float, parts_max: int) -> LongestParts:
        """Returns the longest parts of a request that took `seconds`."""
        parts = [Part._make(values) for values in self.parts]
        by_length = sorted(range(len(parts)), key=lambda number: -parts[number].seconds)
        shown = tuple(parts[number] for number in sorted(by_length[:parts_max]))
        omitted = self.omitted + len(parts) - len(shown)
        return LongestParts(shown, omitted, max(0.0, seconds - covered_s(parts)))


def covered_s(parts: Sequence[Part]) -> float:
    """Returns the seconds that are in at least one part: parts may be within others, or at the same time."""
    seconds, until = 0.0, 0.0
    for part in sorted(parts, key=lambda part: part.began):
        begins = max(part.began, until)
        if part.ended > begins:
            seconds += part.ended - begins
            until = part.ended
    return seconds


# The trace of the request that the running task handles.
CURRENT_TRACE: Final[ContextVar[RequestTrace | None]] = ContextVar("request-trace", default=None)


def no_request() -> Context:
    """Returns a context for a timer or task that many requests share, whichever of them begins it.

    It is a new one each time: the event loops of two threads cannot be in one context at the same moment.
    """
    return Context()


def current() -> RequestTrace | None:
    """Returns the trace of the request that is being handled; None outside of requests."""
    trace = CURRENT_TRACE.get()
    return None if trace is None or trace.is_ended else trace


def record(name: str, began: float, detail: str = "") -> None:
    """Add a part to the request that is being handled. began: seconds of perf_counter."""
    trace = CURRENT_TRACE.get()
    if trace is not None and not trace.is_ended:
        trace.add(name, began, detail)


async def traced(name: str, work: Awaitable[T]) -> T:
    """Returns the result of `work`, and adds it as a part, however it ends."""
    began = time.perf_counter()
    try:
        return await work
    finally:
        record(name, began)


async def delayed(waiting: Awaitable[None]) -> None:
    """Make the client of the request wait."""
    began = time.perf_counter()
    try:
        await waiting
    finally:
        if (trace := current()) is not None:
            trace.delayed_s += time.perf_counter() - began


class CallTrace:
    """A call to another server, as a part of the request. headers: what to send with it."""

    __slots__ = ("_began", "_detail", "_name", "_span", "_trace", "headers")

    def __init__(self, name: str, detail: str) -> None:
        self._name, self._detail, self._began = name, detail, time.perf_counter()
        self._trace = current()
        parent = None if self._trace is None else self._trace.span
        self._span = None if parent is None else parent.child(name, detail, self._began, is_call=True)
        self.headers: Sequence[tuple[str, str]] = () if self._span is None else self._span.headers

    def end(self, *, is_error: bool) -> None:
        if self._span is not None:
            self._span.end(time.perf_counter(), {}, is_error=is_error)
        if self._trace is not None:
            self._trace.add(self._name, self._began, self._detail, has_span=self._span is not None)
