"""The servers that share a store: each says where it is and which keys it has, for as long as it lives.

A record is a key below `{prefix}/-/replicas/`, bound to a lease. To renew a lease is no write: an idle server
leaves the store's revision as it is. Who has died is forgotten after TTL_S; who stops says so.

Why servers have to agree: a token that one of them issues has to be valid at all of them, and a client that
trusts one has to trust all. So a server does not start beside one with which it disagrees (`disagreement`),
but waits first for as long as the record of a dead one may last.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from storage.errors import LeaseNotFound, StorageError
from storage.interface import NO_LEASE, Put, Storage
from storage.keys import INTERNAL_GROUP, prefix_range

log = logging.getLogger(__name__)

# As long as kube-apiserver's endpoint leases.
TTL_S: Final = 15
RENEW_S: Final = 5.0
POLL_S: Final = 0.5
# It is logged once in so many attempts that the store does not answer.
ATTEMPTS_PER_WARNING: Final = 60
# Until now a dead server's record may last: its lease, and some time for the store to notice.
GONE_WITHIN_S: Final = TTL_S + 5.0


@dataclass(frozen=True, slots=True)
class Replica:
    """What a server tells the others.

    address: where clients reach it; empty if nowhere. issuer, signing_key: of the tokens that it issues; the
    lists: of those that it accepts. root_ca: the digest of what verifies it. Keys are told by their ids.
    has_tls_files: whether its serving certificate is one that it was given, of another CA than the cluster's.
    """

    address: str
    port: int
    issuer: str
    issuers: tuple[str, ...]
    signing_key: str
    keys: tuple[str, ...]
    root_ca: str
    has_tls_files: bool

    def __str__(self) -> str:
        return f"{self.address or 'unknown'}:{self.port}"


class ReplicasDisagree(Exception):
    """Another server on the store has other keys. The message is one line and names the flags."""


def disagreement(own: Replica, other: Replica) -> str:
    """Returns why two servers cannot serve one cluster; empty if they can.

    Different serving certificates from files are none: clients may trust the CAs of both.
    """
    if own.signing_key not in other.keys or other.signing_key not in own.keys:
        return (
            f"the replica at {other} and this one do not accept each other's service account tokens: give "
            "all replicas the same --service-account-signing-key-file and --service-account-key-file, or none"
        )
    if own.issuer not in other.issuers or other.issuer not in own.issuers:
        return (
            f"the replica at {other} issues service account tokens as {other.issuer}, this one as "
            f"{own.issuer}: give all replicas the same --service-account-issuer"
        )
    if own.root_ca != other.root_ca and own.has_tls_files is not other.has_tls_files:
        return (
            f"the replica at {other} and this one have serving certificates of different CAs: give all "
            "replicas a --tls-cert-file of one CA, with that CA in --client-ca-file, or none"
        )
    return ""


class Replicas:
    """The record of this server, `own`, and those of the others.

    gone_within_s: for how long `join` waits for a server with which this one disagrees.
    """

    def __init__(
        self, store: Storage, prefix: str, own: Replica, *, gone_within_s: float = GONE_WITHIN_S
    ) -> None:
        self._store = store
        self._folder = f"{prefix}/{INTERNAL_GROUP}/replicas/"
        self._key = self._folder + secrets.token_hex(8)
        self.own = own
        self._is_told = False
        self._gone_within_s = gone_within_s
        self._lease = NO_LEASE
        self._has_left = False

    def tell(self, own: Replica) -> None:
        """Write another record of this server when the lease is renewed next."""
        if own != self.own:
            self.own, self._is_told = own, False

    async def join(self) -> None:
        """Write the record. Returns once no server that was there before disagrees.

        Raises ReplicasDisagree. Waits until the store answers.
        """
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + self._gone_within_s
        told = ""
        failures = 0
        while True:
            try:
                await self._renew()
                reason = await self._disagreement()
            except StorageError as error:
                if failures % ATTEMPTS_PER_WARNING == 0:
                    log.warning("the record of this server cannot be written yet: %s", error)
                failures += 1
                gives_up_at = loop.time() + self._gone_within_s
            else:
                if not reason:
                    return
                if loop.time() >= gives_up_at:
                    await self.leave()
                    raise ReplicasDisagree(reason)
                if reason != told:
                    log.warning(
                        "waiting up to %.3g s for another replica to go: %s", self._gone_within_s, reason
                    )
                    told = reason
            await asyncio.sleep(POLL_S)

    async def run(self) -> None:
        """Renew the lease until cancelled, or until it has left."""
        while not self._has_left:
            await asyncio.sleep(RENEW_S)
            try:
                await self._renew()
            except StorageError as error:  # Health checks tell of it; the lease outlasts two attempts.
                log.debug("the record of this server cannot be renewed: %s", error)

    async def leave(self) -> None:
        """Remove the record, if the store answers."""
        self._has_left = True
        try:
            if self._lease:
                await self._store.revoke_lease(self._lease)
        except StorageError as error:
            log.debug("the record of this server stays until its lease expires: %s", error)
        self._lease = NO_LEASE

    async def alive(self) -> list[Replica]:
        """Returns the servers that have a record, this one included if it has. Raises StorageError."""
        return [replica for _, _, replica in await self._records()]

    async def _disagreement(self) -> str:
        """Asks those who were here first; of two that start together the later one has to go."""
        records = await self._records()
        since = next((created for key, created, _ in records if key == self._key), math.inf)
        reasons = (disagreement(self.own, replica) for _, created, replica in records if created < since)
        return next(filter(None, reasons), "")

    async def _renew(self) -> None:
        """Renew the lease; if there is none, write the record with a new one. Raises StorageError."""
        if self._has_left:
            return
        if self._lease:
            try:
                await self._store.renew_lease(self._lease)
            except LeaseNotFound:
                self._lease = NO_LEASE
            else:
                if self._is_told:
                    return
        lease = self._lease or await self._store.grant_lease(TTL_S)
        told = self.own
        await self._store.transact((), (Put(self._key, orjson.dumps(asdict(told)), lease),))
        self._lease, self._is_told = lease, told == self.own

    async def _records(self) -> list[tuple[str, int, Replica]]:
        page = await self._store.list(prefix_range(self._folder))
        return [
            (each.key, each.create_revision, replica)
            for each in page.items
            if (replica := _decode(each.key, each.value)) is not None
        ]


def _decode(key: str, value: bytes) -> Replica | None:
    try:
        fields = orjson.loads(value)
        return Replica(**fields | {name: tuple(fields[name]) for name in ("issuers", "keys")})
    except (orjson.JSONDecodeError, TypeError, KeyError, ValueError) as error:
        log.warning("%s in the store is not the record of a server: %s", key, error)
        return None
