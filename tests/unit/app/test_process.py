"""The ready line, wherever stdout leads, and what the process keeps from libraries."""

from __future__ import annotations

import io
import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import IO, Final

import pytest

from apiserver import __version__
from apiserver.app.process import announce_ready, lean_libraries
from apiserver.app.serving.pki import new_ca
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.cli.printing import flush_output, print_json

URL: Final = "https://127.0.0.1:6443"
KUBECONFIG: Final = Path("/nowhere/bj\udcf6rn/admin.kubeconfig")
LINE: Final = f"ready {URL} kubeconfig={KUBECONFIG}\n"


class FullDisk(io.StringIO):
    def flush(self) -> None:
        raise OSError(28, "No space left on device")


def closed() -> IO[str]:
    stream = io.TextIOWrapper(io.BytesIO())
    stream.close()
    return stream


def test_the_ready_line_is_bytes() -> None:
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="ascii")) as stdout:
        announce_ready(Config(), URL, KUBECONFIG)
        assert isinstance(stdout.buffer, io.BytesIO)
        assert stdout.buffer.getvalue() == LINE.encode(errors="surrogateescape")


def test_the_ready_line_is_text_if_stdout_takes_text_only() -> None:
    with redirect_stdout(io.StringIO()) as stdout:
        announce_ready(Config(), URL, KUBECONFIG)
    assert stdout.getvalue() == LINE


UNUSABLE: Final = {
    "a full disk": (FullDisk(), ["cannot write the ready line to stdout: No space left on device"]),
    "a closed stdout": (
        closed(),
        ["cannot write the ready line to stdout: I/O operation on closed file."],
    ),
    "no stdout": (None, []),
}


@pytest.mark.parametrize(("stdout", "warnings"), UNUSABLE.values(), ids=UNUSABLE)
def test_the_server_works_without_stdout(
    stdout: IO[str] | None, warnings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with redirect_stdout(stdout):
        announce_ready(Config(), URL, KUBECONFIG)
        flush_output()
    assert caplog.messages == warnings


def test_a_start_is_logged_with_the_store_and_changed_flags(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    config = parse(["--etcd-servers=https://me:secret@etcd-1:2379", "--audit-log-path=a b"])
    with redirect_stdout(io.StringIO()):
        announce_ready(config, URL, KUBECONFIG)
        announce_ready(Config(), URL, KUBECONFIG)
    serves = f"apiserver {__version__} serves Kubernetes {config.release} at {URL}; store: "
    on_etcd, embedded = caplog.messages
    servers = "https://CLASSIFIED@etcd-1:2379"
    assert on_etcd.startswith(f"{serves}etcd at {servers}; flags: ")
    assert f"--etcd-servers=[{servers}]" in on_etcd
    assert "--audit-log-path=a b" in on_etcd
    assert embedded.startswith(f"{serves}embedded, in /")
    assert embedded.endswith("; flags: defaults")


def test_json_is_text_if_stdout_takes_text_only() -> None:
    with redirect_stdout(io.StringIO()) as stdout:
        print_json({"name": "bjørn"}, is_indented=False)
    assert stdout.getvalue() == '{"name":"bjørn"}\n'


def known_authorities() -> int:
    return ssl.create_default_context().cert_store_stats()["x509"]


@pytest.fixture
def environment() -> Iterator[os._Environ[str]]:
    """The environment of this process, which is as before afterwards."""
    before = dict(os.environ)
    yield os.environ
    os.environ.clear()
    os.environ.update(before)


def test_contexts_without_the_certificates_of_the_system(
    environment: os._Environ[str], tmp_path: Path
) -> None:
    system = tmp_path / "authorities.pem"
    system.write_bytes(new_ca("one of the system")[0])
    environment["SSL_CERT_FILE"] = str(system)
    with lean_libraries():
        assert known_authorities() == 0
    assert known_authorities() == 1


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "FROZENLIST_NO_EXTENSIONS"])
def test_the_environment_after_imports_is_as_before(name: str, environment: os._Environ[str]) -> None:
    environment.pop(name, None)
    with lean_libraries():
        assert name in os.environ
    assert name not in os.environ
