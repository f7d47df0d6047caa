"""Reads the files that a command line names, up to a length. Devices have no end, and named pipes hang."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

# A kubeconfig of a thousand clusters has a third of this.
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
# Shells pass `<(command)` as such a file.
_DESCRIPTORS: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


def read_bounded(path: Path) -> bytes:
    """Returns the content of a file. Raises OSError with its name, also if it is too long or a named pipe."""
    try:
        with open(path, "rb", opener=_open) as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except ValueError as error:  # A null byte, as a kubeconfig can have it in a path.
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    if len(content) > FILE_BYTES_MAX:
        raise OSError(errno.EFBIG, f"is longer than {FILE_BYTES_MAX} bytes", str(path))
    return content


def _open(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)  # Otherwise a pipe waits for a program that writes.
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and not str(path).startswith(_DESCRIPTORS):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is a named pipe, not a file", str(path))
    os.set_blocking(descriptor, True)
    return descriptor
