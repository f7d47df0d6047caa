"""The thread of a server, when it ends while somebody asks it for something.

The event loop says when it ends, and when it is given something to do, so that each order can be had.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple, Unpack

import pytest

from apiserver.app.host_process import HostProcess
from apiserver.cli.command_line import parse
from apiserver.testing.errors import ServerDidNotStart, ServerStopped
from apiserver.testing.runners import ServerThread
from apiserver.testing.server_time import AsyncioLoop, ServerTime
from tests.support.eventually import WITHIN_S

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

ASKED: Final = "a test"


class ObservedTime(ServerTime):
    """The time of a server whose event loop does not close before it may.

    given: released whenever the loop is given something to do by a thread of the test.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_ended, self.may_close = threading.Event(), threading.Event()
        self.given = threading.Semaphore(0)

    def new_event_loop(
        self, make: Callable[[ServerTime], asyncio.AbstractEventLoop] | None = None
    ) -> asyncio.AbstractEventLoop:
        return super().new_event_loop(make or (lambda _: ObservedLoop(self)))


class ObservedLoop(AsyncioLoop):
    def __init__(self, time: ObservedTime) -> None:
        super().__init__(time)
        self._observed = time

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        if threading.current_thread().name == ASKED:
            self._observed.given.release()
        return handle

    def close(self) -> None:
        self._observed.has_ended.set()
        assert self._observed.may_close.wait(WITHIN_S)
        super().close()


def started(act: Callable[[], T]) -> Future[T]:
    """Returns the outcome of something that is done in a thread, which may take for ever."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(act())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name=ASKED, daemon=True).start()
    return outcome


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


@contextmanager
def held_up(server: ServerThread, time: ObservedTime) -> Iterator[Callable[[Callable[[], T]], Future[T]]]:
    """Yields what starts something that gives the loop of a server something to do, and waits for that.

    The loop begins with all of it at the end, in this order.
    """
    is_held, may_go_on = threading.Event(), threading.Event()

    async def hold() -> None:
        is_held.set()
        may_go_on.wait(WITHIN_S)

    def given(act: Callable[[], T]) -> Future[T]:
        outcome = started(act)
        assert time.given.acquire(timeout=WITHIN_S)
        return outcome

    held = started(lambda: server.call(hold, ASKED))
    assert is_held.wait(WITHIN_S)
    while time.given.acquire(blocking=False):
        pass
    try:
        yield given
    finally:
        may_go_on.set()
        held.result(WITHIN_S)


@pytest.fixture
def time() -> Iterator[ObservedTime]:
    time = ObservedTime()
    yield time
    time.may_close.set()


@pytest.fixture
def server(time: ObservedTime, tmp_path: Path) -> Iterator[ServerThread]:
    config = parse([f"--data-dir={tmp_path}", "--secure-port=0", "--storage-backend=memory"])
    server = ServerThread(config, HostProcess(is_own=False), time)
    server.start()
    yield server
    time.may_close.set()
    server.stop()


def test_what_is_asked_for_when_the_loop_has_ended(server: ServerThread, time: ObservedTime) -> None:
    """It is not closed yet, and takes what nobody will do any more."""
    stopped = started(server.stop)
    assert time.has_ended.wait(WITHIN_S)
    with pytest.raises(ServerStopped, match=ASKED):
        started(lambda: server.call(for_ever, ASKED)).result(WITHIN_S)
    time.may_close.set()
    stopped.result(WITHIN_S)


def test_what_is_under_way_when_the_server_stops(server: ServerThread, time: ObservedTime) -> None:
    has_begun = threading.Event()

    async def begin() -> None:
        has_begun.set()
        await for_ever()

    asked = started(lambda: server.call(begin, ASKED))
    assert has_begun.wait(WITHIN_S)
    time.may_close.set()
    server.stop()
    with pytest.raises(ServerStopped, match=ASKED):
        asked.result(WITHIN_S)


def test_what_is_asked_for_in_the_round_in_which_the_server_is_stopped(
    server: ServerThread, time: ObservedTime
) -> None:
    time.may_close.set()
    with held_up(server, time) as given:
        stopped = given(server.stop)
        asked = given(lambda: server.call(for_ever, ASKED))
    stopped.result(WITHIN_S)
    with pytest.raises(ServerStopped, match=ASKED):
        asked.result(WITHIN_S)


def test_a_server_that_is_stopped_does_not_begin_again(server: ServerThread, time: ObservedTime) -> None:
    state = server.copy_state(ASKED)
    time.may_close.set()
    with held_up(server, time) as given:
        again = given(lambda: server.begin_again(state, ASKED))
        stopped = given(server.stop)
    stopped.result(WITHIN_S)
    with pytest.raises(ServerDidNotStart, match="it was stopped before it was ready"):
        again.result(WITHIN_S)


def test_a_server_that_was_stopped_before_it_was_started_ends(time: ObservedTime, tmp_path: Path) -> None:
    config = parse([f"--data-dir={tmp_path}", "--secure-port=0", "--storage-backend=memory"])
    server = ServerThread(config, HostProcess(is_own=False), time)
    time.may_close.set()
    server.stop()
    with pytest.raises(ServerDidNotStart, match="it was stopped before it was ready"):
        server.start()
