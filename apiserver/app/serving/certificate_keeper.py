"""Renews certificates before they expire, and warns of those that it cannot renew."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from apiserver.app.serving.pki_files import RENEW_BEFORE, UnusableFile

log = logging.getLogger(__name__)

INTERVAL_S: Final = 3_600.0
# How often it warns of a certificate that expires soon.
TOLD_EVERY_S: Final = 24 * 3_600.0


class CertificateKeeper:
    """Renews the server's own certificates, and warns of those that expire soon.

    renew: replaces the files of those that our own CA has signed and that expire soon; returns whether there
        were any. Called in a thread; raises OSError, UnusableFile.
    expirations: returns when each certificate in use expires, by its name, in seconds since 1970.
    clock: seconds since 1970.
    """

    def __init__(
        self,
        renew: Callable[[], bool],
        expirations: Callable[[], Mapping[str, float]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._renew, self._expirations, self._clock = renew, expirations, clock
        # When it last warned of each certificate, and whether that had expired.
        self._told: dict[str, tuple[float, bool]] = {}
        self._changed = asyncio.Event()

    def look_soon(self) -> None:
        """Checks the certificates soon, because they have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Checks and renews certificates until cancelled."""
        self._tell()  # Those that can be renewed are new: the server has just started.
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_S):
                    await self._changed.wait()
            self._changed.clear()
            await self.look()

    async def look(self) -> None:
        try:
            if await asyncio.to_thread(self._renew):
                log.info("renewed certificates that were about to expire")
        except (OSError, UnusableFile) as error:
            log.error("cannot renew certificates: %s", error)
        self._tell()

    def _tell(self) -> None:
        now = self._clock()
        for name, expires_at in self._expirations().items():
            if expires_at - now > RENEW_BEFORE.total_seconds():
                continue
            has_expired = expires_at < now
            told_at, told_expired = self._told.get(name, (0.0, False))
            if now - told_at < TOLD_EVERY_S and told_expired is has_expired:
                continue
            self._told[name] = now, has_expired
            when = datetime.fromtimestamp(expires_at, UTC)
            if has_expired:
                log.error("%s expired on %s", name, when)
            else:
                log.warning("%s expires on %s", name, when)
