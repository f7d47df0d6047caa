"""The server, started so that it notes which of its files are visited; and what the notes are for tests.

SIGUSR1 writes what was noted since the last one, and forgets it. Threads and background tasks are noted, too,
except that of what one request has visited, from the first SIGUSR1 on, only its own task is noted.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from tests.support.eventually import until
from tests.support.server_process import ServerProcess

ROOT: Final = f"{Path(__file__).parent.parent.parent}/"
_PACKAGE: Final = f"{ROOT}apiserver/"
# Below it in the stack is what a request does.
_REQUEST: Final = f"{ROOT}apiserver/endpoints/request_handler.py"
# The package whose entrances are noted.
_ENTERED: Final = f"{ROOT}apiserver/custom_resources/"


class Visits(NamedTuple):
    """What was visited. entrances: the functions of apiserver/custom_resources that others have called."""

    files: frozenset[str]
    by_requests: frozenset[str]
    entrances: frozenset[str]


def visits(server: ServerProcess) -> Visits:
    """What was visited since the last call."""
    written = server.data_dir / "visited"
    os.kill(server.pid, signal.SIGUSR1)
    until(written.exists, what="the server writes what was visited")
    noted = json.loads(written.read_text())
    written.unlink()
    return Visits(*map(frozenset, noted))


def trace(data_dir: Path) -> None:
    """Note from now on, in all threads; SIGUSR1 writes the notes to the data directory."""
    files: set[str] = set()
    by_requests: set[str] = set()
    entrances: set[str] = set()
    is_asked = False

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        name = frame.f_code.co_filename
        files.add(name)
        if is_asked and name.startswith(_PACKAGE):
            # A busy machine makes any request slow, and so logged.
            if name not in by_requests and {_REQUEST, logging.__file__} & _callers(frame) == {_REQUEST}:
                by_requests.add(name)
            if name.startswith(_ENTERED) and not _nearest_caller(frame).startswith(_ENTERED):
                entrances.add(f"{name}:{frame.f_code.co_qualname}")

    def write(*_: object) -> None:
        nonlocal is_asked
        is_asked = True
        noted = [
            # The package apiserver.storage is a link to the folder storage.
            [
                name.removeprefix(ROOT).replace("apiserver/storage/", "storage/", 1)
                for name in sorted(found.copy())
                if name.startswith(_PACKAGE)
            ]
            for found in (files, by_requests, entrances)
        ]
        for found in (files, by_requests, entrances):
            found.clear()
        partial = data_dir / "visited.partial"
        partial.write_text(json.dumps(noted))
        partial.rename(data_dir / "visited")

    signal.signal(signal.SIGUSR1, write)
    sys.setprofile(note)
    threading.setprofile(note)


def _callers(frame: FrameType) -> set[str]:
    found = set()
    caller = frame.f_back
    while caller is not None:
        found.add(caller.f_code.co_filename)
        caller = caller.f_back
    return found


def _nearest_caller(frame: FrameType) -> str:
    """The nearest of the server's own files that has called a function."""
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(_PACKAGE):
        caller = caller.f_back
    return "" if caller is None else caller.f_code.co_filename


if __name__ == "__main__":
    from apiserver.__main__ import main

    (directory,) = (flag.partition("=")[2] for flag in sys.argv if flag.startswith("--data-dir="))
    trace(Path(directory))
    sys.exit(main())
