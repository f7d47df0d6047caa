"""Servers behind the proxy whose behaviour a test sets, in a thread of their own."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import psutil
import pytest
from aiohttp import web

from tests.support.server_thread import ServerThread, end

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Speaking = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def own_address() -> str:
    """Returns an address of this machine that no pod is denied: loopback and link-local ones are."""
    for interface in psutil.net_if_addrs().values():
        for each in interface:
            if each.family == socket.AF_INET:
                address = ipaddress.ip_address(each.address)
                if not (address.is_loopback or address.is_link_local):
                    return each.address
    pytest.skip("this machine has no IPv4 address but loopback: give an interface one")


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    """Answers with what has been asked."""
    body = b"".join([piece async for piece in request.content.iter_any()])
    shown = {
        "method": request.method,
        "target": request.raw_path,
        "headers": [[name.lower(), value] for name, value in request.headers.items()],
        "body": body.decode("latin-1"),
    }
    return web.Response(body=orjson.dumps(shown), content_type="application/json")


class BackendServer(ServerThread):
    """Listens on all addresses: HTTP at `port`, HTTPS at `tls_port`, and anything at `raw_port`.

    answering: what HTTP requests get. speaking: what connections to `raw_port` get.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.answering: Answering = echo
        self.speaking: Speaking = _hang_up
        self.port = self.tls_port = self.raw_port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    def reset(self) -> None:
        self.answering, self.speaking = echo, _hang_up

    async def open(self) -> None:
        answering = web.Server(lambda request: self.answering(request), handler_cancellation=True)
        self._runner = web.ServerRunner(answering, shutdown_timeout=0.1)
        await self._runner.setup()
        for context in (None, self.tls_context()):
            await web.TCPSite(self._runner, "0.0.0.0", 0, ssl_context=context).start()
        self.port, self.tls_port = (address[1] for address in self._runner.addresses)
        self._raw = await asyncio.start_server(self._speak, "0.0.0.0", 0)
        self.raw_port = self._raw.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._raw.close()
        for writer in self._writers:
            writer.transport.abort()
        await end(self._runner)

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self.speaking(reader, writer)
        except ConnectionError:
            pass  # The proxy has hung up, as it should.
        finally:
            writer.close()


async def _hang_up(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    return
