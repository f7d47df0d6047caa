"""Kubelets in this process, and the connections to them."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Protocol

import aiohttp
from aiohttp.client_proto import ResponseHandler

from apiserver.meta.vocabulary import Document

if TYPE_CHECKING:
    from aiohttp.tracing import Trace


class InProcessKubelets(Protocol):
    """The simulated kubelets of some nodes, which are reached over connections within the process.

    serves: whether the kubelet of a node is one of them.
    connect: returns the client's end of a new connection to the kubelet of a node. Raises OSError.
    """

    def serves(self, node: Document) -> bool: ...

    async def connect(self, node: str) -> socket.socket: ...

    async def close(self) -> None: ...


class InProcessConnector(aiohttp.BaseConnector):
    """Connects aiohttp's client to in-process kubelets; the host of a URL is the name of a node."""

    def __init__(self, kubelets: InProcessKubelets) -> None:
        super().__init__(force_close=True, limit=0)
        self._kubelets = kubelets

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        end = await self._kubelets.connect(req.url.raw_host or "")
        _, protocol = await asyncio.get_running_loop().create_connection(self._factory, sock=end)
        return protocol
