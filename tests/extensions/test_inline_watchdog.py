"""The thread that watches inline functions."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

# Exits with 0 if a process that is forked from one with the thread knows that it has none.
_FORK: Final = """
import os, sys
from apiserver.extensions.host.inline import Watchdog

watchdog = Watchdog()
watchdog.start()
assert watchdog.is_watching
child = os.fork()
if child == 0:
    os._exit(watchdog.is_watching)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_knows_that_it_has_no_such_thread() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _FORK], timeout=60, check=False)
    assert done.returncode == 0


# Exits with the number of functions of the module that run in a process forked from one with many watchdogs.
_MANY: Final = """
import os, sys
from apiserver.extensions.host import inline

watchdogs = [inline.Watchdog() for _ in range(100)]
called = 0

def count(frame, event, _):
    global called
    called += event == "call" and frame.f_code.co_filename == inline.__file__

sys.setprofile(count)
child = os.fork()
sys.setprofile(None)
if child == 0:
    os._exit(called)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_takes_no_longer_for_each_watchdog_that_there_was() -> None:
    """Processes that run tests start many servers, and what is called at a fork is never unregistered."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _MANY], timeout=60, check=False)
    assert done.returncode == 1
