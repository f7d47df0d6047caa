"""Conditions of a write on other keys, as that its namespace still exists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from apiserver.storage.interface import Condition


class TransactionGuard(NamedTuple):
    """A condition that is part of the transaction of a write.

    renew: returns the condition as of now, after the last one did not hold. Raises ApiError if the write must
        not be done any more.
    """

    condition: Condition
    renew: Callable[[], Awaitable[Condition]]
