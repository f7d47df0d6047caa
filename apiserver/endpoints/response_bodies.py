"""Bodies of responses that are made slice by slice while they are sent."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Protocol

from apiserver.endpoints.compression import BodySlices
from apiserver.endpoints.representation import WorkAhead
from apiserver.registry.offload import Offload
from apiserver.registry.size_class import SizeClass


class SliceReader(Protocol):
    """Reads a body from its beginning."""

    def next(self) -> Awaitable[bytes | None]:
        """Returns the next slice, which may be empty; None at the end. Raises what making it raises."""
        ...


class ResponseBody(Protocol):
    """A body of any size.

    is_gzipped: whether it is compressed; known once the first slice that is not empty has been read.
    is_shared: whether its slices, and what makes them, are held for others, too.
    """

    @property
    def is_gzipped(self) -> bool: ...

    @property
    def is_shared(self) -> bool: ...

    def reader(self, offload: Offload) -> SliceReader:
        """offload: decides where slices are made."""
        ...


class UnsharedBody:
    """A body for one reader."""

    is_shared = False

    def __init__(self, slices: BodySlices) -> None:
        self._slices = slices

    @property
    def is_gzipped(self) -> bool:
        return self._slices.is_gzipped

    def reader(self, offload: Offload) -> SliceReader:
        return _Reader(iter(self._slices), offload)


class _Reader:
    def __init__(self, slices: Iterator[bytes], offload: Offload) -> None:
        self._slices = slices
        self._offload = offload
        self._ahead = SizeClass.SMALL

    async def next(self) -> bytes | None:
        made = await self._offload.run_begun(self._ahead, next, self._slices, None)
        self._ahead = work_after(made)
        return made


def work_after(made: bytes | None) -> SizeClass:
    """Returns how much work it is to make the slice after this one."""
    return made.size if isinstance(made, WorkAhead) else SizeClass.SMALL
