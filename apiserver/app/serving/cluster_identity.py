"""The identity of a cluster whose servers share a store: its CAs and its service account key.

It is one value in the store, `{prefix}/-/identity`, below the group that no API path leads to. The first
server creates it, from the keys in its data directory or new ones, in a transaction that fails if it exists;
all others read it. So the servers trust each other's certificates and tokens, and a server with an empty data
directory gets the same identity again.

Anyone who can read it can act as any user. So it is encrypted where Secrets are, by the same providers, and
as these may change at any time, `EncryptedIdentity` rewrites it: no command does, as it is not an API object.
To keep the private key of service accounts out of the store, give all servers the same
`--service-account-signing-key-file`, which takes precedence.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

import orjson

from apiserver.app.serving.pki import FRONT_PROXY_CA_NAME, ClusterIdentity, UnusableIdentity, new_ca
from apiserver.storage.errors import (
    KeyExists,
    RevisionMismatch,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from apiserver.storage.interface import ENCRYPTED_PREFIX, Storage, Stored, UnreadableValue
from apiserver.storage.keys import INTERNAL_GROUP

log = logging.getLogger(__name__)

# The wait doubles from the first to the longest: a store that starts is found soon, and one that is gone is
# rarely asked.
RETRY_FIRST_S: Final = 0.25
RETRY_MAX_S: Final = 5.0
# A wait of hours leaves a line in each of these.
WARNING_INTERVAL_S: Final = 300.0
# The fields of the value, by those of ClusterIdentity.
_FIELDS: Final = {
    "ca_cert": "caCertificate",
    "ca_key": "caKey",
    "service_account_key": "serviceAccountKey",
    "front_proxy_ca_cert": "frontProxyCACertificate",
    "front_proxy_ca_key": "frontProxyCAKey",
}
# In the texts of `etcd.client` and its two transports.
_BEFORE_CAUSE: Final = re.compile(
    r"^etcd at \S+: (?:[A-Z_]+: )?(?:cannot connect: |.*: Failed to connect to remote host: )?"
)
# An identity that an older server has made lacks them, and gets new ones.
_ADDED: Final = ("frontProxyCACertificate", "frontProxyCAKey")


class UnusableStoredIdentity(Exception):
    """The stored identity cannot be used. It is not replaced: that would lock out all clients that trust
    it.
    """

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"the identity of the cluster in {key} in the store cannot be used: {reason}")


def identity_key(prefix: str) -> str:
    """Returns the key of the value. prefix: of all keys."""
    return f"{prefix}/{INTERNAL_GROUP}/identity"


class _NotReadableYet(StorageUnavailable):
    """The value cannot be decrypted now; it may well be later."""


async def fetch_identity(
    store: Storage,
    prefix: str,
    offer: Callable[[], ClusterIdentity],
    store_name: str = "the store",
    *,
    is_silent: bool = False,
    check: Callable[[], Awaitable[None]] | None = None,
) -> ClusterIdentity:
    """Returns the identity in the store, waiting until the store answers and can decrypt it.

    offer: returns the identity to write if there is none; called in a thread.
    store_name: names the store in the log. is_silent: another process logs what this one waits for.
    check: checks that the store may be used.
    Raises UnusableStoredIdentity, and what `offer` and `check` raise.
    """
    key = identity_key(prefix)
    offered: ClusterIdentity | None = None
    retry_s, warned_at = RETRY_FIRST_S, -WARNING_INTERVAL_S
    while True:
        try:
            if check is not None:
                await check()
            found = (await store.get(key)).stored
            if found is None:
                if offered is None:
                    offered = await asyncio.to_thread(offer)
                await store.create(key, _encode(offered))
            else:
                _require_readable(found)
                identity, is_complete = await asyncio.to_thread(_decode, key, found.value)
                if is_complete and not identity.expires_soon:
                    return identity
                if is_complete:
                    log.warning("replacing a CA of the cluster that expires soon")
                    identity = await asyncio.to_thread(identity.with_new_cas)
                await store.compare_and_put(key, _encode(identity), expected=found.mod_revision)
        except (KeyExists, RevisionMismatch):
            continue  # Another server was faster.
        except StorageError as error:
            if (now := monotonic()) >= warned_at + WARNING_INTERVAL_S and not is_silent:
                warned_at = now
                if isinstance(error, _NotReadableYet):
                    log.warning("cannot decrypt the identity of the cluster: %s; retrying", error)
                elif isinstance(error, StorageUnavailable) and not isinstance(error, StorageFull):
                    log.warning("cannot reach %s (%s); retrying", store_name, _cause(error))
                else:
                    log.warning("cannot read or write the identity of the cluster: %s; retrying", error)
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)


async def read_identity(store: Storage, prefix: str) -> ClusterIdentity | None:
    """Returns the identity in the store; None if no server has written it yet.

    Raises UnusableStoredIdentity, and StorageError, also if it cannot be decrypted now.
    """
    found = (await store.get(identity_key(prefix))).stored
    if found is None:
        return None
    _require_readable(found)
    return (await asyncio.to_thread(_decode, found.key, found.value))[0]


def _cause(error: StorageError) -> str:
    """Returns the text of an error without etcd's address and how it was called."""
    return _BEFORE_CAUSE.sub("", str(error))


