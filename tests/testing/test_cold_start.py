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
    "the parser of CEL": "apiserver.cel.parser",
    "the libraries of CEL": "apiserver.cel.library.kubernetes",
    "RE2": "re2",
    "time zones": "zoneinfo",
    "the C library": "ctypes",
    "resources of packages": "importlib.resources",
    "what is simulated": "apiserver.testkit.simulation",
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


USES: Final = {
    "a selector of devices": (
        "apiserver.cel.parser",
        (
            "POST",
            "/apis/resource.k8s.io/v1/deviceclasses",
            {"metadata": {"name": "a"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}},
        ),
    ),
    "a condition of a webhook": (
        "apiserver.cel.parser",
        (
            "POST",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {
                "metadata": {"name": "a"},
                "webhooks": [
                    {
                        "name": "a.example.com",
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "clientConfig": {"url": "https://127.0.0.1:1/"},
                        "matchConditions": [{"name": "a", "expression": "true"}],
                    }
                ],
            },
        ),
    ),
}


@pytest.mark.parametrize(("module", "request_"), USES.values(), ids=USES)
def test_what_the_first_use_imports_holds_up_no_other_request(
    module: str, request_: tuple[str, str, object]
) -> None:
    """It takes as long as a hundred requests."""
    program = f"""
with ApiServer() as server:
    code, answer = server.request(*{request_!r})
    assert code == {201 if request_[0] == "POST" else 200}, answer
    assert "apiserver" in {{each.name for each in threading.enumerate()}}  # that of the event loop
    print(Recorder.threads[{module!r}])
"""
    assert run_in_fresh_python(program).strip() not in ("apiserver", "MainThread")
