"""Answers that nobody reads: what they cost, how soon they are dropped, and that others are served."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil
import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Api, until_status
from tests.support.eventually import WITHIN_S, until
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
OBJECTS: Final = 5_000
# More than there are slots for reads.
UNREAD: Final = 403
# So small that what a client does not read waits in the server.
WINDOW_BYTES: Final = 4_096
PEAK_BYTES: Final = 250_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with some megabytes in one collection."""
    with ServerProcess(tmp_path_factory.mktemp("unread")) as server, Api(server) as api:
        for number in range(OBJECTS):
            data = {"metadata": {"name": f"c{number}"}, "data": {"k": "x" * 700}}
            api.post(CONFIG_MAPS, data).ok()
        yield server


@pytest.fixture
def admin(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        api.get("/openapi/v2").ok()
        yield api


class Clients:
    """Connections on which requests are sent, and nothing is read."""

    def __init__(self, server: ServerProcess, stack: ExitStack) -> None:
        self._where, self._stack = urlsplit(server.url), stack
        self._context = ssl.create_default_context(cafile=server.ca_path)

    def ask(self, *paths: str) -> ssl.SSLSocket:
        """Ask for all of them at once."""
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW_BYTES)
        plain.settimeout(WITHIN_S)
        plain.connect((self._where.hostname, self._where.port))
        client = self._context.wrap_socket(plain, server_hostname=self._where.hostname)
        self._stack.enter_context(client)
        head = "GET {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n"
        client.sendall("".join(map(head.format, paths)).encode())
        return client


def _lists(number: int) -> list[str]:
    return [CONFIG_MAPS]


def _different_lists(number: int) -> list[str]:
    return [f"{CONFIG_MAPS}?labelSelector=a!=b{number}"]


def _documents(number: int) -> list[str]:
    return ["/openapi/v2"]


def _pipelined(number: int) -> list[str]:
    return ["/openapi/v2", CONFIG_MAPS, *["/api/v1"] * 20]


def _indented(number: int) -> list[str]:
    return [f"{CONFIG_MAPS}?pretty=1&limit=2000"]


def _watches(number: int) -> list[str]:
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    return [f"{CONFIG_MAPS}?watch=1&{initial}"]


ASKED: Final[dict[str, Callable[[int], list[str]]]] = {
    "the same list": _lists,
    "lists of which each is another": _different_lists,
    "OpenAPI": _documents,
    "many requests on each connection": _pipelined,
    "indented lists": _indented,
    "watches with initial events": _watches,
}


@pytest.mark.parametrize("paths", ASKED.values(), ids=ASKED)
@pytest.mark.slow
def test_unread_answers(server: ServerProcess, admin: Api, paths: Callable[[int], list[str]]) -> None:
    process = psutil.Process(server.pid)
    before = peak = process.memory_info().rss
    with ExitStack() as stack, longest_turn(admin) as turn:
        clients = Clients(server, stack)
        for number in range(UNREAD):
            clients.ask(*paths(number))
            peak = max(peak, process.memory_info().rss)
            if not number % 20:
                assert admin.get("/readyz").status == 200
        assert admin.post(CONFIG_MAPS, {"metadata": {"generateName": "a"}}).status == 201
        assert admin.get(f"{CONFIG_MAPS}?limit=1").status == 200
    assert peak - before < PEAK_BYTES
    assert turn.thread_cpu_s <= 0.05


@pytest.mark.slow
def test_an_answer_that_nobody_reads_keeps_no_slot_and_is_dropped(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--max-requests-inflight=4") as server, ExitStack() as stack:
        tokens = ("admin-token", "alice-token")
        admin, alice = (stack.enter_context(Api(server, token)) for token in tokens)
        grant(admin, "", "dev", rule("list", "configmaps"), subject_kind="Group")
        for number in range(12):
            data = {"metadata": {"name": f"c{number}"}, "data": {"k": "x" * 1_000_000}}
            admin.post(CONFIG_MAPS, data).ok()
        clients = Clients(server, stack)
        unread = [clients.ask(CONFIG_MAPS) for _ in range(10)]
        # Reads of others are refused for a moment at most.
        until_status(200, lambda: alice.get(f"{CONFIG_MAPS}?limit=1"))
        until(lambda: _are_closed(server, unread), what="the server has dropped all")


def _are_closed(server: ServerProcess, clients: list[ssl.SSLSocket]) -> bool:
    """Whether the server has closed the connections of clients."""
    ports = {client.getsockname()[1] for client in clients}
    there = psutil.Process(server.pid).net_connections("tcp")
    return not any(each.raddr and each.raddr.port in ports for each in there)


def test_a_document_is_whole(tmp_path: Path) -> None:
    """Long answers go out in pieces, and are the same for each who asks for them at the same time."""
    with ServerProcess(tmp_path) as server, ExitStack() as stack:
        whole = stack.enter_context(Api(server)).get("/openapi/v2").body
        json.loads(whole)
        clients = [Clients(server, stack).ask("/openapi/v2") for _ in range(20)]
        for client in clients:
            received = b""
            while len(received) < len(whole):
                received += client.recv(65_536)
            assert whole.startswith(received[received.index(b"\r\n\r\n") + 4 :])
