"""Lists made run by run. A run is as many items as may be made before others have their turn.

Most of a list is as it was when somebody asked for it before. What was made of a run is kept beside its first
object, and is good as long as the same versions follow that one: to find out, none of them is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from apiserver.endpoints.representation.form_cache import FormCache
from apiserver.endpoints.representation.lists import BATCH_OBJECTS, SLICE_BYTES
from apiserver.registry.stored_object import StoredObject

# The items of some objects, joined, and the moment from which they may be others.
Make = Callable[[Sequence[StoredObject]], tuple[bytes, float]]


@dataclass(frozen=True, slots=True)
class _Segment:
    """rest: all its objects but the first, which keeps it; it must not hold itself.

    made: as it is from `since` to before `until`. size: of what would be free without it, at most.
    """

    rest: Sequence[StoredObject]
    made: bytes
    since: float
    until: float
    size: int

    def is_good(self, now: float, following: Sequence[StoredObject]) -> bool:
        return self.since <= now < self.until and self.rest == following


def runs(objects: Sequence[StoredObject]) -> Iterator[Sequence[StoredObject]]:
    start = 0
    while start < len(objects):
        run = _segment_at(start, objects)
        yield run
        start += len(run)


def cached_segments(
    objects: Sequence[StoredObject],
    make: Make,
    kept: FormCache,
    key: object,
    now: float = 0.0,
    *,
    objects_max: int = BATCH_OBJECTS,
) -> Iterator[bytes]:
    """What is made of each run. key: tells forms apart. objects_max: of a run; always the same for a key."""
    start = 0
    while start < len(objects):
        first = objects[start]
        run: _Segment | None = first.forms.get(key) if first.forms is not None else None
        if run is None or not run.is_good(now, objects[start + 1 : start + 1 + len(run.rest)]):
            known, run = run, _made(_segment_at(start, objects, objects_max), make, now)
            # The last one may have ended early: in a longer list it would still be good, but too short.
            if run.until > now and start + 1 + len(run.rest) < len(objects):
                if known is not None and first.forms is not None and run.size > known.size:
                    first.forms.pop(key, None)  # so that it is counted anew
                kept.keep(first, key, run, run.size)
        yield run.made
        start += 1 + len(run.rest)


def _made(objects: Sequence[StoredObject], make: Make, now: float) -> _Segment:
    made, until = make(objects)
    rest = objects[1:]
    # Versions that everybody else has forgotten live on in it.
    return _Segment(rest, made, now, until, len(made) + sum([len(each.tail) for each in rest]))


def _segment_at(
    start: int, objects: Sequence[StoredObject], objects_max: int = BATCH_OBJECTS
) -> Sequence[StoredObject]:
    """None takes more than decoding its objects, so that their length tells how long that may be."""
    run = objects[start : start + objects_max]
    sizes = [len(each.tail) for each in run]
    if sum(sizes) > SLICE_BYTES:
        run = run[: max(1, sum(size <= SLICE_BYTES for size in accumulate(sizes)))]
    return run
