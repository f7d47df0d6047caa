"""`apiserver conformance` on servers that misbehave: each conversation fails soon, with a reason."""

from __future__ import annotations

import gzip
import socket
from pathlib import Path
from typing import Final

import pytest

from apiserver.cli.argument_parser import UsageError
from apiserver.cli.conformance import command
from apiserver.cli.conformance.command import FAILED, JOBS_MAX, UNUSABLE
from apiserver.cli.conformance.endpoint import ANSWER_BYTES_MAX
from tests.support.hostile_server import Answer, content, flood, hang, head, sending, server, trickle
from tests.support.ports import free_port

TIMEOUT_S: Final = 0.3
# It makes a namespace first, then asks for objects in it.
SCENARIO: Final = "rv/list-invalid"
WATCHING: Final = "rv/delete-rv"
JSON: Final = "Content-Type: application/json"
GZIP: Final = "Content-Encoding: gzip"
DEEP: Final = b"[" * 100_000
HOSTILE: Final[dict[str, tuple[Answer, str]]] = {
    "hangs": (hang, f"no response within {TIMEOUT_S} s"),
    "closes connections": (lambda *_: None, "the server closed the connection without a response"),
    "closes in the middle of a head": (sending(b"HTTP/1.1 500 Int"), "cannot make a namespace: 500 ''"),
    "speaks another protocol": (sending(b"SSH-2.0-x\r\n\r\n"), "the response is not valid HTTP"),
    "sends a byte at a time": (trickle, f"no response within {TIMEOUT_S} s"),
    "sends without end": (flood, f"the response is longer than {ANSWER_BYTES_MAX} bytes"),
    "announces more than memory has": (
        sending(head("200 OK", "Content-Length: 1000000000000000")),
        f"the response is longer than {ANSWER_BYTES_MAX} bytes",
    ),
    "announces a chunk that memory cannot hold": (
        sending(head("200 OK", "Transfer-Encoding: chunked") + b"fffffffffffff\r\n"),
        f"the response is longer than {ANSWER_BYTES_MAX} bytes",
    ),
    "sends less than it has announced": (
        sending(head("200 OK", "Content-Length: 100") + b"{}"),
        "the response is incomplete",
    ),
    "sends what unpacks to more": (
        sending(content(gzip.compress(bytes(ANSWER_BYTES_MAX + 1)), GZIP)),
        f"the response is longer than {ANSWER_BYTES_MAX} bytes",
    ),
    "sends half of a gzip": (
        sending(content(gzip.compress(b"abc" * 100)[:-9], GZIP)),
        "the gzip data in the response is incomplete",
    ),
    "sends no gzip": (sending(content(b"abc", GZIP)), "the response is not gzip"),
    "answers with pages": (
        sending(content(b"<h1>\x1b[31mHello</h1>", "Content-Type: text/html")),
        r"cannot make a namespace: 200 '<h1>\x1b[31mHello</h1>'",
    ),
    "answers with no JSON": (sending(content(b"{", JSON)), "cannot make a namespace: 200 '{'"),
    "answers with deep JSON": (sending(content(DEEP, JSON)), "cannot make a namespace: 200 '[[[[["),
    "answers with other JSON": (sending(content(b'{"items": 5}', JSON)), "cannot make a namespace: 200"),
    "knows nothing": (sending(content(b"{}", JSON, status="404 Not Found")), "cannot make a namespace: 404"),
}


def run(*arguments: str) -> int:
    return command.run([f"--request-timeout={TIMEOUT_S}", "--max-wait=1", *arguments])


