"""Connections that are upgraded to SPDY, beneath aiohttp's server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

from aiohttp import hdrs, web
from aiohttp.http_websocket import WebSocketReader

from apiserver.testkit.simulation.kubelet_server.requests import PROTOCOL_HEADER
from apiserver.testkit.simulation.kubelet_server.spdy import SpdySession

_UNREAD_BYTES_MAX: Final = 64 * 1024


@asynccontextmanager
async def upgraded(
    request: web.BaseRequest, protocol: str
) -> AsyncIterator[tuple[web.StreamResponse, SpdySession]]:
    """Upgrades a connection, which ends afterwards."""
    headers = {hdrs.CONNECTION: hdrs.UPGRADE, hdrs.UPGRADE: "SPDY/3.1", PROTOCOL_HEADER: protocol}
    response = web.StreamResponse(status=101, headers=headers)
    response.force_close()
    reader = asyncio.StreamReader(limit=_UNREAD_BYTES_MAX)
    if request.transport is None:
        raise ConnectionResetError("the client is gone")
    reader.set_transport(request.transport)
    # aiohttp asks no more of what reads its WebSockets.
    request.protocol.set_parser(cast(WebSocketReader, _SpdyParser(reader)))
    await response.prepare(request)
    yield response, SpdySession(reader, response.write)


class _SpdyParser:
    """Passes on what a client sends, in the place of aiohttp's parser of requests."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()
