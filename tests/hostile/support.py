"""What hostile tests measure: how long the server's event loop was at one thing while others waited.

The server measures its loop itself (`apiserver.metrics.event_loop`), by three clocks, and tells in its metric
`apiserver_event_loop_stall_seconds`:

    with longest_turn(api) as turn:
        attack(server)
    assert turn.thread_cpu_s <= 0.05

- `thread_cpu_s` is processor time of the loop's thread: the work that the loop did in one turn. Test this
  one, unless the subject is a thread beside the loop.
- `process_cpu_s` is processor time of all the server's threads: also that of a thread beside the loop that
  held the interpreter meanwhile (a parser, a compressor). Those that let go of it count, too.
- `wall_s` is what others have waited, the machine's other work included. Never assert it.

Processor times are those of an ordinary machine: where a piece of work that is measured before and after
takes longer, a turn may, too.

Each is the upper bound of the histogram's bucket (10, 15, 20, 30, 40, 50, 75, 100, 150 ms ...): `<= 0.05`
holds if no turn was over 50 ms. 0.0 means that none was as long as 10 ms. A turn is one round of the loop,
so hundreds of clients that ask for something small in the same moment make a long one; it is told up to 5 ms
too long. On a failure look at the server's log, `server.stderr`: a turn over 100 ms has a line that says
which request or task it was, and where.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tests.support.api import Api, until_status
from tests.support.processor import slowness

_BUCKET: Final = re.compile(
    r'^apiserver_event_loop_stall_seconds_bucket\{clock="(\w+)",le="([^"]+)"\} (\d+)$', re.MULTILINE
)


# The cumulative counts of long turns by clock, and by the bounds of the histogram in seconds.
Stalls = dict[str, dict[float, int]]


@dataclass
class LongestTurn:
    """The longest turn of the loop, by each clock; known when the measurement has ended. Seconds."""

    thread_cpu_s: float = 0.0
    process_cpu_s: float = 0.0
    wall_s: float = 0.0


@contextmanager
def longest_turn(api: Api) -> Iterator[LongestTurn]:
    """Measure what happens inside. api: a client that may read /metrics, and is answered."""
    slower = slowness()
    before, turn = _stalls(api), LongestTurn()
    yield turn
    after = _stalls(api)
    found = longest_between(before, after, slower=max(slower, slowness()))
    turn.thread_cpu_s, turn.process_cpu_s, turn.wall_s = found.thread_cpu_s, found.process_cpu_s, found.wall_s


def _stalls(api: Api) -> Stalls:
    # The one who asks is told of the turn that is under way only by the next answer.
    api.get("/version")
    answer = until_status(200, lambda: api.get("/metrics"), "an answer to a scrape")
    return stalls_of(answer.body.decode())


def stalls_of(metrics: str) -> Stalls:
    """Returns what a scrape tells of stalls."""
    stalls: Stalls = {}
    for clock, bound, count in _BUCKET.findall(metrics):
        stalls.setdefault(clock, {})[float(bound)] = int(count)
    return stalls


def longest_between(before: Stalls, after: Stalls, *, slower: float = 1.0) -> LongestTurn:
    """Returns the longest turn between two scrapes.

    slower: how many times slower than an ordinary machine this one is.
    """
    return LongestTurn(
        _longest(before["thread_cpu"], after["thread_cpu"], slower),
        _longest(before["process_cpu"], after["process_cpu"], slower),
        _longest(before["wall"], after["wall"]),
    )


def _longest(before: dict[float, int], after: dict[float, int], slower: float = 1.0) -> float:
    """Returns the lowest bound that no new turn was above, had the machine been an ordinary one."""
    new = {bound: after[bound] - before[bound] for bound in after}
    total = new[math.inf]
    if not total:
        return 0.0
    bounds = sorted(new)
    lowest = next(number for number, bound in enumerate(bounds) if new[bound] == total)
    # It was longer than the bound below, and is told as no longer than that proves.
    proven_s = bounds[lowest - 1] / slower if lowest else 0.0
    return bounds[bisect_right(bounds, proven_s)]
