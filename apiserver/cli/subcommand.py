"""Runs a subcommand to its end, also where nobody takes what it prints, or somebody interrupts it.

Who reads a pipe may end first, as `head` does, a disk may be full, or there may be no standard output at all.
Each is reported in one line.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from apiserver.cli.printing import print_error

# What a write to a file, a pipe or a terminal fails with.
_LOST: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


def run_subcommand(run: Callable[[], int], failed: int) -> int:
    """Returns the exit code: what `run` returns, when all that it has printed is written; else `failed`.

    Raises what `run` raises, but for OSError and KeyboardInterrupt.
    """
    if sys.stdout is None:
        _tell("there is no standard output")
        return failed
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # Other encodings lack characters of names.
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()  # Also before it exits for --help.
    except OSError as error:
        why = error.strerror or str(error)
        if error.filename is not None:
            why = f"{os.fsdecode(error.filename)}: {why}"
        elif error.errno in _LOST:
            _discard_output()
            why = f"the output cannot be written: {why}"
        _tell(why)
    except KeyboardInterrupt:
        _tell("interrupted")
    return failed


def _tell(line: str) -> None:
    with suppress(OSError):  # It may go where the output does.
        print_error(line)


def _discard_output() -> None:
    """Have the interpreter not try again at its end what is left: it would say so by a traceback."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
