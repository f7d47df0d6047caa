"""Lists that were made by adding lists, which are not copied. Pure.

cel-go nests the lists that were added (common/types/list.go, concatList), and takes as many steps to find an
item as there were additions. Here such a list is a sequence of chunks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias, overload

# Fewer items than this are copied: a short list is faster in everything else.
CHUNK_ITEMS_MAX: Final = 128


class ConcatenatedList(Sequence[Any]):
    """A list of more than `CHUNK_ITEMS_MAX` items, as the items of its chunks, which never change.

    Two chunks beside each other have together more than `CHUNK_ITEMS_MAX` items; so adding lists of n items
    copies at most n / 64 references to chunks.
    """

    __slots__ = ("_chunks", "_ends")

    def __init__(self, chunks: Sequence[list[Any]]) -> None:
        self._chunks = chunks
        # The number of items up to the end of each chunk.
        self._ends: list[int] = []
        end = 0
        for chunk in chunks:
            end += len(chunk)
            self._ends.append(end)

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._chunks)

    def __contains__(self, item: object) -> bool:
        return any(item in chunk for chunk in self._chunks)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Returns an item, or a copy of a part, as lists do. Raises IndexError."""
        if isinstance(index, slice):
            if index.step not in (None, 1):
                return list(self)[index]
            return self._part(*index.indices(len(self))[:2])
        if index < 0:
            index += len(self)
            if index < 0:
                raise IndexError(index)
        place = bisect_right(self._ends, index)
        chunk = self._chunks[place]
        return chunk[index - self._ends[place] + len(chunk)]

    @property
    def chunks(self) -> Sequence[list[Any]]:
        return self._chunks

    def _part(self, start: int, stop: int) -> list[Any]:
        found: list[Any] = []
        place = bisect_right(self._ends, start)
        while start < stop:
            chunk, begin = self._chunks[place], self._ends[place] - len(self._chunks[place])
            found += chunk[start - begin : stop - begin]
            start, place = self._ends[place], place + 1
        return found


AnyList: TypeAlias = list[Any] | ConcatenatedList


def concatenated(a: AnyList, b: AnyList) -> AnyList:
    """Returns the list of the items of two lists."""
    if len(a) + len(b) <= CHUNK_ITEMS_MAX:
        return [*a, *b]
    first, second = _chunks(a), _chunks(b)
    if first and second and len(first[-1]) + len(second[0]) <= CHUNK_ITEMS_MAX:
        return ConcatenatedList([*first[:-1], [*first[-1], *second[0]], *second[1:]])
    return ConcatenatedList([*first, *second])


def _chunks(items: AnyList) -> Sequence[list[Any]]:
    if isinstance(items, ConcatenatedList):
        return items.chunks
    return [items] if items else []
