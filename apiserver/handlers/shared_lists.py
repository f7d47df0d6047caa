"""Identical lists that are answered at the same time share one walk and one body.

After a break a thousand clients list the same objects at once. They differ in nothing but the connection, so
the first of them makes the slices of the body, and the others send them, too. Nothing is kept longer than
somebody sends it, and what all shared bodies hold together is bounded. Beyond that, and where one body alone
is large, each list makes its own slices, of which never more are in memory than the connection takes.
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
# A body is as long as its objects; looking at some tells how long that is.
SAMPLES_MAX: Final = 100


class SharedBody:
    """The slices of one body, made once, by whoever gets to them first: all of them in one thread."""

    def __init__(self, slices: ResponseBody) -> None:
        self.takes_long = slices.takes_long
        self._source = iter(slices)
        self._made: list[bytes] = []
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[bytes]:
        index = 0
        while True:
            if index == len(self._made):
                if self._failure is not None:
                    raise self._failure  # To the others a source that failed would look as if it had ended.
                try:
                    following = next(self._source, None)
                except Exception as failure:
                    self._failure = failure
                    raise
                if following is None:
                    return
                self._made.append(following)
            yield self._made[index]
            index += 1


class _NotShared(enum.Enum):
    """Why those who waited for whoever was first got no body of it."""

    TOO_MUCH = "the list is not one to be shared, now"
    CANCELLED = "whoever was first went away"


class SharedLists:
    """Those that are being answered now."""

    def __init__(self) -> None:
        self._found: dict[Hashable, asyncio.Future[SharedBody | _NotShared]] = {}
        self._bodies: WeakValueDictionary[Hashable, SharedBody] = WeakValueDictionary()
        self._bytes: dict[Hashable, int] = {}

    async def body(
        self,
        key: Hashable,
        find: Callable[[], Awaitable[ObjectList]],
        encode: Callable[[ObjectList], ResponseBody],
    ) -> ResponseBody:
        """The body of the list that `key` stands for: the same objects at the same revision in one form.

        Raises what `find` and `encode` raise, to everybody who waited for the same: it would be told each.
        """
        while True:
            body = self._bodies.get(key)
            if body is not None:
                return body
            finding = self._found.get(key)
            if finding is None:
                return await self._find(key, find, encode)
            found = await asyncio.shield(finding)
            if isinstance(found, SharedBody):
                return found
            if found is _NotShared.TOO_MUCH:
                # It would be so for the next one, too: nobody waits a second time.
                return encode(await find())
            # One client's going away says nothing about us: one of us takes its place, the others wait on.

    async def _find(
        self,
        key: Hashable,
        find: Callable[[], Awaitable[ObjectList]],
        encode: Callable[[ObjectList], ResponseBody],
    ) -> ResponseBody:
        finding = self._found[key] = asyncio.get_running_loop().create_future()
        outcome: SharedBody | _NotShared = _NotShared.CANCELLED
        try:
            found = await find()
            slices, size = encode(found), _estimated_bytes(found)
            if not self._has_room(size):
                outcome = _NotShared.TOO_MUCH
                return slices
            outcome = self._bodies[key] = SharedBody(slices)
            self._bytes[key] = size
            return outcome
        except Exception as error:
            finding.set_exception(error)
            finding.exception()  # Looked at, should nobody wait for it.
            raise
        finally:
            del self._found[key]
            if not finding.done():
                finding.set_result(outcome)

    def _has_room(self, size: int) -> bool:
        self._bytes = {key: held for key, held in self._bytes.items() if key in self._bodies}
        return size <= SHARED_BYTES_MAX and size + sum(self._bytes.values()) <= ALL_SHARED_BYTES_MAX


def _estimated_bytes(found: ObjectList) -> int:
    objects = found.objects
    some = objects[:: max(1, len(objects) // SAMPLES_MAX)]
    return sum(len(each.tail) for each in some) * len(objects) // max(1, len(some))
