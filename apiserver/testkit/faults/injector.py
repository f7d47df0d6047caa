"""Keeps the current faults of a server, and counts how often each has happened."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from apiserver.testkit.faults.effects import (
    Answer,
    CutConnection,
    Delay,
    Effect,
    ExpireToken,
    NotReady,
    RefuseTls,
    is_of_watches,
    text_of,
)
from apiserver.testkit.faults.errors import FAULTS_MAX, InvalidFault, TooManyFaults
from apiserver.testkit.faults.matches import COUNT_MAX, Match, RequestAttributes

# Tokens that one fault has expired, and knows by their digests.
TOKENS_MAX: Final = 10_000
_ALL: Final = Match()


class Fault:
    """A fault.

    times: how often it happens; None for any number. hits: how often it has happened.
    is_cleared: whether it was cleared, which ends its effects.
    """

    __slots__ = (
        "_ends_at",
        "_reserved",
        "_seen",
        "_tokens",
        "effect",
        "hits",
        "id",
        "is_cleared",
        "match",
        "times",
    )

    def __init__(self, number: int, match: Match, effect: Effect, times: int | None, now: float) -> None:
        self.id, self.match, self.effect, self.times = number, match, effect, times
        self.hits = 0
        self.is_cleared = False
        # How many requests that match have come, and how many wait until it happens to them.
        self._seen = self._reserved = 0
        self._tokens: set[bytes] = set()
        seconds = effect.seconds if isinstance(effect, NotReady | RefuseTls) else None
        self._ends_at = None if seconds is None else now + seconds

    def __str__(self) -> str:
        said = [text_of(self.effect)]
        if self.match != _ALL:
            said.append(text_of(self.match))
        if self.times is not None:
            said.append(f"times={self.times}")
        return f"fault {self.id}: {', '.join(said)}"

    @property
    def is_active(self) -> bool:
        """Whether it may still happen, beyond its reservations."""
        if self.is_cleared:
            return False
        return self.times is None or self.hits + self._reserved < self.times

    def selects(self, request: RequestAttributes) -> bool:
        """Returns whether the fault is for a request, which counts as matching."""
        if self.is_cleared or not self.match.includes(request):
            return False
        self._seen += 1
        return self.match.includes_number(self._seen)

    def hit(self) -> bool:
        """Count that the fault happens; returns False if it may not happen any more."""
        if not self.is_active:
            return False
        self.hits += 1
        return True

    def reserve(self) -> bool:
        """Reserve one of the fault's `times`, until `hit_reserved` or `release`.

        Returns False if none are left.
        """
        if not self.is_active:
            return False
        self._reserved += 1
        return True

    def hit_reserved(self) -> bool:
        """Count that a reserved fault happens; returns False if it was cleared meanwhile."""
        self._reserved -= 1
        return self.hit()

    def release(self) -> None:
        """End a reservation of a fault that did not happen."""
        self._reserved -= 1

    def expires(self, token: str) -> bool:
        """Returns whether a user's token is rejected from this use on."""
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        if digest in self._tokens:
            return not self.is_cleared
        if len(self._tokens) >= TOKENS_MAX or not self.hit():
            return False
        self._tokens.add(digest)
        return True

    def lasts(self, now: float) -> bool:
        """Returns whether the fault's time, if it has one, is not up."""
        return self._ends_at is None or now < self._ends_at


