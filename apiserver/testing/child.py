"""The program of a server that tests have started as a child process.

It is `apiserver`, and ends as on SIGTERM when its standard input does: when the process of the tests has
ended, however that was. Each line there is a number of seconds by which to put the server's clock forward; a
line of standard output answers it.
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
