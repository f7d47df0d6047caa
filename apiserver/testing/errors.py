"""The errors of servers for tests."""

from __future__ import annotations

from typing import Any


class ServerDidNotStart(Exception):
    """The server cannot start, or was not ready in time.

    reason: why, as text.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server did not start: {reason}")
        self.reason = reason


class ServerStopped(Exception):
    """A method was called while the server was not running.

    asked: the name of the method.
    """

    def __init__(self, asked: str) -> None:
        super().__init__(f"{asked}: the server does not run")
        self.asked = asked


class ClockNotAdvanced(Exception):
    """The clock of the server cannot be advanced by this much, or not at all."""


class SnapshotMismatch(Exception):
    """The server cannot use this snapshot, or cannot take one. The message says why."""


class NotInThisProcess(Exception):
    """A method was called that servers with `in_process=False` do not have.

    asked: the name of the method.
    """

    def __init__(self, asked: str) -> None:
        super().__init__(f"{asked}: this needs a server in this process, without in_process=False")
        self.asked = asked


class RequestFailed(Exception):
    """The server refused a request.

    asked: what the request was for.
    code: the status code of the response.
    status: the Status of the response, or its text if it was not JSON.
    """

    def __init__(self, asked: str, code: int, status: Any) -> None:
        message = status.get("message") if isinstance(status, dict) else status
        super().__init__(f"{asked}: {code} {message}")
        self.asked, self.code, self.status = asked, code, status


class ManifestNotLoaded(Exception):
    """A manifest cannot be loaded. The message contains the file, the line and the server's response.

    place: the file and the line.
    code, status: the status code and the Status of the response; 0 and None if no request was sent.
    """

    def __init__(self, place: str, reason: str, *, code: int = 0, status: Any = None) -> None:
        answered = f"{code} " if code else ""
        super().__init__(f"{place}: {answered}{reason}")
        self.place, self.code, self.status = place, code, status


class UnknownKind(Exception):
    """The server does not serve this kind.

    kind: the kind that was asked for.
    """

    def __init__(self, kind: str, served: list[str]) -> None:
        super().__init__(f"no served resource has the kind {kind!r}; there are {', '.join(served)}")
        self.kind = kind


class NotInTime(AssertionError):
    """A condition did not hold in time. The message shows the last changes of the object."""


class NotQuiet(AssertionError):
    """An object was written although nothing should have changed.

    The message shows the writes and their users.
    """
