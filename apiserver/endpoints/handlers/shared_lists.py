"""Lets identical lists that are requested at the same time share one read and one body.

After an outage a thousand clients list the same objects at once. The answers are the same, so the first call
encodes the slices of the body, and the others send them, too. A body is kept only while a call sends it, and
the total size of shared bodies is bounded. Beyond that, and where one body alone is large, each call encodes
its own slices, and only as many as the connection takes are in memory.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
from collections.abc import Awaitable, Callable, Hashable
from typing import Final
from weakref import WeakValueDictionary

from apiserver.endpoints.compression import BodySlices
from apiserver.endpoints.representation import data_and_work_ahead
from apiserver.endpoints.response_bodies import NextSlice, ResponseBody, UnsharedBody
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.registry.results import ObjectList

SHARED_BYTES_MAX: Final = 16 * 1024 * 1024
ALL_SHARED_BYTES_MAX: Final = 64 * 1024 * 1024
# How many objects of a list are measured to estimate the size of its body.
SAMPLES_MAX: Final = 100


class SharedBody:
    """The slices of one body, each made for the first reader that needs it while others wait."""

    is_shared = True

    def __init__(self, slices: BodySlices) -> None:
        self.is_gzipped = False
        self._slices = slices
        self._source = iter(slices)
        self._ahead = SizeClass.SMALL
        self._made: list[bytes] = []
        self._making: asyncio.Task[None] | None = None
        self._is_whole = False
        self._failure: Exception | None = None

    def reader(self, offload: Offload) -> NextSlice:
        return map(self._slice_at, itertools.count(), itertools.repeat(offload)).__next__

    async def _slice_at(self, index: int, offload: Offload) -> bytes | None:
        """Returns a slice, or None after the last. Raises the error of making it, to each reader."""
        while index == len(self._made):
            if self._failure is not None:
                raise self._failure  # To the next reader the source would seem to have ended.
            if self._is_whole:
                return None
            if self._making is not None:
                await asyncio.shield(self._making)
            elif self._ahead is SizeClass.SMALL:
                self._make_one()
            else:
                # A separate task: the slice is made in a thread even if this reader's client disconnects.
                self._making = asyncio.ensure_future(self._make_one_aside(offload))
        return self._made[index]

    def _make_one(self) -> None:
        try:
            made = next(self._source, None)
        except Exception as failure:
            self._failure = failure
            return
        self.is_gzipped = self._slices.is_gzipped
        if made is None:
            self._is_whole = True
        else:
            data, self._ahead = data_and_work_ahead(made)
            self._made.append(data)

    async def _make_one_aside(self, offload: Offload) -> None:
        try:
            await offload.run_begun(self._ahead, self._make_one)
        except Exception as failure:
            self._failure = failure
        finally:
            self._making = None


class _NotShared(enum.Enum):
    """The reason why calls that waited for the first one do not get its body."""

    TOO_LARGE = "the body, or all shared bodies together, would be too large"
    CANCELLED = "the first call was cancelled"


class SharedLists:
    """The shared bodies of lists, and the reads under way for them."""

    def __init__(self) -> None:
        self._reads: dict[Hashable, asyncio.Future[SharedBody | _NotShared]] = {}
        self._bodies: WeakValueDictionary[Hashable, SharedBody] = WeakValueDictionary()
        self._bytes: dict[Hashable, int] = {}

    async def body(
        self,
        key: Hashable,
        find: Callable[[], Awaitable[ObjectList]],
        encode: Callable[[ObjectList], BodySlices],
    ) -> ResponseBody:
        """Returns the body of a list, which may be shared.

        key: identifies the objects, the revision and the form.
        find: reads the list. encode: begins its body.
        Raises the errors of `find` and `encode`, to every call that waited for them.
        """
        while True:
            body = self._bodies.get(key)
            if body is not None:
                return body
            reading = self._reads.get(key)
            if reading is None:
                return await self._read(key, find, encode)
            found = await asyncio.shield(reading)
            if isinstance(found, SharedBody):
                return found
            if found is _NotShared.TOO_LARGE:
                # The next call would find the same: do not wait a second time.
                return UnsharedBody(encode(await find()))
            # The first call was cancelled: one of those that wait takes its place.

    async def _read(
        self,
        key: Hashable,
        find: Callable[[], Awaitable[ObjectList]],
        encode: Callable[[ObjectList], BodySlices],
    ) -> ResponseBody:
        reading = self._reads[key] = asyncio.get_running_loop().create_future()
        outcome: SharedBody | _NotShared = _NotShared.CANCELLED
        try:
            found = await find()
            slices, size = encode(found), _estimated_bytes(found)
            if not self._has_room(size):
                outcome = _NotShared.TOO_LARGE
                return UnsharedBody(slices)
            outcome = self._bodies[key] = SharedBody(slices)
            self._bytes[key] = size
            return outcome
        except Exception as error:
            reading.set_exception(error)
            reading.exception()  # Marked as retrieved, in case that no call waits for it.
            raise
        finally:
            del self._reads[key]
            if not reading.done():
                reading.set_result(outcome)

    def _has_room(self, size: int) -> bool:
        if self._bytes:
            self._bytes = {key: held for key, held in self._bytes.items() if key in self._bodies}
        return size <= SHARED_BYTES_MAX and size + sum(self._bytes.values()) <= ALL_SHARED_BYTES_MAX


def _estimated_bytes(found: ObjectList) -> int:
    objects = found.objects
    samples = objects[:: max(1, len(objects) // SAMPLES_MAX)]
    return sum([len(each.tail) for each in samples]) * len(objects) // max(1, len(samples))
