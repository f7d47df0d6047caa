"""Full and broken disks."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.database import Database
from apiserver.storage.errors import OutcomeUnknown, StorageFull, StorageUnavailable
from tests.support.embedded_stores import ALL, P, file_size_limit, next_event
from tests.support.eventually import WITHIN_S


class SmallDatabase(Database):
    """A file that may have 64 pages (256 KiB): to SQLite the same as a full disk."""

    def connect_writer(self) -> sqlite3.Connection:
        connection = super().connect_writer()
        connection.execute("PRAGMA max_page_count = 64")
        return connection


async def write_until_full(write: Callable[[int], Awaitable[None]]) -> None:
    for n in range(1_000):
        try:
            await write(n)
        except StorageFull:
            return
    pytest.fail("there was room for everything")


async def test_a_full_store_still_reads(tmp_path: Path) -> None:
    """As `StorageFull` says: reads work, writes and the health check fail until space is freed."""
    store = EmbeddedStore(SmallDatabase(tmp_path, durable=False))
    revisions: list[int] = []

    async def create(n: int) -> None:
        revisions.append(await store.create(f"{P}{n:03}", b"x" * 1_000))

    await write_until_full(create)
    assert [item.mod_revision for item in (await store.list(ALL)).items] == revisions
    assert await store.current_revision() == revisions[-1], "a write that failed uses up no revision"
    with pytest.raises(StorageFull):
        await store.create(P + "again", b"x" * 100_000)
    with pytest.raises(StorageFull):
        await store.check_health()
    assert await store.current_revision() == revisions[-1]

    async def delete(n: int) -> None:
        await store.compare_and_delete(f"{P}{n:03}", expected=revisions[n])

    await write_until_full(delete)  # Deletions, too, take room before they make any.
    await store.close()


async def test_a_full_store_has_space_again_after_compaction(tmp_path: Path) -> None:
    store = EmbeddedStore(SmallDatabase(tmp_path, durable=False))
    revision = await store.create(P + "a", b"0")

    async def change(n: int) -> None:
        nonlocal revision
        revision = await store.compare_and_put(P + "a", b"%d" % n + b"x" * 1_000, expected=revision)

    await write_until_full(change)
    watch = asyncio.create_task(next_event(store, after=revision))
    await store.compact(revision)
    await store.check_health()
    again = await store.compare_and_put(P + "a", b"after", expected=revision)
    assert again == revision + 1
    assert (await watch).value == b"after"
    await store.close()


def run_on_small_disk(program: str, path: Path, size: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python where a path is a file system of its own, in a mount namespace."""
    mount = f'mount -t tmpfs -o size={size} none {path} && exec "$@"'
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    try:
        subprocess.run([*isolated, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("unshare may not mount in a user namespace: allow user namespaces")
    return subprocess.run([*isolated, sys.executable, "-c", program], capture_output=True, text=True)


async def test_a_full_file_system(tmp_path: Path) -> None:
    """The same on a real file system of 2 MiB, in a mount namespace of its own."""
    program = f"""
import asyncio
from pathlib import Path
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageFull
from apiserver.storage.keys import prefix_range

async def main():
    store = await EmbeddedStore.open(Path({str(tmp_path)!r}) / "data")
    ballast = Path({str(tmp_path)!r}) / "ballast"
    ballast.write_bytes(b"x" * 500_000)
    written = []
    try:
        while True:
            written.append(await store.create(f"{P}{{len(written):05}}", b"x" * 1_000))
    except StorageFull:
        pass
    page = await store.list(prefix_range("{P}"))
    assert [item.mod_revision for item in page.items] == written
    try:
        await store.check_health()
        print("it says that it is healthy")
    except StorageFull:
        pass
    ballast.unlink()
    await store.check_health()
    assert await store.create("{P}after", b"") == written[-1] + 1
    await store.close()
    print("recovered")

asyncio.run(main())
"""
    done = run_on_small_disk(program, tmp_path, "2m")
    assert done.stdout == "recovered\n", done.stderr


async def test_a_disk_filled_by_the_store_itself(tmp_path: Path) -> None:
    """Old versions are compacted, with the help of the reserve; no write is lost, and nobody has to act."""
    program = f"""
import asyncio, logging
from pathlib import Path
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageFull

async def main():
    store = await EmbeddedStore.open(Path({str(tmp_path)!r}) / "data")
    revision, last, refused = await store.create("{P}a", b""), b"", 0
    for n in range(1_000):
        value = b"%d-" % n + b"x" * 100_000
        for _ in range(200):
            try:
                revision = await store.compare_and_put("{P}a", value, expected=revision)
                last = value
                break
            except StorageFull:
                refused += 1
                await asyncio.sleep(0.02)
        else:
            raise SystemExit(f"still full after {{n}} writes")
    read = await store.get("{P}a")
    assert (read.stored.mod_revision, read.stored.value) == (revision, last)
    await store.check_health()
    await store.close()
    print("refused" if refused else "never full")

asyncio.run(main())
"""
    done = run_on_small_disk(program, tmp_path, "24m")
    assert done.stdout == "refused\n", done.stderr
    assert done.stderr.count("writes failed") <= done.stderr.count("has freed space") + 1, (
        "it is logged once each time"
    )


async def test_a_disk_that_others_fill_again_and_again(tmp_path: Path) -> None:
    """The reserve, which compaction uses up, is occupied again when there is space."""
    program = f"""
import asyncio
from pathlib import Path
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageFull
from tests.guarantees.small_disk import fill_up

async def main():
    store = await EmbeddedStore.open(Path({str(tmp_path)!r}) / "data")
    ballast = Path({str(tmp_path)!r}) / "ballast"
    revision, refused = await store.create("{P}a", b""), 0
    for n in range(4):
        fill_up(ballast)
        while refused <= n:
            try:
                revision = await store.compare_and_put("{P}a", b"x" * 10_000, expected=revision)
            except StorageFull:
                refused += 1
        for _ in range(200):
            try:
                revision = await store.compare_and_put("{P}a", b"x" * 10_000, expected=revision)
                break
            except StorageFull:
                await asyncio.sleep(0.02)
        else:
            raise SystemExit(f"still full, the {{n}}th time")
        ballast.unlink()
        await store.check_health()
    await store.close()
    print("freed each time")

asyncio.run(main())
"""
    done = run_on_small_disk(program, tmp_path, "32m")
    assert done.stdout == "freed each time\n", done.stderr


async def test_a_commit_that_fails_half_way_has_an_unknown_outcome_that_is_resolved(tmp_path: Path) -> None:
    """Whether it happened or not, store, revision and watches agree afterwards, and no event comes twice."""
    store = await EmbeddedStore.open(tmp_path, durable=False)
    first = await store.create(P + "a", b"1")
    watch = store.watch(ALL, after=first)
    await anext(aiter(watch))
    size = (tmp_path / "store.db-wal").stat().st_size
    with file_size_limit(size + 5_000), pytest.raises((OutcomeUnknown, StorageUnavailable)) as failed:
        await store.create(P + "b", b"x" * 100_000)
    assert not isinstance(failed.value, StorageFull)
    happened = (await store.get(P + "b")).stored is not None
    assert not (happened and isinstance(failed.value, StorageUnavailable)), "it says nothing was written"
    revision = await store.create(P + "c", b"")
    assert revision == first + 1 + happened == await store.current_revision()
    seen: list[int] = []
    async with asyncio.timeout(WITHIN_S):
        while revision not in seen:
            seen += [event.mod_revision for event in (await anext(aiter(watch))).events]
    assert seen == list(range(first + 1, revision + 1))
    await store.check_health()
    await store.close()
    again = await EmbeddedStore.open(tmp_path, durable=False)
    assert await again.current_revision() == revision
    await again.close()
