"""Findings about an embedded store: those of facts, and those of stores that exist."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from time import time
from typing import Final

import pytest

from apiserver.app.doctor.configured_files import is_writable
from apiserver.app.doctor.embedded_store import EmbeddedFacts, examine, file_system_of, gather
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.inspection import StoreFiles, quick_check
from apiserver.storage.errors import StorageError
from tests.unit.app.doctor.findings import problems, told

NOW: Final = 1_800_000_000.0
GIB: Final = 1024**3
FOLDER: Final = Path("/var/lib/apiserver/store")
FILES: Final = StoreFiles(FOLDER / "store.db", 42, 3 * GIB // 2, 0, NOW - 60)
HEALTHY: Final = EmbeddedFacts(FOLDER, FILES, free_bytes=50 * GIB, file_system="ext4")
SICK: Final[dict[str, tuple[EmbeddedFacts, list[tuple[str, str]]]]] = {
    "healthy": (HEALTHY, []),
    "not there yet": (HEALTHY._replace(files=None), []),
    "little space": (
        HEALTHY._replace(free_bytes=GIB // 2),
        [("WARNING", f"the disk of {FOLDER} has 512 MiB of free space")],
    ),
    "no space": (HEALTHY._replace(free_bytes=0), [("ERROR", f"the disk of {FOLDER} has 0 B of free space")]),
    "NFS": (
        HEALTHY._replace(file_system="nfs4"),
        [("WARNING", f"{FOLDER} is on a network file system (nfs4)")],
    ),
    "memory": (
        HEALTHY._replace(file_system="tmpfs"),
        [("WARNING", f"{FOLDER} is in memory (tmpfs); all objects are lost when the machine restarts")],
    ),
    "a container": (
        HEALTHY._replace(file_system="overlay"),
        [
            (
                "NOTE",
                f"{FOLDER} is in the layer of a container (overlay); all objects are lost with the container",
            )
        ],
    ),
    "not ours": (HEALTHY._replace(is_writable=False), [("ERROR", f"this user cannot write to {FOLDER}")]),
    "damaged": (
        HEALTHY._replace(damage="Page 7: never used"),
        [("ERROR", f"{FILES.path} is damaged: Page 7: never used")],
    ),
    "too large to check": (
        HEALTHY._replace(damage=None),
        [("NOTE", f"the integrity of {FILES.path} was not checked, because the check would take too long")],
    ),
    "another program's": (HEALTHY._replace(problem="x is not a store"), [("ERROR", "x is not a store")]),
    "a log that no checkpoint empties": (
        HEALTHY._replace(files=FILES._replace(log_bytes=GIB)),
        [("WARNING", f"the size of the write-ahead log of {FILES.path} is 1 GiB")],
    ),
    "written in the future": (
        HEALTHY._replace(files=FILES._replace(written_at=NOW + 100)),
        [
            (
                "ERROR",
                f"the last write to {FILES.path} is dated 2027-01-15 08:01:40 UTC, 100 s in the future",
            )
        ],
    ),
}


@pytest.mark.parametrize(("facts", "found"), SICK.values(), ids=SICK)
def test_findings(facts: EmbeddedFacts, found: list[tuple[str, str]]) -> None:
    assert problems(examine(facts, NOW)) == found


async def test_a_store_in_use(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "store")
    try:
        for n in range(20):
            await store.create(f"/registry/core/configmaps/a/{n}", b"x" * 1000)
        facts = await gather(tmp_path / "store")
    finally:
        await store.close()
    assert facts.files is not None
    assert (facts.files.revision, facts.damage, facts.problem) == (21, "", "")
    assert facts.files.log_bytes > 20_000
    assert abs(facts.files.written_at - time()) < 60
    texts = [text for severity, text in told(examine(facts, time())) if severity == "OK"]
    assert any("at revision 21" in text for text in texts)
    assert any("found no damage" in text for text in texts)


async def test_a_large_store_is_not_read(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)
    await store.close()
    facts = await gather(tmp_path, checked_bytes_max=1_000)
    assert facts.files is not None
    assert facts.damage is None


async def test_a_store_that_was_closed_is_not_changed(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)
    await store.close()
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    await gather(tmp_path)
    after = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    added = {name: content for name, content in after.items() if before.get(name) != content}
    assert added.keys() <= {"store.db-wal", "store.db-shm"}
    assert added.get("store.db-wal", b"") == b""


async def test_a_damaged_store(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "store")
    for n in range(200):
        await store.create(f"/registry/core/configmaps/a/{n}", b"x" * 4000)
    await store.close()
    path = tmp_path / "store" / "store.db"
    with path.open("r+b") as file:
        size = path.stat().st_size
        file.seek(size // 2)
        file.write(b"\xff" * (size // 4))
    facts = await gather(tmp_path / "store")
    assert facts.damage or facts.problem
    assert [severity for severity, _ in problems(examine(facts, time()))].count("ERROR") == 1


@pytest.mark.parametrize("content", [b"", b"junk" * 1000], ids=["empty", "junk"])
async def test_a_file_that_is_no_store(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store.db").write_bytes(content)
    facts = await gather(tmp_path)
    assert str(tmp_path / "store.db") in facts.problem


async def test_no_store_and_no_directory(tmp_path: Path) -> None:
    facts = await gather(tmp_path / "a" / "b")
    assert (facts.files, facts.problem, facts.is_writable) == (None, "", True)
    assert not (tmp_path / "a").exists()


def test_a_directory_is_writable_if_it_can_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert is_writable(tmp_path / "a" / "b")
    assert is_writable(tmp_path / ("a" * 300))  # Of other names, checks report what is wrong.
    assert not is_writable(tmp_path / "file")
    assert not is_writable(tmp_path / "file" / "a")


def test_the_integrity_check_is_bounded_or_complete(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE a (b)")
    assert quick_check(path, within_s=60) == ""
    with pytest.raises(StorageError):
        quick_check(tmp_path / "none.db", within_s=60)


MOUNTS: Final = """\
20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
21 20 0:5 / /var rw shared:7 - xfs /dev/sdb rw
22 21 0:6 / /var/my\\040data rw - nfs4 host:/export rw
"""
POINTS: Final = {"/home/x": "ext4", "/var/lib": "xfs", "/variable": "ext4", "/var/my data/a": "nfs4"}


@pytest.mark.parametrize(
    "name",
    ["/var/dätä".encode(), b"/var/d\xe4t\xe4", rb"/var/a\U1234"],
    ids=["UTF-8", "Latin-1", "a backslash"],
)
def test_a_mount_point_has_any_bytes(tmp_path: Path, name: bytes) -> None:
    mounts = tmp_path / "mountinfo"
    escaped = name.replace(b"\\", rb"\134")
    mounts.write_bytes(MOUNTS.encode() + b"23 21 0:7 / %b rw - tmpfs tmpfs rw\n" % escaped)
    assert file_system_of(Path(os.fsdecode(name)) / "store", mounts) == "tmpfs"


@pytest.mark.parametrize(("path", "kind"), POINTS.items())
def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path, path: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system_of(Path(path), mounts) == kind
    assert file_system_of(Path(path), tmp_path / "none") == ""
