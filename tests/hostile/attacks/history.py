"""Reads of the past, each of which undoes changes since."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Final

import orjson

from tests.hostile.attack import Attacker, Session, Stage, attack
from tests.hostile.site import CONFIG_MAPS, READER, WRITER, config_map

OBJECTS: Final = 1_500
# As lines of YAML, about 700 KB.
LINES: Final = 20_000
_FLAGS: Final = ("--history",)


async def _objects(stage: Stage) -> None:
    await stage.make_many((CONFIG_MAPS, config_map(f"c{n}", {"k": "0"})) for n in range(OBJECTS))


async def _large_object(stage: Stage) -> None:
    data = {f"k{number:05}": f"value {number}" for number in range(LINES)}
    await stage.make((CONFIG_MAPS, config_map("large", data)))


async def _revision(session: Session, path: str) -> str:
    """Returns a revision at which there is an object or a list."""
    _, body = await session.ask("GET", path)
    try:
        return str(orjson.loads(body)["metadata"]["resourceVersion"])
    except (ValueError, LookupError, TypeError):
        return "1"


@attack("5 turns of the loop", prepare=_objects, flags=_FLAGS)
async def lists_of_the_past(attacker: Attacker) -> None:
    """Lists of 1,500 objects as they were, versions of one, and noise as moments, while objects change."""

    async def read(session: Session) -> None:
        revision = await _revision(session, f"{CONFIG_MAPS}/c0")
        for _ in range(20):
            await session.ask("GET", f"/at/{revision}{CONFIG_MAPS}")
            await session.ask("GET", f"/at/{revision}{CONFIG_MAPS}?labelSelector=a!=b&pretty=1")
            await session.ask("GET", f"{CONFIG_MAPS}/c0/history?limit=500")
            await session.ask("GET", f"/at/{os.urandom(1_000).hex()}{CONFIG_MAPS}")

    async def write(number: int) -> None:
        session = attacker.session(WRITER)
        for count in itertools.count():
            name = f"c{(number + 7 * count) % OBJECTS}"
            await session.ask("PUT", f"{CONFIG_MAPS}/{name}", config_map(name, {"k": str(count)}))
            if number == 0:
                await session.ask("PUT", f"{CONFIG_MAPS}/c0", config_map("c0", {"k": f"v{count}"}))

    async with asyncio.TaskGroup() as group:
        group.create_task(attacker.forever(attacker.times(4), READER, read))
        group.create_task(attacker.at_once(attacker.times(2), write))


@attack("5 turns of the loop", prepare=_large_object, flags=_FLAGS)
async def differences_of_large_objects(attacker: Attacker) -> None:
    """Four clients compare two states of an object of 700 KB whose lines all differ."""

    async def compare(session: Session) -> None:
        path = f"{CONFIG_MAPS}/large"
        before = await _revision(session, path)
        writer = attacker.session(WRITER)
        data = {f"k{number:05}": f"other {number} {before}" for number in range(LINES)}
        await writer.ask("PUT", path, config_map("large", data))
        writer.close()
        for _ in range(5):
            await session.ask("GET", f"{path}/history?from={before}")

    await attacker.forever(attacker.times(4), READER, compare)
