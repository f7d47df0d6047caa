"""Drops old versions that have changed nothing but the status, of resources that the policy names.

What remains says where versions were dropped, and how many. The status at such a moment is not known any
more, so reads leave it out: the last status before it was that of another moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from apiserver.meta.errors import ApiError
from apiserver.registry.history.forms import RecordedForms, is_status_only
from apiserver.registry.history.past import PastReads
from apiserver.registry.history.recorder import CANNOT_RECORD, Recorder
from apiserver.storage.history.undo_log import UndoLog

log = logging.getLogger(__name__)

# How long all versions are kept.
KEPT_S: Final = 3600.0
# How often it is looked for older ones.
# To decode versions that few others follow takes as long as to decode many.
INTERVAL_S: Final = 600.0


class Thinning:
    """Drops versions of what the policy of `forms` thins. clock: seconds since 1970."""

    def __init__(
        self,
        past: PastReads,
        history: UndoLog,
        recorder: Recorder,
        forms: RecordedForms,
        clock: Callable[[], float],
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """interval_s: how often it is looked for old versions."""
        self._past, self._history, self._recorder = past, history, recorder
        self._forms, self._clock, self._interval_s = forms, clock, interval_s

    async def run(self) -> None:
        """Drop versions as they become old enough, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.thin(int((self._clock() - KEPT_S) * 1000))
            except Exception as error:  # Nothing of a server depends on its history.
                is_expected = isinstance(error, (*CANNOT_RECORD, ApiError))
                log.warning(
                    "old versions of the history are dropped later: %s",
                    error,
                    exc_info=None if is_expected else error,
                )

    async def thin(self, before_ms: int) -> int:
        """Drop versions that are older than a time. Returns their number.

        Raises ApiError, OSError, StorageError, CannotEncrypt.
        """
        count = 0
        find = partial(self._history.old_rows, before_ms, self._forms.policy.thins)
        while (old := await self._recorder.write(find)) is not None:
            until = await self._past.complete()
            newest = {key: await self._past.newest(key, until) for key in old[1].keys}
            drop = partial(self._history.thin, old, newest.get, until, is_status_only)
            count += await self._recorder.write(drop)
        return count
