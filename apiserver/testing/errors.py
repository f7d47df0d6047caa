"""The errors of servers for tests."""

from __future__ import annotations

from typing import Any


class ServerDidNotStart(Exception):
    """The server could not start, or did not become ready in time.

    reason: the reason for the failure, as text.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server did not start: {reason}")
        self.reason = reason


class ServerStopped(Exception):
    """A method was called while the server was not running.

    asked: the name of the called method.
    reason: the error that stopped the server. Empty if the server was stopped, or was never started.
    """

    def __init__(self, asked: str, reason: str = "") -> None:
        why = f", because it has failed: {reason}" if reason else ""
        super().__init__(f"{asked}: the server is not running{why}")
        self.asked, self.reason = asked, reason


class ClockNotAdvanced(Exception):
    """The server's clock cannot be advanced by the given time, or cannot be advanced at all."""


class SnapshotMismatch(Exception):
    """The server cannot create or use a snapshot. The error message contains the reason."""


class NotInThisProcess(Exception):
    """The called method is not available for servers with `in_process=False`.

    asked: the name of the called method.
    """

    def __init__(self, asked: str) -> None:
        super().__init__(f"{asked}: not available for a server with in_process=False")
        self.asked = asked


class RequestFailed(Exception):
    """The server rejected a request.

    asked: the purpose of the request.
    code: the status code of the response.
    status: the Status object in the response body, or the response body as text if the body is not JSON.
    """

    def __init__(self, asked: str, code: int, status: Any) -> None:
        message = status.get("message") if isinstance(status, dict) else status
        super().__init__(f"{asked}: {code} {message}")
        self.asked, self.code, self.status = asked, code, status


class ManifestNotLoaded(Exception):
    """A manifest could not be loaded. The error message contains the file, the line and the server's
    response.

    place: the manifest's file and line.
    code, status: the response's status code and Status object. If no request was sent, `code` is 0 and
        `status` is None.
    """

    def __init__(self, place: str, reason: str, *, code: int = 0, status: Any = None) -> None:
        answered = f"{code} " if code else ""
        super().__init__(f"{place}: {answered}{reason}")
        self.place, self.code, self.status = place, code, status


class UnknownKind(Exception):
    """The server does not serve the requested kind.

    kind: the requested kind.
    """

    def __init__(self, kind: str, served: list[str]) -> None:
        super().__init__(f"the server does not serve the kind {kind!r}; it serves {', '.join(served)}")
        self.kind = kind


class NotInTime(AssertionError):
    """An object did not meet a condition before the timeout. The error message shows the object's most
    recent changes.
    """


class NotQuiet(AssertionError):
    """An object was written although the test expected no writes. The error message shows the writes and the
    users who made them.
    """
