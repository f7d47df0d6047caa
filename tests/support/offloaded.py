"""How much work a server has done beside its event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from apiserver.load.offload import Offload
from apiserver.load.size_class import HUGE_BYTES, SizeClass, size_class
from apiserver.meta.vocabulary import Document
from apiserver.registry.object_decoder import ObjectDecoder
from apiserver.registry.own_writes import OwnWrites
from apiserver.registry.stored_object import StoredObject
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


class RecordingDecoder(ObjectDecoder):
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
