"""Runs a server, and prints at its end on stderr which thread was the first to import each module.

Usage: python -m tests.support.recorded_imports FLAGS, as the program `apiserver`.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

from apiserver.__main__ import main

PREFIX: Final = "imported "


class Recorder:
    """Is asked for each module that is imported for the first time, as a member of `sys.meta_path`."""

    def __init__(self) -> None:
        self.threads: dict[str, str] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        self.threads[name] = threading.current_thread().name


def recorded(stderr: str) -> Mapping[str, str]:
    """Returns the threads by modules. stderr: what the server has printed until its end."""
    (line,) = (each for each in stderr.splitlines() if each.startswith(PREFIX))
    threads: Mapping[str, str] = json.loads(line.removeprefix(PREFIX))
    return threads


if __name__ == "__main__":
    recorder = Recorder()
    sys.meta_path.insert(0, recorder)
    code = main(sys.argv[1:])
    print(f"{PREFIX}{json.dumps(recorder.threads)}", file=sys.stderr)
    sys.exit(code)
