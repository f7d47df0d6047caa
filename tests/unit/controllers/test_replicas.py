"""Servers that share a store know each other, and do not start beside one that has other keys."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.prefix_check import require_no_copy
from apiserver.controllers.replicas import Replica, Replicas, ReplicasDisagree, disagreement
from apiserver.meta.releases.emulation import NEWEST_MINOR, OLDEST_MINOR, EmulatedRelease
from apiserver.meta.releases.sharing import nothing_in_common
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageFull, StorageUnavailable
from apiserver.storage.keys import prefix_range
from apiserver.storage.prefix_owner import marker_key

PREFIX: Final = "/registry"
ONE: Final = Replica(
    address="192.0.2.1",
    port=6443,
    issuer="https://a",
    issuers=("https://a",),
    signing_key="k1",
    keys=("k1",),
    root_ca="ca",
    has_tls_files=False,
    release=EmulatedRelease(36, 35),
    stores_for=EmulatedRelease(36, 35),
)
OLD: Final = replace(ONE, release=EmulatedRelease(34, 33), stores_for=EmulatedRelease(34, 33))
# What another replica has instead, and which flag the message names; none if that is fine.
OTHERS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "the same": ({}, ""),
    "another address": ({"address": "192.0.2.2", "port": 1}, ""),
    "another service account key": (
        {"signing_key": "k2", "keys": ("k2",)},
        "--service-account-signing-key-file",
    ),
    "a key that the first does not know": (
        {"signing_key": "k2", "keys": ("k2", "k1")},
        "--service-account-key-file",
    ),
    "a key more, to be used later": ({"keys": ("k1", "k2")}, ""),
    "another issuer": ({"issuer": "https://b", "issuers": ("https://b",)}, "--service-account-issuer"),
    "an issuer more": ({"issuers": ("https://a", "https://b")}, ""),
    "a certificate from a file, of the same CA": ({"has_tls_files": True}, ""),
    "a certificate from a file, of another CA": (
        {"has_tls_files": True, "root_ca": "other"},
        "--tls-cert-file",
    ),
    "a generated certificate of a newer CA": ({"root_ca": "other"}, ""),
    "an older release": ({"release": EmulatedRelease(28, 27)}, "--emulated-version"),
    "one that has versions in common": ({"release": EmulatedRelease(30, 29)}, ""),
}


class Sharing:
    """Keeps what a server was told to store for. store: is read for that, if it is given."""

    def __init__(self, store: Any = None) -> None:
        self._store = store
        self.told: list[EmulatedRelease] = []

    async def __call__(self, oldest: EmulatedRelease) -> None:
        if self._store is not None:
            await self._store.list(prefix_range("/registry/pods/"))
        self.told.append(oldest)


def replicas_of(store: Any, own: Replica, share: Sharing | None = None, **options: Any) -> Replicas:
    return Replicas(store, PREFIX, own, share or Sharing(), **options)


@pytest.mark.parametrize(("changes", "flag"), OTHERS.values(), ids=OTHERS)
def test_which_replicas_may_be_together(changes: dict[str, Any], flag: str) -> None:
    other = replace(ONE, **changes)
    for message in (disagreement(ONE, other), disagreement(other, ONE)):
        assert bool(message) is bool(flag)
        assert flag in message
        assert "\n" not in message


async def test_the_later_one_goes_and_leaves_nothing_behind(store: EmbeddedStore) -> None:
    first = replicas_of(store, ONE)
    await first.join()
    second = replicas_of(store, replace(ONE, signing_key="k2", keys=("k2",)), gone_within_s=0)
    with pytest.raises(ReplicasDisagree, match=r"192\.0\.2\.1:6443"):
        await second.join()
    assert await first.alive() == [ONE]


async def test_a_copy_that_began_meanwhile_prevents_the_start(store: EmbeddedStore) -> None:
    """The server has found no marker before; the copy finds its record, or it finds the copy's marker."""
    check = partial(require_no_copy, store, PREFIX, "the store")
    await check()
    await store.create(marker_key(PREFIX), b"")
    with pytest.raises(CannotStart, match="is not complete"):
        await replicas_of(store, ONE).join(check)
    assert (await store.list(prefix_range("/registry/-/replicas/"))).items


async def test_one_that_has_left_is_no_obstacle(store: EmbeddedStore) -> None:
    first = replicas_of(store, ONE)
    await first.join()
    await first.leave()
    second = replace(ONE, signing_key="k2", keys=("k2",))
    await replicas_of(store, second, gone_within_s=0).join()
    assert await first.alive() == [second]


async def test_a_record_that_changes_is_written_with_the_next_renewal(store: EmbeddedStore) -> None:
    replicas = replicas_of(store, ONE)
    await replicas.join()
    changed = replace(ONE, root_ca="renewed")
    replicas.tell(changed)
    await replicas.join()
    assert await replicas.alive() == [changed]
    revision = await store.current_revision()
    replicas.tell(changed)
    await replicas.join()
    assert await store.current_revision() == revision, "to renew a lease is no write"


