"""How commands end while they wait or start: by signals, and without a package that they require."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.authority import Authority
from tests.support.eventually import WITHIN_S, until
from tests.support.hostile_server import hang, server
from tests.support.ports import free_port

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command, and end it if the test has not."""
    program = [sys.executable, "-X", "importtime", "-m", "apiserver", *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def without_import_times(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if not line.startswith("import time:")]


@pytest.mark.parametrize("number", SIGNALS)
# Modules that are imported before the flags are parsed, and after.
@pytest.mark.parametrize("module", ["apiserver.meta.brand", "aiohttp.web"])
def test_a_signal_while_the_server_imports(tmp_path: Path, number: signal.Signals, module: str) -> None:
    with started("--secure-port=0", f"--data-dir={tmp_path}") as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.endswith(f" {module}\n"))
        process.send_signal(number)
        out, err = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, out, without_import_times(err)) == (128 + number, "", [])


@pytest.mark.parametrize("number", SIGNALS)
def test_a_rewrite_that_waits_for_a_server(tmp_path: Path, number: signal.Signals) -> None:
    files = Authority(tmp_path / "ca").issue("server")
    asked: list[bytes] = []

    def answer(connection: socket.socket, request: bytes) -> None:
        asked.append(request)
        hang(connection, request)

    with server(answer, files) as url:
        path = tmp_path / "config"
        document = {
            "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": str(files.ca)}}],
            "contexts": [{"name": "x", "context": {"cluster": "c"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(document))
        with started("storage", "rewrite", f"--kubeconfig={path}") as process:
            until(lambda: asked, what="a request")
            process.send_signal(number)
            out, err = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, out) == (128 + number, "")
    assert without_import_times(err) == ["apiserver: interrupted"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_start_without_etcd_is_reported_once_and_can_be_stopped(tmp_path: Path, workers: int) -> None:
    etcd = f"http://127.0.0.1:{free_port()}"
    flags = [f"--etcd-servers={etcd}", "--secure-port=0", f"--data-dir={tmp_path}", f"--workers={workers}"]
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-m", "apiserver", *flags], stderr=stderr)
        until(lambda: "cannot reach" in log.read_text(), what="a warning")
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN_S) == 0
    reports = [line for line in log.read_text().splitlines() if "cannot reach" in line]
    assert len(reports) == 1
    assert reports[0].endswith(f"cannot reach etcd at {etcd} (Connection refused); retrying")


PACKAGES: Final = {
    "aiohttp": ["--data-dir={dir}", "--secure-port=0"],
    "yaml": ["convert", "-f", os.devnull],
    "orjson": ["snapshot", "status", os.devnull],
    "cryptography": ["--data-dir={dir}", "--secure-port=0"],
}


@pytest.mark.parametrize(("package", "arguments"), PACKAGES.items(), ids=PACKAGES)
def test_a_package_that_is_missing(tmp_path: Path, package: str, arguments: list[str]) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from apiserver.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    given = [each.format(dir=tmp_path) for each in arguments]
    end = subprocess.run(
        [sys.executable, "-c", program, *given], capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    assert (end.returncode, end.stdout) == (1, "")
    (line,) = end.stderr.splitlines()
    assert line.startswith(f"apiserver: cannot import {package}, which apiserver requires: ")
    assert line.endswith("; run 'pip install apiserver'")
