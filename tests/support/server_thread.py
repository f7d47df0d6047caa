"""Servers in the process of the tests, each in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from apiserver.app.serving import pki
from tests.support.eventually import WITHIN_S


class ServerThread:
    """Serves as long as it is entered: `open` and `close` are called in its loop.

    pki: an authority of its own, and the certificate that it presents.
    """

    def __init__(self, directory: Path, *names: str) -> None:
        self.pki = pki.ensure(directory, ["127.0.0.1", "localhost", *names])
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    async def open(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """Must abort connections: to close one waits for the other side, and the loop ends before that."""
        raise NotImplementedError

    def call(self, act: Callable[[], object]) -> None:
        """Have something called in its loop."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(act)

    def tls_context(self, client_ca: Path | None = None) -> ssl.SSLContext:
        """client_ca: who has signed the certificates that clients may present."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
        context.load_cert_chain(self.pki.serving_cert, self.pki.serving_key)
        return context

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(WITHIN_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stopping is not None
        self.call(self._stopping.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        await self.open()
        self._started.set()
        await self._stopping.wait()
        await self.close()


async def end(runner: web.ServerRunner) -> None:
    """End a server of aiohttp with all its connections."""
    assert runner.server is not None
    for connection in runner.server.connections:
        if connection.transport is not None:
            connection.transport.abort()
    await runner.cleanup()
