"""What the first server of a process imports before it is ready, and what only when it is used."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

# `sys.meta_path` is asked for each module that is imported for the first time.
_PREAMBLE: Final = """
import sys, threading

class Recorder:
    threads = {}

    def find_spec(self, name, path=None, target=None):
        self.threads[name] = threading.current_thread().name

sys.meta_path.insert(0, Recorder())
from apiserver.testing import ApiServer

"""
NOT_FOR_A_START: Final = {
    "the client library of metrics": "prometheus_client",
    "the parser of CEL": "apiserver.cel.parser",
    "the libraries of CEL": "apiserver.cel.library.kubernetes",
    "RE2": "re2",
    "time zones": "zoneinfo",
    "the C library": "ctypes",
    "resources of packages": "importlib.resources",
}


def run_in_fresh_python(program: str) -> str:
    command = [sys.executable, "-c", f"{_PREAMBLE}{program}"]
    return subprocess.run(command, check=True, timeout=60, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    program = """
with ApiServer():
    print(*Recorder.threads)
"""
    return frozenset(run_in_fresh_python(program).split())


@pytest.mark.parametrize("module", NOT_FOR_A_START.values(), ids=NOT_FOR_A_START)
def test_a_start_does_not_wait_for(module: str, imported: frozenset[str]) -> None:
    assert "apiserver.app.server" in imported
    assert module not in imported


def test_no_request_waits_for_what_the_first_scrape_imports() -> None:
    """It takes as long as a hundred requests."""
    program = """
with ApiServer() as server:
    code, text = server.request("GET", "/metrics")
    assert code == 200, text
    assert "apiserver" in {each.name for each in threading.enumerate()}
    print(Recorder.threads["prometheus_client"])
"""
    assert run_in_fresh_python(program).strip() not in ("apiserver", "MainThread")
