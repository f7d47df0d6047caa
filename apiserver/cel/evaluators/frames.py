"""What runs are given: a frame, which holds what is left of the budget, then a slot for each variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from apiserver.cel.values import CostExceeded

Frame: TypeAlias = list[Any]
Evaluator: TypeAlias = Callable[[Frame], Any]

EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"
NO_OVERLOAD: Final = "no such overload"
# What a call costs if there is no value to call it with, where the price is of values.
COST_WITHOUT_ARGUMENTS: Final = 1


class _NoValue:
    """Stands in a frame for a value that is not there."""

    __slots__ = ()


ABSENT: Final = _NoValue()
UNSET: Final = _NoValue()


def spend(frame: Frame, cost: int) -> None:
    """Raises CostExceeded. What is evaluated most often has these lines itself: a call takes as long."""
    left = frame[0] - cost
    frame[0] = left
    if left < 0:
        raise CostExceeded(EXCEEDED)


def charged(run: Evaluator, cost: int) -> Evaluator:
    """Run, and charge for it."""
    if not cost:
        return run

    def evaluate_charged(frame: Frame) -> Any:
        left = frame[0] - cost
        frame[0] = left
        if left < 0:
            raise CostExceeded(EXCEEDED)
        return run(frame)

    return evaluate_charged


def in_steps(steps: Sequence[tuple[int, Evaluator]], last: Evaluator) -> Evaluator:
    """One after the other, each into a slot that the next reads."""

    def run(frame: Frame) -> Any:
        for slot, step in steps:
            frame[slot] = step(frame)
        return last(frame)

    return run
