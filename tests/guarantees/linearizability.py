"""Checks whether the operations on one object are linearizable: equivalent to some sequential order.

After Lowe, "Testing for linearizability" (2017): operations take effect just in time, at the latest when
one of them is answered. The checker keeps all states that the object may be in, each with the pending
operations that have taken effect already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.guarantees.history import NEVER

Value: TypeAlias = str | None
# From the value before an operation to the value after it; False if it cannot happen at that value.
Step: TypeAlias = Callable[[Value], Value | bool]

_Configuration: TypeAlias = tuple[Value, frozenset[int]]


@dataclass(frozen=True)
class Operation:
    """A client's operation. ended: NEVER if it may take effect at any time after `began`, or not at all."""

    text: str
    began: float
    ended: float
    step: Step


def first_contradiction(operations: Sequence[Operation], *, initial: Value = None) -> Operation | None:
    """Returns the first operation whose answer no order explains; None if the operations are linearizable.

    Operations of which one ends at the moment at which the other begins count as concurrent.
    """
    possible: set[_Configuration] = {(initial, frozenset())}
    pending: set[int] = set()
    for _, is_end, number in sorted(_ends(operations)):
        if not is_end:
            pending.add(number)
            continue
        possible = _explained(operations, pending, possible, number)
        if not possible:
            return operations[number]
        pending.discard(number)
    return None


def _ends(operations: Sequence[Operation]) -> Iterable[tuple[float, bool, int]]:
    for number, operation in enumerate(operations):
        yield operation.began, False, number
        if operation.ended < NEVER:
            yield operation.ended, True, number


def _explained(
    operations: Sequence[Operation], pending: set[int], possible: set[_Configuration], answered: int
) -> set[_Configuration]:
    """The configurations after the operation `answered`, which is then no longer pending."""
    found: set[_Configuration] = set()
    visited = set(possible)
    to_visit = list(possible)
    while to_visit:
        value, done = to_visit.pop()
        if answered in done:
            found.add((value, done - {answered}))
            continue
        for number in pending - done:
            after = operations[number].step(value)
            if isinstance(after, bool):
                continue
            configuration = (after, done | {number})
            if configuration not in visited:
                visited.add(configuration)
                to_visit.append(configuration)
    return found
