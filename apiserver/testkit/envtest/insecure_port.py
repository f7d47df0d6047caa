"""An insecure port: HTTP without credentials on a loopback address, as kube-apiserver had until 1.19.

Every byte is forwarded to the secure port of a server in the same process, on a connection with the
administrator's certificate. So requests, watches and upgrades are the same as there, and the server itself
needs no insecure port.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from apiserver.cli.api_client import tls_context
from apiserver.webhooks.kubeconfig import read_kubeconfig

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 64 * 1024
LOOPBACK: Final = "127.0.0.1"


class NotLoopback(ValueError):
    """The address of an insecure port is not a loopback address; the message is one line."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"--insecure-bind-address: {address} is not a loopback address, "
            "but all clients of this port are administrators"
        )


class InsecurePort:
    """An insecure port on one address. Raises NotLoopback."""

    def __init__(self, address: str, port: int) -> None:
        try:
            is_loopback = ipaddress.ip_address(address).is_loopback
        except ValueError:
            is_loopback = address == "localhost"
        if not is_loopback:
            raise NotLoopback(address)
        self._address = (LOOPBACK if address == "localhost" else address), port
        self._socket: socket.socket | None = None

    def bind(self) -> None:
        """Bind the port, to which no client can connect before it is served. Raises OSError."""
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self._socket = bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(self._address)
        except OSError:
            bound.close()
            raise

    async def serve(self, server: str, kubeconfig: Path) -> None:
        """Forward connections until cancelled, once the port is bound. server: the URL of the secure port."""
        cluster, credentials = read_kubeconfig(kubeconfig, Path.read_bytes).current()
        context = tls_context(cluster, credentials)
        where = urlsplit(server)
        assert where.hostname is not None
        assert where.port is not None
        host, port = where.hostname, where.port

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                try:
                    far_reader, far_writer = await asyncio.open_connection(host, port, ssl=context)
                except (OSError, ssl.SSLError) as error:
                    log.warning("cannot forward a connection to the insecure port: %s", error)
                    return
                with contextlib.closing(far_writer):
                    await _copy_both_ways((reader, writer), (far_reader, far_writer))

        listening = await asyncio.start_server(relay, sock=self._socket)
        async with listening:
            await listening.serve_forever()


async def _copy_both_ways(
    near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Copy until one side ends, since TLS in between allows no half-closed connections."""
    copying = [
        asyncio.create_task(_copy(source, sink)) for source, sink in ((near[0], far[1]), (far[0], near[1]))
    ]
    try:
        await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(CHUNK_BYTES):
        sink.write(chunk)
        await sink.drain()
