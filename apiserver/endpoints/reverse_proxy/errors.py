"""Errors between this server and a backend, as clients see them."""

from __future__ import annotations

from apiserver.meta.errors import ApiError


class BackendUnreachable(ApiError):
    """A backend cannot be connected to, or does not answer in HTTP."""

    code, reason = 503, "ServiceUnavailable"

    def __init__(self, why: str) -> None:
        super().__init__(f"error trying to reach service: {why}")


class BadGateway(ApiError):
    """A backend responded with something that must not be passed on; as in Kubernetes there is no reason."""

    code, reason = 502, ""

    def __init__(self, why: str) -> None:
        super().__init__(f"error trying to reach service: {why}")


class NoBackend(ApiError):
    """There is currently no backend to send a request to."""

    code, reason = 503, "ServiceUnavailable"


class ForwardingFailed(ApiError):
    """A connection cannot be upgraded, or a kubelet cannot be reached; as in kube-apiserver there is no
    reason.
    """

    code, reason = 500, ""


class BackendRequestFailed(Exception):
    """A request to a backend has failed, with the message of Go's client."""


class AmbiguousAnswer(BackendRequestFailed):
    """A backend responded with headers that different parsers may read differently."""
