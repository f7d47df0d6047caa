"""Notes in the store which login codes and sessions are not valid any more, for all servers.

Codes and cookies hold their logins themselves, and would be valid until they expire. A code is revoked when
it is used, and a session when its user logs out, with all copies of its cookie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.console.logins import SESSION_S
from apiserver.load.token_bucket import KeyedTokenBuckets
from apiserver.meta.errors import TooManyRequests
from apiserver.storage.errors import KeyExists, LeaseNotFound
from apiserver.storage.interface import Storage
from apiserver.storage.keys import INTERNAL_GROUP
from apiserver.storage.lease_manager import LeaseManager

# For longer than a code can be valid for any server: a minute, and as much again for each of two clocks that
# differ, or are put back, by at most a minute (`sealed_texts.LEEWAY_S`).
CODE_KEPT_S: Final = 300
# As much longer than a session, whenever it has begun: so all sessions can share leases.
SESSION_KEPT_S: Final = SESSION_S + CODE_KEPT_S
# Of each user: every code is a write, which users without any right can cause.
CODES_PER_S: Final = 1.0
CODES_BURST: Final = 20
# Of each user: 3,000 are kept at most. People log out a few times a day.
LOGOUTS_PER_S: Final = 0.1
LOGOUTS_BURST: Final = 20
# Of the users whose rates are known: about 200 bytes each.
USERS_MAX: Final = 1_000
_VALUE: Final = b"1"


class Revocations:
    """The ids of used codes and ended sessions, each a key below `{prefix}/-/` that expires.

    prefix: that of all keys. monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, store: Storage, prefix: str, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._codes, self._sessions = (
            f"{prefix}/{INTERNAL_GROUP}/{folder}/" for folder in ("console-codes", "console-sessions")
        )
        self._leases = LeaseManager(store, clock=monotonic)
        self._code_rates = KeyedTokenBuckets(CODES_PER_S, CODES_BURST, USERS_MAX, monotonic)
        self._logout_rates = KeyedTokenBuckets(LOGOUTS_PER_S, LOGOUTS_BURST, USERS_MAX, monotonic)

    async def use_code(self, code_id: str, user_name: str) -> bool:
        """Revoke a code that is used; returns False if it was used before.

        code_id: of a code that is valid, and logs in a user. Raises TooManyRequests, StorageError; after the
        latter, or if cancelled, the code may count as used.
        """
        if not self._code_rates.take(user_name):
            raise TooManyRequests
        return await self._note(self._codes + code_id, CODE_KEPT_S)

    async def end_session(self, session_id: str, user_name: str) -> None:
        """End a session of a user. Raises TooManyRequests, StorageError, after which it may have ended."""
        if not self._logout_rates.take(user_name):
            raise TooManyRequests
        await self._note(self._sessions + session_id, SESSION_KEPT_S)

    async def has_ended(self, session_id: str) -> bool:
        """Returns whether a session was ended at any server. Raises StorageError."""
        return (await self._store.get(self._sessions + session_id)).stored is not None

    async def _note(self, key: str, kept_s: int) -> bool:
        """Create a key; returns False if it is there. Raises StorageError."""
        lease = await self._leases.lease_for(kept_s)
        try:
            return await self._create(key, lease)
        except LeaseNotFound:
            # It was revoked, or ended while the machine slept.
            self._leases.forget(lease)
            return await self._create(key, await self._leases.lease_for(kept_s))

    async def _create(self, key: str, lease: int) -> bool:
        try:
            await self._store.create(key, _VALUE, lease=lease)
        except KeyExists:
            return False
        return True
