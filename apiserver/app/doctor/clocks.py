"""Checks the clock of this machine against those of other servers, and against times in the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from apiserver.app.doctor.report import Finding, error, note, ok, warning
from apiserver.app.doctor.units import count

# etcd warns about clocks of its members that differ by more.
SKEW_WARNING_S: Final = 1.0
# Clients that elect a leader by a Lease renew it for 10 s before they give up. With a larger skew, tokens and
# certificates that were just issued are not valid yet on the other machine, either.
SKEW_ERROR_S: Final = 10.0
# The resolution of the header Date.
DATE_S: Final = 1.0


class ClockReading(NamedTuple):
    """The time of another machine, in seconds since 1970, rounded down to a second.

    began, ended: the times of this machine before the request and after its response.
    """

    name: str
    time: float
    began: float
    ended: float

    @property
    def skew_s(self) -> float:
        """By how much the other clock is ahead, at least; negative if it is behind, 0 if that is not certain.

        The other machine read its clock at some time between the request and its response.
        """
        earliest, latest = self.time - self.ended, self.time + DATE_S - self.began
        return earliest if earliest > 0 else min(latest, 0.0)


class StoreTime(NamedTuple):
    """A time in the store. what: what was written then.

    is_of_client: a client may have written it, whose clock does not affect the server.
    """

    what: str
    time: float
    is_of_client: bool = False


class LeaseTimes(NamedTuple):
    """The Leases in the store. newest: the latest renewal; None if no time could be read."""

    newest: StoreTime | None
    total: int


def reading(name: str, headers: Mapping[str, str], began: float, ended: float) -> ClockReading | None:
    """Returns the time in the headers of a response, by names in lower case; None if they have none."""
    try:
        date = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return None
    return ClockReading(name, date.timestamp(), began, ended)


def examine(readings: Iterable[ClockReading], writes: Iterable[StoreTime], now: float) -> Iterator[Finding]:
    agreeing = []
    for each in readings:
        size = abs(each.skew_s)
        if size < SKEW_WARNING_S:
            agreeing.append(each.name)
            continue
        direction = "ahead of" if each.skew_s > 0 else "behind"
        make = error if size >= SKEW_ERROR_S else warning
        yield make(
            f"the clock of {each.name} is {size:.0f} s {direction} the clock of this machine",
            "Synchronize both clocks with NTP (chronyc tracking, timedatectl).",
        )
    if agreeing:
        yield ok(f"the clock agrees with the clock of {', '.join(agreeing)}")
    for what, time, is_of_client in writes:
        written = datetime.fromtimestamp(time, UTC)
        if time - now > SKEW_WARNING_S:
            make = error if time - now >= SKEW_ERROR_S and not is_of_client else warning
            yield make(
                f"{what} is dated {written:%Y-%m-%d %H:%M:%S} UTC, {time - now:.0f} s in the future",
                "Check the clocks of this machine and of the machine that wrote this time. One clock is "
                "wrong.",
            )
        else:
            yield ok(f"{what} was {max(0.0, now - time):.0f} s ago ({written:%Y-%m-%d %H:%M:%S} UTC)")


def examine_leases(leases: LeaseTimes, now: float) -> Iterator[Finding]:
    if leases.newest is not None:
        yield from examine((), [leases.newest], now)
    elif leases.total:
        yield note(
            f"the times in {count(leases.total, 'Lease')} in etcd cannot be read",
            "If the Leases are encrypted, compare the clocks of the servers manually.",
        )