async def test_records_of_others_that_cannot_be_read_are_passed_over(store: EmbeddedStore) -> None:
    await store.create("/registry/-/replicas/damaged", b'{"address": 1}')
    replicas = replicas_of(store, ONE)
    await replicas.join()
    assert await replicas.alive() == [ONE]


class _SilentStore:
    """A store that does not answer at first."""

    def __init__(self, store: EmbeddedStore, silences: int) -> None:
        self._store = store
        self._silences = silences

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def grant_lease(self, ttl_s: int) -> int:
        if self._silences:
            self._silences -= 1
            raise StorageUnavailable("silent")
        return await self._store.grant_lease(ttl_s)


async def test_a_store_that_does_not_answer_is_told_of_once(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    silent: Any = _SilentStore(store, silences=3)
    with caplog.at_level(logging.WARNING):
        await replicas_of(silent, ONE).join()
    assert [record.getMessage() for record in caplog.records] == [
        "cannot write this server's record, retrying: silent"
    ]


async def test_servers_that_join_later_are_reported_once_each(store: EmbeddedStore) -> None:
    joined: list[str] = []
    first = replicas_of(store, ONE, joined=lambda: joined.append("a server"))
    await replicas_of(store, ONE).join()
    await first.join()
    await first.agree()
    assert not joined, "it was there before"
    second = replicas_of(store, ONE)
    await second.join()
    await first.agree()
    await first.agree()
    assert len(joined) == 1
    # Its lease has expired while the store could not be reached, and it is back.
    await store.revoke_lease(second._lease)
    await first.agree()
    await second._renew()
    await first.agree()
    assert len(joined) == 1
    await second.leave()
    await replicas_of(store, ONE).join()
    await first.agree()
    assert len(joined) == 2


# ---- servers of different releases


async def test_a_newer_one_stores_for_an_older_one_before_it_starts(store: EmbeddedStore) -> None:
    older = replicas_of(store, OLD)
    await older.join()
    share = Sharing()
    newer = replicas_of(store, ONE, share)
    await newer.join()
    assert share.told == [OLD.release]
    assert {each.stores_for for each in await newer.alive()} == {OLD.release}


async def test_an_older_one_does_not_start_before_the_newer_one_stores_for_it(store: EmbeddedStore) -> None:
    share = Sharing()
    newer = replicas_of(store, ONE, share)
    await newer.join()
    refused = replicas_of(store, OLD, gone_within_s=0)
    with pytest.raises(ReplicasDisagree, match=r"192\.0\.2\.1:6443 stores objects for Kubernetes 1\.36"):
        await refused.join()
    older = replicas_of(store, OLD)
    joining = asyncio.create_task(older.join())
    while len(await newer.alive()) < 2:
        await asyncio.sleep(0)
    assert not joining.done()
    await newer.agree()
    await joining
    assert share.told == [OLD.release]


async def test_it_goes_on_when_the_last_older_one_is_gone(store: EmbeddedStore) -> None:
    release = EmulatedRelease(34, 32)
    oldest = replicas_of(store, replace(OLD, release=release, stores_for=release))
    older, share = replicas_of(store, OLD), Sharing()
    newer = replicas_of(store, ONE, share)
    for each in (oldest, older, newer):
        await each.join()
    for each in (oldest, older):
        await each.leave()
        await newer.agree()
        await newer.agree()
    assert share.told == [release, OLD.release, ONE.release]
    assert {each.stores_for for each in await newer.alive()} == {ONE.release}


class _Meanwhile:
    """A store in which something happens just before the next write."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.then: Callable[[], Awaitable[object]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def transact(self, *args: Any) -> int:
        then, self.then = self.then, None
        if then is not None:
            await then()
        return await self._store.transact(*args)


async def test_an_older_one_that_comes_while_a_newer_one_goes_on_is_seen(store: EmbeddedStore) -> None:
    """It has found that all store for it, just before the newer one tells that it will not any more."""
    first, share = replicas_of(store, OLD), Sharing()
    await first.join()
    meanwhile: Any = _Meanwhile(store)
    newer = replicas_of(meanwhile, ONE, share)
    await newer.join()
    await first.leave()
    second = replicas_of(store, OLD)
    meanwhile.then = second.join
    await newer.agree()
    assert share.told == [OLD.release]
    assert {each.stores_for for each in await newer.alive()} == {OLD.release}


class _Full:
    """A store that refuses writes while it is full, and can be read."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store, self.is_full = store, True
        self.leases: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def grant_lease(self, ttl_s: int) -> int:
        self.leases.add(lease := await self._store.grant_lease(ttl_s))
        return lease

    async def transact(self, *args: Any) -> int:
        if self.is_full:
            raise StorageFull("no space")
        return await self._store.transact(*args)


async def test_one_that_starts_on_a_full_store_writes_its_record_later(store: EmbeddedStore) -> None:
    full: Any = _Full(store)
    first, second = replicas_of(store, ONE), replicas_of(full, ONE)
    await first.join()
    await second.join()
    assert await second.alive() == [ONE]
    full.is_full = False
    await second.agree()
    assert await first.alive() == [ONE, ONE]


async def test_one_lease_waits_for_a_full_store_to_have_space(store: EmbeddedStore) -> None:
    """One for each attempt would be some tens, until they expire."""
    full: Any = _Full(store)
    replicas = replicas_of(full, ONE)
    await replicas.join()
    with pytest.raises(StorageFull):
        await replicas.agree()
    assert len(full.leases) == 1
    # It expires while the store cannot be reached: the record is written with another one.
    await store.revoke_lease(replicas._lease)
    full.is_full = False
    await replicas.agree()
    assert await replicas.alive() == [ONE]
    assert len(full.leases) == 2


async def test_a_full_store_is_no_reason_to_start_with_other_keys(store: EmbeddedStore) -> None:
    full: Any = _Full(store)
    await replicas_of(store, ONE).join()
    other = replace(ONE, signing_key="k2", keys=("k2",))
    with pytest.raises(ReplicasDisagree):
        await replicas_of(full, other, gone_within_s=0).join()


async def test_one_of_another_release_waits_for_a_full_store_to_have_space(store: EmbeddedStore) -> None:
    """Without its record the other server would not store for it."""
    full: Any = _Full(store)
    newer = replicas_of(store, ONE)
    await newer.join()
    older = asyncio.create_task(replicas_of(full, OLD).join())
    await asyncio.wait((older,), timeout=0.1)
    assert not older.done()
    full.is_full = False
    while len(await newer.alive()) < 2:
        await asyncio.sleep(0)
    await newer.agree()
    await older


class _Failing:
    """A store that fails in one of the calls that follow `fail_in`."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._succeeding = math.inf

    def fail_in(self, calls: int) -> None:
        """calls: how many succeed before."""
        self._succeeding = calls

    async def transact(self, *args: Any) -> int:
        self._count()
        return await self._store.transact(*args)

    async def list(self, *args: Any) -> Any:
        self._count()
        return await self._store.list(*args)

    def _count(self) -> None:
        self._succeeding -= 1
        if self._succeeding < 0:
            self._succeeding = math.inf
            raise StorageUnavailable("once")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def agree_with(replicas: Replicas) -> None:
    """Do so at the next attempt, if this one fails."""
    try:
        await replicas.agree()
    except StorageUnavailable:
        await replicas.agree()


# The list of all records; the own record; the list once more; what changes how objects are stored.
@pytest.mark.parametrize("succeeding", range(4))
async def test_it_goes_on_also_if_the_store_fails_meanwhile(store: EmbeddedStore, succeeding: int) -> None:
    failing: Any = _Failing(store)
    older, share = replicas_of(store, OLD), Sharing(failing)
    newer = replicas_of(failing, ONE, share)
    await older.join()
    await newer.join()
    await older.leave()
    failing.fail_in(succeeding)
    await agree_with(newer)
    assert share.told == [OLD.release, ONE.release]
    assert {each.stores_for for each in await newer.alive()} == {ONE.release}


@pytest.mark.parametrize("succeeding", range(3))
async def test_it_stores_for_an_older_one_also_if_the_store_fails(
    store: EmbeddedStore, succeeding: int
) -> None:
    failing: Any = _Failing(store)
    share = Sharing(failing)
    newer = replicas_of(failing, ONE, share)
    await newer.join()
    joining = asyncio.create_task(replicas_of(store, OLD).join())
    while len(await newer.alive()) < 2:
        await asyncio.sleep(0)
    failing.fail_in(succeeding)
    await agree_with(newer)
    await newer._renew()
    await joining
    assert share.told[-1] == OLD.release


async def test_an_older_one_that_comes_back_in_the_middle_of_a_failure_can_start(
    store: EmbeddedStore,
) -> None:
    """The newer one has told that it will store what this one cannot read, and does not yet."""
    failing: Any = _Failing(store)
    first, share = replicas_of(store, OLD), Sharing(failing)
    newer = replicas_of(failing, ONE, share)
    await first.join()
    await newer.join()
    await first.leave()
    failing.fail_in(2)
    with pytest.raises(StorageUnavailable):
        await newer.agree()
    joining = asyncio.create_task(replicas_of(store, OLD).join())
    while len(await newer.alive()) < 2:
        await asyncio.sleep(0)
    await newer.agree()
    await joining
    assert share.told == [OLD.release]


async def test_nothing_changes_for_one_that_will_not_start(store: EmbeddedStore) -> None:
    share, release = Sharing(), EmulatedRelease(24, 23)
    newer = replicas_of(store, ONE, share)
    await newer.join()
    much_older = replicas_of(store, replace(ONE, release=release, stores_for=release))
    joining = asyncio.create_task(much_older.join())
    while len(await newer.alive()) < 2:
        await asyncio.sleep(0)
    await newer.agree()
    joining.cancel()
    assert share.told == []


def test_releases_next_to_each_other_share_a_store() -> None:
    for minor in range(OLDEST_MINOR, NEWEST_MINOR):
        assert nothing_in_common(minor, minor + 1) == ""
    assert nothing_in_common(24, 36) == nothing_in_common(36, 24).replace("1.36 and 1.24", "1.24 and 1.36")
    assert "flowschemas.flowcontrol.apiserver.k8s.io" in nothing_in_common(24, 36)
