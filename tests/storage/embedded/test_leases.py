"""Leases, and the keys on them."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.database import Database
from apiserver.storage.embedded.leases import RETRY_S
from apiserver.storage.errors import LeaseNotFound, StorageUnavailable
from apiserver.storage.interface import Put
from tests.support.embedded_stores import Clock, P, all_keys, next_event, with_clocks
from tests.support.eventually import WITHIN_S


async def lease_restarted(directory: Path, *, ttl_s: int, away_s: float) -> tuple[EmbeddedStore, int]:
    """A store that was closed with a key on a lease, and opened again `away_s` later."""
    store = with_clocks(directory, monotonic=Clock(0), wall=Clock(1_000))
    lease = await store.grant_lease(ttl_s)
    await store.create(P + "a", b"", lease=lease)
    await store.close()
    return with_clocks(directory, monotonic=Clock(50), wall=Clock(1_000 + away_s)), lease


async def test_a_lease_outlives_a_restart(tmp_path: Path) -> None:
    store, lease = await lease_restarted(tmp_path, ttl_s=60, away_s=30)
    await store.renew_lease(lease)
    await store.create(P + "b", b"", lease=lease)
    assert await all_keys(store) == ["a", "b"]
    await store.close()


async def test_a_lease_that_ran_out_while_the_server_was_down_expires_at_the_start(tmp_path: Path) -> None:
    store, lease = await lease_restarted(tmp_path, ttl_s=60, away_s=61)
    event = await next_event(store, after=await store.current_revision() - 1)
    while event.value is not None:
        event = await next_event(store, after=event.mod_revision)
    assert event.key == P + "a"
    with pytest.raises(LeaseNotFound):
        await store.renew_lease(lease)
    await store.close()


async def test_a_clock_set_back_over_a_restart_lengthens_no_lease(tmp_path: Path) -> None:
    store, _ = await lease_restarted(tmp_path, ttl_s=0, away_s=-100_000)
    event = await next_event(store, after=2)
    assert (event.key, event.value) == (P + "a", None)
    await store.close()


async def expire_due_leases(store: EmbeddedStore) -> None:
    """Have the store read its clock, by a lease that expires at once, after all others that are due."""
    lease = await store.grant_lease(0)
    with contextlib.suppress(LeaseNotFound):
        revision = await store.create(P + "due", b"", lease=lease)
        await next_event(store, after=revision)


async def test_leases_expire_with_time_and_not_with_the_clock(tmp_path: Path) -> None:
    monotonic, wall = Clock(0), Clock(1_000)
    store = with_clocks(tmp_path, monotonic=monotonic, wall=wall)
    lease = await store.grant_lease(60)
    await store.create(P + "a", b"", lease=lease)
    wall.now += 100_000
    await expire_due_leases(store)
    assert await all_keys(store) == ["a"]

    monotonic.now = 50
    await store.renew_lease(lease)
    monotonic.now = 109
    await expire_due_leases(store)
    assert await all_keys(store) == ["a"], "a renewal begins the time again"

    monotonic.now = 111
    revision = await store.current_revision()
    await expire_due_leases(store)
    event = await next_event(store, after=revision)
    while event.key != P + "a":
        event = await next_event(store, after=event.mod_revision)
    assert event.value is None
    await store.close()


class RefusingDatabase(Database):
    """Delays the next statement that does `refused` to the leases until the test goes on, and refuses it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, durable=False)
        self.refused: int | None = None  # an action code: https://www.sqlite.org/c3ref/c_alter_table.html
        self.is_held, self.go_on = threading.Event(), threading.Event()

    def connect_writer(self) -> sqlite3.Connection:
        connection = super().connect_writer()
        connection.set_authorizer(self._authorize)
        return connection

    def _authorize(self, action: int, table: str | None, *_: str | None) -> int:
        if action != self.refused or table != "leases":
            return sqlite3.SQLITE_OK
        self.refused = None
        self.is_held.set()
        self.go_on.wait(WITHIN_S)
        return sqlite3.SQLITE_DENY


async def test_a_failed_renewal_does_not_undo_another(tmp_path: Path) -> None:
    database, monotonic = RefusingDatabase(tmp_path), Clock(0)
    store = EmbeddedStore(database, monotonic=monotonic)
    lease = await store.grant_lease(60)
    await store.create(P + "a", b"", lease=lease)
    database.refused = sqlite3.SQLITE_UPDATE
    monotonic.now = 10
    failing = asyncio.create_task(store.renew_lease(lease))
    await asyncio.to_thread(database.is_held.wait, 10)
    monotonic.now = 50
    renewal = asyncio.create_task(store.renew_lease(lease))
    await asyncio.sleep(0)  # It has begun.
    database.go_on.set()
    with pytest.raises(StorageUnavailable):
        await failing
    await renewal
    monotonic.now = 109
    await expire_due_leases(store)
    assert await all_keys(store) == ["a"], "60 seconds from the one that succeeded"
    await store.close()


async def test_a_lease_renewed_after_a_failed_expiry_has_its_full_ttl(tmp_path: Path) -> None:
    database, monotonic = RefusingDatabase(tmp_path), Clock(0)
    store = EmbeddedStore(database, monotonic=monotonic)
    lease = await store.grant_lease(60)
    await store.create(P + "a", b"", lease=lease)
    database.refused = sqlite3.SQLITE_DELETE
    monotonic.now = 61
    wakes = asyncio.create_task(store.grant_lease(1_000))
    await asyncio.to_thread(database.is_held.wait, 10)
    renewal = asyncio.create_task(store.renew_lease(lease))
    await asyncio.sleep(0)  # It has begun.
    database.go_on.set()
    await renewal
    await wakes
    monotonic.now += RETRY_S + 50
    await expire_due_leases(store)
    assert await all_keys(store) == ["a"]
    await store.close()


async def test_a_lease_with_more_keys_than_a_transaction_expires_completely(store: EmbeddedStore) -> None:
    lease = await store.grant_lease(60)
    for n in range(3):
        await store.transact([], [Put(f"{P}{n}-{m}", b"", lease) for m in range(128)])
    await store.revoke_lease(lease)
    assert await all_keys(store) == []
    with pytest.raises(LeaseNotFound):
        await store.create(P + "a", b"", lease=lease)
