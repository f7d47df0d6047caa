"""Checks run at the same time, and one that fails or hangs is a finding."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import pytest

from apiserver.app.doctor.checks import Check, run_checks
from apiserver.app.doctor.report import Finding, ok
from apiserver.cli.api_client import RequestFailed
from apiserver.storage.errors import StorageUnavailable
from tests.support.eventually import WITHIN_S
from tests.unit.app.doctor.findings import told

Run = Callable[[], Awaitable[Iterable[Finding]]]


def raising(failure: Exception) -> Run:
    async def run() -> Iterable[Finding]:
        raise failure

    return run


async def hanging() -> Iterable[Finding]:
    await asyncio.sleep(WITHIN_S)
    return ()


FAILURES: Final[dict[str, tuple[Run, tuple[str, str]]]] = {
    "a bug": (raising(KeyError("x")), ("ERROR", "the check failed: KeyError: 'x'")),
    "an outage": (
        raising(StorageUnavailable("no etcd")),
        ("WARNING", "this check was not possible: no etcd"),
    ),
    "a server that is away": (
        raising(RequestFailed("connection refused")),
        ("WARNING", "this check was not possible: connection refused"),
    ),
    "a refusal": (
        raising(RequestFailed("forbidden", 403)),
        ("NOTE", "this check was not possible: forbidden"),
    ),
    "credentials that are not valid": (
        raising(RequestFailed("unauthorized", 401)),
        ("WARNING", "this check was not possible: unauthorized"),
    ),
    "an error of the server": (
        raising(RequestFailed("internal error", 500)),
        ("WARNING", "this check was not possible: internal error"),
    ),
    "a message of megabytes": (
        raising(RequestFailed("x" * 10_000_000)),
        ("WARNING", f"this check was not possible: {'x' * (1_000 - 29)}..."),
    ),
    "a hang": (hanging, ("WARNING", "the check did not finish in 0.05 s")),
}


@pytest.mark.parametrize(("run", "finding"), FAILURES.values(), ids=FAILURES)
def test_a_check_that_fails_is_a_finding(run: Run, finding: tuple[str, str]) -> None:
    async def healthy() -> Iterable[Finding]:
        return [ok("all is well")]

    failed, other = run_checks([Check("a", run), Check("b", healthy)], within_s=0.05)
    assert told(failed.findings) == [finding]
    assert told(other.findings) == [("OK", "all is well")]


def test_checks_run_at_the_same_time() -> None:
    both = threading.Barrier(2)

    async def run() -> Iterable[Finding]:
        await asyncio.to_thread(both.wait, WITHIN_S)
        return [ok("met")]

    sections = run_checks([Check("a", run), Check("b", run)], within_s=WITHIN_S)
    assert [told(each.findings) for each in sections] == [[("OK", "met")]] * 2


PROGRAM: Final = """
import asyncio, time
from apiserver.app.doctor.checks import Check, run_checks
async def run():
    await asyncio.to_thread(time.sleep, 3600)
print(run_checks([Check("a", run)], within_s=0.05)[0].findings[0].message)
"""


def test_a_call_that_hangs_does_not_hold_up_the_exit() -> None:
    end = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=WITHIN_S
    )
    assert (end.stdout, end.stderr) == ("the check did not finish in 0.05 s\n", "")
