"""The program of a server that tests start as a child process.

It is `apiserver`, and stops as on SIGTERM when its standard input ends, as it does when the process of the
tests ends in any way. Each line of the input is a number of seconds by which to advance the server's clock; a
line of standard output confirms it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from apiserver.__main__ import main
from apiserver.testing.runners import DRAIN_S
from apiserver.testing.server_time import ServerTime


def _follow_parent(time: ServerTime) -> None:
    try:
        for line in sys.stdin:
            time.advance_in_thread(float(line))
            print("advanced", flush=True)
    finally:
        # Also where the server does not run yet, or not any more.
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    own_time = ServerTime()
    threading.Thread(target=_follow_parent, args=(own_time,), name="parent", daemon=True).start()
    sys.exit(main(sys.argv[1:], own_time.clock, DRAIN_S))
