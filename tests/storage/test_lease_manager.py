"""Keys that expire at about the same time share a lease; none expires before its TTL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.database import Database
from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.interface import Put
from apiserver.storage.keys import prefix_range
from apiserver.storage.lease_manager import KEYS_PER_LEASE_MAX, REUSE_FRACTION, REUSE_S_MAX, LeaseManager
from tests.support.eventually import WITHIN_S

HOUR_S = 3_600


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Granting(EmbeddedStore):
    """Records which lease was granted when and for how long; granting takes `takes_s` on the clock."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database)
        self._clock, self.takes_s = clock, 0.0
        self.ends: dict[int, float] = {}

    async def grant_lease(self, ttl_s: int) -> int:
        lease = await super().grant_lease(ttl_s)
        self.ends[lease] = self._clock.now + ttl_s
        self._clock.now += self.takes_s
        return lease


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Granting]:
    store = Granting(Database(tmp_path, durable=False), clock)
    yield store
    await store.close()


async def test_a_lease_that_was_forgotten_is_not_reused(store: Granting, clock: Clock) -> None:
    manager = LeaseManager(store, clock=clock)
    lease = await manager.lease_for(HOUR_S)
    await store.revoke_lease(lease)
    manager.forget(lease)
    again = await manager.lease_for(HOUR_S)
    assert again != lease
    assert await manager.lease_for(HOUR_S) == again


TIMES = {
    "an hour, as for Events": (HOUR_S, 60),
    "twenty minutes": (1_200, 60),
    "a minute": (60, 3),
    "ten seconds": (10, 1),
    "one second": (1, 1),
    "a day": (86_400, 60),
}


@pytest.mark.parametrize(("ttl_s", "extra_s"), TIMES.values(), ids=TIMES)
async def test_how_long_a_lease_is_reused(store: Granting, clock: Clock, ttl_s: int, extra_s: int) -> None:
    """A key outlives its TTL by a twentieth of it, or by a minute if that is less."""
    assert extra_s == min(REUSE_S_MAX, max(1, int(ttl_s * REUSE_FRACTION)))
    manager = LeaseManager(store, clock=clock)
    first = await manager.lease_for(ttl_s)
    assert store.ends[first] == clock.now + ttl_s + extra_s
    clock.now += extra_s
    assert await manager.lease_for(ttl_s) == first
    clock.now += 0.01
    second = await manager.lease_for(ttl_s)
    assert second != first
    assert store.ends[second] >= clock.now + ttl_s


async def test_no_key_expires_before_its_ttl(store: Granting, clock: Clock) -> None:
    """Also when the store is slow to grant a lease, which runs from the grant, not from the answer."""
    store.takes_s = 2.0
    manager = LeaseManager(store, clock=clock)
    for ttl_s in (10, 60, HOUR_S):
        for _ in range(100):
            asked_at = clock.now
            assert store.ends[await manager.lease_for(ttl_s)] >= asked_at + ttl_s
            clock.now += 0.7


async def test_different_ttls_have_different_leases(store: Granting, clock: Clock) -> None:
    manager = LeaseManager(store, clock=clock)
    assert len({await manager.lease_for(ttl_s) for ttl_s in (60, 61, HOUR_S)}) == 3
    assert len(store.ends) == 3


async def test_a_lease_has_no_more_keys_than_can_be_deleted_together(store: Granting, clock: Clock) -> None:
    manager = LeaseManager(store, clock=clock)
    leases = [await manager.lease_for(HOUR_S) for _ in range(2 * KEYS_PER_LEASE_MAX + 1)]
    assert [leases.count(lease) for lease in store.ends] == [KEYS_PER_LEASE_MAX, KEYS_PER_LEASE_MAX, 1]


async def test_who_is_told_of_leases_that_are_given_up(store: Granting, clock: Clock) -> None:
    """Of each once, when the next one is there: with how many keys it has. Of those of other TTLs, not."""
    told: list[int] = []
    manager = LeaseManager(store, clock=clock, replaced=told.append)
    for _ in range(3):
        await manager.lease_for(HOUR_S)
    await manager.lease_for(60)
    assert told == []
    clock.now += REUSE_S_MAX + 0.01
    await manager.lease_for(HOUR_S)
    assert told == [3]
    for _ in range(KEYS_PER_LEASE_MAX):
        await manager.lease_for(HOUR_S)
    assert told == [3, KEYS_PER_LEASE_MAX]
    # One that the store no longer has is not given up, but lost.
    manager.forget(await manager.lease_for(HOUR_S))
    await manager.lease_for(HOUR_S)
    assert told == [3, KEYS_PER_LEASE_MAX]


async def test_concurrent_callers_share_a_lease(store: Granting, clock: Clock) -> None:
    manager = LeaseManager(store, clock=clock)
    leases = await asyncio.gather(*(manager.lease_for(HOUR_S) for _ in range(100)))
    assert set(leases) == set(store.ends)
    assert len(store.ends) == 1


async def test_a_cancelled_caller_does_not_block_others(store: Granting, clock: Clock) -> None:
    manager = LeaseManager(store, clock=clock)
    asking = [asyncio.create_task(manager.lease_for(HOUR_S)) for _ in range(3)]
    await asyncio.sleep(0)
    asking[0].cancel()
    async with asyncio.timeout(WITHIN_S):
        lease, again = await asyncio.gather(*asking[1:])
    assert lease == again


async def test_keys_can_be_written_with_the_leases(store: Granting, clock: Clock) -> None:
    lease = await LeaseManager(store, clock=clock).lease_for(HOUR_S)
    await store.transact([], [Put(f"/registry/core/events/{n}", b"", lease) for n in range(3)])
    await store.revoke_lease(lease)
    assert await store.count(prefix_range("/registry/")) == 0


async def test_an_error_of_the_store_is_raised(store: Granting, clock: Clock) -> None:
    await store.close()
    with pytest.raises(StorageUnavailable):
        await LeaseManager(store, clock=clock).lease_for(HOUR_S)
