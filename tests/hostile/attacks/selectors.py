"""Selectors as long as a request may be."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.hostile.attack import Attacker, Session, Stage, attack
from tests.hostile.connection import head
from tests.hostile.site import CONFIG_MAPS, READER, WRITER, config_map

# More than the server takes: it refuses them before it looks at any object.
TERMS: Final = 2_900
# As many as it takes: requirements, and labels that they are about.
TERMS_TAKEN: Final = 1_000
LABELS_TAKEN: Final = 100
OBJECTS: Final = 1_500
WATCHES: Final = 40


def _terms(name: str, count: int = TERMS) -> str:
    return ",".join(f"{name}!=value-{number}" for number in range(count))


async def _labelled(stage: Stage) -> None:
    objects = (config_map(f"c{n}", labels={f"l{m}": f"v{n}" for m in range(10)}) for n in range(OBJECTS))
    await stage.make_many((CONFIG_MAPS, each) for each in objects)


async def _list_again_and_again(attacker: Attacker, *queries: str) -> None:
    async def list_them(session: Session) -> None:
        for query in queries:
            await session.ask("GET", f"{CONFIG_MAPS}?{query}")

    await attacker.forever(attacker.times(2), READER, list_them)


@attack("5 turns of the loop", prepare=_labelled)
async def label_selectors(attacker: Attacker) -> None:
    """Lists of 1,500 objects by selectors of 2,900 and 1,000 terms, all of which hold."""
    queries = (f"labelSelector={_terms('l0', count)}" for count in (TERMS, TERMS_TAKEN))
    await _list_again_and_again(attacker, *queries)


@attack("5 turns of the loop", prepare=_labelled)
async def label_selectors_of_many_names(attacker: Attacker) -> None:
    """The same with another label in each of 2,900 and 100 terms."""
    terms = [f"!no-such-{number}" for number in range(TERMS)]
    queries = (f"labelSelector={','.join(terms[:count])}" for count in (TERMS, LABELS_TAKEN))
    await _list_again_and_again(attacker, *queries)


@attack("5 turns of the loop", prepare=_labelled)
async def label_selectors_of_sets(attacker: Attacker) -> None:
    """The same with sets: 500 and 200 terms that each exclude twelve values."""
    values = ",".join(f"x{number}" for number in range(12))
    terms = [f"l{number % 10}%20notin%20({values})" for number in range(500)]
    queries = (f"labelSelector={','.join(terms[:count])}" for count in (500, 200))
    await _list_again_and_again(attacker, *queries)


@attack("5 turns of the loop", prepare=_labelled)
async def field_selectors(attacker: Attacker) -> None:
    """Lists of 1,500 objects by field selectors of 2,000 and 1,000 terms, all of which hold."""
    queries = (f"fieldSelector={_terms('metadata.name', count)}" for count in (2_000, TERMS_TAKEN))
    await _list_again_and_again(attacker, *queries)


@attack("5 turns of the loop", prepare=_labelled)
async def watches_with_selectors(attacker: Attacker) -> None:
    """40 watches, each with a selector of 1,000 terms of its own, while objects change all the time."""

    async def watch(number: int) -> None:
        connection = await attacker.connect()
        terms = f"{_terms('l0', TERMS_TAKEN - 1)},l1!=watch-{number}"
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
