"""The server, started so that it notes which of its files are visited. See `visited_files`.

SIGUSR1 writes the files that were visited since the last one, and forgets them.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final

from apiserver.__main__ import main

ROOT: Final = f"{Path(__file__).parent.parent.parent}/"
_PACKAGES: Final = (f"{ROOT}apiserver/", f"{ROOT}storage/")


def trace(data_dir: Path) -> None:
    """Note the files from now on, in all threads; SIGUSR1 writes them to the data directory."""
    visited: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            visited.add(frame.f_code.co_filename)

    def write(*_: object) -> None:
        ours = sorted(name.removeprefix(ROOT) for name in visited.copy() if name.startswith(_PACKAGES))
        visited.clear()
        partial = data_dir / "visited.partial"
        partial.write_text("\n".join(ours))
        partial.rename(data_dir / "visited")

    signal.signal(signal.SIGUSR1, write)
    sys.setprofile(note)
    threading.setprofile(note)


if __name__ == "__main__":
    (directory,) = (flag.partition("=")[2] for flag in sys.argv if flag.startswith("--data-dir="))
    trace(Path(directory))
    sys.exit(main())
