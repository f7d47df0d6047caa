"""What faults do to requests, to watches, and to the server.

    of a request  Answer, Delay, CutConnection
    of a watch    EndWatch, HoldEvents, HoldBookmarks, and CutConnection in an event
    of tokens     ExpireToken
    of the server NotReady, RefuseTls

Times are in seconds. Each raises InvalidFault for a value that it cannot have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from apiserver.testkit.faults.errors import InvalidFault

DURATION_S_MAX: Final = 86_400.0
MESSAGE_CHARACTERS_MAX: Final = 4_096
EVENTS_MAX: Final = 1_000_000
MOMENTS: Final = ("before-write", "after-write", "in-event")
# The reasons that kube-apiserver gives with these codes.
REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    408: "Timeout",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The request is answered with a Status of this code.

    reason: by default the one that kube-apiserver gives with the code.
    retry_after_s: the header Retry-After, and `details.retryAfterSeconds`.
    after_write: the server does what was asked, and only then answers so.
    """

    code: int
    reason: str = ""
    message: str = ""
    retry_after_s: int | None = None
    after_write: bool = False

    def __post_init__(self) -> None:
        if not 400 <= self.code <= 599:
            raise InvalidFault("effect.code", f"{self.code} is not between 400 and 599")
        for name in ("reason", "message"):
            if len(getattr(self, name)) > MESSAGE_CHARACTERS_MAX:
                raise InvalidFault(f"effect.{name}", f"is longer than {MESSAGE_CHARACTERS_MAX} characters")
        if self.retry_after_s is not None and not 0 <= self.retry_after_s <= DURATION_S_MAX:
            raise InvalidFault(
                "effect.retry_after_s", f"{self.retry_after_s} is not between 0 and {DURATION_S_MAX:.0f}"
            )


@dataclass(frozen=True, slots=True)
class Delay:
    """The request waits before it is handled, or until this is cleared.

    Its other faults come afterwards, also those that were injected before.
    """

    seconds: float

    def __post_init__(self) -> None:
        _require_duration(self.seconds)


@dataclass(frozen=True, slots=True)
class CutConnection:
    """The connection ends without an answer, or in the middle of one.

    moment: `before-write`: nothing of the request is done. `after-write`: all of it is. `in-event`: a watch
        is cut in the middle of an event.
    after_events: so many events of the watch come whole before; of one that is open, from now on.
    """

    moment: Literal["before-write", "after-write", "in-event"] = "before-write"
    after_events: int = 0

    def __post_init__(self) -> None:
        if self.moment not in MOMENTS:
            raise InvalidFault("effect.moment", f"{self.moment!r} is none of {', '.join(MOMENTS)}")
        if self.after_events and self.moment != "in-event":
            raise InvalidFault("effect.after_events", "is only said of the moment in-event")
        _require_events(self.after_events)


@dataclass(frozen=True, slots=True)
class EndWatch:
    """The watch ends, as one that is too old (410 Expired) or, silently, as one whose time is up.

    after_events: so many of its events come before; of a watch that is open, from now on.
    """

    silently: bool = False
    after_events: int = 0

    def __post_init__(self) -> None:
        _require_events(self.after_events)


@dataclass(frozen=True, slots=True)
class HoldEvents:
    """The events of the watch wait, and with them its bookmarks, for some time or until this is cleared."""

    seconds: float | None = None

    def __post_init__(self) -> None:
        _require_duration(self.seconds)


@dataclass(frozen=True, slots=True)
class HoldBookmarks:
    """The watch gets no bookmarks for some time, or until this is cleared.

    Where a bookmark ends the initial events, what follows waits for it.
    """

    seconds: float | None = None

    def __post_init__(self) -> None:
        _require_duration(self.seconds)


@dataclass(frozen=True, slots=True)
class ExpireToken:
    """The bearer tokens of a user are not accepted any more: `times` counts tokens, each from its first use.

    With `times=1`, who gets a new token is let in with that.
    """


@dataclass(frozen=True, slots=True)
class NotReady:
    """/readyz fails, for some time or until this is cleared."""

    seconds: float | None = None

    def __post_init__(self) -> None:
        _require_duration(self.seconds)


@dataclass(frozen=True, slots=True)
class RefuseTls:
    """TLS handshakes are refused, for some time, for so many `times`, or until this is cleared.

    Connections that there are stay.
    """

    seconds: float | None = None

    def __post_init__(self) -> None:
        _require_duration(self.seconds)


Effect: TypeAlias = (
    Answer
    | Delay
    | CutConnection
    | EndWatch
    | HoldEvents
    | HoldBookmarks
    | ExpireToken
    | NotReady
    | RefuseTls
)


def is_of_watches(effect: Effect) -> bool:
    """Whether an effect is one of a watch, open or not, rather than of the request that begins it."""
    if isinstance(effect, CutConnection):
        return effect.moment == "in-event"
    return isinstance(effect, EndWatch | HoldEvents | HoldBookmarks)


def _require_duration(seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds <= DURATION_S_MAX:
        raise InvalidFault("effect.seconds", f"{seconds} is not between 0 and {DURATION_S_MAX:.0f}")


def _require_events(count: int) -> None:
    if not 0 <= count <= EVENTS_MAX:
        raise InvalidFault("effect.after_events", f"{count} is not between 0 and {EVENTS_MAX}")
