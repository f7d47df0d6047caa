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
    """The server responds to a request with a Status object that describes an error.

    code: the HTTP status code, from 400 to 599.
    reason: the reason in the Status object. The default is the reason that kube-apiserver sends with the
        given status code.
    message: the message in the Status object.
    retry_after_s: the number of seconds in the `Retry-After` header and in the `details.retryAfterSeconds`
        field.
    after_write: if True, the server carries out the request before it responds with the error.
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
    """The server waits before it handles a request.

    seconds: the length of the delay, in seconds. The delay ends early if the fault is cleared.

    If other faults affect the delayed request, they happen after the delay, even if they were injected
    earlier.
    """

    seconds: float

    def __post_init__(self) -> None:
        _require_duration(self.seconds)


@dataclass(frozen=True, slots=True)
class CutConnection:
    """The server closes a connection without sending a response, or in the middle of a response.

    moment: when the server closes the connection. With `before-write`, the server closes the connection
        before it carries out the request. With `after-write`, the server closes the connection after it has
        carried out the request. With `in-event`, the server closes a watch's connection in the middle of an
        event.
    after_events: the number of complete events that the server sends to a watch before it closes the
        connection. For a watch that is already open, the count starts when the fault is injected.
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
    """The server ends a watch with a 410 Expired error.

    silently: if True, the watch ends without an error, just as it does when it times out.
    after_events: the number of events that the server sends to the watch before the watch ends. For a watch
        that is already open, the count starts when the fault is injected.
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
    """The server delays all of a watch's events and bookmarks.

    seconds: the duration of the fault, in seconds. By default, the fault lasts until it is cleared.
    """


@dataclass(frozen=True, slots=True)
class HoldBookmarks(_Lasting):
    """The server sends no bookmarks to a watch while the fault lasts.

    seconds: the duration of the fault, in seconds. By default, the fault lasts until it is cleared.

    If the fault delays the bookmark at the end of a watch's initial events, the server sends later events
    only after this bookmark.
    """


@dataclass(frozen=True, slots=True)
class ExpireToken:
    """The server rejects bearer tokens with status code 401.

    For an `ExpireToken` fault, the `times` argument of `Faults.inject()` is the maximum number of rejected
    tokens. With `times=1`, the server permanently rejects the first token that it receives, and accepts all
    other tokens.
    """


@dataclass(frozen=True, slots=True)
class NotReady(_Lasting):
    """The `/readyz` endpoint returns an error.

    seconds: the duration of the fault, in seconds. By default, the fault lasts until it is cleared.
    """


@dataclass(frozen=True, slots=True)
class RefuseTls(_Lasting):
    """The server refuses TLS handshakes. Existing connections stay open.

    seconds: the duration of the fault, in seconds. By default, the fault lasts until it is cleared or has
        happened as many times as the `times` argument of `Faults.inject()` allows.
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
