"""What servers leave in their process that were started and stopped in it, one after another."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final, NamedTuple

# In a process of its own: what other servers in that of the tests do meanwhile makes objects, too.
ONE_AFTER_ANOTHER: Final = """
import gc, sys, threading
import psutil
from apiserver.load.tracked_objects import tracked_count
from apiserver.testing import ApiServer

process = psutil.Process()

def state():
    gc.collect()
    held = process.memory_info().rss, tracked_count()
    return *held, process.num_fds(), threading.active_count()

state()  # what it imports and keeps is there from now on
first, last = map(int, sys.argv[1:])
for number in range(1, last + 1):
    with ApiServer() as server:
        server.request("GET", "/api/v1/namespaces")
    if number in (first, last):
        print(*state())
"""


class Left(NamedTuple):
    """What stopped servers have left in their process. memory: in bytes; the others are counts."""

    memory: int
    objects: int
    files: int
    threads: int


def left_by_servers(first: int, last: int) -> tuple[Left, Left]:
    """Start and stop servers, and return what is left after so many of them."""
    end = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_ANOTHER, str(first), str(last)],
        # glibc keeps a heap for each of many threads: with one for all, what stays is a leak.
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    at_first, at_last = (Left(*map(int, line.split())) for line in end.stdout.splitlines())
    return at_first, at_last
