"""How much of bodies may be on its way, whose, and how slowly it may come."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from hypothesis import given
from hypothesis import strategies as st

from apiserver.endpoints.body_limits import (
    BYTES_PER_PERIOD_MIN,
    CHECKS_PER_PERIOD,
    LARGE_BODIES_BYTES_MAX,
    SMALL_BODIES_BYTES_MAX,
    SMALL_BODY_BYTES,
    WAITING_BODIES_MAX,
    WAITING_REQUEST_BYTES,
    BodyLimits,
    BodyRoom,
)
from apiserver.endpoints.connection import BODY_BYTES_MAX
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import SYSTEM_MASTERS, UserInfo
from tests.support.eventually import WITHIN_S

GREEDY: Final = UserInfo("greedy")
BOB: Final = UserInfo("bob")
ADMIN: Final = UserInfo("admin", (SYSTEM_MASTERS,))


def limits(room_wait_s: float = 10 * WITHIN_S) -> BodyLimits:
    return BodyLimits(asyncio.get_running_loop(), room_wait_s)


async def taken_now(limits: BodyLimits, user: UserInfo, size: int) -> BodyRoom | None:
    """Room for a body that a user finds at once; None if it would have to wait, or is refused."""
    room = limits.room_for(user)
    taking = asyncio.create_task(room.take(size))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if not taking.done():
        taking.cancel()
    await asyncio.wait([taking])
    return None if taking.cancelled() or taking.exception() is not None else room


async def take_all(limits: BodyLimits, user: UserInfo, size: int = BODY_BYTES_MAX) -> list[BodyRoom]:
    rooms = []
    while (room := await taken_now(limits, user, size)) is not None:
        rooms.append(room)
    return rooms


SIZES: Final = {"large": BODY_BYTES_MAX, "small": SMALL_BODY_BYTES, "silent": 1}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
async def test_a_user_leaves_room_for_others(size: int) -> None:
    bodies = limits()
    await take_all(bodies, GREEDY, size)
    assert await taken_now(bodies, BOB, size) is not None


async def test_the_room_has_an_end() -> None:
    bodies = limits()
    crowd = [UserInfo(f"user-{number}") for number in range(100)]
    large = [await taken_now(bodies, user, BODY_BYTES_MAX) for user in crowd]
    assert sum(room is not None for room in large) == LARGE_BODIES_BYTES_MAX // BODY_BYTES_MAX
    # Bodies of a usual size have room of their own, and so has who may do anything.
    assert await taken_now(bodies, BOB, SMALL_BODY_BYTES) is not None
    assert await taken_now(bodies, ADMIN, BODY_BYTES_MAX) is not None


async def test_the_room_for_small_bodies_has_an_end() -> None:
    bodies = limits()
    rooms_max = SMALL_BODIES_BYTES_MAX // WAITING_REQUEST_BYTES
    rooms = [bodies.room_for(UserInfo(f"user-{number}")) for number in range(rooms_max)]
    for room in rooms:
        await room.take(1)
    with pytest.raises(TooManyRequests):
        await bodies.room_for(BOB).take(1)
    for room in rooms:
        room.release()
    assert await taken_now(bodies, BOB, 1) is not None


async def test_who_waits_gets_the_room_that_comes_free() -> None:
    bodies = limits()
    rooms = await take_all(bodies, GREEDY)
    waiting = bodies.room_for(GREEDY)
    taking = asyncio.create_task(waiting.take(BODY_BYTES_MAX))
    await asyncio.sleep(0)
    assert not taking.done()
    rooms.pop().release()
    await taking
    waiting.release()


async def test_who_has_waited_long_is_refused() -> None:
    bodies = limits(room_wait_s=0.01)
    await take_all(bodies, GREEDY)
    with pytest.raises(TooManyRequests):
        await bodies.room_for(GREEDY).take(BODY_BYTES_MAX)


async def test_not_everybody_may_wait() -> None:
    bodies = limits()
    await take_all(bodies, GREEDY)
    takes = [
        asyncio.create_task(bodies.room_for(GREEDY).take(BODY_BYTES_MAX)) for _ in range(WAITING_BODIES_MAX)
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    refused = [take for take in takes if take.done()]
    assert len(refused) == WAITING_BODIES_MAX // 5
    assert all(isinstance(take.exception(), TooManyRequests) for take in refused)
    for take in takes:
        take.cancel()
    await asyncio.wait(takes)


async def test_a_large_body_is_not_overtaken_by_small_ones_for_ever() -> None:
    """What comes free is kept for it, if it is not its user who has taken the rest."""
    bodies = limits()
    size = SMALL_BODY_BYTES * 4
    rooms = [
        room
        for number in range(LARGE_BODIES_BYTES_MAX // size)
        if (room := await taken_now(bodies, UserInfo(f"user-{number}"), size)) is not None
    ]
    large = bodies.room_for(BOB)
    taking = asyncio.create_task(large.take(BODY_BYTES_MAX))
    await asyncio.sleep(0)
    while not taking.done():
        rooms.pop().release()
        assert await taken_now(bodies, UserInfo("late"), size) is None or taking.done()
        await asyncio.sleep(0)
    await taking


@given(data=st.data())
def test_no_room_is_lost(data: st.DataObject) -> None:
    """Whoever is granted room, waits, is refused, or gives up: when all are gone, all is as at first."""

    async def scenario() -> None:
        bodies = limits()
        users = [GREEDY, BOB, ADMIN]
        requests: list[tuple[BodyRoom, asyncio.Task[Any]]] = []
        for _ in range(data.draw(st.integers(1, 60))):
            match data.draw(st.sampled_from(["take", "take", "take", "cancel", "release", "turn"])):
                case "take":
                    room = bodies.room_for(data.draw(st.sampled_from(users)))
                    size = data.draw(
                        st.sampled_from([1, SMALL_BODY_BYTES, BODY_BYTES_MAX // 2, BODY_BYTES_MAX])
                    )
                    requests.append((room, asyncio.create_task(room.take(size))))
                case "cancel" if requests:
                    requests[data.draw(st.integers(0, len(requests) - 1))][1].cancel()
                case "release" if requests:
                    room, taking = requests.pop(data.draw(st.integers(0, len(requests) - 1)))
                    taking.cancel()
                    await asyncio.wait([taking])
                    room.release()
                case _:
                    await asyncio.sleep(0)
        for room, taking in requests:
            taking.cancel()
            await asyncio.wait([taking])
            room.release()
        crowd = [UserInfo(f"user-{number}") for number in range(100)]
        found = [await taken_now(bodies, user, BODY_BYTES_MAX) for user in crowd]
        assert sum(room is not None for room in found) == LARGE_BODIES_BYTES_MAX // BODY_BYTES_MAX

    asyncio.run(scenario())


ARRIVALS: Final = {
    "nothing": ([0] * 20, True),
    "a byte now and then": ([1] * 20, True),
    "all at once, and then nothing": ([3_000_000] + [0] * 20, True),
    "as slowly as is allowed": ([BYTES_PER_PERIOD_MIN // CHECKS_PER_PERIOD + 1] * 20, False),
    "in bursts, five seconds apart": (([0] * (CHECKS_PER_PERIOD - 1) + [BYTES_PER_PERIOD_MIN]) * 4, False),
}


@pytest.mark.parametrize(("arriving", "is_ended"), ARRIVALS.values(), ids=ARRIVALS)
async def test_how_slowly_a_body_may_come(arriving: list[int], is_ended: bool) -> None:
    """arriving: how many bytes between two checks."""
    loop = asyncio.get_running_loop()
    bodies = limits()
    content = StreamReader(BaseProtocol(loop), 2**30, loop=loop)
    too_slow = asyncio.Event()

    async def read() -> None:
        arrival = bodies.begin(content)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if arrival.is_too_slow:
                too_slow.set()
        finally:
            bodies.end(arrival)

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    for size in arriving:
        content.feed_data(b" " * size)
        bodies.check_arrivals()
        await asyncio.sleep(0)
    assert too_slow.is_set() is is_ended
    reading.cancel()
    await asyncio.wait([reading])
