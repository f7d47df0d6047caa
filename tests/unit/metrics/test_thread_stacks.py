"""Where a thread is, is told by what `faulthandler` writes."""

from __future__ import annotations

import sys
import threading
from typing import Final

import pytest

from apiserver.metrics.thread_stacks import ThreadStacks, place_in

ROOT: Final = "/srv/lib/"
TEXT: Final = """\
Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/ssl.py", line 1243 in send
  File "/srv/lib/apiserver/app/serving/tls_transport.py", line 156 in write
  File "/srv/lib/apiserver/app/server.py", line 12 in run

Thread 0x00007f0000000002 [worker] (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/elsewhere/apiserver/own.py", line 1 in run

Thread 0x00007f0000000003 (most recent call first):
  <no Python frame>

Current thread 0x00007f0000000004 (most recent call first):
  File "/srv/lib/apiserver/storage/event_loop_turns.py", line ??? in <listcomp>
"""
PLACES: Final = {
    "the innermost of the server's own": (1, "apiserver.app.serving.tls_transport:write:156"),
    "none of the server's own": (2, "usr.lib.python3.11.threading:wait:331"),
    "no Python": (3, ""),
    "the thread that asks": (4, "apiserver.storage.event_loop_turns:<listcomp>:???"),
    "not there": (5, ""),
}


@pytest.mark.parametrize(("thread", "place"), PLACES.values(), ids=PLACES)
def test_the_place_of_a_thread(thread: int, place: str) -> None:
    assert place_in(TEXT, 0x7F0000000000 + thread, ROOT) == place


def test_a_thread_that_waits_is_found() -> None:
    stacks, ended = ThreadStacks(), threading.Event()
    waiting = threading.Thread(target=ended.wait)
    waiting.start()
    try:
        assert "threading:wait:" in stacks.place_of(waiting.ident or 0)
        own = stacks.place_of(threading.get_ident())
        assert own.startswith("apiserver.metrics.thread_stacks:_text:")
    finally:
        ended.set()
        waiting.join()
        stacks.close()


def test_looking_again_and_again_at_a_thread_that_works() -> None:
    """Each look tells where it is then; what was written before is gone."""

    def recurse(depth: int) -> None:
        if depth and not ended.is_set():
            recurse(depth - 1)

    def work() -> None:
        while not ended.is_set():
            recurse(50)

    stacks, ended = ThreadStacks(), threading.Event()
    working = threading.Thread(target=work)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    working.start()
    try:
        places = {stacks.place_of(working.ident or 0).split(":")[1] for _ in range(2_000)}
    finally:
        sys.setswitchinterval(interval_s)
        ended.set()
        working.join()
        stacks.close()
    assert {"recurse"} <= places <= {"recurse", "work", "is_set"}
