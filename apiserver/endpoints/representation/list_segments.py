"""Encodes lists in segments, each of as many items as may be encoded in one turn of the event loop.

Most of a list has not changed since it was last requested. An encoded segment is stored on its first object,
and is valid as long as the same versions of the same objects follow that one: comparing them by identity is
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from apiserver.endpoints.representation.form_cache import FormCache
from apiserver.endpoints.representation.lists import BATCH_OBJECTS, SLICE_BYTES, Slice, work_ahead
from apiserver.registry.stored_object import StoredObject

# Returns the items of some objects, joined, and the moment from which they may no longer be right.
EncodeSegment = Callable[[Sequence[StoredObject]], tuple[bytes, float]]


class _Segment(NamedTuple):
    """An encoded segment.

    rest: its objects except the first, on which it is stored; a reference to that one would be a cycle.
    encoded: the items, valid from `since` until before `until`.
    size: at most how many bytes would be freed with it.
    ends_list: it is short because its list ended there; it is not valid within a longer list.
    """

    rest: Sequence[StoredObject]
    encoded: bytes
    since: float
    until: float
    size: int
    ends_list: bool

    def is_valid(self, now: float, objects: Sequence[StoredObject], start: int) -> bool:
        """Whether the segment equals the list's objects from `start`, the object on which it is stored."""
        end = start + 1 + len(self.rest)
        if self.ends_list and end != len(objects):
            return False
        return self._is_current(now) and self.rest == objects[start + 1 : end]

    def serves_longer(self, now: float, shorter: _Segment) -> bool:
        """Whether the segment is still valid in a longer list, which `shorter` is the beginning of."""
        is_longer = shorter.ends_list and len(self.rest) > len(shorter.rest)
        return is_longer and self._is_current(now) and self.rest[: len(shorter.rest)] == shorter.rest

    def _is_current(self, now: float) -> bool:
        return self.since <= now < self.until


def segments(objects: Sequence[StoredObject]) -> Iterator[Sequence[StoredObject]]:
    """Splits the objects of a list into segments."""
    start = 0
    while start < len(objects):
        segment = _segment_at(start, objects)
        yield segment
        start += len(segment)


def cached_segments(
    objects: Sequence[StoredObject],
    encode: EncodeSegment,
    cache: FormCache,
    key: object,
    now: float = 0.0,
    *,
    objects_max: int = BATCH_OBJECTS,
) -> Iterator[Slice]:
    """Encodes a list segment by segment, and reuses the segments that are still valid.

    key: identifies the form. objects_max: the length of a segment; always the same for a key.
    """
    start = 0
    while start < len(objects):
        first = objects[start]
        segment: _Segment | None = first.forms.get(key) if first.forms is not None else None
        if segment is None or not segment.is_valid(now, objects, start):
            following = _segment_at(start, objects, objects_max)
            yield from work_ahead(following)
            ends_list = start + len(following) == len(objects) and len(following) < objects_max
            other, segment = segment, _encoded(following, encode, now, ends_list=ends_list)
            if segment.until > now and not (other is not None and other.serves_longer(now, segment)):
                if other is not None and first.forms is not None and segment.size > other.size:
                    first.forms.pop(key, None)  # so that its size is counted anew
                cache.put(first, key, segment, segment.size)
        yield segment.encoded
        start += 1 + len(segment.rest)


def _encoded(
    objects: Sequence[StoredObject], encode: EncodeSegment, now: float, *, ends_list: bool
) -> _Segment:
    encoded, until = encode(objects)
    rest = objects[1:]
    # Versions of objects that nothing else refers to any more live on in it.
    size = len(encoded) + sum([len(each.tail) for each in rest])
    return _Segment(rest, encoded, now, until, size, ends_list)


def _segment_at(
    start: int, objects: Sequence[StoredObject], objects_max: int = BATCH_OBJECTS
) -> Sequence[StoredObject]:
    """Returns the objects of the segment that begins at `start`.

    Encoding an object takes no longer than decoding it, so that the lengths tell how long a segment takes.
    """
    segment = objects[start : start + objects_max]
    sizes = [len(each.tail) for each in segment]
    if sum(sizes) > SLICE_BYTES:
        segment = segment[: max(1, sum(size <= SLICE_BYTES for size in accumulate(sizes)))]
    return segment
