"""Simulates network faults: a TCP proxy in front of one port of this machine."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

PIECE_BYTES: Final = 65_536


class Proxy:
    """Forwards bytes both directions, with the faults that are asked for until `heal`."""

    def __init__(self, url: str) -> None:
        """url: the address of the server behind it."""
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port
        self._listener: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_cut = False
        self._delay_s = 0.0
        self._bytes_left: int | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        await self._end_connections()

    # ---- faults

    async def cut(self) -> None:
        """End every connection, and each new one at once."""
        self._is_cut = True
        await self._end_connections()

    def stall(self) -> None:
        """Hold back all bytes; connections stay."""
        self._flows.clear()

    def delay(self, delay_s: float) -> None:
        """Delay every piece of data."""
        self._delay_s = delay_s

    def cut_after(self, count: int) -> None:
        """End all connections after `count` more bytes from the server; new ones work."""
        self._bytes_left = count

    def heal(self) -> None:
        self._is_cut, self._delay_s, self._bytes_left = False, 0.0, None
        self._flows.set()

    # ---- internals

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if not self._is_cut:
                await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # Either end may close at any time; a task that cancels this one waits for it.
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(self._host, self._port)
        directions = [
            asyncio.ensure_future(self._forward(reader, to_server)),
            asyncio.ensure_future(self._forward(from_server, writer, counts=True)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            to_server.transport.abort()

    async def _forward(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, counts: bool = False
    ) -> None:
        while piece := await source.read(PIECE_BYTES):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._flows.wait()
            if counts and self._bytes_left is not None:
                self._bytes_left -= len(piece)
                if self._bytes_left < 0:
                    target.write(piece[: self._bytes_left])
                    with contextlib.suppress(OSError):
                        await target.drain()
                    self._bytes_left = None
                    for other in self._connections:
                        other.cancel()
                    return
            target.write(piece)
            await target.drain()

    async def _end_connections(self) -> None:
        ending = list(self._connections)
        for connection in ending:
            connection.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
