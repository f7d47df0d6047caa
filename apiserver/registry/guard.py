"""Conditions of a write on other keys, for example that its namespace still exists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from apiserver.storage.interface import Condition


class TransactionGuard(NamedTuple):
    """A condition that becomes part of the transaction of a write.

    renew: returns the current condition, after the last one did not hold. Raises ApiError if the write is no
        longer allowed.
    """

    condition: Condition
    renew: Callable[[], Awaitable[Condition]]
