"""Commands that ask a server which misbehaves: they end soon, with one line that says why."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from apiserver.__main__ import main
from apiserver.cli.api_client import ANSWER_BYTES_MAX
from apiserver.cli.limited_connection import AnswerLimits, LimitedConnection, NoAnswer
from tests.support.authority import Authority
from tests.support.etcd_process import TlsFiles
from tests.support.hostile_server import Answer, content, flood, hang, head, sending, server, trickle

WITHIN_S: Final = 0.3
TOKEN: Final = "s3cret"
# The commands, and their exit codes when they fail.
COMMANDS: Final = {
    "deprecations": (["deprecations"], 2),
    "top": (["top"], 1),
    "history list": (["history", "cm", "a"], 1),
    "history undo": (["history", "undo", "cm", "a"], 1),
    "history changes": (["history", "changes"], 1),
    "history undo of a user": (["history", "undo", "--by=a", "--since=1"], 1),
    "history blame": (["history", "blame", "cm", "a"], 1),
    "history diff": (["history", "diff", "cm", "a", "1", "2"], 1),
    "auth explain": (["auth", "explain", "get", "pods"], 2),
    "faults": (["faults", "list"], 1),
    "storage rewrite": (["storage", "rewrite"], 1),
}
PAGE: Final = b"<html><h1>\x1b[31mProxy login</h1></html>"
HTML: Final = "Content-Type: text/html"
JSON: Final = "Content-Type: application/json"
HOSTILE: Final[dict[str, Answer]] = {
    "closes connections": lambda *_: None,
    "closes in the middle of a head": sending(b"HTTP/1.1 500 Int"),
    "speaks another protocol": sending(b"SSH-2.0-x\r\n\r\n"),
    "speaks HTTP/0.9": sending(PAGE),
    "speaks HTTP/1.0": sending(b"HTTP/1.0 200 OK\r\n\r\n{}"),
    "sends less than it has announced": sending(head("200 OK", "Content-Length: 100") + b"{}"),
    "sends a wrong chunk": sending(head("200 OK", "Transfer-Encoding: chunked") + b"zz\r\n"),
    "announces more than memory has": sending(head("200 OK", "Content-Length: 1000000000000000")),
    "announces a chunk that memory cannot hold": sending(
        head("200 OK", "Transfer-Encoding: chunked") + b"fffffffffffff\r\n"
    ),
    "sends too many headers": sending(head("200 OK", *(f"X-{n}: a" for n in range(1_000)))),
    "sends a header that is none": sending(head("200 OK", "\x1b[31m", "Content-Length: 0")),
    "redirects": sending(content(b"", "Location: http://example.com/", status="302 Found")),
    "is a proxy": sending(content(PAGE, HTML, status="407 Proxy Authentication Required")),
    "answers with pages": sending(content(PAGE, HTML)),
    "answers with no JSON": sending(content(b"{", JSON)),
    "answers with deep JSON": sending(content(b"[" * 100_000, JSON)),
    "answers with other JSON": sending(content(b"[1]", JSON)),
    "answers with a lone surrogate": sending(content(b'{"message": "\\ud800"}', JSON, status="403 F")),
    "answers with another message": sending(content(b'{"message": {"a": 1}}', JSON, status="403 F")),
    "answers with a status of its own": sending(content(b"{}", JSON, status="999 \x1b[31m")),
    "sends what unpacks to more": sending(
        content(gzip.compress(bytes(ANSWER_BYTES_MAX + 1)), "Content-Encoding: gzip", JSON)
    ),
    "sends half of a gzip": sending(content(gzip.compress(b"abc" * 100)[:-9], "Content-Encoding: gzip")),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return Authority(tmp_path_factory.mktemp("pki") / "ca").issue("server")


def kubeconfig(directory: Path, url: str, ca: Path) -> Path:
    path = directory / "config"
    cluster = {"server": url, "certificate-authority": str(ca)}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(("command", "code"), COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_a_server_that(
    answer: Answer,
    command: list[str],
    code: int,
    files: TlsFiles,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with server(answer, files) as url:
        ended = main([*command, "--kubeconfig", str(kubeconfig(tmp_path, url, files.ca))])
    out, err = capsys.readouterr()
    assert (ended, out) == (code, "")
    assert err.startswith("apiserver: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    assert err.rstrip("\n").isprintable()
    assert TOKEN not in err


def trickle_a_head(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        connection.sendall(b"a")
        time.sleep(0.02)


def continue_for_ever(connection: socket.socket, _: bytes) -> None:
    while True:
        connection.sendall(head("100 Continue") * 100)


ENDLESS: Final[dict[str, tuple[Callable[[socket.socket, bytes], object], str]]] = {
    "hangs": (hang, f"no response within {WITHIN_S} s"),
    "sends a byte at a time": (trickle, f"no response within {WITHIN_S} s"),
    "sends a byte of the head at a time": (trickle_a_head, f"no response within {WITHIN_S} s"),
    "says that it will continue": (continue_for_ever, f"no response within {WITHIN_S} s"),
    "sends without end": (flood, "the response is longer than 1000000 bytes"),
}


@pytest.mark.parametrize(("answer", "why"), ENDLESS.values(), ids=ENDLESS)
def test_no_answer_is_waited_for_without_an_end(answer: Answer, why: str) -> None:
    limits = AnswerLimits(WITHIN_S, WITHIN_S, bytes_max=10**9 if "within" in why else 10**6)
    with server(answer) as url, closing(LimitedConnection(url, None, "", limits)) as connection:
        connection.request("GET", "/")
        with pytest.raises(NoAnswer) as failed:
            connection.getresponse().read()
    assert str(failed.value) == why
