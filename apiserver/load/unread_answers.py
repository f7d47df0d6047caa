"""Bounds the responses that clients have not read yet, in time and in bytes, for each user and for all.

Unread data, from a small response to the events of a watch, is tracked here from the moment when its
connection cannot take more until all is read. Connections that keep up cost nothing.

- A response that is not read for `STALLED_S` is dropped with its connection; any progress, even if
  bytes only leave the kernel, resets the clock.
- A response that takes longer than `SLOW_AFTER_S` must proceed at `RATE_MIN`.
- If a user, or all together, exceed their bound, the largest stalled responses are dropped first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol

from apiserver.load.user_shares import holder_of
from apiserver.meta.vocabulary import UserInfo
from apiserver.tracing.request_trace import no_request

log = logging.getLogger(__name__)

# A connection that is good for anything takes some bytes in this time, whatever is lost on the way.
STALLED_S: Final = 10.0
# 3 MiB in 13 minutes. A phone at the edge of its network, with a few answers at once, is faster.
RATE_MIN: Final = 4 * 1024
SLOW_AFTER_S: Final = 30.0
# Nothing taken for so long is more than a machine that is busy: slots are given back, and a user's answers
# are dropped when there are too many.
HESITANT_S: Final = 1.0
# Bytes that are held for clients alone; what they share counts nothing.
ALL_BYTES_MAX: Final = 128 * 1024 * 1024
# Many clients may have one user: all of a component's replicas, all that are anonymous.
USER_BYTES_MAX: Final = ALL_BYTES_MAX // 2
# What a connection costs that has something to send: a record of TLS, the request, the task that waits.
CONNECTION_BYTES: Final = 32 * 1024
# All are looked at so often.
_CHECK_S: Final = 1.0
# When there is too much, this much is made room for at once.
_DROPPED_PART: Final = 10
_LOG_EVERY_S: Final = 30.0


class UnreadConnection(Protocol):
    """A connection whose client has something to read.

    asker: the user of the request.
    held_bytes: the memory held for it beside its transport's: the rest of a body, a compressor.
    is_shared: whether its transport's data is held for others, too.
    may_stall: whether it may read as slowly as it likes, because its unread data is bounded, and another
        server decides.
    """

    asker: UserInfo | None
    held_bytes: int
    is_shared: bool
    may_stall: bool

    def on_hesitation(self) -> None:
        """Called when the client has read nothing for a moment, and repeatedly after that."""
        ...


@dataclass(slots=True, eq=False)
class _Unread:
    """The unread data of one client.

    held: the bytes that are counted for it. left: those that were unread at the last check.
    taken: those read since it began.
    """

    transport: asyncio.WriteTransport
    holder: str
    began_at: float
    taken_at: float
    left: int
    taken: int = 0
    held: int = 0

    def look(self, now: float) -> None:
        """Check how much the client has read."""
        left = _left(self.transport)
        if left < self.left:
            self.taken += self.left - left
            self.taken_at = now
        self.left = left


class UnreadAnswers:
    """The bytes that clients have not read yet, within bounds.

    stalled_s: how long a client may read nothing. all_bytes_max, user_bytes_max: see the constants.
    clock: in seconds; not the loop's, which tests advance but clients do not follow.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        stalled_s: float = STALLED_S,
        all_bytes_max: int = ALL_BYTES_MAX,
        user_bytes_max: int = USER_BYTES_MAX,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._loop, self._stalled_s, self._clock = loop, stalled_s, clock
        self._all_bytes_max, self._user_bytes_max = all_bytes_max, user_bytes_max
        self._unread: dict[UnreadConnection, _Unread] = {}
        self._total = 0
        self._by_holder: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._dropped = 0
        self._logged_at = -_LOG_EVERY_S

    @property
    def held_bytes(self) -> int:
        """The number of bytes that are held only for clients."""
        return self._total

    def add(self, reader: UnreadConnection, transport: asyncio.WriteTransport) -> None:
        """Note that a client has unread data. transport: the connection's, which has the rest."""
        now = self._clock()
        holder = holder_of(reader.asker) if reader.asker is not None else ""
        unread = self._unread[reader] = _Unread(transport, holder, now, now, _left(transport))
        self._count(reader, unread)
        if self._total > self._all_bytes_max:
            self._shed(now)
        if self._timer is None:
            self._look_later()

    def discard(self, reader: UnreadConnection) -> None:
        """Note that a client has read everything, or is gone."""
        unread = self._unread.pop(reader, None)
        if unread is not None:
            self._set_held(unread, 0)

    def _check(self) -> None:
        now = self._clock()
        for reader, unread in list(self._unread.items()):
            unread.look(now)
            self._count(reader, unread)
            stalled_s, lasted_s = now - unread.taken_at, now - unread.began_at
            is_slow = lasted_s > SLOW_AFTER_S and unread.taken < RATE_MIN * lasted_s
            if (stalled_s >= self._stalled_s or is_slow) and not reader.may_stall:
                self._drop(unread)
            elif stalled_s >= HESITANT_S:
                reader.on_hesitation()
        self._shed(now)
        self._timer = None
        if self._unread:
            self._look_later()

    def _look_later(self) -> None:
        delay_s = min(_CHECK_S, self._stalled_s / 10)
        self._timer = self._loop.call_later(delay_s, self._check, context=no_request())

    def _shed(self, now: float) -> None:
        """Drop responses until users, and all together, are within their bounds."""
        for holder, held in list(self._by_holder.items()):
            if held > self._user_bytes_max:
                hesitant = [
                    each
                    for each in self._unread.values()
                    if each.holder == holder and now - each.taken_at >= HESITANT_S
                ]
                self._drop_largest(hesitant, held - self._user_bytes_max)
        if self._total > self._all_bytes_max:
            # The users with the most come first, then the readers that read nothing.
            too_much = {who for who, held in self._by_holder.items() if held > self._user_bytes_max}
            ranks: dict[tuple[bool, bool], list[_Unread]] = {}
            for each in self._unread.values():
                rank = (each.holder in too_much, now - each.taken_at >= HESITANT_S)
                ranks.setdefault(rank, []).append(each)
            for rank in sorted(ranks, reverse=True):
                self._drop_largest(ranks[rank], self._total - self._all_bytes_max)

    def _drop_largest(self, unread: Iterable[_Unread], excess: int) -> None:
        """Drop the largest responses, until there is room for the excess and a little more."""
        if excess <= 0:
            return
        excess += self._user_bytes_max // _DROPPED_PART
        for each in sorted(unread, key=lambda found: found.held, reverse=True):
            if excess <= 0 or not each.held:
                break  # Those that hold nothing have been dropped before.
            excess -= each.held
            self._drop(each)

    def _drop(self, unread: _Unread) -> None:
        """Drop a response with its connection, whose entry is removed when the connection is lost."""
        self._set_held(unread, 0)
        unread.transport.abort()
        self._dropped += 1
        now = self._clock()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.warning(
                "dropped %d responses that clients did not read; the last response was for %r",
                self._dropped,
                unread.holder,
            )

    def _count(self, reader: UnreadConnection, unread: _Unread) -> None:
        in_transport = 0 if reader.is_shared else unread.transport.get_write_buffer_size()
        self._set_held(unread, CONNECTION_BYTES + reader.held_bytes + in_transport)

    def _set_held(self, unread: _Unread, held: int) -> None:
        change = held - unread.held
        unread.held = held
        self._total += change
        self._by_holder[unread.holder] += change
        if not self._by_holder[unread.holder]:
            del self._by_holder[unread.holder]


def _left(transport: asyncio.WriteTransport) -> int:
    """Returns how many bytes a client has not read, including those in the kernel if the transport knows
    them.
    """
    left = transport.get_extra_info("unsent")
    return transport.get_write_buffer_size() if left is None else int(left)
