"""What can go wrong between this server and a backend, as clients are told."""

from __future__ import annotations

from apiserver.meta.errors import ApiError


class BackendUnreachable(ApiError):
    """A backend cannot be connected to, or does not answer in HTTP."""

    code, reason = 503, "ServiceUnavailable"

    def __init__(self, why: str) -> None:
        super().__init__(f"error trying to reach service: {why}")


class BadGateway(ApiError):
    """A backend has answered what must not be passed on. There is no reason for that in Kubernetes."""

    code, reason = 502, ""

    def __init__(self, why: str) -> None:
        super().__init__(f"error trying to reach service: {why}")


class NoBackend(ApiError):
    """There is nowhere to send a request to now."""

    code, reason = 503, "ServiceUnavailable"


class ForwardingFailed(ApiError):
    """A connection cannot be upgraded, or a kubelet not be asked. As in kube-apiserver there is no reason."""

    code, reason = 500, ""


class BackendRequestFailed(Exception):
    """A request to a backend has failed. The message is that of Go's client."""


class AmbiguousAnswer(BackendRequestFailed):
    """A backend has answered with headers that different readers may understand differently."""
