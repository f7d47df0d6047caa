"""`ApiServerContainer` starts the image by the engine's API, and leads clients to it from outside.

The engine of these tests is a stand-in: it speaks as much of Docker's API as testcontainers needs, and runs a
process where an engine would run a container. docs/testing/containers.md is run on a real one, where there
is one.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support.eventually import WITHIN_S, until
from tests.support.ports import free_port
from tests.support.required import library

KUBECONFIG: Final = b"""\
apiVersion: v1
kind: Config
clusters:
- name: apiserver
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: Y2E=}
users: []
contexts: []
"""
# Where clients reach it, and under which name its certificate is verified, if not under that.
URLS: Final = {
    "this machine": ("https://localhost:49153", None),
    "its loopback address": ("https://127.0.0.1:49153", None),
    "an engine elsewhere": ("https://docker.example.com:49153", "localhost"),
    "a container beside": ("https://172.17.0.3:6443", "localhost"),
}


@pytest.mark.parametrize(("url", "name"), URLS.values(), ids=URLS)
def test_a_kubeconfig_for_outside(url: str, name: str | None) -> None:
    library("testcontainers")
    from apiserver.testing.containers import kubeconfig_from_outside

    cluster = kubeconfig_from_outside(KUBECONFIG, url)["clusters"][0]["cluster"]
    assert cluster.pop("tls-server-name", None) == name
    assert cluster == {"server": url, "certificate-authority-data": "Y2E="}


class Engine:
    """An engine with one container: a server as a process, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port, self.created = directory, free_port(), dict[str, Any]()
        self.removed = False
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        flags = [f"--data-dir={self.directory / 'data'}", "--bind-address=127.0.0.1"]
        command = [sys.executable, "-m", "apiserver", *flags, f"--secure-port={self.port}"]
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen([*command, *self.created["Cmd"]], stdout=log, stderr=log)

    def remove(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self.removed = True

    def log(self) -> bytes:
        return (self.directory / "log").read_bytes()

    def cat(self, path: str) -> bytes:
        return (self.directory / "data" / Path(path).name).read_bytes()

    @property
    def state(self) -> dict[str, Any]:
        ports = {"6443/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(self.port)}]}
        return {
            "Id": "c1",
            "Name": "/c1",
            "State": {"Status": "running", "Running": True},
            "Config": {"Tty": False, "Image": self.created.get("Image", "")},
            "NetworkSettings": {"Ports": ports, "Networks": {}},
        }


def frames(content: bytes) -> bytes:
    """As the engine has standard output on one connection with standard error."""
    return struct.pack(">BxxxL", 1, len(content)) + content if content else b""


def is_read(port: int) -> bool:
    """Whether all has been read that was sent to a port of this machine. Source: proc_net_tcp(5)."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        local, queues = line.split()[1], line.split()[4]
        if int(local.partition(":")[2], 16) == port:
            return int(queues.partition(":")[2], 16) == 0
    return False


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """The engine's API. Yields what DOCKER_HOST says. Source: https://docs.docker.com/reference/api/engine/."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        executed = ""

        def do_GET(self) -> None:
            match self.parts():
                case ["version"]:
                    self.answer({"ApiVersion": "1.44", "MinAPIVersion": "1.24", "Version": "27.0.0"})
                case ["images", *_, "json"]:
                    self.answer({"Id": "i1", "RepoTags": []})
                case ["containers", _, "json"]:
                    self.answer(engine.state)
                case ["containers", _, "logs"]:
                    is_stdout = "stdout=1" in self.path
                    self.send(200, frames(engine.log() if is_stdout else b""), "application/octet-stream")
                case ["exec", _, "json"]:
                    self.answer({"ExitCode": 0, "Running": False})
                case ["networks", *_] | ["info"]:
                    self.answer([])
                case _:
                    self.answer({"message": f"no {self.path}"}, 404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            match self.parts():
                case ["containers", "create"]:
                    engine.created = json.loads(body)
                    self.answer({"Id": "c1", "Warnings": []}, 201)
                case ["containers", _, "start"]:
                    engine.start()
                    self.send(204, b"")
                case ["containers", _, "exec"]:
                    Handler.executed = json.loads(body)["Cmd"][-1]
                    self.answer({"Id": "e1"}, 201)
                case ["exec", _, "start"]:
                    self.send_response(200)
                    self.end_headers()
                    # The library loses what comes together with the head: an engine takes longer.
                    until(lambda: is_read(self.client_address[1]), what="the head is read")
                    self.wfile.write(frames(engine.cat(Handler.executed)))
                    # What is executed has ended when the connection does.
                    self.close_connection = True
                case _:
                    self.answer({"message": f"no {self.path}"}, 404)

        def do_DELETE(self) -> None:
            engine.remove()
            self.send(204, b"")

        def parts(self) -> list[str]:
            """The path without the version."""
            parts = urlsplit(self.path).path.strip("/").split("/")
            return parts[1:] if parts[0].startswith("v1.") else parts

        def answer(self, document: Any, code: int = 200) -> None:
            self.send(code, json.dumps(document).encode(), "application/json")

        def send(self, code: int, content: bytes, kind: str = "text/plain") -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


# Run by an interpreter of its own: what testcontainers heeds are variables.
PROGRAM: Final = """\
import json, stat, urllib.request, ssl
from apiserver.testing import ServerStopped
from apiserver.testing.containers import ApiServerContainer

container = ApiServerContainer(flags=["--emulated-version=1.30"])
try:
    container.url
except ServerStopped as error:
    print(error)
with container as server:
    context = ssl.create_default_context(cafile=str(server.ca))
    with urllib.request.urlopen(f"{server.url}/version", context=context) as answer:
        print(json.loads(answer.read())["minor"], server.url)
    assert server.kubeconfig_dict["clusters"][0]["cluster"]["server"] == server.url
    path = server.kubeconfig
    print(path.read_text())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
assert not path.parent.exists()
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="Linux is missing: the stand-in looks into its /proc"
)
def test_a_container_from_its_start_to_its_end(tmp_path: Path) -> None:
    library("testcontainers")
    engine = Engine(tmp_path)
    with serving(engine) as host:
        variables = {
            "DOCKER_HOST": host,
            "HOME": str(tmp_path),
            # The tests may run in a container themselves.
            "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
            "TESTCONTAINERS_RYUK_DISABLED": "true",
            "TC_POOLING_INTERVAL": "0.1",
            "TC_MAX_TRIES": "600",  # A minute, as for other servers that tests start.
        }
        end = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
        engine.remove()
    assert end.returncode == 0, end.stderr
    refused, served, kubeconfig = end.stdout.split("\n", 2)
    assert refused == "url: the server is not running"
    assert served.split() == ["30", f"https://127.0.0.1:{engine.port}"]
    assert yaml.safe_load(kubeconfig)["current-context"]
    assert engine.created["Image"] == "apiserver:0.1.0"
    assert engine.created["Cmd"] == ["--storage-backend=memory", "--emulated-version=1.30"]
    assert "6443/tcp" in engine.created["ExposedPorts"]
