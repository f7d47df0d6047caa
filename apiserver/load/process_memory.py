"""The memory of the process and its limit, and the C library's allocator, which can return memory.

glibc keeps freed memory in the middle of its heap, and in a heap for each thread: after a burst of large
bodies or responses the process stays twice as large. With other C libraries, as on Alpine Linux or macOS, the
allocator here does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_STATM: Final = "/proc/self/statm"
# A parameter of mallopt(3).
_M_ARENA_MAX: Final = -8
# Threads beside the event loop mostly wait for the interpreter: separate heaps would only keep more free
# memory.
ARENAS_MAX: Final = 2
# cgroups of version 1 say so where there is no limit.
_NO_LIMIT_BYTES: Final = 1 << 60


class Allocator:
    """The C library's allocator."""

    def __init__(self) -> None:
        import ctypes  # 2 ms, which servers for tests have no use for

        self._library: Any = None
        try:
            library = ctypes.CDLL(None)
            library.gnu_get_libc_version  # noqa: B018  only glibc has it
            library.malloc_trim.argtypes = [ctypes.c_size_t]
            library.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
            self._library = library
        except (OSError, TypeError, AttributeError):
            pass

    def tune(self) -> None:
        """Reduce the freed memory that the allocator keeps; to be called before there are threads.

        Settings of the environment are not changed. Nor are glibc's thresholds for mapped blocks and for the
        end of the heap: with fixed ones lists of large objects took twice the CPU time, and `trim` is enough.
        """
        if self._library is not None and "MALLOC_ARENA_MAX" not in os.environ:
            self._library.mallopt(_M_ARENA_MAX, ARENAS_MAX)

    def trim(self) -> None:
        """Return free memory to the system, which takes a millisecond for some 10 MB, without the
        interpreter's lock.
        """
        if self._library is not None:
            self._library.malloc_trim(0)


class ResidentMemory:
    """Reads the memory of the process, in a few microseconds."""

    def __init__(self) -> None:
        self._file = -1
        try:
            self._page_bytes = os.sysconf("SC_PAGE_SIZE")
            self._file = os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError, AttributeError):
            pass

    def bytes(self) -> int | None:
        """Returns the resident memory in bytes; None where the system does not report it."""
        if self._file < 0:
            return None
        return int(os.pread(self._file, 128, 0).split()[1]) * self._page_bytes

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def container_limit_bytes(root: Path = Path("/")) -> int:
    """Returns the memory limit of the process's control group, or of those above, in bytes; 0 if there is
    none.
    """
    limits = [limit for path in _limit_files(root) if (limit := _limit(path))]
    return min(limits, default=0)


def _limit_files(root: Path) -> Iterator[Path]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            base, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside of a container the group's path may be that on the host, which is not to be seen.
        own = Path(group.strip("/"))
        for above in (own, *own.parents):
            yield base / above / name


def _limit(path: Path) -> int:
    try:
        text = path.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() and int(text) < _NO_LIMIT_BYTES else 0
