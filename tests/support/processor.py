"""How fast this machine's processors are, for tests that bound processor time.

It is longer where processors are slow, or share their caches and their units with the work of neighbours. A
test that bounds it compares it with what a fixed piece of work takes at the same time.
"""

from __future__ import annotations

import statistics
import time
from operator import itemgetter
from typing import Final

from tests.support.garbage import no_collections

# What the piece of work takes on the machine for which the bounds were chosen, as seconds.
_ORDINARY_S: Final = 0.0011
_PIECES: Final = 9


def slowness() -> float:
    """Returns how many times longer work takes here and now than on an ordinary machine; at least 1."""
    with no_collections():
        return max(1.0, statistics.median(_piece_s() for _ in range(_PIECES)) / _ORDINARY_S)


def _piece_s() -> float:
    """Work as a server does it: objects are made, looked up and sorted."""
    began = time.thread_time()
    found = {f"k{number}": (number, str(number)) for number in range(4_000)}
    sorted(found.values(), key=itemgetter(1))
    return time.thread_time() - began
