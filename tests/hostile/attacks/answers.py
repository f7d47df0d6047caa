"""Answers that nobody reads, or that are read as slowly as possible."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import Final

from tests.hostile.attack import Attacker, Stage, attack
from tests.hostile.connection import head
from tests.hostile.site import ATTACKED, CONFIG_MAPS, NOBODY, READER, SECRETS, WRITER, config_map

# More than there are slots for reads.
UNREAD: Final = 403
WATCHES: Final = 1_000


async def _six_megabytes(stage: Stage) -> None:
    data = {"k": "x" * 10_000}
    await stage.make_many((CONFIG_MAPS, config_map(f"c{n}", data)) for n in range(600))


async def _megabytes(stage: Stage) -> None:
    """Make 86 objects of 1.4 MB, which no compression makes smaller."""
    for number in range(86):
        noise = base64.b64encode(os.urandom(1_040_000)).decode()
        body = {"metadata": {"name": f"s{number}"}, "data": {"k": noise}}
        await stage.make((SECRETS, body))


@attack("2 health, 3 unread answers", prepare=_six_megabytes)
async def unread_lists(attacker: Attacker) -> None:
    """403 lists of 6 MB are asked for, and not read."""
    await attacker.hold(attacker.times(UNREAD), head("GET", CONFIG_MAPS, READER))


@attack("3 unread answers", prepare=_six_megabytes)
async def unread_lists_in_other_forms(attacker: Attacker) -> None:
    """The same, as Tables, pretty-printed, compressed, and in protobuf."""
    forms: tuple[tuple[str, dict[str, str]], ...] = (
        (CONFIG_MAPS, {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}),
        (f"{CONFIG_MAPS}?pretty=true", {}),
        (CONFIG_MAPS, {"Accept-Encoding": "gzip"}),
        (CONFIG_MAPS, {"Accept": "application/vnd.kubernetes.protobuf"}),
    )

    async def some(number: int) -> None:
        path, headers = forms[number]
        await attacker.hold(attacker.times(UNREAD) // len(forms), head("GET", path, READER, headers))

    await attacker.at_once(len(forms), some)


@attack("3 unread answers")
async def unread_openapi(attacker: Attacker) -> None:
    """403 times /openapi/v2 is asked for, by a user without roles, and not read."""
    await attacker.hold(attacker.times(UNREAD), head("GET", "/openapi/v2", NOBODY))


@attack("7 memory", prepare=_megabytes)
async def unread_lists_of_120_megabytes(attacker: Attacker) -> None:
    """20 lists of 120 MB are asked for, and not read."""
    await attacker.hold(attacker.times(20), head("GET", SECRETS, READER))


@attack("3 unread answers", prepare=_six_megabytes)
async def answers_read_slowly(attacker: Attacker) -> None:
    """400 lists of 6 MB are read, but only a few KB a second."""

    async def one(_: int) -> None:
        connection = await attacker.connect(small_window=True)
        connection.stop_reading()
        await connection.send(head("GET", CONFIG_MAPS, READER))
        attacker.answers["held"] += 1
        while await connection.read_a_little():
            await asyncio.sleep(1.0)
        attacker.answers["closed"] += 1

    await attacker.at_once(attacker.times(400), one)


@attack("3 unread answers", prepare=_six_megabytes)
async def pipelined_requests_unread(attacker: Attacker) -> None:
    """20 connections send requests for lists without end, and read none of the answers."""
    data = head("GET", CONFIG_MAPS, READER) * 100

    async def one(_: int) -> None:
        connection = await attacker.connect(small_window=True)
        connection.stop_reading()
        attacker.answers["held"] += 1
        while True:
            await connection.send(data)

    await attacker.at_once(attacker.times(20), one)


async def _write_on(attacker: Attacker) -> None:
    """Change one object of 10 KB some hundred times a second."""
    session = attacker.session(WRITER)
    number = 0
    while True:
        number += 1
        body = config_map("c0", {"k": "x" * 10_000, "n": str(number)})
        await session.ask("PUT", f"{CONFIG_MAPS}/c0", body)
        await asyncio.sleep(0.005)


async def _watch_and_write(attacker: Attacker, watch: bytes) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(attacker.hold(attacker.times(WATCHES), watch))
        group.create_task(_write_on(attacker))


@attack("3 unread answers", prepare=_six_megabytes)
async def unread_watches(attacker: Attacker) -> None:
    """1,000 watches of one user are not read, while an object of 10 KB changes all the time."""
    path = f"{CONFIG_MAPS}?watch=true&resourceVersion=0&fieldSelector=metadata.name=c0"
    await _watch_and_write(attacker, head("GET", path, READER))


@attack("3 unread answers", prepare=_six_megabytes)
async def unread_watches_over_websockets(attacker: Attacker) -> None:
    """The same over WebSockets."""
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    path = f"{CONFIG_MAPS}?watch=true&resourceVersion=0&fieldSelector=metadata.name=c0"
    await _watch_and_write(attacker, head("GET", path, READER, upgrade))


@attack("3 unread answers", prepare=_six_megabytes)
async def unread_watches_from_the_beginning(attacker: Attacker) -> None:
    """100 watches that begin with all 600 objects are not read."""
    path = f"/api/v1/namespaces/{ATTACKED}/configmaps?watch=true"
    await attacker.hold(attacker.times(100), head("GET", path, READER))
