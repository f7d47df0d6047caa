"""Webhooks whose behaviour a test sets, served over HTTPS from a thread of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from tests.support.https_server import HttpsServer

Review = dict[str, Any]
# What is answered: a document, bytes as they are, or a whole response.
Reply = Review | bytes | web.StreamResponse


class WebhookServer(HttpsServer):
    """The server. answering: (path, review) -> what is answered. headers: of the last request."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.answering: Callable[[str, Review], Awaitable[Reply]] = self.answer
        self.headers: Mapping[str, str] = {}

    async def answer(self, path: str, review: Review) -> Reply:
        raise NotImplementedError

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
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
