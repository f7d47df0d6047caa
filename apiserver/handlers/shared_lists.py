"""Lets identical lists that are answered at the same time share one read and one body.

After an outage a thousand clients list the same objects at once. The answers are the same, so the first call
encodes the slices of the body, and the others send them, too. A body is kept only while somebody sends it,
and the total size of shared bodies is bounded. Beyond that, and where one body alone is large, each call
encodes its own slices, of which no more are in memory than the connection takes.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Final
from weakref import WeakValueDictionary

from apiserver.endpoints.responses import ResponseBody
from apiserver.registry.results import ObjectList

SHARED_BYTES_MAX: Final = 16 * 1024 * 1024
ALL_SHARED_BYTES_MAX: Final = 64 * 1024 * 1024
# How many objects of a list are measured to estimate the size of its body.
SAMPLES_MAX: Final = 100


class SharedBody:
    """The slices of one body. The first reader to need a slice has it encoded; all run in one thread."""

    def __init__(self, slices: ResponseBody) -> None:
        self.size = slices.size
        self._slices = slices
        self._source = iter(slices)
        self._encoded: list[bytes] = []
        self._failure: Exception | None = None

    @property
    def is_gzipped(self) -> bool:
        return self._slices.is_gzipped

    def __iter__(self) -> Iterator[bytes]:
        index = 0
        while True:
            if index == len(self._encoded):
                if self._failure is not None:
                    raise self._failure  # To the next reader the source would seem to have ended.
                try:
                    next_slice = next(self._source, None)
                except Exception as failure:
                    self._failure = failure
                    raise
                if next_slice is None:
                    return
                self._encoded.append(next_slice)
            yield self._encoded[index]
            index += 1


class _NotShared(enum.Enum):
    """Why the calls that waited for the first one do not get its body."""

    TOO_LARGE = "the body, or all shared bodies together, would be too large"
    CANCELLED = "the first call was cancelled"


class SharedLists:
    """The bodies of the lists that are being answered, and the reads under way for them."""

    def __init__(self) -> None:
        self._reads: dict[Hashable, asyncio.Future[SharedBody | _NotShared]] = {}
        self._bodies: WeakValueDictionary[Hashable, SharedBody] = WeakValueDictionary()
        self._bytes: dict[Hashable, int] = {}

    async def body(
        self,
        key: Hashable,
        find: Callable[[], Awaitable[ObjectList]],
        encode: Callable[[ObjectList], ResponseBody],
    ) -> ResponseBody:
        """Returns the body of a list, which may be shared.

        key: of the same objects at the same revision in the same form.
        find: reads the list. encode: begins its body.
        Raises what `find` and `encode` raise, to every call that waited for them: each would get the same.
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
                return encode(await find())
            # The first call was cancelled: one of those that wait takes its place.

    async def _read(
        self,
        key: Hashable,
        find: Callable[[], Awaitable[ObjectList]],
        encode: Callable[[ObjectList], ResponseBody],
    ) -> ResponseBody:
        reading = self._reads[key] = asyncio.get_running_loop().create_future()
        outcome: SharedBody | _NotShared = _NotShared.CANCELLED
        try:
            found = await find()
            slices, size = encode(found), _estimated_bytes(found)
            if not self._has_room(size):
                outcome = _NotShared.TOO_LARGE
                return slices
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
        self._bytes = {key: held for key, held in self._bytes.items() if key in self._bodies}
        return size <= SHARED_BYTES_MAX and size + sum(self._bytes.values()) <= ALL_SHARED_BYTES_MAX


def _estimated_bytes(found: ObjectList) -> int:
    objects = found.objects
    samples = objects[:: max(1, len(objects) // SAMPLES_MAX)]
    return sum(len(each.tail) for each in samples) * len(objects) // max(1, len(samples))
