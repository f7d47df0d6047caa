"""The options of a watch cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from apiserver.storage.watch_cache.history import HistoryLimits

# How long a read waits for a revision that the store has not reached before it fails. kube-apiserver: 3 s.
FUTURE_REVISION_WAIT_S: Final = 3.0
# How long a consistent read waits for the cache to catch up before it asks the store itself.
CATCH_UP_WAIT_S: Final = 3.0
# The bytes that obsolete versions of all resources may take together. Beyond that the largest history gets
# shorter.
HISTORY_BYTES_MAX: Final = 256 * 1024 * 1024
# How often the cache is compared with the store. It costs a list of everything.
CHECK_INTERVAL_S: Final = 300.0


def _usual_limits(resource_prefix: str) -> HistoryLimits:
    return HistoryLimits()


class WatchCacheOptions(NamedTuple):
    """The bounds of a watch cache, and the features that an operator may switch off.

    limits_of: returns the limits of one resource's history, by its prefix.
    history_bytes_max: the bytes that the histories of all resources may take together.
    check_interval_s: how often the whole cache is compared with the store; 0 for never.
    catch_up_wait_s: how long a read waits for a revision that the store has reached before the store answers.
    future_revision_wait_s: how long a read waits for a revision that the store has not reached.
    serve_snapshots: whether exact reads may be answered from memory (ListFromCacheSnapshot).
    on_wait: called with the key, or the start of the range, of a read that waited for the cache to catch up,
        and the seconds that it waited.
    """

    limits_of: Callable[[str], HistoryLimits] = _usual_limits
    history_bytes_max: int = HISTORY_BYTES_MAX
    check_interval_s: float = CHECK_INTERVAL_S
    catch_up_wait_s: float = CATCH_UP_WAIT_S
    future_revision_wait_s: float = FUTURE_REVISION_WAIT_S
    serve_snapshots: bool = True
    clock: Callable[[], float] = time.monotonic
    on_wait: Callable[[str, float], None] | None = None
