"""The program of a server that tests have started as a child process.

It is `apiserver`, and ends as on SIGTERM when its standard input does: when the process of the tests has
ended, however that was.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from apiserver.__main__ import main


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    sys.exit(main(sys.argv[1:]))
