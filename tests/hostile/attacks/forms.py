"""Large objects in every form in which they can be asked for."""

from __future__ import annotations

from typing import Final

from tests.hostile.attack import Attacker, Stage, attack
from tests.hostile.site import CONFIG_MAPS, READER, config_map

OBJECTS: Final = 24
KEYS: Final = 44_000
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


async def _large(stage: Stage) -> None:
    data = {f"k{number}": "" for number in range(KEYS)}
    await stage.make_many([(CONFIG_MAPS, config_map(f"c{n}", data)) for n in range(OBJECTS)])


async def _list_as(attacker: Attacker, at_once: int, media_type: str, query: str = "") -> None:
    await attacker.forever(
        attacker.times(at_once),
        READER,
        lambda session: session.ask("GET", CONFIG_MAPS + query, headers={"Accept": media_type}),
    )


@attack("5 turns of the loop", prepare=_large)
async def pretty_lists(attacker: Attacker) -> None:
    """A pretty-printed list of 24 objects of 44,000 keys, again and again."""
    await _list_as(attacker, 1, "application/json", "?pretty=true")


@attack("5 turns of the loop", prepare=_large)
async def four_protobuf_lists(attacker: Attacker) -> None:
    """Four lists of 24 objects of 44,000 keys as protobuf, at once and again and again."""
    await _list_as(attacker, 4, PROTOBUF)
