"""Threads that nothing waits for: each is used again, and there is a limit."""

from __future__ import annotations

import threading
from functools import partial
from typing import Final

from apiserver.extensions.host.daemon_threads import DaemonThreads
from tests.support.eventually import WITHIN_S, until

MOST: Final = 3


def test_a_thread_is_used_again() -> None:
    threads, used = DaemonThreads(MOST), set[int | None]()
    for number in range(1, 20):
        done = threading.Event()

        def work(done: threading.Event = done) -> None:
            used.add(threading.current_thread().ident)
            done.set()

        until(partial(threads.run, work), what=f"there is a thread for the call {number}")
        assert done.wait(WITHIN_S)
    assert 1 <= len(used) <= MOST
    threads.close()


def test_there_are_not_more_threads_than_the_limit() -> None:
    threads, go_on = DaemonThreads(MOST), threading.Event()

    def wait() -> None:
        go_on.wait(WITHIN_S)

    assert [threads.run(wait) for _ in range(MOST + 2)] == [True] * MOST + [False] * 2
    go_on.set()
    until(lambda: threads.run(wait), what="a thread is free")
    threads.close()
