"""Elects one of the servers that share a store, by a Lease in kube-system.

The rules are those of client-go: the leader renews the Lease every `retry_s`. A leader that could not renew
it for `renew_deadline_s` stops leading before `lease_duration_s` have passed, after which another may take
it. The time of the last renewal is never read from the Lease, since the clocks of servers differ: each server
measures, by its own monotonic clock, since when the Lease has not changed. A leader that stops releases the
Lease, and another takes it as soon as the watch cache shows that. A deleted Lease still belongs to its
holder, which creates it again, until it would have expired.

Taking and renewing are updates of the observed version of the Lease, so only one of several attempts
succeeds. A leader cannot always stop in time: a suspended process continues until it reads its clock. So
every action of a leader is an update, or a deletion, of an observed version, which fails if there was a
second leader.

The Lease costs the store one small write for each `retry_s`; waiting servers only watch.
Source: k8s.io/client-go, tools/leaderelection.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar

from apiserver.controller_runtime.informer import Informer, InformerCallbacks, ListWatch, Notification
from apiserver.meta import timestamps
from apiserver.meta.brand import Brand
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document
from apiserver.metrics.controllers import ElectionStatus
from apiserver.registry.results import WriteResult
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest
from apiserver.storage.watch_cache import WatchScope

log = logging.getLogger(__name__)

_Value = TypeVar("_Value", str, int)

NAMESPACE: Final = "kube-system"
# A server that stops is in a hurry; its Lease expires by itself, too.
RELEASE_WITHIN_S: Final = 1.0
# It is logged once in so many attempts that the store does not answer.
FAILURES_PER_WARNING: Final = 30
# Waiting servers try again after the retry period and up to this share of it more, so as not to collide each
# time.
JITTER: Final = 1.2


class ElectionTimes(NamedTuple):
    """The times of an election, each longer than the next.

    lease_duration_s: for how long no other server takes a Lease that is not renewed.
    renew_deadline_s: for how long the leader tries to renew it before it stops leading.
    retry_s: the time between two attempts to renew it, or to take it.
    """

    lease_duration_s: int
    renew_deadline_s: float
    retry_s: float


class LeaseRecord(NamedTuple):
    """The content of a Lease's spec, which changes with each renewal."""

    holder: str = ""
    duration_s: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0

    @classmethod
    def of(cls, lease: Document) -> Self:
        """Reads a Lease, in which a field of a wrong type, as only a damaged store has, counts as absent."""
        spec = lease.get("spec")

        def field(name: str, absent: _Value) -> _Value:
            value = spec.get(name) if isinstance(spec, dict) else None
            return value if type(value) is type(absent) else absent

        return cls(
            field("holderIdentity", ""),
            field("leaseDurationSeconds", 0),
            field("acquireTime", ""),
            field("renewTime", ""),
            field("leaseTransitions", 0),
        )

    def taken_by(self, identity: str, duration_s: int, now: str) -> LeaseRecord:
        """Returns the record after `identity` has taken or renewed the Lease."""
        if self.holder == identity:
            return self._replace(duration_s=duration_s, renewed=now)
        return LeaseRecord(identity, duration_s, now, now, self.transitions + 1)

    def released(self, now: str) -> LeaseRecord:
        return LeaseRecord("", 1, now, now, self.transitions)

    def spec(self) -> Document:
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration_s,
            "acquireTime": self.acquired,
            "renewTime": self.renewed,
            "leaseTransitions": self.transitions,
        }


class ObservedLease:
    """The Lease as one server has observed it, with times in seconds of that server's clock."""

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self.revision = 0
        self._since = 0.0
        self.record = LeaseRecord()

    def see(self, record: LeaseRecord, revision: int, now: float, *, is_latest: bool = False) -> None:
        """Record an observed Lease, unless a newer one is known.

        is_latest: whether it was read from the store, and counts regardless of its revision, as a restored
            store may have lower ones.
        """
        if revision <= self.revision and not is_latest:
            return
        self.revision = revision
        if record != self.record:
            self.record, self._since = record, now

    @property
    def is_of_another(self) -> bool:
        return self.record.holder not in ("", self._identity)

    def free_in_s(self, now: float) -> float:
        """Returns in how many seconds `identity` may take the Lease, if it does not change; at most 0 for
        now.
        """
        if not self.is_of_another:
            return 0.0
        return self._since + self.record.duration_s - now


