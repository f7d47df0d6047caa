"""Expressions that clients let the server evaluate."""

from __future__ import annotations

from typing import Any, Final

from tests.hostile.attack import Attacker, attack
from tests.hostile.site import NOBODY

CEL: Final = "/console/cel"


async def _evaluate_again_and_again(attacker: Attacker, count: int, expression: str, **more: Any) -> None:
    body = {"expression": expression, **more}
    await attacker.forever(attacker.times(count), NOBODY, lambda session: session.ask("POST", CEL, body))


@attack("5 turns of the loop")
async def expressions_of_much_work(attacker: Attacker) -> None:
    """20 clients let the server compile patterns, with all the cost that an evaluation may have."""
    pattern = r"'[[:alpha:]]{1,100}[\\p{L}]{1,50}a' + string(x)"
    await _evaluate_again_and_again(attacker, 20, f"lists.range(100000).all(x, !'b'.matches({pattern}))")


@attack("5 turns of the loop")
async def expressions_of_much_memory(attacker: Attacker) -> None:
    """20 clients let the server double a list 20 times, and add to the longest one again and again."""
    variables = [{"name": "v0", "expression": str(list(range(32)))}]
    for number in range(1, 13):
        text = f"variables.v{number - 1} + variables.v{number - 1}"
        variables.append({"name": f"v{number}", "expression": text})
    await _evaluate_again_and_again(
        attacker, 20, "lists.range(50000).map(x, variables.v12 + [x]).size()", variables=variables
    )
