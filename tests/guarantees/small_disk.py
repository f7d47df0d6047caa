"""`python -m tests.guarantees.small_disk FLAGS`: the server with its store on a file system of 64 MiB.

It is mounted in a mount namespace of its own and ends with the process; `files_of` gives paths into it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

SIZE: Final = "64m"
_ISOLATED: Final = ("unshare", "--user", "--map-root-user", "--mount")


def is_possible() -> bool:
    """Whether this process may mount in a user namespace."""
    try:
        done = subprocess.run([*_ISOLATED, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


def files_of(pid: int, path: Path) -> Path:
    """The path by which other processes reach `path` in the mount namespace of `pid`."""
    return Path(f"/proc/{pid}/root") / path.resolve().relative_to("/")


def fill_up(ballast: Path) -> None:
    """Take all free space with one file, in one step.

    A file that grows step by step would also take the space that a server frees meanwhile.
    """
    with ballast.open("wb") as file:
        while (space := os.fstatvfs(file.fileno())).f_bavail:
            try:
                os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize)
            except OSError:  # The server has written in between.
                continue
            return


def main(flags: list[str]) -> None:
    data_dir = next(flag.partition("=")[2] for flag in flags if flag.startswith("--data-dir="))
    store = Path(data_dir) / "store"
    store.mkdir(parents=True, exist_ok=True)
    mount = f'mount -t tmpfs -o size={SIZE},mode=0700 none "{store}" && exec "$@"'
    command = [*_ISOLATED, "sh", "-c", mount, "sh", sys.executable, "-m", "apiserver", *flags]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
