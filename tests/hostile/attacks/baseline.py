"""No attack, to compare the others with."""

from __future__ import annotations

from tests.hostile.attack import Attacker, attack


@attack("none")
async def no_attack(attacker: Attacker) -> None:
    """Nothing happens: what the figures are on this machine, with what else it does."""
