"""Many clients at once: all are served, memory is bounded, and no client delays the others."""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

import psutil
import pytest

from tests.support.api import Api
from tests.support.bystander import Bystander
from tests.support.eventually import eventually
from tests.support.server_process import ServerProcess

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
WATCHERS: Final = 5_000
EVENTS: Final = 20
LISTERS: Final = 300
LISTED: Final = 2_000
# Handshakes under way at a time; a thousand would be the test's load, not the server's.
OPENING_MAX: Final = 100


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < WATCHERS + 500:
        pytest.skip(
            f"{hard} files may be open; {WATCHERS + 500} are needed: raise the hard limit (ulimit -Hn)"
        )
    # The server takes what it may have by itself; it starts with what a login shell has.
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
    try:
        process = ServerProcess(tmp_path / "data").start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield process
    finally:
        process.kill()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Client(asyncio.Protocol):
    """A client that sends one GET and counts the occurrences of a text in the response."""

    def __init__(self, target: str, needle: bytes) -> None:
        self._target, self._needle = target, needle
        self._rest = b""
        self._has_head = False
        self.count = 0
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        head = f"GET {self._target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n"
        self.transport.write(f"{head}Connection: close\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if not self._has_head:
            head, mark, rest = data.partition(b"\r\n\r\n")
            if not mark:
                self._rest = data
                return
            assert head.startswith(b"HTTP/1.1 200 "), head
            self._has_head, data = True, rest
            self.began.set_result(None)
        self.count += data.count(self._needle)
        self._rest = data[-len(self._needle) + 1 :] if not data.endswith(self._needle) else b""

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.began, self.ended):
            if not future.done():
                future.set_result(None)


async def open_all(server: ServerProcess, target: str, needle: bytes, count: int) -> list[Client]:
    where, context = urlsplit(server.url), ssl.create_default_context(cafile=server.ca_path)
    opening = asyncio.Semaphore(OPENING_MAX)
    assert where.hostname is not None
    host, port = where.hostname, where.port or 443

    async def one() -> Client:
        async with opening:
            _, client = await asyncio.get_running_loop().create_connection(
                lambda: Client(target, needle), host, port, ssl=context
            )
            return client

    clients = await asyncio.gather(*(one() for _ in range(count)))
    await asyncio.gather(*(client.began for client in clients))
    return clients


@pytest.mark.slow
@pytest.mark.longest
async def test_five_thousand_watchers_of_one_type(server: ServerProcess) -> None:
    """Each gets every event; the memory that a watcher takes is that of its connection."""
    api = Api(server)
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    watchers = await open_all(server, f"{CONFIGMAPS}?watch=1", b'"type":"ADDED"', WATCHERS)
    each = (process.memory_info().rss - before) / WATCHERS
    assert each < 120_000, f"{each:,.0f} bytes for each"
    began = server.cpu_s
    for number in range(EVENTS):
        made = await asyncio.to_thread(api.post, CONFIGMAPS, {"metadata": {"name": f"c{number}"}})
        assert made.status == 201
    await eventually(lambda: min(watcher.count for watcher in watchers) == EVENTS)
    assert max(watcher.count for watcher in watchers) == EVENTS
    assert server.cpu_s - began < 30
    assert (await asyncio.to_thread(api.get, "/readyz")).status == 200
    for watcher in watchers:
        watcher.transport.abort()
    none = b'resource="configmaps",scope="namespace",subresource="",verb="WATCH",version="v1"} 0\n'
    await eventually(lambda: none in api.get("/metrics").body)
    api.close()


@pytest.mark.slow
async def test_a_crowd_that_lists_again(server: ServerProcess) -> None:
    """After a break everybody lists at once: each has everything, and memory does not grow with the crowd."""
    api = Api(server)
    for number in range(LISTED):
        api.post(CONFIGMAPS, {"metadata": {"name": f"c{number:05}"}, "data": {"k": "x" * 900}}).ok()
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    with Bystander(server) as bystander:
        listers = await open_all(server, CONFIGMAPS, b'{"metadata":{', LISTERS)
        await asyncio.gather(*(lister.ended for lister in listers))
    assert {lister.count for lister in listers} == {LISTED}
    assert process.memory_info().rss - before < 150_000_000
    assert bystander.waited_s < 0.5
    api.close()
