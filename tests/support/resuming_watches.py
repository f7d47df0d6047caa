"""Many watches that continue where they ended, each time with the next of several servers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from tests.support.server_process import ServerProcess

# Between a connection that was refused and the next attempt, as a client that retries at once would.
RETRY_S = 0.1


class ResumingWatches:
    """Watches of one collection, spread by turns over the servers that accept connections.

    servers: may change. count: of watches.
    open: how many watches each server has, by its URL. errors: of connections, by URLs.
    failed: the codes of watches that could not continue, as 410, after which a client lists everything.
    seen: names of objects, and how many watches have had their ADDED event.
    """

    def __init__(self, servers: Sequence[ServerProcess], path: str, version: str, count: int) -> None:
        self.servers, self._path, self._version, self.count = servers, path, version, count
        self._turns = itertools.count()
        self._tls = ssl.create_default_context(cafile=servers[0].ca_path)
        self._tasks: list[asyncio.Task[None]] = []
        self.open: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._follow()) for _ in range(self.count)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def open_count(self) -> int:
        return self.open.total()

    async def _follow(self) -> None:
        version = self._version
        while True:
            server = self.servers[next(self._turns) % len(self.servers)]
            try:
                version = await self._watch(server, version)
            except (OSError, asyncio.IncompleteReadError):
                self.errors[server.url] += 1
                await asyncio.sleep(RETRY_S)

    async def _watch(self, server: ServerProcess, version: str) -> str:
        """Watch after a version until the watch ends. Returns the version of its last event."""
        where = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port, ssl=self._tls)
        is_open = False
        try:
            writer.write(
                f"GET {self._path}?watch=1&allowWatchBookmarks=1&resourceVersion={version} HTTP/1.1\r\n"
                "Host: x\r\nAuthorization: Bearer admin-token\r\n\r\n".encode()
            )
            status = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
            if status != "200":
                self.failed[status] += 1
                return version
            is_open = True
            self.open[server.url] += 1
            while size := int(await reader.readline() or b"0", 16):
                for line in (await reader.readexactly(size + 2)).splitlines():
                    if line:
                        version = self._take(orjson.loads(line), version)
            return version
        except (OSError, asyncio.IncompleteReadError):
            # It broke. What arrived before counts.
            return version
        finally:
            if is_open:
                self.open[server.url] -= 1
            with contextlib.suppress(OSError, ssl.SSLError):
                writer.close()

    def _take(self, event: Any, version: str) -> str:
        found = event["object"]
        if event["type"] == "ERROR":
            self.failed[str(found["code"])] += 1
            return version
        if event["type"] == "ADDED":
            self.seen[found["metadata"]["name"]] += 1
        return str(found["metadata"]["resourceVersion"])
