"""Errors of calls of webhooks, with messages for the client."""

from __future__ import annotations


class CallFailed(Exception):
    """A webhook cannot be reached, or its response has no document.

    is_transient: whether another attempt may succeed. is_timeout: whether there was no response in time.
    """

    def __init__(self, message: str, *, is_transient: bool = False, is_timeout: bool = False) -> None:
        super().__init__(message)
        self.is_timeout = is_timeout
        self.is_transient = is_transient


class ServiceUnreachable(OSError):
    """The Service that a webhook names does not exist, or has no ready endpoint."""
