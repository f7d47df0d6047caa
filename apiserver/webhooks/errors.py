"""What can go wrong when a webhook is called. Messages are for the client."""

from __future__ import annotations


class CallFailed(Exception):
    """A webhook cannot be reached, or has not answered with a document."""


class ServiceUnreachable(OSError):
    """The Service that a webhook names does not exist, or nothing that is ready is behind it."""
