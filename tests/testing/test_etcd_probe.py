"""What etcd is like is known before a server for tests is started: not there, none, or only slow."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from apiserver.testing import ApiServer
from apiserver.testing.errors import ServerDidNotStart
from apiserver.testing.etcd_probe import ANSWERS_WITHIN_S, EtcdProbe, EtcdTls
from apiserver.testing.runners import START_S_MAX
from tests.support.authority import Authority
from tests.support.etcd_process import EtcdCluster, TlsFiles, wheel_etcd
from tests.support.eventually import until
from tests.support.ports import free_port

NOBODY = "http://127.0.0.1:1"
SILENCE: Final = (
    "the endpoint accepts connections but does not respond: "
    "either etcd has no leader yet, or this is not etcd"
)
CLOSES: Final = (
    "the endpoint closes the connection: this is not etcd, or etcd has TLS and the URL is not https"
)
# The first frame of HTTP/2 that a server sends.
SETTINGS: Final = b"\0\0\0\4\0\0\0\0\0"
# For what may be slow on a busy machine, and fails by then all the same.
BRIEFLY_S: Final = 0.3
# For refusals after a TLS handshake: on a busy machine, the last attempt must be long enough for one.
HANDSHAKES_S: Final = 2.0


def refusal(probe: EtcdProbe, within_s: float = BRIEFLY_S) -> str:
    with pytest.raises(ServerDidNotStart) as raised:
        probe.require(within_s=within_s)
    return raised.value.reason


@contextmanager
def listening(handle: Callable[[socket.socket], object], scheme: str = "http") -> Iterator[str]:
    """Yields the URL of somebody who handles each connection so, and keeps it until the end."""
    kept: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                kept.append(connection)
                handle(connection)
            except OSError:  # It is over, or the client has gone.
                if listener.fileno() < 0:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
    for each in kept:
        each.close()


# ---- nobody


def test_a_server_without_etcd_needs_none() -> None:
    EtcdProbe([]).require()
    assert EtcdProbe([]).why_not_ready() == ""


def test_all_that_do_not_listen_are_named() -> None:
    refused = "Connection refused"
    told = f"{NOBODY} ({refused}), http://localhost:2 ({refused})"
    probe = EtcdProbe([NOBODY, "http://localhost:2"])
    assert refusal(probe, 0.1) == f"etcd does not respond: {told}"
    assert probe.why_not_ready() == f"etcd: {told}"


def test_one_that_neither_listens_nor_refuses() -> None:
    """As behind a firewall. Its queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        with socket.create_connection(address), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(address)
            began = time.monotonic()
            with pytest.raises(ServerDidNotStart, match="timed out"):
                EtcdProbe([f"http://127.0.0.1:{address[1]}"]).require(within_s=0.1)
            assert time.monotonic() - began < ANSWERS_WITHIN_S


# ---- somebody else


def _closes(connection: socket.socket) -> None:
    connection.close()