@pytest.mark.parametrize(("answer", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_server_that(answer: Answer, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(answer) as url:
        assert run(f"--server={url}", f"--scenario={SCENARIO}") == FAILED
    out, err = capsys.readouterr()
    assert f"FAILED {SCENARIO}: step " in out
    assert reason in out
    assert "\x1b" not in out
    assert "Traceback" not in out + err


def test_a_watch_that_does_not_begin(capsys: pytest.CaptureFixture[str]) -> None:
    created = content(b'{"metadata": {"name": "a", "resourceVersion": "5"}}', JSON, status="201 Created")

    def answer(connection: socket.socket, request: bytes) -> None:
        (hang if b"watch=1" in request else sending(created))(connection, request)

    with server(answer) as url:
        assert run(f"--server={url}", f"--scenario={WATCHING}") == FAILED
    assert f"FAILED {WATCHING}: step 2: NoAnswer: no response within {TIMEOUT_S} s" in capsys.readouterr().out


def test_a_server_that_no_longer_answers_is_asked_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def close(*_: object) -> None:
        asked.append(1)

    with server(close) as url:
        assert run(f"--server={url}") == FAILED
    assert len(asked) < 100
    assert "the endpoint no longer responds: the server closed the connection" in capsys.readouterr().out


def test_webhooks_that_nobody_calls_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    with server(HOSTILE["knows nothing"][0]) as url:
        assert run(f"--server={url}", "--scenario=webhooks/warnings") == FAILED
    assert (
        "All 1 conversations with webhooks failed: the server must be able to connect to 127.0.0.1,"
        in capsys.readouterr().out
    )


UNREACHABLE: Final[dict[str, tuple[str, str]]] = {
    "no server": (f"http://127.0.0.1:{free_port()}", "cannot connect to http://127.0.0.1:"),
    "no TLS": ("https", "cannot connect to https://127.0.0.1:"),
}


@pytest.mark.parametrize(("url", "reason"), UNREACHABLE.values(), ids=UNREACHABLE)
def test_a_server_to_which_nobody_can_connect(
    url: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with server(sending(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as plain:
        asked = plain.replace("http", "https") if url == "https" else url
        assert run(f"--server={asked}", "--insecure-skip-tls-verify") == UNUSABLE
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"apiserver: {reason}")
    assert err.count("\n") == 1


def test_credentials_that_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with server(sending(content(b"{}", JSON, status="401 Unauthorized"))) as url:
        assert run(f"--server={url}", "--token=t") == UNUSABLE
    assert "does not accept the credentials of the command line: Unauthorized" in capsys.readouterr().err


def test_a_token_that_no_header_can_have(capsys: pytest.CaptureFixture[str]) -> None:
    with server(hang) as url:
        assert run(f"--server={url}", "--token=t\u20ac") == UNUSABLE
    assert "the credentials of the command line cannot be sent" in capsys.readouterr().err


def test_a_user_without_permissions(capsys: pytest.CaptureFixture[str]) -> None:
    with server(sending(content(b'{"status": {"allowed": false}}', JSON))) as url:
        assert run(f"--server={url}", "--token=t") == UNUSABLE
    assert "use a member of system:masters" in capsys.readouterr().err


USAGE: Final = {
    "an area that does not exist": (["--area=x"], "there is no area 'x'; areas are admission, apply, auth,"),
    "a name that does not exist": (["--scenario=rv/x*"], "'rv/x*' matches no conversation"),
    "no URL": (["--server=localhost:8080"], '--server: "localhost:8080" is not a URL with http or https'),
    "an address of another machine": (["--webhook-host=192.0.2.1"], "cannot listen on '192.0.2.1'"),
    "an address of IPv6": (["--webhook-host=::1"], "cannot listen on '::1'"),
    "no jobs": (["--jobs=0"], f"'0' is not a number from 1 to {JOBS_MAX}"),
    "a wait without end": (["--max-wait=inf"], "'inf' is not a number of seconds"),
    "a token of two lines": (["--token-alice=a\nb"], "--token-alice must not contain control characters"),
    "an argument": (["x"], "unexpected argument 'x'"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE)
def test_usage(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        command.run(["--server=http://127.0.0.1:1", *arguments])
    assert message in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing"
    assert command.run(["--server=https://127.0.0.1:1", f"--certificate-authority={missing}"]) == UNUSABLE
    assert f"{missing}: No such file or directory" in capsys.readouterr().err
