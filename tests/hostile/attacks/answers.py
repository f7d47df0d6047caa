"""Answers that nobody reads, or that are read as slowly as possible."""

from __future__ import annotations

from typing import Final

from tests.hostile.attack import Attacker, Stage, attack
from tests.hostile.connection import head
from tests.hostile.site import CONFIG_MAPS, NOBODY, READER, config_map

# More than there are slots for reads.
UNREAD: Final = 403


async def _six_megabytes(stage: Stage) -> None:
    data = {"k": "x" * 10_000}
    await stage.make_many([(CONFIG_MAPS, config_map(f"c{n}", data)) for n in range(600)])


@attack("2 health, 3 unread answers", prepare=_six_megabytes)
async def unread_lists(attacker: Attacker) -> None:
    """403 lists of 6 MB are asked for, and not read."""
    await attacker.hold(attacker.times(UNREAD), head("GET", CONFIG_MAPS, READER))


@attack("3 unread answers")
async def unread_openapi(attacker: Attacker) -> None:
    """403 times /openapi/v2 is asked for, by a user without roles, and not read."""
    await attacker.hold(attacker.times(UNREAD), head("GET", "/openapi/v2", NOBODY))
