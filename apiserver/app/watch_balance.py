"""Spreads watches over all replicas again when another one joins.

A watch lasts for half an hour and more. When a replica has restarted, the others have all its watches, and
would keep them for that long: after a rolling restart the replica that restarted last has none.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from apiserver.endpoints.watch_stream import WatchStreams

log = logging.getLogger(__name__)

# Most of them end when the new replica has filled its cache and the balancer sends to it. Each costs a TLS
# handshake and a few events of the history.
SPREAD_S: Final = 300.0


class WatchBalance:
    """Ends the watches of this server, spread over minutes, after another server has joined.

    Their connections close, and the balancer decides where their clients continue.
    """

    def __init__(self, streams: WatchStreams, spread_s: float = SPREAD_S) -> None:
        self._streams, self._spread_s = streams, spread_s
        self._has_joined = asyncio.Event()

    def note_join(self) -> None:
        """Note that another server has joined."""
        self._has_joined.set()

    async def run(self) -> None:
        """End watches after each join, until cancelled."""
        while True:
            await self._has_joined.wait()
            self._has_joined.clear()
            if count := self._streams.open_count:
                log.info(
                    "another replica has started: %d watches will end within %.0f s", count, self._spread_s
                )
                await self._streams.end_gradually(self._spread_s)
