"""The server of simulated kubelets, by itself: its bounds, and clients that break the rules."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import orjson
import pytest

from apiserver.endpoints.reverse_proxy.backends import BackendConnector
from apiserver.endpoints.reverse_proxy.spdy import (
    FIN,
    GOAWAY,
    PING,
    RST_STREAM,
    SYN_STREAM,
    control_frame,
    data_frame,
)
from apiserver.registry.clock import Clock
from apiserver.registry.served_resource import ServedTable
from apiserver.storage.embedded import EmbeddedStore
from apiserver.testkit.simulation.kubelet_server.server import SimulatedKubelets
from apiserver.testkit.simulation.stages import NODE_ANNOTATION
from tests.support.eventually import WITHIN_S, eventually
from tests.support.in_process import TABLE, resource, server
from tests.unit.testkit.simulation.pods import NOW_S, pod

POD: Final = resource("pods", "")
RUNNING: Final = {"name": "c", "restartCount": 0, "state": {"running": {"startedAt": "2023-11-14T22:13:20Z"}}}
UPGRADE: Final = (
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
)
EXEC: Final = "POST /exec/default/p/c?command=cat&input=1&output=1"


class Client:
    """A connection to a kubelet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, line: str, headers: str = "") -> int:
        """Returns the status."""
        self.writer.write(f"{line} HTTP/1.1\r\nHost: h\r\n{headers}\r\n".encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ")[1])


@asynccontextmanager
async def connected(kubelets: SimulatedKubelets, node: str = "simulated-0") -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(sock=await kubelets.connect(node))
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def kubelets_of(store: EmbeddedStore, **limits: int) -> AsyncIterator[SimulatedKubelets]:
    """The kubelets of a cluster with a pod."""
    found = pod(annotations={"log": "one\n"})
    found["status"] |= {"phase": "Running", "containerStatuses": [RUNNING]}
    value = orjson.dumps({"apiVersion": "v1", "kind": "Pod", **found})
    clock = Clock(time=lambda: NOW_S)
    async with server(store) as registry:
        await store.create(registry.key(POD, "default", "p"), value)
        kubelets = SimulatedKubelets(registry, ServedTable(TABLE), (), clock, BackendConnector(), **limits)
        try:
            yield kubelets
        finally:
            await kubelets.close()


async def test_requests_are_bounded(store: EmbeddedStore) -> None:
    async with kubelets_of(store, requests_max=1) as kubelets:

        async def ask(line: str, headers: str = "") -> int:
            async with connected(kubelets) as client:
                return await client.ask(line, headers)

        async with connected(kubelets) as client:
            assert await client.ask("GET /containerLogs/default/p/c?follow=true") == 200
            assert await ask("GET /containerLogs/default/p/c") == 429
            assert await ask(EXEC, UPGRADE) == 429
        async with asyncio.timeout(WITHIN_S):
            while await ask("GET /healthz") != 200:
                await asyncio.sleep(0)


async def test_which_nodes_are_served(store: EmbeddedStore) -> None:
    async with kubelets_of(store) as kubelets:
        ours = {"metadata": {"name": "n", "annotations": {NODE_ANNOTATION: "true"}}}
        assert kubelets.serves(ours)
        assert not kubelets.serves({"metadata": {"name": "simulated-0"}})


BAD_OPTIONS: Final = {"lines": "tailLines=many", "a time": "sinceTime=yesterday", "a stream": "stream=stdout"}


@pytest.mark.parametrize("query", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
async def test_options_that_no_api_server_has_checked(store: EmbeddedStore, query: str) -> None:
    async with kubelets_of(store) as kubelets, connected(kubelets) as client:
        assert await client.ask(f"GET /containerLogs/default/p/c?{query}") == 400


def syn_stream(number: int, block: bytes = b"") -> bytes:
    return control_frame(SYN_STREAM, struct.pack(">IIxx", number, 0) + block)


# What a client sends once its connection is upgraded.
RULES_BROKEN: Final = {
    "no SPDY": b"GET / HTTP/1.1\r\n\r\n",
    "no headers": syn_stream(1),
    "headers that are not compressed": syn_stream(1, b"\0\0\0\1"),
    "a stream without a number": control_frame(SYN_STREAM, b""),
    "the end of no stream": control_frame(RST_STREAM, b"") + control_frame(GOAWAY, bytes(8)),
    "a long frame": (0xFF_FFFF).to_bytes(8, "big"),
    "it leaves": control_frame(GOAWAY, bytes(8)),
}


@pytest.mark.parametrize("data", RULES_BROKEN.values(), ids=RULES_BROKEN)
async def test_a_client_that_breaks_the_rules_is_hung_up_on(store: EmbeddedStore, data: bytes) -> None:
    async with kubelets_of(store) as kubelets, connected(kubelets) as client:
        assert await client.ask(EXEC, UPGRADE) == 101
        client.writer.write(data)
        async with asyncio.timeout(WITHIN_S):
            await client.reader.read()


async def test_data_of_no_stream_is_dropped_and_pings_come_back(store: EmbeddedStore) -> None:
    async with kubelets_of(store) as kubelets, connected(kubelets) as client:
        assert await client.ask(EXEC, UPGRADE) == 101
        client.writer.write(data_frame(99, b"data") + data_frame(99, b"", is_last=bool(FIN)))
        ping = control_frame(PING, b"\0\0\0\1")
        client.writer.write(ping)
        async with asyncio.timeout(WITHIN_S):
            assert await client.reader.readexactly(len(ping)) == ping


async def test_nothing_is_left_of_a_client_that_has_left(store: EmbeddedStore) -> None:
    async with kubelets_of(store) as kubelets:
        before = len(asyncio.all_tasks())
        async with connected(kubelets) as client:
            assert await client.ask("GET /containerLogs/default/p/c?follow=true") == 200
            assert len(asyncio.all_tasks()) > before
        await eventually(lambda: len(asyncio.all_tasks()) <= before)
