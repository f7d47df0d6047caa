"""TLS connections for requests that no HTTP client would send."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.support.eventually import WITHIN_S
from tests.support.server_process import ServerProcess


@contextmanager
def raw_connection(server: ServerProcess) -> Iterator[ssl.SSLSocket]:
    where = urlsplit(server.url)
    context = ssl.create_default_context(cafile=server.ca_path)
    with (
        socket.create_connection((where.hostname, where.port), WITHIN_S) as connection,
        context.wrap_socket(connection, server_hostname=where.hostname) as secured,
    ):
        yield secured


def read_all(connection: ssl.SSLSocket) -> bytes:
    """Read until the server closes the connection."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)
