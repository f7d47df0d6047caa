"""Notes which login codes have been redeemed, in the store, so that no server redeems one a second time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.console.login_rates import LoginRates
from apiserver.meta.errors import TooManyRequests
from apiserver.storage.errors import KeyExists, LeaseNotFound
from apiserver.storage.interface import Storage
from apiserver.storage.keys import INTERNAL_GROUP
from apiserver.storage.lease_manager import LeaseManager

# For longer than a code can be valid for any server: a minute, and as much again for each of two clocks that
# differ, or are put back, by at most a minute (`sealed_texts.LEEWAY_S`).
KEPT_S: Final = 300
# Of each user: every code is a write, which users without any right can cause.
REDEMPTIONS_PER_S: Final = 1.0
REDEMPTIONS_BURST: Final = 20
_VALUE: Final = b"1"


class RedeemedCodes:
    """The ids of redeemed codes, each a key below `{prefix}/-/console-codes/` that expires.

    prefix: that of all keys. monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, store: Storage, prefix: str, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._folder = f"{prefix}/{INTERNAL_GROUP}/console-codes/"
        self._leases = LeaseManager(store, clock=monotonic)
        self._rates = LoginRates(REDEMPTIONS_PER_S, REDEMPTIONS_BURST, monotonic)

    async def redeem(self, code_id: str, user_name: str) -> bool:
        """Note that a code is redeemed; returns False if it was before.

        code_id: of a code that is valid, and logs in a user. Raises TooManyRequests, StorageError; after the
        latter, or if cancelled, the code may count as redeemed.
        """
        if not self._rates.take(user_name):
            raise TooManyRequests
        lease = await self._leases.lease_for(KEPT_S)
        try:
            return await self._create(code_id, lease)
        except LeaseNotFound:
            # It was revoked, or ended while the machine slept.
            self._leases.forget(lease)
            return await self._create(code_id, await self._leases.lease_for(KEPT_S))

    async def _create(self, code_id: str, lease: int) -> bool:
        try:
            await self._store.create(self._folder + code_id, _VALUE, lease=lease)
        except KeyExists:
            return False
        return True
