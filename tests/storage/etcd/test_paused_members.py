"""Members that stay connected and do not respond, as on a machine that hangs: the others serve."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from apiserver.storage.errors import StorageError
from apiserver.storage.etcd import EtcdStore
from apiserver.storage.interface import MOST_RECENT
from tests.support.cache_as_storage import CacheAsStorage
from tests.support.etcd_process import EtcdCluster, EtcdProcess
from tests.support.etcd_stores import P, Stores, binary, until_answered
from tests.support.eventually import eventually

pytestmark = pytest.mark.etcd

# A read moves to another member after a second, and takes the watch with it; the rest is for a busy machine.
# Without that a read takes as long as the pause, or ten seconds.
READ_S: Final = 2.0
# By then a member that does not respond to a write is out of use; and how long calls may then take.
SILENT_S: Final = 2.0
MOVED_S: Final = 2.0
# etcd elects a leader within two election timeouts of a second, or once more if members disagree.
ELECTION_S: Final = 4.0
PAUSE_S: Final = 6.0
POLL_S: Final = 0.05


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(binary(), tmp_path).start()
    yield cluster
    cluster.kill()


@pytest.fixture
async def members(cluster: EtcdCluster, open_store: Stores) -> list[EtcdProcess]:
    """The followers, then the leader."""
    stores = [open_store(member.url) for member in cluster.members]
    statuses = [await until_answered(each._client.status) for each in stores]
    is_leader = [each.header.member_id == each.leader for each in statuses]
    return [member for _, member in sorted(zip(is_leader, cluster.members, strict=True), key=lambda x: x[0])]


class Reader:
    """Reads again and again, and keeps how long each read took, also one that was given up."""

    def __init__(self, store: CacheAsStorage) -> None:
        self._store = store
        self.took_s: list[float] = []
        self.errors: list[StorageError] = []

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                await self._store.get(P + "a", MOST_RECENT)
            except StorageError as error:
                self.errors.append(error)
            finally:
                self.took_s.append(time.monotonic() - began)
            await asyncio.sleep(POLL_S)


async def write_on(store: EtcdStore) -> None:
    """Write all the time, as other servers do: the cache has to catch up for each read."""
    for number in itertools.count():
        with contextlib.suppress(StorageError):
            await store.create(f"{P}{number}", b"")
        await asyncio.sleep(POLL_S)


# The place of the member in use among the followers and the leader, that of the one that is paused, and for
# how long reads may wait.
PAUSES: Final = {
    "a follower in use": (0, 0, READ_S),
    "the leader": (0, 2, ELECTION_S),
    "the leader in use": (2, 2, ELECTION_S),
}


@pytest.mark.parametrize(("used", "paused", "within_s"), PAUSES.values(), ids=PAUSES)
async def test_a_paused_member_stops_reads_for_a_moment(
    members: list[EtcdProcess], open_store: Stores, used: int, paused: int, within_s: float
) -> None:
    others = [member.url for place, member in enumerate(members) if place != used]
    cached = CacheAsStorage(open_store(members[used].url, *others))
    await cached.start()
    reader = Reader(cached)
    writing = open_store(*(member.url for place, member in enumerate(members) if place != paused))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reader.run()), group.create_task(write_on(writing))]
        await eventually(lambda: len(reader.took_s) > 3)
        members[paused].pause()
        await asyncio.sleep(PAUSE_S)
        for task in tasks:
            task.cancel()
    members[paused].resume()
    await cached.close()
    assert not reader.errors
    assert max(reader.took_s) < within_s


async def test_writes_and_renewals_after_one_that_hangs_go_to_another_member(
    members: list[EtcdProcess], open_store: Stores
) -> None:
    """Its own outcome is unknown: it cannot move."""
    store = open_store(*(member.url for member in members))
    lease = await until_answered(lambda: store.grant_lease(60))
    members[0].pause()
    hanging = asyncio.create_task(store.create(P + "a", b""))
    await asyncio.sleep(SILENT_S)
    async with asyncio.timeout(MOVED_S):
        await store.create(P + "b", b"")
        await store.renew_lease(lease)
    assert not hanging.done()
    members[0].resume()
    with contextlib.suppress(StorageError):
        await hanging


async def test_a_renewal_moves_to_a_member_that_responds(
    members: list[EtcdProcess], open_store: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(*(member.url for member in members))
    lease = await until_answered(lambda: store.grant_lease(60))
    members[0].pause()
    async with asyncio.timeout(MOVED_S):
        await store.renew_lease(lease)
    await store.current_revision()
    members[0].resume()
    logged = f"etcd at {members[0].url} does not respond; using {members[1].url}"
    assert logged in caplog.messages
