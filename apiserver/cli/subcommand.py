"""Runs a subcommand, which ends with one line on stderr if it cannot write its output, or after a signal.

The reasons are broken pipes, full disks and a missing stdout; the signals are SIGINT and SIGTERM. A pipe
breaks when its reader ends first, as `head` does. After a signal, commands clean up.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from apiserver.cli.printing import print_error

# What a write to a file, a pipe or a terminal fails with.
_LOST: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


# Ended by a signal: this plus its number, as shells have it.
_SIGNALLED: Final = 128
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A signal has interrupted a command."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def interruptible() -> Iterator[None]:
    """Within it, SIGINT and SIGTERM raise Interrupted in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, _interrupt)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN  # As in the background of a shell.
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)


def run_subcommand(run: Callable[[], int], failed: int) -> int:
    """Returns the exit code: what `run` returns, when all that it has printed is written; else `failed`.

    Interrupted by a signal it is 128 and the signal's number. Raises what `run` raises, but for OSError and
    Interrupted.
    """
    if sys.stdout is None:
        print_error("there is no standard output")
        return failed
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # Other encodings lack characters of names.
    try:
        with interruptible():
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
        print_error(why)
    except Interrupted as interrupted:
        print_error("interrupted")
        return _SIGNALLED + interrupted.number
    return failed


def _discard_output() -> None:
    """Have the interpreter not try again at its end what is left: it would say so by a traceback."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
