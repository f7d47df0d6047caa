"""What goes to stderr: text, or JSON with the keys of Kubernetes' components; never a secret."""

from __future__ import annotations

import base64
import logging
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from apiserver.app.serving import logs
from apiserver.meta.errors import ServiceUnavailable
from apiserver.storage.errors import OutcomeUnknown, StorageUnavailable
from tests.support.api import Api
from tests.support.eventually import WITHIN_S
from tests.support.server_process import ServerProcess


def entries(written: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in written.splitlines()]


def test_json_logs_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(as_json=True, verbosity=0)
    logging.getLogger("apiserver.x").warning('%s is "%d"', "käse", 1)
    logging.getLogger("apiserver.y").info("two\nlines")
    first, second = entries(capsys.readouterr().err)
    assert datetime.fromisoformat(first.pop("ts")).utcoffset() is not None
    assert first == {"level": "warning", "logger": "apiserver.x", "msg": 'käse is "1"'}
    assert (second["level"], second["msg"]) == ("info", "two\nlines")


def test_json_contains_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(as_json=True, verbosity=0)
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("apiserver").exception("failed")
    (entry,) = entries(capsys.readouterr().err)
    assert (entry["level"], entry["msg"]) == ("error", "failed")
    assert entry["err"].startswith("Traceback")
    assert entry["err"].endswith("ValueError: why")


def test_json_encodes_any_text(capsys: pytest.CaptureFixture[str]) -> None:
    """What clients send gets into messages; a record that cannot be written would be lost."""
    logs.configure(as_json=True, verbosity=0)
    logging.getLogger("apiserver").warning("path %s", "/\udcff\x00\x1b[31m")
    (entry,) = entries(capsys.readouterr().err)
    assert entry["msg"].startswith("path /")


def refused() -> ServiceUnavailable:
    """What a controller logs: the error of a request, which one of the store has caused."""
    error = ServiceUnavailable("the store does not respond")
    error.__cause__ = StorageUnavailable("away")
    return error


# When a record is made, what it is about, and what is logged.
IN_AN_OUTAGE: Final = [
    (100.0, StorageUnavailable("away"), "retrying: away"),
    (100.4, OutcomeUnknown("cut off"), ""),
    (100.5, ValueError("malformed"), "retrying: malformed"),
    (100.9, refused(), ""),
    (101.0, refused(), "retrying: the store does not respond (similar messages omitted: 2)"),
    (102.5, StorageUnavailable("100% away"), "retrying: 100% away"),
    # The clock has been set back.
    (5.0, StorageUnavailable("away"), "retrying: away"),
]


def test_one_record_a_second_is_about_a_store_that_does_not_respond() -> None:
    passes, logged = logs.OutageFilter(), []
    for created, error, _ in IN_AN_OUTAGE:
        fields = {"msg": "retrying: %s", "args": (error,), "created": created, "levelno": logging.WARNING}
        record = logging.makeLogRecord(fields)
        logged.append(record.getMessage() if passes.filter(record) else "")
    assert logged == [text for _, _, text in IN_AN_OUTAGE]


def test_errors_are_logged_and_other_outages_begin_anew() -> None:
    passes, logged = logs.OutageFilter(), []
    for created, level in ((1.0, "WARNING"), (1.1, "ERROR"), (1.2, "INFO"), (100.0, "INFO")):
        number = logging.getLevelNamesMapping()[level]
        fields = {"msg": "%s", "args": (refused(),), "created": created, "levelno": number}
        record = logging.makeLogRecord(fields)
        logged.append(record.getMessage() if passes.filter(record) else "")
    assert logged == [
        "the store does not respond",
        "the store does not respond",
        "",
        "the store does not respond",
    ]


CALL_OF_GRPC: Final = """\
import socket, threading
from apiserver.app.serving.logs import silence_grpc
{prepare}
import grpc
listener = socket.create_server(("127.0.0.1", 0))

def serve():
    while True:
        client, _ = listener.accept()
        client.recv(100)
        client.sendall(b"not TLS" * 10)
        client.close()

threading.Thread(target=serve, daemon=True).start()
address = "127.0.0.1:%d" % listener.getsockname()[1]
channel = grpc.secure_channel(address, grpc.ssl_channel_credentials())
try:
    channel.unary_unary("/a/b")(b"", timeout={timeout_s})
except grpc.RpcError:
    print("failed")
"""


def written_by_grpc(prepare: str) -> str:
    program = CALL_OF_GRPC.format(prepare=prepare, timeout_s=WITHIN_S)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "failed\n"
    return ended.stderr


def test_grpc_writes_no_text_between_lines_of_json() -> None:
    assert "Handshake failed" in written_by_grpc("")
    assert written_by_grpc("silence_grpc()") == ""


