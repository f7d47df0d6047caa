"""Decides where work runs: on the event loop, or in a thread beside it.

Processing a body of 3 MiB takes seconds of Python in the worst case, during which no other request would be
answered. So each stage of a request states how large its input is (`SizeClass`), and one object, the server's
`Offload`, decides where it runs.

Threads take turns with each other and the event loop: more of them finish nothing sooner. There are three
*lanes*: for large work and for huge work, so that a body of 20 KiB does not wait for one of 3 MiB; and for
the evaluation of expressions that users send, which may take long whatever their size, so that no write waits
for them. A lane does one piece of work at a time. Users take turns: a user with a hundred waiting pieces does
not delay a user with one. The number of waiting pieces is bounded, for each user and in total; beyond that, a
call is refused before its work begins. Later work of a call that has begun is never refused, and its number
is bounded by that of calls. It comes before work that begins another call of the same user: a body of 1 MB
that has been parsed takes twenty times as much memory, and sixty of them, all parsed before the first is
stored, take more than a gigabyte.

A long list is no work for a thread: it takes turns on the event loop (`storage.event_loop_turns`).

Small work may take long, too. Such work is *bounded*: on the loop it raises `TakesLong` at its bound, and is
done again, unbounded, in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Final, ParamSpec, Protocol, TypeAlias, TypeVar

from apiserver.load.fair_queue import FairQueue
from apiserver.load.size_class import LARGE_BYTES, SizeClass, TakesLong, size_class
from apiserver.load.switch_interval import SHORT_SWITCH_INTERVAL, compute_in_thread
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import Document
from apiserver.tracing import request_trace

# How long a thread waits for the event loop, whose turns take some milliseconds.
LOOP_ANSWER_S: Final = 10.0

_P = ParamSpec("_P")
_T = TypeVar("_T")


class DedicatedLane(enum.Enum):
    """A lane for one purpose, and work of any size."""

    EVALUATIONS = "evaluations"


LaneKey: TypeAlias = SizeClass | DedicatedLane

# How many pieces of work may wait for each lane. A large one takes a few milliseconds, and clients send some
# hundreds at once; a huge one takes up to seconds, and what waits longer than its request may take is lost.
# An evaluation takes up to seconds, and a person waits for its answer before asking the next one.
WAITING_MAX: Final[Mapping[LaneKey, int]] = {
    SizeClass.LARGE: 2048,
    SizeClass.HUGE: 256,
    DedicatedLane.EVALUATIONS: 32,
}
WAITING_OF_USER_MAX: Final[Mapping[LaneKey, int]] = {
    SizeClass.LARGE: 1024,
    SizeClass.HUGE: 64,
    DedicatedLane.EVALUATIONS: 4,
}
# For each second of an evaluation its lane rests so long. A pattern is compiled in one call of C, which the
# event loop cannot interrupt: evaluations without a pause between them would add milliseconds to every round
# of the loop, for as long as somebody asks.
EVALUATION_REST: Final = 4.0
# No rest is longer: others wait for it, too.
REST_S_MAX: Final = 5.0
# Whose work it is if no user asks for it: the server's own, which is never refused.
SERVER: Final = ""


class EncodedObject(Protocol):
    """An object as bytes: a `StoredObject`. tail: nearly all of its bytes."""

    @property
    def tail(self) -> bytes: ...

    def document(self) -> Document: ...


class Lane:
    """A thread, and the work that waits for it.

    rest: how many seconds the thread does nothing for each second that it has worked, `REST_S_MAX` at most.
    waiting: the number of waiting pieces. done_total, refused_total: the numbers of done and refused pieces.
    busy_s: the total seconds that the thread has worked.
    """

    def __init__(self, name: str, *, waiting_max: int, waiting_of_user_max: int, rest: float = 0.0) -> None:
        self.name = name
        self.waiting = 0
        self.done_total = 0
        self.refused_total = 0
        self.busy_s = 0.0
        self._waiting_max = waiting_max
        self._waiting_of_user_max = waiting_of_user_max
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"offload-{name}")
        self._rest = rest
        self._latest_s = 0.0
        self._is_busy = False
        self._turns: FairQueue[asyncio.Future[None]] = FairQueue()

    async def run(self, user: str, work: Callable[[], _T], *, may_refuse: bool) -> _T:
        """Returns the result of `work`, or raises its error. Raises TooManyRequests if too much work
        waits.
        """
        loop, began = asyncio.get_running_loop(), perf_counter()
        try:
            if self._is_busy:
                await self._wait(loop, user, may_refuse)
            self._is_busy = True
            # No variable here holds the future: with an exception in it that would be a cycle, which would
            # keep a whole body in memory until the garbage collector comes.
            return await self._started(loop, work)
        finally:
            request_trace.record("worker thread", began, self.name)

    def require_place(self, user: str) -> None:
        """Check that work of a user may wait here. Raises TooManyRequests."""
        if user != SERVER and (
            self.waiting >= self._waiting_max or self._turns.count(user) >= self._waiting_of_user_max
        ):
            self.refused_total += 1
            raise TooManyRequests

    def _started(self, loop: asyncio.AbstractEventLoop, work: Callable[[], _T]) -> asyncio.Future[_T]:
        try:
            running = self._thread.submit(self._timed, work)
        except RuntimeError:  # The server has closed: waiting work fails, too.
            self._begin_next()
            raise
        # When it has ended, not when its caller has gone: the thread is still busy then.
        running.add_done_callback(partial(self._on_done, loop))
        return asyncio.wrap_future(running)

    async def _wait(self, loop: asyncio.AbstractEventLoop, user: str, may_refuse: bool) -> None:
        if may_refuse:
            self.require_place(user)
        turn: asyncio.Future[None] = loop.create_future()
        self._turns.append(user, turn, is_urgent=not may_refuse)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._begin_next()  # The turn came together with the cancellation.
            elif self._turns.discard(user, turn):  # Else it was passed over, and is counted no more.
                self.waiting -= 1
            raise

    def _timed(self, work: Callable[[], _T]) -> _T:
        began = perf_counter()
        try:
            with SHORT_SWITCH_INTERVAL:
                return work()
        finally:
            self._latest_s = perf_counter() - began
            self.busy_s += self._latest_s

    def _on_done(self, loop: asyncio.AbstractEventLoop, _: Future[_T]) -> None:
        with contextlib.suppress(RuntimeError):  # The loop has closed.
            loop.call_soon_threadsafe(self._after_done)

    def _after_done(self) -> None:
        self.done_total += 1
        if self._rest:
            rest_s = min(self._latest_s * self._rest, REST_S_MAX)
            asyncio.get_running_loop().call_later(rest_s, self._begin_next)
        else:
            self._begin_next()

    def _begin_next(self) -> None:
        """Begin the work of the user who has waited longest since their last one."""
        while self._turns:
            self.waiting -= 1
            turn = self._turns.popleft()
            if not turn.done():  # Else its caller has gone in this round of the loop, and does not know yet.
                turn.set_result(None)
                return
        self._is_busy = False

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


class Offload:
    """Runs work on the event loop if it is small, else in the lane for its size, for one user.

    user: the one whose work it is; `SERVER` for the server itself.
    lanes: shared by all users.
    """

    __slots__ = ("lanes", "user")

    def __init__(self, user: str = SERVER, lanes: Mapping[LaneKey, Lane] | None = None) -> None:
        """lanes: new ones if not given."""
        self.user = user
        self.lanes = new_lanes() if lanes is None else lanes

    def for_user(self, user: str) -> Offload:
        """Returns an object that runs the work of a user in the same lanes."""
        return Offload(user, self.lanes)

    async def run(self, size: SizeClass, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Returns the result of `work`, or raises its error.

        Raises TooManyRequests if too much work waits before it.

        If cancelled, `work` runs to its end nevertheless once it has begun, so it must only compute.
        """
        if size is SizeClass.SMALL:
            return work(*args, **kwargs)
        return await self.lanes[size].run(self.user, partial(work, *args, **kwargs), may_refuse=True)

    async def run_begun(
        self, size: SizeClass, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run work as `run` does, but without refusing it, because its call has begun."""
        if size is SizeClass.SMALL:
            return work(*args, **kwargs)
        return await self.lanes[size].run(self.user, partial(work, *args, **kwargs), may_refuse=False)

    async def run_bounded(self, size: SizeClass, work: Callable[[bool], _T]) -> _T:
        """Run `work(is_bounded)` as `run_begun` does; it is bounded on the event loop."""
        if size is SizeClass.SMALL:
            try:
                return work(True)
            except TakesLong:
                size = SizeClass.HUGE
        return await self.lanes[size].run(self.user, partial(work, False), may_refuse=False)

    async def run_evaluation(self, size: SizeClass, work: Callable[[bool], _T]) -> _T:
        """Run `work(is_bounded)` for a user who waits for its result; it is bounded on the event loop.

        What takes long waits for other evaluations only, and no other work waits for it. Raises
        TooManyRequests if too many evaluations wait. If cancelled, it is as with `run`.
        """
        lane = self.lanes[DedicatedLane.EVALUATIONS]
        # First, or a user who is refused again and again would keep the event loop busy with attempts.
        lane.require_place(self.user)
        if size is SizeClass.SMALL:
            with contextlib.suppress(TakesLong):
                return work(True)
        return await lane.run(self.user, partial(work, False), may_refuse=True)

    async def document(self, found: EncodedObject) -> Document:
        """Returns a decoded object, as its own `document` does. Raises CorruptObject.

        Callers that need only a part should use `read`: a decoded object takes twenty times as much memory.
        """
        if len(found.tail) <= LARGE_BYTES:  # Most are small, and recognized without a call.
            return found.document()
        return await self.run_begun(size_class(len(found.tail)), found.document)

    async def read(self, found: EncodedObject, reading: Callable[[Document], _T]) -> _T:
        """Returns the result of `reading` for a decoded object, which is then discarded.

        Raises CorruptObject, and the errors of `reading`.
        """
        if len(found.tail) <= LARGE_BYTES:
            return reading(found.document())
        return await self.run_begun(size_class(len(found.tail)), _read, found, reading)

    def close(self) -> None:
        """Accept no more work; running work ends by itself."""
        for lane in self.lanes.values():
            lane.close()


def _read(found: EncodedObject, reading: Callable[[Document], _T]) -> _T:
    return reading(found.document())


async def run_unqueued(size: SizeClass, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run work that is not small in one of the event loop's threads, outside of the lanes.

    It is for the server's own work that must not wait for work of users, for example to apply revoked
    permissions.
    """
    if size is SizeClass.SMALL:
        return work(*args, **kwargs)
    return await compute_in_thread(work, *args, **kwargs)


def on_event_loop(work: Callable[_P, _T]) -> Callable[_P, _T]:
    """Returns a function that runs `work` on the current event loop, while the calling thread waits.

    It is for work with data that belongs to the loop, and may change there meanwhile.
    """
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def do(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if threading.get_ident() == thread:
            return work(*args, **kwargs)

        async def done() -> _T:
            return work(*args, **kwargs)

        return asyncio.run_coroutine_threadsafe(done(), loop).result(LOOP_ANSWER_S)

    return do


def new_lanes() -> Mapping[LaneKey, Lane]:
    return {
        key: Lane(
            key.name.lower(),
            waiting_max=most,
            waiting_of_user_max=WAITING_OF_USER_MAX[key],
            rest=EVALUATION_REST if key is DedicatedLane.EVALUATIONS else 0.0,
        )
        for key, most in WAITING_MAX.items()
    }