def _require_readable(stored: Stored) -> None:
    """Check that the stored identity can be decrypted.

    Raises UnusableStoredIdentity; StorageUnavailable if it may well be readable later.
    """
    if isinstance(stored.value, UnreadableValue):
        if stored.value.is_temporary:
            raise _NotReadableYet(str(stored.value.cause))
        raise UnusableStoredIdentity(stored.key, f"the value cannot be decrypted: {stored.value.cause}")
    if stored.value.startswith(ENCRYPTED_PREFIX):
        raise UnusableStoredIdentity(
            stored.key, "the value is encrypted, but --encryption-provider-config is not set"
        )


class EncryptedIdentity:
    """Keeps the identity encrypted as Secrets are.

    is_stale: whether writing the value at a key back would store it in another form; also if it cannot be
    decrypted.
    """

    def __init__(self, store: Storage, is_stale: Callable[[str], Awaitable[bool]], prefix: str) -> None:
        self._store, self._is_stale, self._key = store, is_stale, identity_key(prefix)
        # As it was last read or written. If its key is lost meanwhile, it can be saved.
        self._known: Stored | None = None
        # Its last revision that had the form of this server; None if that is not known of its configuration.
        self._own_revision: int | None = None

    async def renew(self) -> None:
        """Encrypts the identity again if a new configuration requires it, and logs what the store refuses."""
        self._own_revision = None
        await self.keep()

    async def keep(self) -> None:
        """Encrypts the identity again if a plugin's key has changed, under an unchanged configuration.

        A form that another server wrote is kept. Its keys may be in another order, as during a rotation on
        one server after the other: each server would undo the other's write, forever.
        """
        try:
            while not await self._is_renewed():
                pass  # Another server was faster.
        except StorageError as error:
            log.warning("cannot encrypt the cluster's identity with the current key: %s", error)

    async def _is_renewed(self) -> bool:
        """Encrypts the stored identity with the current key. Returns False if the value has changed
        meanwhile.
        """
        stored, known = (await self._store.get(self._key)).stored, self._known
        if stored is None:
            return True
        if isinstance(stored.value, UnreadableValue):
            # Another server may have written another identity, with a key that is not here yet.
            if stored.value.is_temporary or known is None or known.mod_revision != stored.mod_revision:
                return True
            stored = known
        self._known = stored
        if not await self._is_stale(self._key):
            self._own_revision = stored.mod_revision
            return True
        if self._own_revision not in (None, stored.mod_revision):
            return True
        try:
            revision = await self._store.compare_and_put(
                self._key, stored.value, expected=stored.mod_revision
            )
        except RevisionMismatch:
            return False
        self._known = stored._replace(mod_revision=revision)
        self._own_revision = revision
        log.info("encrypted the cluster's identity with the current key for Secrets")
        return True


def _encode(identity: ClusterIdentity) -> bytes:
    return orjson.dumps({name: getattr(identity, field).decode() for field, name in _FIELDS.items()})


def _decode(key: str, value: bytes) -> tuple[ClusterIdentity, bool]:
    """Returns the identity, and whether it equals the stored one: missing parts are added.

    Raises UnusableStoredIdentity.
    """
    try:
        document = orjson.loads(value)
        is_complete = any(name in document for name in _ADDED)
        if not is_complete:
            made = zip(_ADDED, new_ca(FRONT_PROXY_CA_NAME), strict=True)
            document |= {name: pem.decode() for name, pem in made}
        fields = {field: document[name].encode() for field, name in _FIELDS.items()}
        return ClusterIdentity(**fields), is_complete
    except UnusableIdentity as error:
        raise UnusableStoredIdentity(key, str(error)) from None
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise UnusableStoredIdentity(key, "the value does not have the expected format") from None
