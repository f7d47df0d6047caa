"""Selectors as long as a request may be."""

from __future__ import annotations

from typing import Final

from tests.hostile.attack import Attacker, Session, Stage, attack
from tests.hostile.site import CONFIG_MAPS, READER, config_map

TERMS: Final = 2_900
OBJECTS: Final = 1_500


def _terms(name: str) -> str:
    return ",".join(f"{name}!=value-{number}" for number in range(TERMS))


async def _labelled(stage: Stage) -> None:
    objects = [config_map(f"c{n}", labels={f"l{m}": f"v{n}" for m in range(10)}) for n in range(OBJECTS)]
    await stage.make_many([(CONFIG_MAPS, each) for each in objects])


async def _list(session: Session, query: str) -> None:
    await session.ask("GET", f"{CONFIG_MAPS}?{query}")


@attack("5 turns of the loop", prepare=_labelled)
async def label_selectors(attacker: Attacker) -> None:
    """Lists of 1,500 objects by a selector of 2,900 terms, all of which hold."""
    query = f"labelSelector={_terms('l0')}"
    await attacker.forever(attacker.times(2), READER, lambda session: _list(session, query))
