"""Findings about the port: free, or taken, and by which process."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Final

import pytest

from apiserver.app.doctor.ports import Listener, Port, examine, gather
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from tests.support.authority import Authority
from tests.support.hostile_server import hang, server
from tests.support.ports import free_port
from tests.unit.app.doctor.findings import told

BUSY: Final = "cannot listen on 127.0.0.1:6443: Address already in use"
PORTS: Final[dict[str, tuple[Port, tuple[str, str]]]] = {
    "free": (Port("127.0.0.1", 6443), ("OK", "127.0.0.1:6443 is free")),
    "any": (Port("127.0.0.1", 0), ("OK", "the server chooses a free port when it starts")),
    "taken": (Port("127.0.0.1", 6443, BUSY), ("ERROR", BUSY)),
    "taken by a known process": (
        Port("127.0.0.1", 6443, BUSY, "12 (nginx)"),
        ("ERROR", f"{BUSY}; process 12 (nginx) listens on the port"),
    ),
    "taken by the server itself": (
        Port("127.0.0.1", 6443, BUSY, "12 (apiserver)", Listener.THIS_SERVER),
        ("OK", "the server listens on 127.0.0.1:6443"),
    ),
    "taken by a process that may be the server": (
        Port("127.0.0.1", 6443, BUSY, "12 (apiserver)", Listener.UNKNOWN),
        ("NOTE", "127.0.0.1:6443 is in use by process 12 (apiserver)"),
    ),
    "taken by an unknown process that may be the server": (
        Port("127.0.0.1", 6443, BUSY, "", Listener.UNKNOWN),
        ("NOTE", "127.0.0.1:6443 is in use"),
    ),
}


@pytest.mark.parametrize(("facts", "found"), PORTS.values(), ids=PORTS)
def test_findings(facts: Port, found: tuple[str, str]) -> None:
    assert told(examine(facts)) == [found]


def config_of(data_dir: Path, url: str, *flags: str) -> Config:
    return parse([f"--data-dir={data_dir}", f"--secure-port={url.rpartition(':')[2]}", *flags])


def test_the_process_on_a_port_is_named_without_its_arguments(tmp_path: Path) -> None:
    program = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, "--token=s3cret"], stdin=PIPE, stdout=PIPE, text=True
    ) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        found = gather(parse([f"--data-dir={tmp_path}", f"--secure-port={port}"]))
        other.communicate()
    assert found.problem == f"cannot listen on 127.0.0.1:{port}: Address already in use"
    name = Path(sys.executable).resolve().name[:15]  # The kernel keeps so many characters.
    assert found.owner in (f"{other.pid} ({name})", f"{other.pid} (python)")


def test_a_server_with_the_certificate_of_the_configuration_is_this_server(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    own = authority.issue("own")
    flags = (f"--tls-cert-file={own.certificate}", f"--tls-private-key-file={own.key}")
    with server(hang, own) as url:
        assert gather(config_of(tmp_path, url, *flags)).listener is Listener.THIS_SERVER
        authority.issue("own")  # which the server has not loaded yet
        assert gather(config_of(tmp_path, url, *flags)).listener is Listener.UNKNOWN
    with server(hang, Authority(tmp_path / "other").issue("own")) as url:
        assert gather(config_of(tmp_path, url, *flags)).listener is Listener.ANOTHER_PROGRAM
        # A first start has no certificate that could be in use.
        assert gather(config_of(tmp_path / "new", url)).listener is Listener.ANOTHER_PROGRAM


def closing(connection: socket.socket) -> None:
    connection.recv(1)  # The rest is not read, so that the connection is reset.


TALKERS: Final[dict[str, tuple[Callable[[socket.socket], object], Listener]]] = {
    "another protocol": (lambda each: each.sendall(b"SSH-2.0-x\r\n"), Listener.ANOTHER_PROGRAM),
    "a server with too many connections": (closing, Listener.UNKNOWN),
    "a server that hangs": (lambda each: each.recv(65_536) and each.recv(1), Listener.UNKNOWN),
}


@pytest.mark.parametrize(("talk", "listener"), TALKERS.values(), ids=TALKERS)
def test_a_listener_without_a_certificate(
    tmp_path: Path, talk: Callable[[socket.socket], object], listener: Listener
) -> None:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                talk(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        try:
            assert gather(config_of(tmp_path, f"https://127.0.0.1:{other.server_address[1]}")).listener is (
                listener
            )
        finally:
            other.shutdown()
            thread.join()


def test_a_free_port_stays_free(tmp_path: Path) -> None:
    port = free_port()
    assert gather(parse([f"--data-dir={tmp_path}", f"--secure-port={port}"])) == Port("127.0.0.1", port)
    socket.create_server(("127.0.0.1", port)).close()


def test_an_address_of_another_machine_cannot_be_used(tmp_path: Path) -> None:
    config = parse([f"--data-dir={tmp_path}", "--bind-address=192.0.2.99", "--secure-port=6443"])
    found = gather(config)
    assert found.problem == "cannot listen on 192.0.2.99:6443: Cannot assign requested address"
    assert not found.owner
