"""Servers behind the proxy whose behaviour a test sets, in a thread of their own."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson
import psutil
import pytest
from aiohttp import web

from apiserver.serving import pki
from tests.support.eventually import WITHIN_S

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
    pytest.skip("this machine has no address but loopback")


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


class BackendServer:
    """Listens on all addresses: HTTP at `port`, HTTPS at `tls_port`, and anything at `raw_port`.

    answering: what HTTP requests get. speaking: what connections to `raw_port` get.
    """

    def __init__(self, directory: Path) -> None:
        self.pki = pki.ensure(directory, ["127.0.0.1", "localhost"])
        self.answering: Answering = echo
        self.speaking: Speaking = _hang_up
        self.port = self.tls_port = self.raw_port = 0
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._raw: set[asyncio.StreamWriter] = set()

    def reset(self) -> None:
        self.answering, self.speaking = echo, _hang_up

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(WITHIN_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def tls_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.pki.serving_cert, self.pki.serving_key)
        return context

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        runner = web.ServerRunner(
            web.Server(lambda request: self.answering(request), handler_cancellation=True),
            shutdown_timeout=0.1,
        )
        await runner.setup()
        for context in (None, self.tls_context()):
            site = web.TCPSite(runner, "0.0.0.0", 0, ssl_context=context)
            await site.start()
        self.port, self.tls_port = (address[1] for address in runner.addresses)
        raw = await asyncio.start_server(self._speak, "0.0.0.0", 0)
        self.raw_port = raw.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        raw.close()
        # Closing would wait for clients to take what has been written.
        assert runner.server is not None
        for connection in runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        for writer in self._raw:
            writer.transport.abort()
        await runner.cleanup()

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._raw.add(writer)
        try:
            await self.speaking(reader, writer)
        except ConnectionError:
            pass  # The proxy has hung up, as it should.
        finally:
            writer.close()


async def _hang_up(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    return
