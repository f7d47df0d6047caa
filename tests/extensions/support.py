"""What tests of extensions share."""

from __future__ import annotations

import contextlib

import psutil

from tests.support.server_process import ServerProcess


def worker_of(server: ServerProcess) -> int:
    """Returns the process ID of the only worker of a server."""
    [worker] = workers_of(server)
    return worker


def workers_of(server: ServerProcess) -> set[int]:
    """Returns the process IDs of the workers of extensions."""
    found = set()
    for each in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "apiserver.extensions.worker" in each.cmdline():
                found.add(each.pid)
    return found
