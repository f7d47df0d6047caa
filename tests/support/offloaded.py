"""Counts the work that a server does beside its event loop, and keeps its lanes busy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from apiserver.load.offload import Offload
from apiserver.load.size_class import HUGE_BYTES, SizeClass, size_class
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites
from apiserver.storage.interface import Stored
from tests.support.api import Api
from tests.support.metrics import increase

# Makes an object a huge one, of whatever kind: its metadata has this annotation.
LARGE: Final[dict[str, Any]] = {"large": "v" * (HUGE_BYTES + 1)}


def pieces_offloaded(api: Api, ask: Callable[[], object]) -> int:
    """Returns how many pieces of work a server does beside its event loop for a request, and to tell of it.

    The least of several: now and then the server does something else meanwhile.
    """

    return int(min(increase(api, ask, "apiserver_offload_done_total") for _ in range(5)))


def done_by(offload: Offload) -> int:
    """Returns how many pieces of large work were done in the threads of an `Offload`."""
    return sum(lane.done_total for lane in offload.lanes.values())


@asynccontextmanager
async def occupied(offload: Offload, size: SizeClass) -> AsyncIterator[threading.Event]:
    """Keeps a lane busy until the event is set, at the latest at the end."""
    release, began = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(began.set)
        release.wait()

    running = asyncio.ensure_future(offload.run(size, work))
    await began.wait()
    try:
        yield release
    finally:
        release.set()
        await running


class RecordingDecoder(StoredVersionDecoder):
    """Makes large objects of stored values that record by which threads they are decoded.

    threads: takes a name of a thread each time that one of them is.
    """

    def __init__(self, own_writes: OwnWrites, threads: list[str]) -> None:
        super().__init__(own_writes)
        self._threads = threads

    def __call__(self, stored: Stored) -> StoredObject:
        found = super().__call__(stored)
        if not found.head or size_class(len(found.tail)) is SizeClass.SMALL:
            return found
        return Recorded(found, self._threads)


class Recorded(StoredObject):
    __slots__ = ("_threads",)

    def __init__(self, found: StoredObject, threads: list[str]) -> None:
        super().__init__(found.key, found.head, found.tail)
        self._threads = threads

    def document(self) -> Document:
        self._threads.append(threading.current_thread().name)
        return super().document()
