"""Webhooks whose behaviour a test sets, served over HTTPS from a thread of their own."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web

from apiserver.serving import pki
from tests.support.eventually import WITHIN_S

Review = dict[str, Any]
# What is answered: a document, bytes as they are, or a whole response.
Reply = Review | bytes | web.StreamResponse


class WebhookServer:
    """The server. answering: (path, review) -> what is answered. headers: of the last request."""

    def __init__(self, directory: Path) -> None:
        self.pki = pki.ensure(directory, ["127.0.0.1", "localhost", "*.default.svc"])
        self.answering: Callable[[str, Review], Awaitable[Reply]] = self.answer
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self.port = 0
        self.headers: Mapping[str, str] = {}

    async def answer(self, path: str, review: Review) -> Reply:
        raise NotImplementedError

    @property
    def ca_bundle(self) -> str:
        """What trusts it, as a `clientConfig` has it."""
        return base64.b64encode(self.pki.ca_cert.read_bytes()).decode()

    @property
    def serving_certificate(self) -> bytes:
        """The certificate that it presents, in PEM, without that of its authority."""
        return self.pki.serving_cert.read_bytes()

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

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.pki.serving_cert, self.pki.serving_key)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        assert runner.addresses
        self.port = runner.addresses[0][1]
        self._started.set()
        await self._stopping.wait()
        # Closing would wait for the other side, and the loop ends before that.
        assert runner.server is not None
        for connection in runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.headers = request.headers
        # Not `read`, which takes a megabyte at most.
        body = b"".join([piece async for piece in request.content.iter_any()])
        reply = await self.answering(request.path_qs, orjson.loads(body))
        if isinstance(reply, web.StreamResponse):
            return reply
        answer = reply if isinstance(reply, bytes) else orjson.dumps(reply)
        response = web.Response(body=answer, content_type="application/json")
        # So that none is open when the loop ends.
        response.force_close()
        return response
