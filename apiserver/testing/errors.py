"""What can go wrong with a server for tests.

ServerDidNotStart      the server cannot start, or was not ready in time
ServerStopped          something was asked of a server that does not run
SnapshotMismatch       a snapshot is not one that this server can begin with, or none can be taken
NotInThisProcess       something was asked that only a server in this process can do
ManifestNotLoaded      a definition or manifest does not load
UnknownKind            nothing that is served has a kind
NotInTime              an object was not as it should be in time (an AssertionError)
NotQuiet               something was written where nothing should have been (an AssertionError)
RequestFailed          the server refused something that this package asked it for
"""

from __future__ import annotations

from typing import Any


class ServerDidNotStart(Exception):
    """The server cannot start, or was not ready in time. reason: why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server did not start: {reason}")
        self.reason = reason


class ServerStopped(Exception):
    """Something was asked of a server that does not run."""

    def __init__(self, asked: str) -> None:
        super().__init__(f"{asked}: the server does not run")
        self.asked = asked


class ClockNotAdvanced(Exception):
    """The clock of a server cannot be put to the time that was asked for."""


class SnapshotMismatch(Exception):
    """A snapshot is not one that this server can begin with, or none can be taken. The message says why."""


class NotInThisProcess(Exception):
    """Something was asked of a server in a child process that only one in this process can do."""

    def __init__(self, asked: str) -> None:
        super().__init__(f"{asked}: this needs a server in this process, without in_process=False")
        self.asked = asked


class RequestFailed(Exception):
    """The server refused a request. status: the Status that it answered, or the text, if it was none."""

    def __init__(self, asked: str, code: int, status: Any) -> None:
        message = status.get("message") if isinstance(status, dict) else status
        super().__init__(f"{asked}: {code} {message}")
        self.asked, self.code, self.status = asked, code, status


class ManifestNotLoaded(Exception):
    """A definition or manifest does not load. The message has the file and the line.

    code, status: what the server answered, if it was asked.
    """

    def __init__(self, place: str, reason: str, *, code: int = 0, status: Any = None) -> None:
        answered = f"{code} " if code else ""
        super().__init__(f"{place}: {answered}{reason}")
        self.place, self.code, self.status = place, code, status


class UnknownKind(Exception):
    """Nothing that is served has a kind."""

    def __init__(self, kind: str, served: list[str]) -> None:
        super().__init__(f"nothing that is served is a {kind!r}; there are {', '.join(served)}")
        self.kind = kind


class NotInTime(AssertionError):
    """An object was not as it should be in time. The message tells of its last changes."""


class NotQuiet(AssertionError):
    """Something was written where nothing should have been. The message tells what, and by whom."""
