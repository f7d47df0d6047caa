"""The server as a process, as users run it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Self

import psutil

from tests.support.eventually import WITHIN_S
from tests.support.forked_server import ForkedServer
from tests.support.logged_secrets import ALL_SERVERS, SearchedServers
from tests.support.ports import reserved_port

TOKENS = 'admin-token,admin,uid-admin,"system:masters"\nalice-token,alice,uid-alice,"dev"\n'
_READY = re.compile(r"^ready (https://\S+) kubeconfig=(.+)$")
_READY_IN_JSON = re.compile(r'^\{.*"msg":"ready","url":"([^"]+)","kubeconfig":"([^"]+)"\}$')


class DidNotStart(Exception):
    """The server did not become ready. code: its exit code, None if it still ran."""

    def __init__(self, code: int | None, stderr: str) -> None:
        super().__init__(f"exit code {code}: {stderr[-3000:]}")
        self.code, self.stderr = code, stderr


class ServerProcess:
    """One server on its data directory, which can be stopped, killed and started again.

    Unless flags say otherwise, no controller puts objects of its own into namespaces, and pods may be created
    without the service account that one of them makes.

    module: what an interpreter of its own runs, for tests of how a server begins and ends. One with workers
    gets an interpreter, too, as they are forked before most is imported. The others are forked where all is
    imported, which takes a sixth of the processor time.
    environment: more variables for an interpreter of its own.
    searched: where secrets are told of that the server has written to its logs.
    url and kubeconfig are what the `ready` line says. The port is reserved, and stays the same over restarts,
    unless a flag names another one.
    """

    def __init__(
        self,
        data_dir: Path,
        *flags: str,
        module: str | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
        searched: SearchedServers = ALL_SERVERS,
    ) -> None:
        self.data_dir, self.flags, self._module, self._searched = data_dir, flags, module, searched
        self._environment = environment
        if any(flag.startswith("--workers") for flag in flags):
            self._module = "apiserver"
        self.url, self.kubeconfig = "", data_dir / "admin.kubeconfig"
        self._port, reservation = reserved_port()
        weakref.finalize(self, reservation.close)
        self._process: ForkedServer | subprocess.Popen[str] | None = None
        self.stderr = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """How long it has used a processor since it started, whatever else the machine does."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    @property
    def ca_path(self) -> Path:
        return self.data_dir / "pki" / "ca.crt"

    def start(self, *, awaits_ready: bool = True) -> Self:
        """Start the server and wait until it is ready. Raises DidNotStart."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        tokens = self.data_dir / "tokens.csv"
        tokens.write_text(TOKENS)
        tokens.chmod(0o600)
        arguments = [
            f"--data-dir={self.data_dir}",
            f"--secure-port={self._port}",
            f"--token-auth-file={tokens}",
            "--controllers=namespace-controller",
            "--disable-admission-plugins=ServiceAccount",
            *self.flags,
        ]
        self._process = (
            ForkedServer(arguments)
            if self._module is None
            else _interpreter(self._module, arguments, self._environment)
        )
        self.stderr = ""
        assert self._process.stderr is not None
        self._errors = threading.Thread(target=self._collect, args=(self._process.stderr,), daemon=True)
        self._errors.start()
        if awaits_ready:
            self.await_ready()
        return self

    def refusal(self) -> DidNotStart:
        """Start a server that must not become ready, and return how it ended."""
        try:
            self.start()
        except DidNotStart as refused:
            return refused
        self.kill()
        raise AssertionError(f"it has started: {self.flags}")

    def await_ready(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        alarm = threading.Timer(WITHIN_S, process.kill)
        alarm.start()
        try:
            line = process.stdout.readline()
        finally:
            alarm.cancel()
        ready = _READY.match(line) or _READY_IN_JSON.match(line)
        if ready is None:
            raise DidNotStart(self.wait(), self.stderr)
        self.url, self.kubeconfig = ready[1], Path(ready[2])

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout_s: float = WITHIN_S) -> int:
        """Wait until the server has ended, and return its exit code."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        code = process.wait(timeout_s)
        self._errors.join()
        if not process.stdout.closed:
            process.stdout.close()
            self._searched.search(self.flags, self.stderr)
        return code

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.kill()
        self.wait()

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _collect(self, errors: IO[str]) -> None:
        with errors:
            for line in errors:
                self.stderr += line


def _interpreter(
    module: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
