"""How far the watch cache is behind the store, in seconds."""

from __future__ import annotations

import pytest

from apiserver.metrics.watch_cache import CacheLag
from apiserver.storage.errors import StorageUnavailable


class Store:
    """A store and its cache, whose revisions a test sets. waits_s: how long reads wait for the cache."""

    def __init__(self) -> None:
        self.now, self.waits_s = 100.0, 0.0
        self.revision, self.cached = 10, 10
        self.is_available = True

    def clock(self) -> float:
        return self.now

    async def current_revision(self) -> int:
        if not self.is_available:
            raise StorageUnavailable("no leader")
        return self.revision

    async def has_reached(self, revision: int) -> bool:
        self.now += self.waits_s
        return self.cached >= revision


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def lag(store: Store) -> CacheLag:
    return CacheLag(store, store, store.clock)


def shown(lag: CacheLag) -> str:
    (family,) = lag.families()
    return "".join(family.series)


async def test_a_cache_that_has_the_revision_at_once_has_no_lag(lag: CacheLag, store: Store) -> None:
    await lag.measure()
    store.now += 60
    assert shown(lag) == "apiserver_watch_cache_lag_seconds 0\n"


async def test_the_lag_is_the_time_until_the_cache_has_the_revision(lag: CacheLag, store: Store) -> None:
    store.waits_s = 0.25
    await lag.measure()
    store.now += 60
    assert shown(lag).endswith(" 0.25\n")


async def test_the_lag_grows_while_the_cache_is_behind(lag: CacheLag, store: Store) -> None:
    store.revision = 11
    await lag.measure()
    store.now += 20
    assert shown(lag).endswith(" 20\n")
    store.revision = 50  # Newer changes are not what is waited for.
    await lag.measure()
    store.now += 5
    assert shown(lag).endswith(" 25\n")
    store.cached = 11
    await lag.measure()
    assert shown(lag).endswith(" 25\n"), "the cache took so long for the revision"
    store.cached = 50
    await lag.measure()
    assert shown(lag).endswith(" 0\n")


async def test_the_lag_grows_while_the_store_cannot_be_read(lag: CacheLag, store: Store) -> None:
    store.is_available = False
    with pytest.raises(StorageUnavailable):
        await lag.measure()
    store.now += 30
    assert shown(lag).endswith(" 30\n")


async def test_a_store_that_was_restored_has_lower_revisions(lag: CacheLag, store: Store) -> None:
    store.revision = 90
    await lag.measure()
    store.revision, store.cached = 40, 40
    await lag.measure()
    await lag.measure()
    assert shown(lag).endswith(" 0\n")
