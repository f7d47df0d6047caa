"""The servers that share a store, each with a record of its address and keys while it is alive.

A record is a key below `{prefix}/-/replicas/`, bound to a lease. Renewing a lease is not a write: an idle
server does not change the store's revision. The record of a dead server expires after TTL_S; a server that
stops removes its own.

Why servers have to agree: a token that one of them issues has to be valid at all of them, and a client that
trusts one has to trust all. So a server does not start beside one with which it disagrees (`disagreement`),
but waits first for as long as the record of a dead one may last.

Servers of different releases store objects that all of them can read (`meta.releases.sharing`): a record has
the release that its server emulates, and the one for which it currently stores objects. Each server reads the
other records whenever it renews its lease, and begins to

- store for an older one as soon as it sees its record, and then updates its own record. The older one does
  not start before all have done so: it never reads objects that it does not know;
- store for a newer one when the records of all older ones are gone: they have stopped, or their leases have
  expired. It updates its own record first, and reads the others again: an older server that has arrived
  meanwhile has either seen that, and waits, or is seen now.

A full store refuses records, and has to be read all the same. A server that starts on it joins without a
record, if all others have the same release, and writes the record as soon as the store has space. Two servers
of different releases that both start on a full store do not see each other: once it has space, the newer one
may store versions that the older one cannot read, until it reads the records again, RENEW_S later.

A server that cannot renew its lease for TTL_S counts as dead: if it is not, it may read newer versions until
the others see its record again, RENEW_S later.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from typing import Final, TypeAlias

import orjson

from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.sharing import is_readable, nothing_in_common, shared_release
from apiserver.storage.errors import LeaseNotFound, StorageError, StorageFull
from apiserver.storage.interface import NO_LEASE, Put, Storage
from apiserver.storage.keys import INTERNAL_GROUP, prefix_range

log = logging.getLogger(__name__)

# As long as kube-apiserver's endpoint leases.
TTL_S: Final = 15
RENEW_S: Final = 5.0
POLL_S: Final = 0.5
# It is logged once in so many attempts that the store does not answer.
ATTEMPTS_PER_WARNING: Final = 60
# Until now a dead server's record may last: its lease, and some time for the store to notice.
GONE_WITHIN_S: Final = TTL_S + 5.0

# Servers that restart again and again have a new record each time.
SEEN_MAX: Final = 1_000

# Has objects stored so that servers of a release can read them, once it returns. May raise StorageError.
Share: TypeAlias = Callable[[EmulatedRelease], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Replica:
    """The record of a server, which the others read.

    address: where clients reach it; empty if nowhere. root_ca: the digest of the CA that verifies it.
    issuer, signing_key: those of the tokens that it issues; the lists: those that it accepts. Keys are
    identified by id.
    has_tls_files: whether its serving certificate is from files, of another CA than the cluster's.
    release: the one that it emulates. stores_for: the one that can read the objects that it stores.
    """

    address: str
    port: int
    issuer: str
    issuers: tuple[str, ...]
    signing_key: str
    keys: tuple[str, ...]
    root_ca: str
    has_tls_files: bool
    release: EmulatedRelease
    stores_for: EmulatedRelease

    def __str__(self) -> str:
        return f"{self.address or 'unknown'}:{self.port}"


# A replica with the key of its record, and the revision at which that was made.
Record: TypeAlias = tuple[str, int, Replica]


class ReplicasDisagree(Exception):
    """Another server on the store has other keys; the message is one line and names the flags."""


def disagreement(own: Replica, other: Replica) -> str:
    """Returns why two servers cannot serve one cluster; empty if they can.

    Different serving certificates from files are no reason: clients may trust the CAs of both.
    """
    if own.signing_key not in other.keys or other.signing_key not in own.keys:
        return (
            f"the replica at {other} and this replica do not accept each other's service account tokens: set "
            "the same --service-account-signing-key-file and --service-account-key-file on all replicas, "
            "or on none"
        )
    if own.issuer not in other.issuers or other.issuer not in own.issuers:
        return (
            f"the replica at {other} issues service account tokens as {other.issuer}, but this replica "
            f"as {own.issuer}: set the same --service-account-issuer on all replicas"
        )
    if own.root_ca != other.root_ca and own.has_tls_files is not other.has_tls_files:
        return (
            f"the replica at {other} and this replica have serving certificates from different CAs: set "
            "--tls-cert-file on all replicas, with certificates from one CA that is in --client-ca-file, "
            "or on none"
        )
    if reason := nothing_in_common(own.release.minor, other.release.minor):
        return f"the replica at {other} emulates another release (--emulated-version): {reason}"
    return ""


class Replicas:
    """Keeps the record of this server, `own`, and reads those of the others.

    share: called with the oldest release on the store whenever it changes.
    joined: called when another server has joined after this one.
    gone_within_s: for how long `join` waits for a disagreeing server to stop.
    """

    def __init__(
        self,
        store: Storage,
        prefix: str,
        own: Replica,
        share: Share,
        *,
        joined: Callable[[], None] = lambda: None,
        gone_within_s: float = GONE_WITHIN_S,
    ) -> None:
        self._store = store
        self._folder = records_folder(prefix)
        self._key = self._folder + secrets.token_hex(8)
        self.own = own
        self._share = share
        self._joined = joined
        # The keys of records that were seen, which may expire and come back; None before the first look.
        self._seen: set[str] | None = None
        # For which release objects are stored; None if that is not certain.
        self._shared: EmulatedRelease | None = own.stores_for
        self._is_told = False
        self._gone_within_s = gone_within_s
        self._lease = NO_LEASE
        self._has_left = False

    def tell(self, own: Replica) -> None:
        """Change the record of this server at the next renewal of the lease."""
        if own != self.own:
            self.own, self._is_told = own, False

    async def join(self, check: Callable[[], Awaitable[None]] | None = None) -> None:
        """Write the record, and wait until no earlier server disagrees, and all store for this one.

        check: called when the record is written. What it raises, except StorageError, ends the start.

        A full store refuses the record: `run` writes it later.

        Raises ReplicasDisagree, and what `check` raises. Waits until the store responds.
        """
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + self._gone_within_s
        told = ""
        failures = 0
        while True:
            try:
                full = await self._write_unless_full()
                if check is not None:
                    await check()
                records = await self._records()
                if full is not None and any(each.release != self.own.release for _, _, each in records):
                    raise full
                reason = self._disagreement(records) or self._unreadable(records)
            except StorageError as error:
                if failures % ATTEMPTS_PER_WARNING == 0:
                    log.warning("cannot write this server's record, retrying: %s", error)
                failures += 1
                gives_up_at = loop.time() + self._gone_within_s
            else:
                if not reason:
                    if full is not None:
                        log.warning("this server's record will be written when the store has space: %s", full)
                    return
                if loop.time() >= gives_up_at:
                    await self.leave()
                    raise ReplicasDisagree(reason)
                if reason != told:
                    log.warning(
                        "waiting up to %.3g s for another replica to stop: %s", self._gone_within_s, reason
                    )
                    told = reason
            await asyncio.sleep(POLL_S)

    async def run(self) -> None:
        """Renew the lease until cancelled, or until the server has left."""
        while not self._has_left:
            await asyncio.sleep(RENEW_S if self._is_told else POLL_S)
            try:
                await self._renew()
                await self.agree()
            except StorageError as error:  # Health checks report it; the lease outlasts two attempts.
                log.debug("cannot renew this server's record: %s", error)

    async def leave(self) -> None:
        """Remove the record, if the store responds."""
        self._has_left = True
        try:
            if self._lease:
                await self._store.revoke_lease(self._lease)
        except StorageError as error:
            log.debug("cannot delete this server's record, which remains until its lease expires: %s", error)
        self._lease = NO_LEASE

    async def alive(self) -> list[Replica]:
        """Returns the servers with a record, including this one. Raises StorageError."""
        return [replica for _, _, replica in await self._records()]

    async def agree(self) -> None:
        """Store for the oldest release on the store, and update the record, unless that is done.

        Raises StorageError.

        The next call completes what a failure has interrupted.
        """
        wanted = await self._oldest()
        older = shared_release((self._shared or self.own.stores_for, wanted))
        if older != self._shared:
            await self._share_now(older)
        if wanted == older:
            await self._tell_now(older)
            return
        await self._tell_now(wanted)
        if await self._oldest() == wanted:
            await self._share_now(wanted)
        else:
            await self._tell_now(older)

    async def _write_unless_full(self) -> StorageFull | None:
        """Write the record and agree. Returns the error of a full store. Raises other StorageErrors."""
        try:
            await self._renew()
            await self.agree()
        except StorageFull as error:
            return error
        return None

    async def _share_now(self, oldest: EmulatedRelease) -> None:
        self._shared = None  # Interrupted, it may have been done or not.
        await self._share(oldest)
        self._shared = oldest

    async def _tell_now(self, stores_for: EmulatedRelease) -> None:
        """Write the record, unless it is up to date."""
        self.tell(replace(self.own, stores_for=stores_for))
        if not self._is_told:
            await self._renew()

    async def _oldest(self) -> EmulatedRelease:
        """Returns the oldest release on the store, except of servers that will not start beside this one."""
        own = self.own.release
        others = (replica.release for _, _, replica in await self._records())
        return shared_release(
            (own, *(each for each in others if not nothing_in_common(own.minor, each.minor)))
        )

    def _unreadable(self, records: list[Record]) -> str:
        """Returns the servers that store objects this server cannot read; empty if there are none."""
        for key, _, replica in records:
            if key != self._key and not is_readable(replica.stores_for, self.own.release):
                return (
                    f"the replica at {replica} stores objects for Kubernetes {replica.stores_for}, and "
                    f"this replica, which serves Kubernetes {self.own.release}, might not be able to read "
                    "them"
                )
        return ""

    def _disagreement(self, records: list[Record]) -> str:
        """Returns the disagreement with earlier servers; of two that start together the later one has to
        stop.
        """
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
                self._lease, self._is_told = NO_LEASE, False
            if self._is_told:
                return
        if not self._lease:
            # Kept also if the record cannot be written, as on a full store: the next attempt uses it.
            self._lease = await self._store.grant_lease(TTL_S)
        told = self.own
        record = Put(self._key, orjson.dumps(asdict(told), default=list), self._lease)
        await self._store.transact((), (record,))
        self._is_told = told == self.own

    async def _records(self) -> list[Record]:
        page = await self._store.list(prefix_range(self._folder))
        self._note({each.key for each in page.items} - {self._key})
        return [
            (each.key, each.create_revision, replica)
            for each in page.items
            if (replica := decode_record(each.key, each.value)) is not None
        ]

    def _note(self, others: set[str]) -> None:
        """Note the keys of the other servers' records, and report servers that have joined."""
        if self._seen is None or len(self._seen) > SEEN_MAX:
            self._seen = set(others)
        elif not others <= self._seen:
            self._seen |= others
            self._joined()


def records_folder(prefix: str) -> str:
    """Returns the prefix of the keys of all records. prefix: of all keys."""
    return f"{prefix}/{INTERNAL_GROUP}/replicas/"


def decode_record(key: str, value: bytes) -> Replica | None:
    """Returns the server of a record; None, and a warning in the log, if the record is not valid."""
    try:
        fields = orjson.loads(value)
        fields |= {name: tuple(fields[name]) for name in ("issuers", "keys")}
        fields |= {name: EmulatedRelease(*map(int, fields[name])) for name in ("release", "stores_for")}
        return Replica(**fields)
    except (orjson.JSONDecodeError, TypeError, KeyError, ValueError) as error:
        log.warning("ignoring the invalid server record at %s: %s", key, error)
        return None
