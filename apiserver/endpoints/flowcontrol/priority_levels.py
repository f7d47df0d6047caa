"""PriorityLevelConfigurations and their levels: seats, queues and limits."""

from __future__ import annotations

import math
from collections import deque
from typing import Final, NamedTuple

from apiserver.endpoints.flowcontrol.flow_schemas import Malformed
from apiserver.endpoints.flowcontrol.queue_set import QueueRules, QueueSet
from apiserver.endpoints.flowcontrol.seat_allocation import SeatClaim
from apiserver.endpoints.flowcontrol.seat_usage import Capacity
from apiserver.meta.vocabulary import Document

EXEMPT: Final = "exempt"
CATCH_ALL: Final = "catch-all"
# No request may take more of the seats of its level, where others wait in queues.
_REQUEST_PART_MAX: Final = 0.15


class LevelSpec(NamedTuple):
    """The content of a PriorityLevelConfiguration.

    borrowing_percent: None for no bound. hand_size, queue_length_max: 0 without queues.
    """

    name: str
    uid: str
    is_exempt: bool
    shares: int
    lendable_percent: int
    borrowing_percent: int | None
    queues: int = 0
    hand_size: int = 0
    queue_length_max: int = 0

    @classmethod
    def of(cls, document: Document) -> LevelSpec:
        """Returns the content of a PriorityLevelConfiguration document. Raises Malformed."""
        try:
            return cls._of(document)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise Malformed(repr(error)) from None

    @classmethod
    def _of(cls, document: Document) -> LevelSpec:
        meta, spec = document["metadata"], document["spec"]
        name, uid = str(meta["name"]), str(meta.get("uid", ""))
        is_exempt = spec["type"] == "Exempt"
        if is_exempt != (name == EXEMPT):
            raise Malformed("the name and the type do not match")
        limits = (spec.get("exempt") or {}) if is_exempt else spec["limited"]
        queuing: Document = {}
        if not is_exempt and limits["limitResponse"]["type"] == "Queue":
            queuing = limits["limitResponse"]["queuing"]
        borrowing = None if is_exempt else limits.get("borrowingLimitPercent")
        found = cls(
            name=name,
            uid=uid,
            is_exempt=is_exempt,
            shares=int(limits.get("nominalConcurrencyShares") or 0),
            lendable_percent=int(limits.get("lendablePercent") or 0),
            borrowing_percent=None if borrowing is None else int(borrowing),
            queues=int(queuing["queues"]) if queuing else 0,
            hand_size=int(queuing["handSize"]) if queuing else 0,
            queue_length_max=int(queuing["queueLengthLimit"]) if queuing else 0,
        )
        if found.shares < 0 or not 0 <= found.lendable_percent <= 100 or (found.borrowing_percent or 0) < 0:
            raise Malformed("the limits are out of range")
        if queuing and not (0 < found.hand_size <= found.queues and found.queue_length_max > 0):
            raise Malformed("the queuing configuration is not valid")
        return found

    @property
    def rules(self) -> QueueRules:
        is_closed = not (self.shares or self.queues or self.is_exempt)
        return QueueRules(self.queues, self.queue_length_max, self.is_exempt, is_closed)


RETRY_AFTER_MAX_S: Final = 32
_MANY: Final = 3


class RetryAfter:
    """The Retry-After of requests that a level refuses: it grows while many are refused.

    seconds: the current value. It doubles after a period with three or more refused requests per second, and
        shrinks by one after a period with fewer than one.
    Source: k8s.io/apiserver, pkg/util/flowcontrol/dropped_requests_tracker.go.
    """

    def __init__(self) -> None:
        self.seconds = 1
        self._raised_at = -RETRY_AFTER_MAX_S
        # Seconds in which some were refused, and how many; the last may not be over.
        self._history: deque[tuple[int, int]] = deque(maxlen=RETRY_AFTER_MAX_S + 1)

    def refused(self, second: int) -> int:
        """Note that a request is refused. second: the current one, of any clock. Returns its Retry-After in
        seconds.
        """
        history = self._history
        if history and history[-1][0] == second:
            history[-1] = second, history[-1][1] + 1
        else:
            self._adjust(second)
            history.append((second, 1))
        return self.seconds

    def _adjust(self, second: int) -> None:
        period_s = self.seconds
        refused = sum(count for when, count in self._history if second - period_s <= when < second)
        if refused >= _MANY * period_s and second - self._raised_at >= period_s:
            self.seconds = min(period_s * 2, RETRY_AFTER_MAX_S)
            self._raised_at = second
        elif refused < period_s and period_s > 1:
            self.seconds -= 1


class PriorityLevel:
    """A priority level and its state.

    nominal, low, high: its seats by its shares, its minimum, and its maximum. current: its seats now.
    request_seats_max: the limit of the seats that are estimated for a request; 0 for none.
    target: the seats that it could use, by the last adjustment.
    is_quiescing: whether its object is deleted, so that it ends with its last request.
    is_gone: whether it has ended. Requests for its seats must be classified again.
    """

    def __init__(self, spec: LevelSpec, now: float) -> None:
        self.spec = spec
        self.queue_set = QueueSet(now, spec.rules)
        self.retry_after = RetryAfter()
        self.nominal = self.low = self.high = self.current = self.request_seats_max = 0
        self.target = 0.0
        self.is_quiescing = self.is_gone = False

    @property
    def name(self) -> str:
        return self.spec.name

    def set_shares(self, seats: int, shares: int) -> None:
        """Set the level's part of the server's seats. shares: the total of all levels.

        Parts are rounded up: all levels together may have some more seats than the server.
        """
        spec = self.spec
        self.nominal = math.ceil(seats * spec.shares / shares) if shares else 0
        self.low = self.nominal - _percent(self.nominal, spec.lendable_percent)
        borrowing = spec.borrowing_percent
        self.high = self.nominal + (seats if borrowing is None else _percent(self.nominal, borrowing))
        self.request_seats_max = 0
        if spec.queues:
            part = min(math.ceil(self.nominal * _REQUEST_PART_MAX), self.nominal // spec.hand_size)
            self.request_seats_max = max(1, part)

    @property
    def needed(self) -> int:
        """The least number of seats for the level, by its demand in the last period."""
        watermark = self.queue_set.usage.demand.high_watermark
        return max(self.low, watermark if self.spec.is_exempt else min(self.nominal, watermark))

    def claim(self) -> SeatClaim:
        needed = self.needed
        self.target = max(float(needed), self.queue_set.usage.demand.smoothed)
        return SeatClaim(self.target, needed, self.high)

    def set_current(self, current: int, *, server_seats: int, now: float) -> None:
        """Set the number of seats of the level."""
        self.current = current
        spec = self.spec
        seats = current or max(1, round(server_seats / 10))
        places = max(1, spec.queue_length_max) * max(1, spec.queues)
        self.queue_set.configure(spec.rules, current, Capacity(seats, places), now)


def _percent(of: int, percent: int) -> int:
    """Returns a percentage of a number; halves are rounded up."""
    return (2 * of * percent + 100) // 200
