"""Whether etcd is there is known before a server for tests is started."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from apiserver.testing.errors import ServerDidNotStart
from apiserver.testing.etcd_probe import LISTENS_WITHIN_S, require_etcd

NOBODY = "http://127.0.0.1:1"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def test_a_server_without_etcd_needs_none() -> None:
    require_etcd([])


def test_one_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        require_etcd([NOBODY, f"https://127.0.0.1:{listening.getsockname()[1]}"])


def test_all_that_do_not_are_named() -> None:
    with pytest.raises(ServerDidNotStart) as raised:
        require_etcd([NOBODY, "http://localhost:2"], within_s=0.1)
    refused = "Connection refused"
    assert (
        raised.value.reason == f"etcd does not answer: {NOBODY} ({refused}), http://localhost:2 ({refused})"
    )


def test_one_that_comes_within_the_second_is_waited_for() -> None:
    port = free_port()
    begun = threading.Event()

    def start() -> None:
        begun.wait()
        with socket.create_server(("127.0.0.1", port)) as etcd:
            connection, _ = etcd.accept()
            connection.close()

    starting = threading.Thread(target=start)
    starting.start()
    begin = threading.Timer(0.2, begun.set)
    begin.start()
    require_etcd([f"http://127.0.0.1:{port}"], within_s=60)
    starting.join()
    begin.join()


def test_one_that_neither_listens_nor_refuses() -> None:
    """As behind a firewall. Its queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        address = listening.getsockname()
        with socket.create_connection(address), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(address)
            began = time.monotonic()
            with pytest.raises(ServerDidNotStart, match="timed out"):
                require_etcd([f"http://127.0.0.1:{address[1]}"], within_s=0.1)
            assert time.monotonic() - began < LISTENS_WITHIN_S
