"""One process at a time, and files that cannot be used."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.database import RESERVE_BYTES
from apiserver.storage.errors import DataDirectoryError
from apiserver.storage.interface import Put
from tests.support.embedded_stores import P, all_keys, child, next_event

# ---- one process at a time


async def test_a_second_server_is_refused_with_the_process_id_of_the_first(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)
    with pytest.raises(DataDirectoryError) as refused:
        await EmbeddedStore.open(tmp_path)
    assert str(tmp_path) in str(refused.value)
    assert f"in use by another server (process {os.getpid()})" in str(refused.value)
    await store.create(P + "a", b"1")  # The first one does not notice.
    await store.close()
    again = await EmbeddedStore.open(tmp_path)
    assert await all_keys(again) == ["a"]
    await again.close()


HOLDER: Final = """
import asyncio, sys
from pathlib import Path
from apiserver.storage.embedded import EmbeddedStore

async def main():
    store = await EmbeddedStore.open(Path(sys.argv[1]))
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


async def test_the_kernel_frees_the_directory_of_a_killed_process(tmp_path: Path) -> None:
    with child(HOLDER, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(DataDirectoryError, match=rf"in use by another server \(process {process.pid}\)"):
            await EmbeddedStore.open(tmp_path)
        process.kill()
        process.wait()
    store = await EmbeddedStore.open(tmp_path)
    await store.close()


# ---- files that cannot be used


def garbage(file: Path) -> None:
    file.write_bytes(b"not a database" * 1_000)


def foreign_database(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('a');")


def foreign_database_with_our_table_name(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE numbers (name TEXT, value INTEGER)")


def newer_format(file: Path) -> None:
    valid_store(file)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("UPDATE numbers SET value = 2 WHERE name = 'format'")


def valid_store(file: Path) -> None:
    """Makes a valid file with more than a page in every table, and no log beside it."""

    async def fill() -> None:
        store = await EmbeddedStore.open(file.parent)
        for n in range(20):
            await store.transact([], [Put(f"{P}{n}-{m}", b"x" * 500) for m in range(20)])
        await store.close()

    asyncio.run(fill())


def cut_off(file: Path) -> None:
    valid_store(file)
    os.truncate(file, file.stat().st_size // 2)


def overwritten(file: Path) -> None:
    """Overwrites pages in the middle."""
    valid_store(file)
    with file.open("r+b") as opened:
        opened.seek(8 * 4096)
        opened.write(os.urandom(8 * 4096))


def a_directory(file: Path) -> None:
    file.mkdir()


UNUSABLE = {
    "garbage": (garbage, "is damaged or is not a store of this server"),
    "another program's database": (foreign_database, "is damaged or is not a store of this server"),
    "another program's database with a table of our name": (
        foreign_database_with_our_table_name,
        "has format None",
    ),
    "a newer format": (newer_format, "has format 2; this server reads 1"),
    "a file that was cut off": (cut_off, "is damaged"),
    "pages that were overwritten": (overwritten, "is damaged"),
    "a directory in its place": (a_directory, "is damaged or is not a store of this server"),
}


@pytest.mark.parametrize(("spoil", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_file_is_refused_by_name(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    file = tmp_path / "store.db"
    spoil(file)
    before = file.read_bytes() if file.is_file() else b""
    for _ in range(2):  # The lock is given back, so that the second try says the same.
        with pytest.raises(DataDirectoryError) as refused:
            asyncio.run(EmbeddedStore.open(tmp_path))
        assert str(file) in str(refused.value)
        assert message in str(refused.value)
        assert "\n" not in str(refused.value), "one clear sentence"
    if file.is_file():
        assert file.read_bytes() == before, "a file that is not ours must stay as it is"


async def test_an_unusable_directory_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for directory in (file, file / "below"):
        with pytest.raises(DataDirectoryError, match=f"cannot use the data directory {directory}"):
            await EmbeddedStore.open(directory)


async def test_notes_outlast_the_process_and_old_stores_get_them(tmp_path: Path) -> None:
    """The first stores had no column for them."""
    store = await EmbeddedStore.open(tmp_path)
    revision = await store.create(P + "a", b"1")
    await store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("ALTER TABLE versions DROP COLUMN note")
        connection.commit()
    for n in range(2):
        store = await EmbeddedStore.open(tmp_path)
        assert (await next_event(store, after=revision - 1)).note == (b"note" if n else b"")
        await store.compact(await store.current_revision())
        revision = await store.transact([], [Put(P + "a", b"2")], note=b"note")
        await store.close()


async def test_other_users_cannot_read_the_files(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "new")
    await store.create(P + "a", b"secret")
    modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "new").iterdir()}
    assert modes == dict.fromkeys(modes, 0)
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    await store.close()


async def test_the_reserve_is_occupied_as_soon_as_it_can_be(tmp_path: Path) -> None:
    """Not only at the start: what prevents it may pass, as a lack of file descriptors does."""
    reserve = tmp_path / "data" / "reserve"
    reserve.mkdir(parents=True)
    store = await EmbeddedStore.open(tmp_path / "data")
    reserve.rmdir()
    await store.check_health()
    assert reserve.stat().st_size == RESERVE_BYTES
    await store.close()
