"""Embedded stores, and what tests of them have in common."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.embedded.database import Database
from apiserver.storage.interface import Event, Storage
from apiserver.storage.keys import prefix_range
from tests.support.eventually import WITHIN_S

P: Final = "/registry/core/configmaps/"
ALL: Final = prefix_range(P)


async def all_keys(store: Storage) -> list[str]:
    return [item.key.removeprefix(P) for item in (await store.list(ALL)).items]


async def next_event(store: Storage, *, after: int) -> Event:
    watch = store.watch(ALL, after=after)
    async with asyncio.timeout(WITHIN_S):
        async for batch in watch:
            if batch.events:
                await watch.close()
                return batch.events[0]
    raise AssertionError("the watch ended")


@contextlib.contextmanager
def child(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


WRITER: Final = """
import asyncio, sys
from pathlib import Path
from apiserver.storage.embedded import EmbeddedStore

async def work(store, worker):
    for n in range(100_000):
        key = f"/registry/core/configmaps/{sys.argv[2]}-{worker}-{n}"
        print(key, await store.create(key, key.encode()), flush=True)

async def main():
    store = await EmbeddedStore.open(Path(sys.argv[1]))
    await asyncio.gather(*(work(store, worker) for worker in range(8)))

asyncio.run(main())
"""


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def with_clocks(directory: Path, *, monotonic: Clock, wall: Clock) -> EmbeddedStore:
    return EmbeddedStore(Database(directory, durable=False), monotonic=monotonic, wall=wall)


@contextlib.contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """Writes beyond the limit fail with EFBIG, which SQLite, unlike ENOSPC, treats as a broken disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
