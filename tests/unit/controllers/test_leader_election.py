"""One of the servers on a store leads, by a Lease: never two, and another soon after it has gone.

https://kubernetes.io/docs/concepts/architecture/leases/
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.controllers.leader_election import (
    NAMESPACE,
    ElectionTimes,
    LeaderElector,
    LeaseLock,
    LeaseRecord,
    ObservedLease,
)
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.interface import Storage
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, server

NAME: Final = "controllers"
LEASES: Final = resource("leases", "coordination.k8s.io")
# Nobody loses the Lease because the machine is busy.
PATIENT: Final = ElectionTimes(600, 500.0, 0.05)
HASTY: Final = ElectionTimes(2, 1.0, 0.1)


class Leaders:
    """Who leads now, and who has since the start."""

    def __init__(self) -> None:
        self.now: list[str] = []
        self.so_far: list[str] = []

    async def lead(self, name: str) -> None:
        assert self.now == [], "there must be no second leader"
        self.now.append(name)
        self.so_far.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            self.now.remove(name)

    async def wait_for(self, name: str) -> None:
        await eventually(lambda: self.now == [name])


class Cut:
    """A store of which one server can be cut off."""

    def __init__(self, store: Storage) -> None:
        self._store = store
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        if self.is_cut:
            raise StorageUnavailable("cut off")
        return getattr(self._store, name)


class Replaced:
    """A store in whose place another one is put, as when a snapshot is restored. gets: reads of objects."""

    def __init__(self, store: Storage) -> None:
        self._store = store
        self.gets = 0

    def replace(self, store: Storage) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        self.gets += name == "get"
        return getattr(self._store, name)


async def renew_as_stranger(registry: Registry, number: int) -> None:
    """number: of the renewal; 0 creates the Lease."""
    request = WriteRequest(resource=LEASES, namespace=NAMESPACE, name=NAME)
    spec = {
        "holderIdentity": "stranger",
        "leaseDurationSeconds": 1,
        "renewTime": f"2026-01-01T00:00:00.{number:06}Z",
    }
    if number:
        await registry.update(request, lambda now: ProposedObject({**now.document(), "spec": spec}))
    else:
        described = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "spec": spec}
        await registry.create(
            request, ProposedObject({**described, "metadata": {"namespace": NAMESPACE, "name": NAME}})
        )


class Candidate:
    """One server that wants to lead."""

    def __init__(self, name: str, registry: Registry, leaders: Leaders, times: ElectionTimes) -> None:
        self.registry = registry
        self.elector = LeaderElector(
            registry, ServedTable(TABLE), Brand(), LeaseLock(NAME, name), times=times
        )
        self._task = asyncio.create_task(self.elector.run(lambda: leaders.lead(name)))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def lease(self) -> Document:
        return (await self.registry.get(LEASES, NAMESPACE, NAME)).document()

    def cached(self) -> Document:
        """The Lease as this server's watch cache has it; empty if it has none."""
        found = self.registry.cache.get_cached(self.registry.key(LEASES, NAMESPACE, NAME))
        return {} if found is None or found.value is None else found.value.document()

    async def write(self, **spec: Any) -> None:
        request = WriteRequest(resource=LEASES, namespace=NAMESPACE, name=NAME)
        await self.registry.update(request, lambda now: ProposedObject({**now.document(), "spec": spec}))


@asynccontextmanager
async def candidates(
    leaders: Leaders, *stores: Storage, times: ElectionTimes = PATIENT
) -> AsyncIterator[list[Candidate]]:
    """Servers one, two and so on; the first leads."""
    async with AsyncExitStack() as stack:
        found = []
        for name, store in zip(("one", "two", "three"), stores, strict=False):
            registry = await stack.enter_async_context(server(store))
            found.append(Candidate(name, registry, leaders, times))
            stack.push_async_callback(found[-1].stop)
            await leaders.wait_for("one")
        yield found


async def test_the_first_leads_at_once_and_says_so(store: EmbeddedStore) -> None:
    async with candidates(leaders := Leaders(), store) as (one,):
        lease = await one.lease()
        assert lease["metadata"]["namespace"] == "kube-system"
        spec = lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("one", 600)
        since = spec["renewTime"]
        assert spec["leaseTransitions"] == 0
        assert one.elector.status.is_leader
        await eventually(lambda: one.cached()["spec"]["renewTime"] != since)
        assert (await one.lease())["spec"]["acquireTime"] == spec["acquireTime"]
    assert leaders.so_far == ["one"]