def _resets(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


OTHERS: Final[dict[str, tuple[Callable[[socket.socket], object], str]]] = {
    "one who closes": (_closes, CLOSES),
    "one who resets": (_resets, CLOSES),
    "one with HTTP/1": (
        lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        "the endpoint responds in HTTP/1: this is not etcd",
    ),
    "one with SSH": (
        lambda client: client.sendall(b"SSH-2.0-OpenSSH_9.6\r\n"),
        "the endpoint does not respond in HTTP/2: this is not etcd",
    ),
    "one with another frame": (
        lambda client: client.sendall(b"\0\0\0\7\0\0\0\0\0"),
        "the endpoint does not respond in HTTP/2: this is not etcd",
    ),
}


@pytest.mark.parametrize(("handle", "why"), OTHERS.values(), ids=OTHERS)
def test_who_is_no_etcd_is_known_within_a_second(handle: Callable[[socket.socket], object], why: str) -> None:
    with listening(handle) as url:
        assert refusal(EtcdProbe([url])) == f"etcd does not respond: {url} ({why})"


def test_several_that_are_slow_and_no_etcd() -> None:
    """The last attempt, which is cut short, does not make silence of what the others found."""

    def answer(client: socket.socket) -> None:
        time.sleep(0.08)
        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listening(answer) as first, listening(answer) as second, listening(answer) as third:
        reason = refusal(EtcdProbe([first, second, third]), within_s=1.0)
    assert SILENCE not in reason
    assert reason.count("http://") == 3


def test_who_does_not_speak_tls() -> None:
    with listening(_closes, "https") as url:
        assert refusal(EtcdProbe([url])) == (
            f"etcd does not respond: {url} (the endpoint closes the connection: "
            "this is not etcd, or etcd has no TLS)"
        )
    with listening(lambda client: client.sendall(SETTINGS), "https") as url:
        assert "TLS fails: " in refusal(EtcdProbe([url]))


def test_a_server_whose_etcd_is_something_else_says_so_at_once() -> None:
    with listening(_closes) as url, pytest.raises(ServerDidNotStart) as raised:
        ApiServer(flags=[f"--etcd-servers={url}"]).start()
    assert raised.value.reason == f"etcd does not respond: {url} ({CLOSES})"


# ---- one that may be slow


SILENT: Final[dict[str, tuple[str, Callable[[socket.socket], object]]]] = {
    "takes connections": ("http", lambda client: None),
    "takes connections, with TLS": ("https", lambda client: None),
    "has begun to answer": ("http", lambda client: client.sendall(SETTINGS[:5])),
}


@pytest.mark.parametrize(("scheme", "handle"), SILENT.values(), ids=SILENT)
def test_one_that_is_silent_is_waited_for_and_told(
    caplog: pytest.LogCaptureFixture, scheme: str, handle: Callable[[socket.socket], object]
) -> None:
    with listening(handle, scheme) as url:
        probe = EtcdProbe([NOBODY, url])
        with caplog.at_level(logging.WARNING):
            probe.require(within_s=BRIEFLY_S)
        told = f"{NOBODY} (Connection refused), {url} ({SILENCE})"
        assert caplog.messages == [f"etcd does not respond: {told}; waiting for etcd"]
        assert probe.why_not_ready() == f"etcd: {told}"


def test_one_that_answers_is_enough() -> None:
    """The one before it is silent, and does not take its time."""
    began = time.monotonic()
    with listening(lambda client: None) as silent, listening(lambda client: client.sendall(SETTINGS)) as url:
        EtcdProbe([NOBODY, silent, url]).require(within_s=60)
    assert time.monotonic() - began < 10


def test_one_that_comes_within_the_second_is_waited_for() -> None:
    port = free_port()
    begun = threading.Event()

    def start() -> None:
        begun.wait()
        with socket.create_server(("127.0.0.1", port)) as etcd:
            connection, _ = etcd.accept()
            connection.sendall(SETTINGS)
            connection.recv(1)
            connection.close()

    starting = threading.Thread(target=start)
    starting.start()
    begin = threading.Timer(0.2, begun.set)
    begin.start()
    EtcdProbe([f"http://127.0.0.1:{port}"]).require(within_s=60)
    starting.join()
    begin.join()


@pytest.mark.slow
@pytest.mark.parametrize("in_process", [True, False], ids=["in a thread", "in a child process"])
def test_a_server_that_has_waited_in_vain_says_for_what(in_process: bool) -> None:
    began = time.monotonic()
    with listening(lambda client: None) as url, pytest.raises(ServerDidNotStart) as raised:
        ApiServer(flags=[f"--etcd-servers={url}"], in_process=in_process).start()
    assert raised.value.reason.endswith(f"; etcd: {url} ({SILENCE})")
    assert time.monotonic() - began >= START_S_MAX


# ---- real ones


def test_an_etcd(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with wheel_etcd(tmp_path) as etcd:
        probe = EtcdProbe([etcd.url])
        probe.require()
        assert probe.why_not_ready() == ""
        url = etcd.url.replace("http", "https")
        assert f"{url} (" in refusal(EtcdProbe([url]))
        etcd.pause()
        try:
            probe.require(within_s=BRIEFLY_S)
        finally:
            etcd.resume()
        assert f"{etcd.url} ({SILENCE})" in caplog.text


def test_an_etcd_with_tls(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "pki"), Authority(tmp_path / "other")
    files = authority.issue("etcd")
    etcd = wheel_etcd(tmp_path, tls=files)

    def probe(ca: Path | None, shown: TlsFiles | None = files) -> EtcdProbe:
        pair = (None, None) if shown is None else (shown.certificate, shown.key)
        return EtcdProbe([etcd.url], EtcdTls(ca, *pair))

    with etcd:
        probe(authority.ca).require()
        assert probe(authority.ca).why_not_ready() == ""
        begin = f"etcd does not respond: {etcd.url} ("
        assert refusal(probe(other.ca), HANDSHAKES_S) == (
            f"{begin}the server's certificate is not trusted: unable to get local issuer certificate)"
        )
        for shown in (None, other.issue("client")):
            told = refusal(probe(authority.ca, shown), HANDSHAKES_S)
            assert told.startswith(
                f"{begin}the endpoint does not accept the client certificate in --etcd-certfile: "
            )
        # gRPC may know other CAs than those of the system, and the server itself says what it cannot read.
        probe(None).require(within_s=BRIEFLY_S)
        probe(tmp_path / "missing").require(within_s=BRIEFLY_S)
        plain = EtcdProbe([etcd.url.replace("https", "http")])
        assert refusal(plain).endswith(f" ({CLOSES})")


def test_a_cluster_that_has_no_leader_yet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = EtcdCluster(wheel_etcd(tmp_path).binary, tmp_path, size=2)
    first, second = cluster.members
    first.start(awaits_health=False)
    probe = EtcdProbe([first.url])
    try:
        until(probe.why_not_ready, lambda why: why == f"etcd: {first.url} ({SILENCE})")
        probe.require(within_s=BRIEFLY_S)
        assert "waiting for etcd" in caplog.text
        second.start(awaits_health=False)
        first.await_health()
        probe.require()
        assert probe.why_not_ready() == ""
        second.kill()
        unhealthy = f"etcd: {first.url} (etcd is not healthy: raft no leader)"
        until(probe.why_not_ready, lambda why: why == unhealthy)
        # It answers all the same, and may have a leader soon.
        probe.require()
    finally:
        cluster.kill()
