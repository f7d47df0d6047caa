"""Finds the current places of other threads without access to its frames from Python.

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
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_ROOT: Final = Path(__file__).parents[2]
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)\b", re.MULTILINE)
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$', re.MULTILINE)
# What precedes the modules of the standard library, and of packages.
_LIBRARY: Final = re.compile(r"^.*/(?:site-packages|python3\.[0-9]+)/")
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
            return place_in(self._text(), thread, f"{_ROOT}/")
        except OSError:
            return ""

    def functions(self) -> dict[int, list[str]]:
        """Returns the functions that each thread is in, the outermost first, by the thread's identifier.

        Raises OSError if the file cannot be made.
        """
        return functions_in(self._text(), f"{_ROOT}/")

    def _text(self) -> str:
        file = self._file = self._file or _file_in_memory()
        file.seek(0)
        file.truncate()
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read(_TEXT_BYTES_MAX).decode(errors="replace")

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
    frames = dict(_frames_in(text)).get(thread, [])
    own = [frame for frame in frames if frame[0].startswith(f"{root}apiserver/")]
    for path, line, function in own[:1] or frames[:1]:
        return f"{_module(path, root)}:{function}:{line}"
    return ""


def functions_in(text: str, root: str) -> dict[int, list[str]]:
    """Returns the functions in the output of `faulthandler`, the outermost first, by thread."""
    return {
        thread: [
            f"{_module(_LIBRARY.sub('', path), root)}:{function}" for path, _, function in reversed(frames)
        ]
        for thread, frames in _frames_in(text)
    }


def _frames_in(text: str) -> Iterator[tuple[int, list[tuple[str, str, str]]]]:
    """Yields each thread with its frames, the innermost first: path, line and function."""
    headings = list(_THREAD.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        end = following.start() if following else len(text)
        yield int(heading[1], 16), _FRAME.findall(text, heading.end(), end)


def _module(path: str, root: str) -> str:
    return path.removeprefix(root).removesuffix(".py").replace("/", ".").strip(".")