class FaultInjector:
    """Keeps the faults of one server, in the thread of the server's event loop.

    clock: seconds from any origin, which never go back.
    of_requests, of_watches: the faults of these, in the order of their injection.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._numbers = itertools.count(1)
        self._faults: dict[int, Fault] = {}
        self._on_change: dict[Callable[[], None], None] = {}
        self._sort()

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    @property
    def active_count(self) -> int:
        """The number of faults that may still happen."""
        return sum(fault.is_active for fault in self._faults.values())

    def find(self, number: int) -> Fault | None:
        return self._faults.get(number)

    def inject(self, effect: Effect, match: Match = _ALL, times: int | None = None) -> Fault:
        """Injects a fault from now on. Raises InvalidFault, TooManyFaults."""
        if times is not None and not 1 <= times <= COUNT_MAX:
            raise InvalidFault("times", f"{times} is not between 1 and {COUNT_MAX}")
        _require_fitting(effect, match)
        if len(self._faults) >= FAULTS_MAX:
            raise TooManyFaults
        fault = Fault(next(self._numbers), match, effect, times, self._clock())
        self._faults[fault.id] = fault
        self._sort()
        return fault

    def clear(self, number: int) -> Fault | None:
        """End a fault, and return it; None if there is none with this number."""
        fault = self._faults.pop(number, None)
        if fault is not None:
            fault.is_cleared = True
            self._sort()
        return fault

    def clear_all(self) -> list[Fault]:
        """End all faults, and return them."""
        cleared = list(self._faults.values())
        self._faults.clear()
        for fault in cleared:
            fault.is_cleared = True
        self._sort()
        return cleared

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Calls a function after each change, until `unsubscribe` is called."""
        self._on_change[changed] = None

    def unsubscribe(self, changed: Callable[[], None]) -> None:
        del self._on_change[changed]

    # ---- effects on requests

    def reserve(self, request: RequestAttributes) -> list[Fault]:
        """Reserve the faults of a new request, and return them: its delays, then the fault that ends it, if
        any.

        They are chosen immediately, so that delays do not change which request is the nth.
        """
        delays: list[Fault] = []
        endings: list[Fault] = []
        for fault in self.of_requests:
            is_delay = isinstance(fault.effect, Delay)
            if (is_delay or not endings) and fault.selects(request) and fault.reserve():
                (delays if is_delay else endings).append(fault)
        return delays + endings

    # ---- effects on the server

    def is_ready(self) -> bool:
        """Returns whether the server may report that it is ready."""
        return not any(fault.lasts(self._clock()) and fault.hit() for fault in self._readiness)

    def refuses_handshake(self) -> bool:
        """Returns whether the next TLS handshake is refused."""
        return any(fault.lasts(self._clock()) and fault.hit() for fault in self._handshakes)

    def expires(self, token: str, user: str, user_agent: str) -> bool:
        """Returns whether a user's bearer token is rejected."""
        return any(
            fault.match.includes_caller(user, user_agent) and fault.expires(token) for fault in self._tokens
        )

    def _sort(self) -> None:
        of_requests, of_watches = [], []
        for fault in self._faults.values():
            if is_of_watches(fault.effect):
                of_watches.append(fault)
            elif isinstance(fault.effect, Answer | Delay | CutConnection):
                of_requests.append(fault)
        self.of_requests, self.of_watches = tuple(of_requests), tuple(of_watches)
        self._readiness = self._with(NotReady)
        self._handshakes = self._with(RefuseTls)
        self._tokens = self._with(ExpireToken)
        for changed in list(self._on_change):
            changed()

    def _with(self, kind: type[Effect]) -> tuple[Fault, ...]:
        return tuple(fault for fault in self._faults.values() if isinstance(fault.effect, kind))


def _require_fitting(effect: Effect, match: Match) -> None:
    """Checks that a match is possible for the effect."""
    name = type(effect).__name__
    if isinstance(effect, NotReady | RefuseTls):
        if match != _ALL:
            raise InvalidFault("match", f"{name} applies to the server, not to single requests")
    elif isinstance(effect, ExpireToken):
        if match != replace(_ALL, user=match.user, user_agent=match.user_agent):
            raise InvalidFault("match", f"{name} applies to users and user agents only")
    elif is_of_watches(effect) and match.verb not in ("", "watch"):
        raise InvalidFault("match.verb", f"{name} applies to watches, not to {match.verb!r}")