class LeaseHeld(Exception):
    """Another server holds the Lease."""

    def __init__(self, record: LeaseRecord, revision: int) -> None:
        super().__init__(f"the Lease is held by {record.holder}")
        self.record, self.revision = record, revision


class LeaseLock(NamedTuple):
    """The Lease that a server wants to hold.

    identity: unique to this run of the server.
    """

    name: str
    identity: str


class LeaderElector:
    """The part of one server in the election.

    clock: seconds since 1970, used only for the Lease's texts.
    """

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        brand: Brand,
        lock: LeaseLock,
        *,
        times: ElectionTimes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._served = served
        self._brand = brand
        self._name, self._identity = lock
        self._times = times
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._observed = ObservedLease(lock.identity)
        # Whether this server may hold the Lease: it has begun to take it, and not heard that another does.
        self._may_hold = False
        self._failures = 0  # one after another
        # Set when another has written the Lease, or deleted it, and when what the leader runs has ended.
        self._changed = asyncio.Event()
        # Until the informer has delivered the existing objects, which it lists again when its watch was lost.
        self._is_listing = True
        self.status = ElectionStatus(lock.name)

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call `lead` whenever this server has become the leader, and cancel it when it no longer is.

        Returns if `lead` does, and raises its errors. When cancelled, it ends `lead` and releases the Lease.
        """
        prefix = self._registry.prefix_of(self._leases())
        informer = Informer(
            ListWatch(self._registry.cache, prefix, WatchScope(key_prefix=f"{prefix}{NAMESPACE}/")),
            self._on_lease,
            callbacks=InformerCallbacks(
                on_failure=partial(self._set_listing, True), on_listed=partial(self._set_listing, False)
            ),
            reports_missed_deletions=True,
        )
        informing = asyncio.create_task(informer.run(), name="leader-election-informer")
        try:
            await informer.has_synced.wait()
            is_done = False
            while not is_done:
                is_done = await self._lead(lead, renewed_at=await self._acquire())
        finally:
            informing.cancel()
            await self._release()

    # ---- taking and keeping the Lease

    async def _acquire(self) -> float:
        """Wait until this server holds the Lease; returns when it began to take it, by the loop's clock."""
        while True:
            began = self._loop.time()
            free_in_s = self._observed.free_in_s(began)
            if free_in_s > 0:
                await self._wait_for_change(free_in_s)
                continue
            try:
                async with asyncio.timeout(self._times.renew_deadline_s):
                    await self._take()
                return began
            except LeaseHeld:
                pass
            except Exception as error:  # Whatever the Lease looks like, it must not stop the server.
                self._log_failure("taken", error)
            # Whatever has changed meanwhile: all waiting servers read from the store this often.
            await asyncio.sleep(self._times.retry_s * (1 + JITTER * random.random()))  # noqa: S311

    async def _lead(self, lead: Callable[[], Coroutine[Any, Any, None]], renewed_at: float) -> bool:
        """Run `lead` while the Lease can be renewed; returns whether it ended by itself."""
        log.info("%s has become the leader (Lease %s)", self._identity, self._name)
        leading = asyncio.create_task(lead(), name="leader")
        leading.add_done_callback(lambda _: self._changed.set())
        self.status.is_leader = True
        try:
            while not leading.done():
                await self._wait_for_change(renewed_at + self._times.retry_s - self._loop.time())
                if leading.done():
                    break
                renewed = await self._renew(renewed_at + self._times.renew_deadline_s)
                if renewed is None:
                    log.warning("%s is no longer the leader (Lease %s)", self._identity, self._name)
                    return False
                renewed_at = renewed
            leading.result()
            return True
        finally:
            leading.cancel()
            await asyncio.wait([leading])
            self.status.is_leader = False

    async def _renew(self, gives_up_at: float) -> float | None:
        """Renew the Lease; returns when this began, or None if it is lost, by the loop's clock."""
        try:
            async with asyncio.timeout_at(gives_up_at):
                while not self._observed.is_of_another:
                    began = self._loop.time()
                    try:
                        await self._take()
                        return began
                    except LeaseHeld:
                        return None
                    except Exception as error:
                        self._log_failure("renewed", error)
                    await self._wait_for_change(self._times.retry_s)
        except TimeoutError:
            pass
        return None

    def _log_failure(self, what: str, error: Exception) -> None:
        level = logging.DEBUG if self._failures % FAILURES_PER_WARNING else logging.WARNING
        reason = error if str(error) else "no response"
        log.log(level, "the Lease %s cannot be %s, retrying: %s", self._name, what, reason)
        self._failures += 1

    async def _wait_for_change(self, seconds: float) -> None:
        """Wait for a relevant change, up to a timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    # ---- the Lease itself

    def _on_lease(self, notification: Notification) -> None:
        if notification.name != self._name:
            return
        if notification.new is not None:
            self._see(
                LeaseRecord.of(notification.new.document()), notification.revision, is_latest=self._is_listing
            )
        if notification.new is None or self._observed.record.holder != self._identity:
            self._changed.set()

    def _set_listing(self, is_listing: bool) -> None:
        self._is_listing = is_listing

    def _see(self, record: LeaseRecord, revision: int, *, is_latest: bool) -> None:
        self._observed.see(record, revision, self._loop.time(), is_latest=is_latest)

    async def _take(self) -> None:
        """Take or renew the Lease, which is free as far as is known.

        Raises LeaseHeld, ApiError and the storage's errors.
        """
        expired, before = self._observed.record, self._observed.revision
        self._may_hold = True
        now = timestamps.to_micro_text(self._clock())
        times = self._times

        def taken(found: StoredObject) -> ProposedObject:
            document = found.document()
            record = LeaseRecord.of(document)
            if record != expired and record.holder not in ("", self._identity):
                raise LeaseHeld(record, int(found.resource_version))
            document["spec"] = record.taken_by(self._identity, times.lease_duration_s, now).spec()
            return ProposedObject(document)

        try:
            written = await self._registry.update(self._request(), taken)
        except NotFound:
            written = await self._create(now)
        except LeaseHeld as held:
            self._may_hold = False
            self._see(held.record, held.revision, is_latest=self._observed.revision == before)
            raise
        self._failures = 0
        record, revision = LeaseRecord.of(written.found.document()), int(written.found.resource_version)
        # Unless it was seen what others have written since.
        self._see(record, revision, is_latest=self._observed.revision == before)

    async def _create(self, now: str) -> WriteResult:
        leases = self._leases()
        record = LeaseRecord(self._identity, self._times.lease_duration_s, now, now)
        document = {
            "apiVersion": leases.api_version,
            "kind": leases.kind,
            "metadata": {"namespace": NAMESPACE, "name": self._name},
            "spec": record.spec(),
        }
        return await self._registry.create(self._request(), ProposedObject(document))

    async def _release(self) -> None:
        """Release the Lease for another server, if this one holds it and the store responds soon."""
        if not self._may_hold:
            return
        now = timestamps.to_micro_text(self._clock())

        def released(found: StoredObject) -> ProposedObject:
            document = found.document()
            record = LeaseRecord.of(document)
            if record.holder == self._identity:
                document["spec"] = record.released(now).spec()
            return ProposedObject(document)

        try:
            async with asyncio.timeout(RELEASE_WITHIN_S):
                await self._registry.update(self._request(), released)
        except Exception as error:
            log.debug("cannot release the Lease %s: %s", self._name, error)

    def _request(self) -> WriteRequest:
        return WriteRequest(
            resource=self._leases(), namespace=NAMESPACE, name=self._name, writer=KUBE_CONTROLLER_MANAGER
        )

    def _leases(self) -> ServedResource:
        return self._served.require(self._brand.group("coordination"), "leases")
