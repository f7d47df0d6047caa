"""What can go wrong when a webhook is called. Messages are for the client."""

from __future__ import annotations


class CallFailed(Exception):
    """A webhook cannot be reached, or has not answered with a document.

    is_transient: another attempt may have success. is_timeout: it has not answered in time.
    """

    def __init__(self, message: str, *, is_transient: bool = False, is_timeout: bool = False) -> None:
        super().__init__(message)
        self.is_timeout = is_timeout
        self.is_transient = is_transient


class ServiceUnreachable(OSError):
    """The Service that a webhook names does not exist, or nothing that is ready is behind it."""
