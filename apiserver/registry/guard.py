"""What must still hold about another key at the moment of a write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from storage.interface import Condition


@dataclass(frozen=True, slots=True)
class Guard:
    """renew: looks again, after the condition did not hold; raises what speaks against the write."""

    condition: Condition
    renew: Callable[[], Awaitable[Condition]]
