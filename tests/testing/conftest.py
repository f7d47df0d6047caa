"""A server in the process of the tests with a fork of it for each test, and a port that answers."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest

from apiserver.testing import ApiServer


@pytest.fixture(scope="module")
def original() -> Iterator[ApiServer]:
    """What the tests of a module fork. Modules whose servers need more have one of their own."""
    with ApiServer() as server:
        yield server


@pytest.fixture
def server(original: ApiServer) -> Iterator[ApiServer]:
    with original.fork() as fork:
        yield fork


class _Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets, in upper case, until there is no more."""

    def handle(self) -> None:
        while data := self.request.recv(65_536):
            self.request.sendall(data.upper())


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as listening:
        listening.daemon_threads = True
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening.server_address[1]
        listening.shutdown()
