"""Finds the current place of another thread without access to its frames from Python.

`sys._current_frames` returns objects for frames that continue to run. With CPython 3.11 the frames that they
refer to are sometimes freed already, and the process ends with a segmentation fault. `faulthandler` makes no
objects, and lets no other thread run before it has written everything.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import IO, Final

_ROOT: Final = Path(__file__).parents[2]
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)\b", re.MULTILINE)
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$', re.MULTILINE)
# A hundred threads of a hundred frames each: the most that is written.
_TEXT_BYTES_MAX: Final = 2 * 1024 * 1024


class ThreadStacks:
    """Finds the current place of a thread, by a file in memory that `faulthandler` writes to."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def place_of(self, thread: int) -> str:
        """Returns module, function and line of the innermost frame in the server's code, or else in any code.

        thread: its identifier. Returns "" if it runs no Python code, or the file cannot be made.
        """
        try:
            file = self._file = self._file or _file_in_memory()
            file.seek(0)
            file.truncate()
            faulthandler.dump_traceback(file)
            file.seek(0)
            text = file.read(_TEXT_BYTES_MAX)
        except OSError:
            return ""
        return place_in(text.decode(errors="replace"), thread, f"{_ROOT}/")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _file_in_memory() -> IO[bytes]:
    """Returns a file without a name; on a disk where the system has no files in memory. Raises OSError."""
    if sys.platform == "linux":
        return open(os.memfd_create("apiserver-stacks"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def place_in(text: str, thread: int, root: str) -> str:
    """Returns the place in the output of `faulthandler`. root: the folder of the server's packages."""
    headings = list(_THREAD.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if int(heading[1], 16) == thread:
            frames = _FRAME.findall(text, heading.end(), following.start() if following else len(text))
            own = [frame for frame in frames if frame[0].startswith(f"{root}apiserver/")]
            for path, line, function in own[:1] or frames[:1]:
                module = path.removeprefix(root).removesuffix(".py").replace("/", ".").strip(".")
                return f"{module}:{function}:{line}"
    return ""
