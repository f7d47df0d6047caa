"""Selectors as long as a request may be."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.hostile.attack import Attacker, Session, Stage, attack
from tests.hostile.connection import head
from tests.hostile.site import CONFIG_MAPS, READER, WRITER, config_map

TERMS: Final = 2_900
OBJECTS: Final = 1_500
WATCHES: Final = 40


def _terms(name: str, count: int = TERMS) -> str:
    return ",".join(f"{name}!=value-{number}" for number in range(count))


async def _labelled(stage: Stage) -> None:
    objects = (config_map(f"c{n}", labels={f"l{m}": f"v{n}" for m in range(10)}) for n in range(OBJECTS))
    await stage.make_many((CONFIG_MAPS, each) for each in objects)


async def _list_again_and_again(attacker: Attacker, query: str) -> None:
    async def list_them(session: Session) -> None:
        await session.ask("GET", f"{CONFIG_MAPS}?{query}")

    await attacker.forever(attacker.times(2), READER, list_them)


@attack("5 turns of the loop", prepare=_labelled)
async def label_selectors(attacker: Attacker) -> None:
    """Lists of 1,500 objects by a selector of 2,900 terms, all of which hold."""
    await _list_again_and_again(attacker, f"labelSelector={_terms('l0')}")


@attack("5 turns of the loop", prepare=_labelled)
async def label_selectors_of_many_names(attacker: Attacker) -> None:
    """The same with another label in each of 2,900 terms."""
    terms = ",".join(f"!no-such-{number}" for number in range(TERMS))
    await _list_again_and_again(attacker, f"labelSelector={terms}")


@attack("5 turns of the loop", prepare=_labelled)
async def label_selectors_of_sets(attacker: Attacker) -> None:
    """The same with sets: 500 terms that each exclude twelve values."""
    values = ",".join(f"x{number}" for number in range(12))
    terms = ",".join(f"l{number % 10} notin ({values})" for number in range(500)).replace(" ", "%20")
    await _list_again_and_again(attacker, f"labelSelector={terms}")


@attack("5 turns of the loop", prepare=_labelled)
async def field_selectors(attacker: Attacker) -> None:
    """Lists of 1,500 objects by a field selector of 2,000 terms, all of which hold."""
    await _list_again_and_again(attacker, f"fieldSelector={_terms('metadata.name', 2_000)}")


@attack("5 turns of the loop", prepare=_labelled)
async def watches_with_selectors(attacker: Attacker) -> None:
    """40 watches, each with a selector of 2,900 terms of its own, while objects change all the time."""

    async def watch(number: int) -> None:
        connection = await attacker.connect()
        terms = f"{_terms('l0', TERMS - 1)},l1!=watch-{number}"
        await connection.send(head("GET", f"{CONFIG_MAPS}?watch=true&labelSelector={terms}", READER))
        attacker.answers["held"] += 1
        while await connection.reader.read(1_000_000):
            pass

    async def write(session: Session) -> None:
        for number in range(OBJECTS):
            labels = {f"l{m}": f"w{number}" for m in range(10)}
            await session.ask("PUT", f"{CONFIG_MAPS}/c{number}", config_map(f"c{number}", labels=labels))

    async with asyncio.TaskGroup() as group:
        group.create_task(attacker.at_once(attacker.times(WATCHES), watch))
        group.create_task(attacker.forever(1, WRITER, write))
