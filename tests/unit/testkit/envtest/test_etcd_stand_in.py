"""The stand-in for etcd reads etcd's flags, and answers health checks, whatever else comes."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from apiserver.testkit.envtest import etcd_stand_in
from apiserver.testkit.envtest.etcd_stand_in import NAME, REQUEST_WITHIN_S, NotSupported, parse, parse_url
from apiserver.testkit.envtest.kube_apiserver import is_stand_in
from tests.support.eventually import WITHIN_S
from tests.support.ports import free_port

PROGRAM: Final = [sys.executable, "-IS", etcd_stand_in.__file__]


def run_to_its_end(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)


# https://pkg.go.dev/flag#hdr-Command_line_flag_syntax
FLAGS: Final = {
    "two hyphens": (["--data-dir=d"], {"data-dir": "d"}),
    "one hyphen": (["-data-dir=d"], {"data-dir": "d"}),
    "a value of its own": (["-data-dir", "d", "--wal-dir", "w"], {"data-dir": "d", "wal-dir": "w"}),
    "no value": (["--unsafe-no-fsync", "--data-dir", "d"], {"unsafe-no-fsync": "", "data-dir": "d"}),
    "a value with an equals sign": (
        ["--initial-cluster", "default=http://localhost:1"],
        {"initial-cluster": "default=http://localhost:1"},
    ),
    "the last one counts": (["--name=a", "--name=b"], {"name": "b"}),
    "what no flag takes": (["", "x", "--name=a"], {"name": "a"}),
}


@pytest.mark.parametrize(("arguments", "flags"), FLAGS.values(), ids=FLAGS)
def test_flags(arguments: list[str], flags: dict[str, str]) -> None:
    assert parse(arguments) == flags


URLS: Final = {
    "an address": ("http://127.0.0.1:2379", ("127.0.0.1", 2379)),
    "a name, and a slash": ("http://localhost:1/", ("localhost", 1)),
    "IPv6": ("http://[::1]:2379", ("::1", 2379)),
    "every address": ("http://:2379", ("", 2379)),
}


@pytest.mark.parametrize(("url", "expected"), URLS.values(), ids=URLS)
def test_urls(url: str, expected: tuple[str, int]) -> None:
    assert parse_url(url) == expected


NO_URLS: Final = {
    "no scheme": "127.0.0.1:2379",
    "no port": "http://127.0.0.1",
    "a port that is no number": "http://127.0.0.1:²",
    "a port that is too large": "http://127.0.0.1:65536",
    "TLS": "https://127.0.0.1:2379",
    "a socket": "unix://etcd.sock:1",
}


@pytest.mark.parametrize("url", NO_URLS.values(), ids=NO_URLS)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(NotSupported, match=r"^--listen-client-urls: "):
        parse_url(url)
    end = run_to_its_end([*PROGRAM, f"--listen-client-urls={url}"])
    assert (end.returncode, end.stderr.count("\n")) == (2, 1)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        end = run_to_its_end([*PROGRAM, "--listen-client-urls", url])
        assert (end.returncode, end.stderr) == (1, "etcd: [Errno 98] Address already in use\n")


def test_it_imports_little() -> None:
    """Every suite of tests waits for it. -X importtime tells of each module."""
    end = run_to_its_end([*PROGRAM[:2], "-X", "importtime", PROGRAM[2], "--help"])
    imported = {line.rpartition("|")[2].strip() for line in end.stderr.splitlines()}
    assert imported & {"asyncio", "http", "re", "argparse", "logging", "subprocess", "apiserver"} == set()
    assert "--unsafe-no-fsync" in end.stdout


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    free, directory = free_port(), tmp_path_factory.mktemp("etcd")
    urls = f"http://127.0.0.1:{free},http://127.0.0.2:{free}"
    command = [*PROGRAM, "--listen-client-urls", urls, "-data-dir", str(directory / "a" / "b")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(f"serving insecure client requests on 127.0.0.1:{free}")
        assert (directory / "a" / "b").is_dir()
        yield free
        process.terminate()


def ask(port: int, method: str, path: str, host: str = "127.0.0.1") -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection(host, port, timeout=WITHIN_S)) as connection:
        connection.request(method, path)
        response = connection.getresponse()
        assert response.getheader("Server") == NAME
        return response.status, response.read()


ANSWERS: Final = {
    "health": ("GET", "/health", (200, b'{"health":"true","reason":""}')),
    "health, with a query": ("GET", "/health?serializable=true", (200, b'{"health":"true","reason":""}')),
    "only the head": ("HEAD", "/health", (200, b"")),
    "readyz": ("GET", "/readyz", (200, b"ok\n")),
    "anything else": ("POST", "/v3/kv/range", (404, f"{NAME} has only /health, /livez, /readyz\n".encode())),
}


@pytest.mark.parametrize(("method", "path", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_answers(port: int, method: str, path: str, expected: tuple[int, bytes]) -> None:
    assert ask(port, method, path) == expected


def test_every_url_is_listened_on(port: int) -> None:
    assert ask(port, "GET", "/health", "127.0.0.2")[0] == 200


# gRPC begins so.
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NOISE: Final = {
    "nothing": b"",
    "half a request": b"GET /health HTT",
    "HTTP/2": PREFACE,
    "no text": b"\xff\x00\r\n\r\n",
    "a head that is too long": b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * 4096,
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_it_goes_on_after(port: int, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as client:
        client.sendall(noise)
        assert ask(port, "GET", "/health")[0] == 200


def test_a_client_that_says_a_little_now_and_then(port: int) -> None:
    """It is waited for once, not after each byte."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as client:
        client.settimeout(REQUEST_WITHIN_S / 10)
        while True:
            try:
                client.sendall(b"G")
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    assert time.monotonic() - began >= REQUEST_WITHIN_S / 2
    assert ask(port, "GET", "/health")[0] == 200


def test_a_server_knows_it(port: int) -> None:
    assert is_stand_in(f"http://127.0.0.1:{port}")
    assert not is_stand_in(f"https://127.0.0.1:{port}")
    assert not is_stand_in(f"unix://127.0.0.1:{port}")


def test_its_path_is_what_assets_name() -> None:
    from apiserver.testkit.envtest import assets as envtest_assets

    assert Path(etcd_stand_in.__file__) == envtest_assets.STAND_IN_FILE
