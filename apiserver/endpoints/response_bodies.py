"""Provides response bodies that are made slice by slice while they are sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Protocol, TypeAlias

from apiserver.endpoints.compression import BodySlices
from apiserver.endpoints.representation import Encoder, ListTotals, Slice, Slicer, data_and_work_ahead
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.registry.results import PagedList

# Returns the next slice of a body, which may be empty; None at the end. Raises what making it raises.
NextSlice: TypeAlias = Callable[[], Awaitable[bytes | None]]


class ResponseBody(Protocol):
    """A response body of any size.

    is_gzipped: whether it is compressed; known once the first slice that is not empty has been read.
    is_shared: whether its slices, and their source, are held for other responses, too.
    """

    @property
    def is_gzipped(self) -> bool: ...

    @property
    def is_shared(self) -> bool: ...

    def reader(self, offload: Offload) -> NextSlice:
        """Returns a reader of the body from its beginning. offload: decides where slices are made."""
        ...


class UnsharedBody:
    """A body for one reader."""

    is_shared = False

    def __init__(self, slices: BodySlices) -> None:
        self._slices = slices

    @property
    def is_gzipped(self) -> bool:
        return self._slices.is_gzipped

    def reader(self, offload: Offload) -> NextSlice:
        return _reader(iter(self._slices), offload)


class PagedBody:
    """A list whose objects are read page by page while it is sent, to one reader after the other."""

    is_gzipped = False
    is_shared = False

    def __init__(self, encoder: Encoder, listed: PagedList) -> None:
        self._encoder = encoder
        self._listed = listed

    def reader(self, offload: Offload) -> NextSlice:
        slices = self._slices(offload)
        return lambda: anext(slices, None)

    async def _slices(self, offload: Offload) -> AsyncIterator[bytes]:
        encoder, listed = self._encoder, self._listed
        items_bytes = 0
        if encoder.has_length_ahead:
            async for items in self._encoded_items(offload):
                items_bytes += len(items)
                yield b""
        slicer = Slicer(encoder.envelope(listed.head, ListTotals(listed.count, items_bytes)))
        async for items in self._encoded_items(offload):
            yield slicer.add(items)
        yield slicer.end()

    async def _encoded_items(self, offload: Offload) -> AsyncIterator[bytes]:
        async for page in self._listed.pages():
            next_items = _reader(self._encoder.encoded_items(page), offload)
            while (items := await next_items()) is not None:
                yield items


def _reader(slices: Iterator[Slice], offload: Offload) -> NextSlice:
    ahead = SizeClass.SMALL

    async def next_slice() -> bytes | None:
        nonlocal ahead
        made = await offload.run_begun(ahead, next, slices, None)
        if made is None:
            return None
        data, ahead = data_and_work_ahead(made)
        return data

    return next_slice