def test_text_has_time_level_and_origin(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(as_json=False, verbosity=0)
    logging.getLogger("apiserver.x").warning("%s happened", "it")
    stamp, rest = capsys.readouterr().err.split(" ", 1)
    assert datetime.fromisoformat(stamp).utcoffset() is not None
    assert rest == "WARNING apiserver.x: it happened\n"


# What clients choose, and what a line of text says of it.
FOREIGN: Final = {
    "ordinary text of any language": ("/käse/日本 'a' \"b\" \\", "/käse/日本 'a' \"b\" \\"),
    "a line break": (
        "/x\n2026-01-01T00:00:00 INFO apiserver: all is well",
        "/x\\n2026-01-01T00:00:00 INFO apiserver: all is well",
    ),
    "a carriage return, which hides what stands before it": ("/x\rINFO", "/x\\rINFO"),
    "other ends of lines": ("\v\f\x1c\x85\u2028\u2029", "\\x0b\\x0c\\x1c\\x85\\u2028\\u2029"),
    "commands to a terminal": ("\x1b[2J\x9b2J\x07\x08\x7f", "\\x1b[2J\\x9b2J\\x07\\x08\\x7f"),
    "marks that turn the direction of text": ("\u202eevil\u2066", "\\u202eevil\\u2066"),
    "characters that have no width": ("a\u200bb\ufeff\U000e0061", "a\\u200bb\\ufeff\\U000e0061"),
    "the null character": ("a\x00b", "a\\x00b"),
    "bytes that are no UTF-8": ("\udcff\ud800", "\\udcff\\ud800"),
}


@pytest.mark.parametrize(("foreign", "shown"), FOREIGN.values(), ids=FOREIGN)
def test_nobody_forges_a_record(capsys: pytest.CaptureFixture[str], foreign: str, shown: str) -> None:
    """In text and in JSON: in messages, and in the texts of errors, which stand at the end of tracebacks."""
    log_foreign(foreign, as_json=False)
    message, *traceback = capsys.readouterr().err.split("\n")
    assert message.endswith(f"ERROR apiserver: GET {shown} failed")
    assert all(line.startswith("  ") for line in traceback[:-1])
    assert traceback[-2:] == [f"  ValueError: {shown}", ""] or "\n" in foreign
    log_foreign(foreign, as_json=True)
    written = capsys.readouterr().err
    assert written.removesuffix("\n").isprintable()
    (entry,) = entries(written)
    encodable = foreign.encode("utf-8", "backslashreplace").decode()
    assert entry["msg"] == f"GET {encodable} failed"
    assert entry["err"].endswith(f"\nValueError: {encodable}")


def log_foreign(foreign: str, *, as_json: bool) -> None:
    logs.configure(as_json=as_json, verbosity=0)
    try:
        raise ValueError(foreign)
    except ValueError:
        logging.getLogger("apiserver").exception("GET %s failed", foreign)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "JSON"])
def test_a_record_has_a_bound(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    log_foreign("x" * 3_000_000, as_json=as_json)
    written = capsys.readouterr().err
    assert len(written) < logs.MESSAGE_CHARACTERS_MAX + logs.TRACEBACK_CHARACTERS_MAX + 1000
    assert "Traceback" in written
    assert "more characters" in written


VERBOSITIES: Final = {
    "information by default": (0, "apiserver", logging.INFO),
    "up to 3": (3, "apiserver", logging.INFO),
    "details from 4 on": (4, "apiserver", logging.DEBUG),
    "libraries only warn": (5, "aiohttp.access", logging.WARNING),
    "unless everything is wanted": (6, "grpc", logging.DEBUG),
}


@pytest.mark.parametrize(("verbosity", "logger", "lowest"), VERBOSITIES.values(), ids=VERBOSITIES)
def test_verbosity(verbosity: int, logger: str, lowest: int) -> None:
    logs.configure(as_json=False, verbosity=verbosity)
    assert logging.getLogger(logger).getEffectiveLevel() == lowest


def test_configuring_twice_does_not_log_twice(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        logs.configure(as_json=True, verbosity=0)
    logging.getLogger("apiserver").info("once")
    assert len(entries(capsys.readouterr().err)) == 1


def test_no_secret_is_logged(tmp_path: Path) -> None:
    """A server that tells everything it can, and requests that carry secrets in all places there are."""
    secret, guess = "xyzzy-value", "xyzzy-guess"
    encoded = base64.b64encode(secret.encode()).decode()
    path = "/api/v1/namespaces/default/secrets"
    # The last one is known and not needed, which is something to tell.
    flags = ("--v=10", "--logging-format=json", "--allow-privileged=true")
    with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api:
        api.post(path, {"metadata": {"name": "a"}, "stringData": {"k": secret}}).ok()
        assert api.get(f"{path}/a").ok()["data"] == {"k": encoded}
        api.patch(f"{path}/a", {"data": {"k": encoded + "!"}})
        api.post(path, {"metadata": {"name": "b"}, "data": {"k": {secret: 1}}})
        api.post(path, b'{"data":"xyzzy-value')
        stranger = api.as_caller(guess)
        assert stranger.get(path).status == 401
        stranger.close()
        server.stop()
        keys = [path.read_text() for path in (server.data_dir / "pki").glob("*.key")]
    assert "allow-privileged" in server.stderr
    for each in (secret, encoded, guess, "admin-token", "alice-token", "PRIVATE KEY"):
        assert each not in server.stderr
    for key in keys:
        assert key.splitlines()[1] not in server.stderr
    for line in server.stderr.splitlines():
        assert {"ts", "level", "logger", "msg"} <= orjson.loads(line).keys()
