"""Servers that are forked from a process in which all their modules are imported.

The interpreter and its imports are five sixths of the processor time of a start, and tests start hundreds of
servers. Nothing of a server but its modules exists before the fork: no thread, loop, socket or random number.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Final

from apiserver.__main__ import main

# Runs a command line, and returns its exit code.
Program = Callable[[Sequence[str]], int]

_FORKS: Final = multiprocessing.get_context("forkserver")
# The frameworks of macOS do not support a fork: there each server imports its modules itself.
_FORKS.set_forkserver_preload(
    [
        "apiserver.app.server",
        # What the first request would import.
        "apiserver.app.serving.pki",
        "apiserver.auth.authn.certificate_verifier",
        "apiserver.auth.authn.service_account_keys",
        "apiserver.storage.etcd",
        "uvloop",
        __name__,
    ]
    if sys.platform == "linux"
    else []
)
# The exit code of a process can be read once, and starting another one looks for it, too.
_LOCK: Final = threading.Lock()


class ForkedServer:
    """The process of a server, as `subprocess.Popen` shows one. program: another one that is run instead."""

    def __init__(self, arguments: Sequence[str], program: Program = main) -> None:
        out, its_out = _FORKS.Pipe(duplex=False)
        err, its_err = _FORKS.Pipe(duplex=False)
        with out, its_out, err, its_err:
            # A daemon: it ends with the tests, whatever they have left running.
            self._process = _FORKS.Process(
                target=_serve, args=(program, arguments, its_out, its_err), daemon=True
            )
            with _LOCK:
                self._process.start()
            self.stdout = os.fdopen(os.dup(out.fileno()))
            self.stderr = os.fdopen(os.dup(err.fileno()))
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Returns the exit code, negative if a signal has ended it; None while it runs."""
        with _LOCK:
            return self._process.exitcode

    def wait(self, timeout_s: float) -> int:
        """Raises subprocess.TimeoutExpired."""
        if not wait([self._process.sentinel], timeout_s):
            raise subprocess.TimeoutExpired("apiserver", timeout_s)
        code = self.poll()
        assert code is not None
        return code

    def communicate(self, timeout_s: float) -> tuple[str, str]:
        """Wait until it ends, and return all that it has written."""
        with self.stdout, self.stderr, ThreadPoolExecutor(1) as beside:
            errors = beside.submit(self.stderr.read)
            printed = self.stdout.read()
            self.wait(timeout_s)
            return printed, errors.result()

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    arguments: Sequence[str], timeout_s: float, program: Program = main
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    process = ForkedServer(arguments, program)
    alarm = threading.Timer(timeout_s, process.kill)
    alarm.start()
    try:
        printed, errors = process.communicate(timeout_s)
    finally:
        alarm.cancel()
    return subprocess.CompletedProcess(arguments, process.wait(timeout_s), printed, errors)


def _serve(program: Program, arguments: Sequence[str], out: Connection, err: Connection) -> None:
    threading.Thread(target=_end_with_the_tests, name="tests", daemon=True).start()
    with out, err:
        os.dup2(out.fileno(), sys.stdout.fileno())
        os.dup2(err.fileno(), sys.stderr.fileno())
    sys.exit(program(arguments))


def _end_with_the_tests() -> None:
    """End when the tests have been killed, and nobody else would end the server."""
    tests = multiprocessing.parent_process()
    assert tests is not None
    # Not a signal at the parent's death (prctl): the parent of this process is the one that forks servers,
    # which stays as long as one of them does.
    tests.join()
    os.kill(os.getpid(), signal.SIGKILL)
