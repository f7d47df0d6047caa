"""Handles subresources that connect to a node (logs, exec, port-forward, proxy): there is none."""

from __future__ import annotations

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.errors import ApiError
from apiserver.registry.store import Registry
from storage.interface import MOST_RECENT


class NoNode(ApiError):
    """Only a node could answer the request, and this server has no nodes."""

    code, reason = 501, "NotImplemented"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is not implemented by this server: it keeps objects, and there is no node behind it to "
            "connect to"
        )


def connect_handler(registry: Registry) -> Handler:
    """Returns a handler of any verb, which refuses to connect once it has found the object."""

    async def connect(call: ApiCall) -> None:
        info = call.info
        assert call.resource is not None
        await registry.get(call.resource, info.namespace, info.name, MOST_RECENT)
        raise NoNode(f"{info.resource}/{info.subresource}")

    return connect
