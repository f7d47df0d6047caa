"""Limits request bodies that are being received: their size, and the time that they may take.

A small body that arrived together with the head of its request is not counted. Other bodies are counted by
their announced length, before any of it is read, until the request is answered. Small bodies, large bodies
and those of `system:masters` have separate room, which users share by the rules of `SharedPool`. If there is
no room for a large body, its request waits for a while; meanwhile no more of it is read than the connection's
flow control lets through (`connection.UNREAD_BYTES_MAX`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from aiohttp import StreamReader

from apiserver.endpoints.connection import BODY_BYTES_MAX
from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import SYSTEM_MASTERS, UserInfo

# Nearly all bodies: objects of a usual size.
SMALL_BODY_BYTES: Final = 64 * 1024
# What a request that waits for its body takes itself.
WAITING_REQUEST_BYTES: Final = 16 * 1024
# A thousand clients whose bodies come after their heads, as those of some libraries do, at the same moment.
SMALL_BODIES_BYTES_MAX: Final = 16 * 1024 * 1024
# Twenty bodies of the largest size. What is made of them while they are handled takes several times as much.
LARGE_BODIES_BYTES_MAX: Final = 64 * 1024 * 1024
# How many large bodies may wait for room, and for how long: longer than it takes to handle those that have
# it, and less than the timeouts of clients.
WAITING_BODIES_MAX: Final = 64
ROOM_WAIT_S: Final = 10.0
# Each body must make so much progress: 1 KiB a second, over five seconds, in which a connection makes up for
# packets that it has lost. The first check comes at any time within the first second. kube-apiserver waits
# for the request's timeout.
ARRIVAL_CHECKED_EVERY_S: Final = 1.0
CHECKS_PER_PERIOD: Final = 6
BYTES_PER_PERIOD_MIN: Final = 5 * 1024


@dataclass(slots=True, eq=False)
class _Waiter:
    holder: str
    amount: int
    granted: asyncio.Future[None]


class _Lane:
    """The room for bodies of the users who share it."""

    def __init__(self, wait_s: float) -> None:
        self.small = SharedPool(SMALL_BODIES_BYTES_MAX)
        self._large = SharedPool(LARGE_BODIES_BYTES_MAX)
        self._wait_s = wait_s
        self._places = SharedPool(WAITING_BODIES_MAX)
        self._waiting: deque[_Waiter] = deque()

    async def take_large(self, holder: str, amount: int) -> None:
        """Take room, or wait for it.

        Raises TooManyRequests if many requests wait, or no room becomes free.
        """
        if not self._waiting and self._large.take(holder, amount):
            return
        if not self._places.take(holder):
            raise TooManyRequests
        waiter = _Waiter(holder, amount, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            self._grant()  # Requests that came earlier may wait because their users have their share.
            async with asyncio.timeout(self._wait_s):
                await waiter.granted
        except BaseException as error:
            if waiter.granted.cancelled():
                self._waiting.remove(waiter)
                self._grant()  # It may have been in the way.
            else:
                self.give_back_large(holder, amount)  # It was granted in the same moment.
            if isinstance(error, TimeoutError):
                raise TooManyRequests from None
            raise
        finally:
            self._places.give_back(holder)

    def give_back_large(self, holder: str, amount: int) -> None:
        self._large.give_back(holder, amount)
        self._grant()

    def _grant(self) -> None:
        """Give room to waiting requests, in their order, except those of users who have their share."""
        for waiter in list(self._waiting):
            if waiter.granted.done():
                continue  # It has given up, and will say so.
            if self._large.take(waiter.holder, waiter.amount):
                self._waiting.remove(waiter)
                waiter.granted.set_result(None)
            elif not self._large.exceeds_share(waiter.holder, waiter.amount):
                break  # Smaller bodies of others would keep it waiting for ever.


class BodyRoom:
    """The room of one request for its body."""

    __slots__ = ("_holder", "_lane", "_large", "_small")

    def __init__(self, lane: _Lane, holder: str) -> None:
        self._lane, self._holder = lane, holder
        self._small = self._large = 0

    async def take(self, body_bytes: int) -> None:
        """Take room for a body whose length is known. Raises TooManyRequests."""
        if body_bytes > SMALL_BODY_BYTES:
            await self._lane.take_large(self._holder, body_bytes)
            self._large = body_bytes
            return
        self._take_small(max(body_bytes, WAITING_REQUEST_BYTES))

    def take_some(self) -> int:
        """Take room for a small body of unknown length. Raises TooManyRequests.

        Returns how many bytes it took.
        """
        self._take_small(SMALL_BODY_BYTES)
        return SMALL_BODY_BYTES

    async def take_most(self) -> int:
        """Take room for a large body of unknown length. Raises TooManyRequests.

        It takes everything the body may need at once: bodies that wait for the rest of their room could
        deadlock.
        """
        await self._lane.take_large(self._holder, BODY_BYTES_MAX)
        self._large = BODY_BYTES_MAX
        return BODY_BYTES_MAX

    def release(self) -> None:
        if self._small:
            self._lane.small.give_back(self._holder, self._small)
        if self._large:
            self._lane.give_back_large(self._holder, self._large)
        self._small = self._large = 0

    def _take_small(self, amount: int) -> None:
        if not self._lane.small.take(self._holder, amount):
            raise TooManyRequests
        self._small = amount


@dataclass(slots=True, eq=False)
class IncomingBody:
    """A body that is being received.

    task: the one that reads it; cancelled if the body arrives too slowly, and then `is_too_slow`.
    """

    content: StreamReader
    task: asyncio.Task[object]
    is_too_slow: bool = False
    checks: int = 0
    bytes_before: int = 0


@dataclass(slots=True)
class BodyLimits:
    """The limits of all request bodies that are being received.

    room_wait_s: how long a large body may wait for room.
    """

    loop: asyncio.AbstractEventLoop
    room_wait_s: float = ROOM_WAIT_S
    _lanes: tuple[_Lane, _Lane] = field(init=False)
    _arriving: set[IncomingBody] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._lanes = _Lane(self.room_wait_s), _Lane(self.room_wait_s)

    def room_for(self, user: UserInfo) -> BodyRoom:
        """Returns the room for a request of a user; none of it is taken yet."""
        return BodyRoom(self._lanes[SYSTEM_MASTERS in user.groups], holder_of(user))

    def begin(self, content: StreamReader) -> IncomingBody:
        """Begin to supervise a body that the current task is about to read."""
        task = asyncio.current_task(self.loop)
        assert task is not None
        arrival = IncomingBody(content, task, bytes_before=content.total_bytes)
        self._arriving.add(arrival)
        return arrival

    def end(self, arrival: IncomingBody) -> None:
        self._arriving.discard(arrival)

    async def run(self) -> None:
        """Check all bodies at intervals until cancelled, which is cheaper than a timer for each."""
        while True:
            await asyncio.sleep(ARRIVAL_CHECKED_EVERY_S)
            self.check_arrivals()

    def check_arrivals(self) -> None:
        """Cancel the reading of bodies that arrive too slowly.

        Checks are counted instead of seconds: bytes that arrived while the event loop was busy are not
        visible yet.
        """
        for arrival in self._arriving:
            arrival.checks += 1
            if arrival.checks < CHECKS_PER_PERIOD or arrival.is_too_slow:
                continue
            received = arrival.content.total_bytes
            if received - arrival.bytes_before < BYTES_PER_PERIOD_MIN:
                arrival.is_too_slow = True
                arrival.task.cancel()
            arrival.checks, arrival.bytes_before = 0, received
