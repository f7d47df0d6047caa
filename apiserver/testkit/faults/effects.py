"""The effects of faults on requests, on watches, and on the server.

    of a request  Answer, Delay, CutConnection
    of a watch    EndWatch, HoldEvents, HoldBookmarks, and CutConnection in an event
    of tokens     ExpireToken
    of the server NotReady, RefuseTls

Times are in seconds. Each raises InvalidFault for a value that it cannot have.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

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
    """The server answers the request with a Status.

    code: the status code, from 400 to 599.
    reason: the reason. By default, the one that kube-apiserver gives with the code.
    message: the message.
    retry_after_s: the value of the header Retry-After and of `details.retryAfterSeconds`.
    after_write: True if the server carries out the request before it answers with the Status.
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
    """The request waits before the server handles it.

    seconds: how long, unless the fault is cleared before.
    Other faults of the same request happen afterwards, even if they were injected before.
    """

    seconds: float

    def __post_init__(self) -> None:
        _require_duration(self.seconds)


@dataclass(frozen=True, slots=True)
class CutConnection:
    """The connection ends without a response, or in the middle of one.

    moment: `before-write` cuts it before the server carries out the request, `after-write` after that, and
        `in-event` cuts a watch in the middle of an event.
    after_events: how many whole events the watch sends before; of an open watch, from now on.
    """

    moment: Literal["before-write", "after-write", "in-event"] = "before-write"
    after_events: int = 0

    def __post_init__(self) -> None:
        if self.moment not in MOMENTS:
            raise InvalidFault("effect.moment", f"{self.moment!r} is not one of {', '.join(MOMENTS)}")
        if self.after_events and self.moment != "in-event":
            raise InvalidFault("effect.after_events", "is only valid for the moment in-event")
        _require_events(self.after_events)


@dataclass(frozen=True, slots=True)
class EndWatch:
    """The watch ends with the error 410 Expired.

    silently: True ends it without an error, as when its timeout has passed.
    after_events: how many events the watch sends before; of an open watch, from now on.
    """

    silently: bool = False
    after_events: int = 0

    def __post_init__(self) -> None:
        _require_events(self.after_events)


@dataclass(frozen=True, slots=True)
class _Lasting:
    """An effect that lasts for some time, or until the fault is cleared."""

    seconds: float | None = None

    def __post_init__(self) -> None:
        _require_duration(self.seconds)


@dataclass(frozen=True, slots=True)
class HoldEvents(_Lasting):
    """The watch sends neither events nor bookmarks for a while. They follow later.

    seconds: how long. By default, until the fault is cleared.
    """


@dataclass(frozen=True, slots=True)
class HoldBookmarks(_Lasting):
    """The watch sends no bookmarks for a while.

    seconds: how long. By default, until the fault is cleared.
    If the bookmark at the end of the initial events is held, later events wait for it.
    """


@dataclass(frozen=True, slots=True)
class ExpireToken:
    """The server rejects bearer tokens with 401.

    The argument `times` of the fault counts tokens: with `times=1`, the first token is rejected for good, and
    a new one is accepted.
    """


@dataclass(frozen=True, slots=True)
class NotReady(_Lasting):
    """The endpoint `/readyz` fails.

    seconds: how long. By default, until the fault is cleared.
    """


@dataclass(frozen=True, slots=True)
class RefuseTls(_Lasting):
    """The server refuses TLS handshakes. Existing connections stay open.

    seconds: how long. By default, until the fault has happened `times` times or is cleared.
    """


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
    """Returns whether an effect is for a watch rather than for the request that begins it."""
    if isinstance(effect, CutConnection):
        return effect.moment == "in-event"
    return isinstance(effect, EndWatch | HoldEvents | HoldBookmarks)


def _require_duration(seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds <= DURATION_S_MAX:
        raise InvalidFault("effect.seconds", f"{seconds} is not between 0 and {DURATION_S_MAX:.0f}")


def _require_events(count: int) -> None:
    if not 0 <= count <= EVENTS_MAX:
        raise InvalidFault("effect.after_events", f"{count} is not between 0 and {EVENTS_MAX}")


def text_of(value: Any) -> str:
    """Returns a match or an effect in Python syntax, without defaults."""
    said = ((field.name, getattr(value, field.name), field.default) for field in fields(value))
    shown = ", ".join(f"{name}={found!r}" for name, found, default in said if found != default)
    return f"{type(value).__name__}({shown})"
