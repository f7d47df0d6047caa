"""Many watches over one WebSocket: too many of them, not read, refused, or begun only to be ended."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Final

import orjson

from tests.hostile.attack import Attacker, Stage, attack
from tests.hostile.connection import Connection, head
from tests.hostile.site import CONFIG_MAPS, NOBODY, READER, WRITER, config_map

HANDSHAKE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": "watches.v1",
}
# As many as one WebSocket may have.
EACH: Final = 64
ALL: Final = f"{CONFIG_MAPS}?watch=true"
ONE: Final = f"{ALL}&resourceVersion=0&fieldSelector=metadata.name=c0"


def message(document: object) -> bytes:
    """A frame of a client, masked with zeros."""
    payload = orjson.dumps(document)
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return b"\x81" + length + b"\0\0\0\0" + payload


def subscribe(number: int, path: str) -> bytes:
    return message({"subscribe": {"id": number, "path": path}})


async def _open(attacker: Attacker, user: str, *, small_window: bool = False) -> Connection:
    connection = await attacker.connect(small_window=small_window)
    await connection.send(head("GET", "/console/watches", user, HANDSHAKE))
    status, _ = await connection.answer()
    attacker.answers[str(status)] += 1
    return connection


async def _six_megabytes(stage: Stage) -> None:
    data = {"k": "x" * 10_000}
    await stage.make_many((CONFIG_MAPS, config_map(f"c{n}", data)) for n in range(600))


async def _hold_unread(attacker: Attacker, sockets: int, path: str) -> None:
    """Open WebSockets with as many watches as they may have, and read nothing more."""

    async def one(_: int) -> None:
        connection = await _open(attacker, READER, small_window=True)
        connection.stop_reading()
        await connection.send(b"".join(subscribe(number, path) for number in range(1, EACH + 1)))
        attacker.answers["held"] += 1
        await asyncio.Event().wait()

    await attacker.at_once(attacker.times(sockets), one)


async def _write_on(attacker: Attacker) -> None:
    """Change one object of 10 KB some hundred times a second."""
    session = attacker.session(WRITER)
    for number in itertools.count():
        body = config_map("c0", {"k": "x" * 10_000, "n": str(number)})
        await session.ask("PUT", f"{CONFIG_MAPS}/c0", body)
        await asyncio.sleep(0.005)


@attack("3 unread answers", prepare=_six_megabytes)
async def unread_subscriptions(attacker: Attacker) -> None:
    """1,024 watches on 16 WebSockets are not read, while an object of 10 KB changes all the time."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_hold_unread(attacker, 16, ONE))
        group.create_task(_write_on(attacker))


@attack("3 unread answers", prepare=_six_megabytes)
async def unread_subscriptions_from_the_beginning(attacker: Attacker) -> None:
    """The same number of watches, which begin with all 600 objects, are not read."""
    await _hold_unread(attacker, 16, ALL)


async def _send_on(attacker: Attacker, user: str, batches: Iterator[bytes]) -> None:
    """Send messages as fast as the server takes them, on 20 WebSockets, and read the answers."""

    async def one(_: int) -> None:
        connection = await _open(attacker, user)

        async def read() -> None:
            while data := await connection.reader.read(1_000_000):
                attacker.answers["ended"] += data.count(b'"end":')

        async def write() -> None:
            for batch in batches:
                await connection.send(batch)

        await asyncio.gather(read(), write())

    await attacker.at_once(attacker.times(20), one)


@attack("5 turns of the loop", prepare=_six_megabytes)
async def subscriptions_that_end_at_once(attacker: Attacker) -> None:
    """20 WebSockets begin watches with all 600 objects, and end them, without waiting."""
    both = subscribe(1, ALL) + message({"unsubscribe": {"id": 1}})
    await _send_on(attacker, READER, itertools.repeat(both * 100))


@attack("5 turns of the loop")
async def refused_subscriptions(attacker: Attacker) -> None:
    """20 WebSockets of a user without roles ask for one watch after the other."""
    numbers = itertools.cycle(range(1, 100_000))
    batches = (b"".join(subscribe(next(numbers), ALL) for _ in range(100)) for _ in itertools.count())
    await _send_on(attacker, NOBODY, batches)
