"""Bodies of responses that are made slice by slice while they are sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Protocol

from apiserver.endpoints.compression import BodySlices
from apiserver.endpoints.representation import Encoder, ListTotals, Slice, Slicer, WorkAhead
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.registry.results import PagedList


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
        """Returns a reader of the slices. offload: decides where slices are made."""
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


class PagedBody:
    """A list whose objects are read page by page while it is sent; for one reader, or several one by one."""

    is_gzipped = False
    is_shared = False

    def __init__(self, encoder: Encoder, listed: PagedList) -> None:
        self._encoder = encoder
        self._listed = listed

    def reader(self, offload: Offload) -> SliceReader:
        return _PageReader(self._slices(offload))

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
            reader = _Reader(self._encoder.encoded_items(page), offload)
            while (items := await reader.next()) is not None:
                yield items


class _PageReader:
    def __init__(self, slices: AsyncIterator[bytes]) -> None:
        self._slices = slices

    async def next(self) -> bytes | None:
        return await anext(self._slices, None)


class _Reader:
    def __init__(self, slices: Iterator[Slice], offload: Offload) -> None:
        self._slices = slices
        self._offload = offload
        self._ahead = SizeClass.SMALL

    async def next(self) -> bytes | None:
        made = await self._offload.run_begun(self._ahead, next, self._slices, None)
        made, self._ahead = data_and_work_ahead(made)
        return made


def data_and_work_ahead(made: Slice | None) -> tuple[bytes | None, SizeClass]:
    """Returns what a slice sends, and how much work the next one is."""
    return (b"", made.size) if isinstance(made, WorkAhead) else (made, SizeClass.SMALL)
