"""Logs, terminals, ports and proxies: a node has them, and this server has no nodes to ask."""

from __future__ import annotations

from apiserver.endpoints.api_call import Call, Handler
from apiserver.errors import ApiError
from apiserver.registry.store import Registry
from storage.interface import MOST_RECENT


class NoNode(ApiError):
    code, reason = 501, "NotImplemented"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is not implemented by this server: it keeps objects, and there is no node behind it to "
            "connect to"
        )


def connect_handler(registry: Registry) -> Handler:
    """Any verb, once the object is found to be there."""

    async def connect(call: Call) -> None:
        info = call.info
        assert call.resource is not None
        await registry.get(call.resource, info.namespace, info.name, MOST_RECENT)
        raise NoNode(f"{info.resource}/{info.subresource}")

    return connect
