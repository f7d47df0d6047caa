"""The identity of a cluster whose servers share a store: CAs and a service account key for all of them.

It is one value in the store, `{prefix}/-/identity`, below the group that no API path leads to. The first
server creates it, from the keys in its data directory or new ones, in a transaction that fails if there is
one; all others read it. So they trust each other's certificates and tokens whichever was first, and a server
with an empty data directory gets the same identity again.

Whoever can read the store can thus act as anybody. That is so in Kubernetes, too, whose Secrets lie there:
access to etcd is as much as to be root of the cluster. Who wants no private key of service accounts there
gives all servers the same `--service-account-signing-key-file`, which takes precedence.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import orjson

from apiserver.serving.pki import FRONT_PROXY_CA_NAME, ClusterIdentity, UnusableIdentity, new_ca
from storage.errors import KeyExists, RevisionMismatch, StorageError
from storage.interface import Storage
from storage.keys import INTERNAL_GROUP

log = logging.getLogger(__name__)

RETRY_S: Final = 0.5
# It is logged once in so many attempts that the store does not answer.
ATTEMPTS_PER_WARNING: Final = 60
# The fields of the value, by those of ClusterIdentity.
_FIELDS: Final = {
    "ca_cert": "caCertificate",
    "ca_key": "caKey",
    "service_account_key": "serviceAccountKey",
    "front_proxy_ca_cert": "frontProxyCACertificate",
    "front_proxy_ca_key": "frontProxyCAKey",
}
# An identity that an older server has made lacks them, and gets new ones.
_ADDED: Final = ("frontProxyCACertificate", "frontProxyCAKey")


class UnusableStoredIdentity(Exception):
    """The value in the store cannot be used. It is not replaced: that would lock out all who trust it."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"the identity of the cluster in {key} in the store cannot be used: {reason}")


async def fetch_identity(
    store: Storage, prefix: str, offer: Callable[[], ClusterIdentity]
) -> ClusterIdentity:
    """Returns the identity in the store. Waits until the store answers.

    offer: returns what is written if there is none; called in a thread.
    Raises UnusableStoredIdentity, and what `offer` raises.
    """
    key = f"{prefix}/{INTERNAL_GROUP}/identity"
    offered: ClusterIdentity | None = None
    failures = 0
    while True:
        try:
            found = (await store.get(key)).stored
            if found is None:
                if offered is None:
                    offered = await asyncio.to_thread(offer)
                await store.create(key, _encode(offered))
            else:
                identity, is_complete = await asyncio.to_thread(_decode, key, found.value)
                if is_complete and not identity.expires_soon:
                    return identity
                if is_complete:
                    log.warning("a CA of the cluster expires soon, and is replaced")
                    identity = await asyncio.to_thread(identity.with_new_cas)
                await store.compare_and_put(key, _encode(identity), expected=found.mod_revision)
        except (KeyExists, RevisionMismatch):
            continue  # Another server was faster.
        except StorageError as error:
            if failures % ATTEMPTS_PER_WARNING == 0:
                log.warning("waiting for the store, which has the identity of the cluster: %s", error)
            failures += 1
            await asyncio.sleep(RETRY_S)


def _encode(identity: ClusterIdentity) -> bytes:
    return orjson.dumps({name: getattr(identity, field).decode() for field, name in _FIELDS.items()})


def _decode(key: str, value: bytes) -> tuple[ClusterIdentity, bool]:
    """Returns the identity, and whether it is the stored one: what it lacks has been added.

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
        raise UnusableStoredIdentity(key, "it has not the expected form") from None
