"""A cache whose entries are valid for some time: the responses of other servers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class ExpiringCache(Generic[_T]):
    """Caches responses by the digests of their requests, and drops the oldest ones first.

    clock: seconds since any fixed time. length_max: the limit for the total of all responses, by `length_of`.
    """

    def __init__(
        self,
        answers_max: int,
        clock: Callable[[], float],
        length_of: Callable[[_T], int] = lambda _: 0,
        length_max: int = 0,
    ) -> None:
        self._answers_max, self._clock = answers_max, clock
        self._length_of, self._length_max = length_of, length_max
        self._answers: OrderedDict[bytes, tuple[float, _T]] = OrderedDict()  # the last one at the end
        self._length = 0

    def get(self, key: bytes) -> _T | None:
        found = self._answers.get(key)
        return found[1] if found is not None and self._clock() < found[0] else None

    def put(self, key: bytes, answer: _T, until: float) -> None:
        """Cache a response until a time of the clock, unless that has passed."""
        if until > self._clock():
            self._drop(key)
            self._answers[key] = until, answer
            self._length += self._length_of(answer)
            while len(self._answers) > self._answers_max or self._length > self._length_max:
                self._drop(next(iter(self._answers)))

    def _drop(self, key: bytes) -> None:
        if (dropped := self._answers.pop(key, None)) is not None:
            self._length -= self._length_of(dropped[1])

    def clear(self) -> None:
        self._answers.clear()
        self._length = 0