async def test_another_leads_as_soon_as_the_leader_has_stopped(store: EmbeddedStore) -> None:
    """No lease has to expire for that: it is released."""
    leaders = Leaders()
    async with candidates(leaders, store, store, store) as (one, two, three):
        followers = {"two": two, "three": three}
        await one.stop()
        assert not one.elector.status.is_leader
        await eventually(lambda: leaders.now)
        second = leaders.now[0]
        spec = (await one.lease())["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (second, 1)
        await followers.pop(second).stop()
        ((third, last),) = followers.items()
        await leaders.wait_for(third)
        await last.stop()
        spec = (await one.lease())["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
        assert leaders.so_far == ["one", second, third]


async def test_one_that_cannot_renew_stops_before_another_leads(store: EmbeddedStore) -> None:
    leaders, cut = Leaders(), Cut(store)
    async with candidates(leaders, cut, store, times=HASTY) as (one, _):
        cut.is_cut = True
        await leaders.wait_for("two")
        assert not one.elector.status.is_leader
        cut.is_cut = False


async def test_one_that_cannot_renew_may_lead_again(store: EmbeddedStore) -> None:
    leaders, cut = Leaders(), Cut(store)
    async with candidates(leaders, cut, times=HASTY):
        cut.is_cut = True
        await eventually(lambda: not leaders.now)
        cut.is_cut = False
        await leaders.wait_for("one")
        assert len(leaders.so_far) >= 2


async def test_a_leader_whose_lease_another_has_stops_at_once(store: EmbeddedStore) -> None:
    leaders = Leaders()
    async with candidates(leaders, store) as (one,):
        await one.write(holderIdentity="stranger", leaseDurationSeconds=600)
        await eventually(lambda: not (leaders.now or one.elector.status.is_leader))
        # It is given back.
        await one.write(holderIdentity="", leaseDurationSeconds=600)
        await leaders.wait_for("one")


async def test_after_a_restore_the_store_is_not_asked_all_the_time(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    """Its revisions are lower than those that were seen, and another holds the Lease, and renews it."""
    restored = await EmbeddedStore.open(tmp_path / "restored", durable=False)
    replaced = Replaced(store)
    times = ElectionTimes(1, 0.5, 0.1)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(restored.close)
        registries = [await stack.enter_async_context(server(each)) for each in (store, restored)]
        for number in range(100):
            await store.create(f"/elsewhere/{number}", b"{}")
        for each in registries:
            await renew_as_stranger(each, 0)
        candidate = Candidate("one", await stack.enter_async_context(server(replaced)), Leaders(), times)
        stack.push_async_callback(candidate.stop)
        await eventually(candidate.cached)
        replaced.replace(restored)
        await store.close()  # With it end its watches.
        for number in range(1, 30):
            await renew_as_stranger(registries[1], number)
            await asyncio.sleep(0.05)
        assert replaced.gets < 30


async def test_a_lease_that_is_deleted_stays_its_holders(store: EmbeddedStore) -> None:
    leaders = Leaders()
    async with candidates(leaders, store, store) as (one, two):
        uid = (await one.lease())["metadata"]["uid"]
        await two.registry.delete(DeleteRequest(LEASES, NAMESPACE, NAME))

        await eventually(lambda: two.cached().get("metadata", {}).get("uid", uid) != uid)
        assert (await two.lease())["spec"]["holderIdentity"] == "one"
        assert leaders.so_far == ["one"]


async def test_a_failure_of_what_the_leader_runs_is_a_failure_of_the_server(store: EmbeddedStore) -> None:
    async def lead() -> None:
        raise ZeroDivisionError

    async with server(store) as registry:
        elector = LeaderElector(registry, ServedTable(TABLE), Brand(), LeaseLock(NAME, "one"), times=PATIENT)
        with pytest.raises(ZeroDivisionError):
            await elector.run(lead)
        lease = (await registry.get(LEASES, NAMESPACE, NAME)).document()
        assert lease["spec"]["holderIdentity"] == ""


def test_what_the_store_says_counts_whatever_its_revision() -> None:
    """A store that was restored from a snapshot has lower ones."""
    observed = ObservedLease("one")
    observed.see(lease(renewTime="b"), 8, 100.0)
    observed.see(lease(renewTime="a"), 7, 110.0, is_latest=True)
    assert observed.free_in_s(110.0) == 15
    observed.see(lease(renewTime="c"), 8, 120.0)
    assert observed.free_in_s(120.0) == 15


def lease(**spec: Any) -> LeaseRecord:
    return LeaseRecord.of({"spec": {"holderIdentity": "two", "leaseDurationSeconds": 15, **spec}})


# What server `one` reads of the Lease, one second after the other, and in how many seconds from then it is
# free.
SEEN: Final[dict[str, tuple[list[LeaseRecord], float]]] = {
    "never": ([], 0),
    "held by another": ([lease()], 14),
    "held by itself": ([lease(holderIdentity="one")], 0),
    "released": ([lease(), lease(holderIdentity="")], 0),
    "nobody's": ([lease(holderIdentity=None)], 0),
    "renewed": ([lease(renewTime="a"), lease(renewTime="b")], 14),
    "not renewed": ([lease(renewTime="a"), lease(renewTime="a"), lease(renewTime="a")], 12),
    "renewed by a clock that is ahead": ([lease(renewTime="2999-01-01T00:00:00.000000Z")], 14),
    "renewed by a clock that is behind": ([lease(renewTime="1999-01-01T00:00:00.000000Z")], 14),
    "for another time than its own": ([lease(leaseDurationSeconds=60)], 59),
    "for no time": ([lease(leaseDurationSeconds=None)], -1),
    "of another after another": ([lease(), lease(holderIdentity="three")], 14),
    "without a spec": ([LeaseRecord.of({})], 0),
    "with a spec that is none": ([LeaseRecord.of({"spec": "x"})], 0),
    "for what is no time": ([lease(leaseDurationSeconds="15")], -1),
    "of what is no holder": ([lease(holderIdentity={})], 0),
}


@pytest.mark.parametrize(("records", "free_in_s"), SEEN.values(), ids=SEEN)
def test_when_a_lease_may_be_taken(records: list[LeaseRecord], free_in_s: float) -> None:
    observed = ObservedLease("one")
    now = 100.0
    for revision, record in enumerate(records, 7):
        observed.see(record, revision, now)
        now += 1
    assert observed.free_in_s(now) == free_in_s


def test_what_was_read_before_does_not_count() -> None:
    observed = ObservedLease("one")
    observed.see(lease(renewTime="b"), 8, 100.0)
    observed.see(lease(renewTime="a"), 7, 200.0)
    assert observed.record == lease(renewTime="b")
    assert observed.free_in_s(101.0) == 14
