"""Identical lists at the same time cost the making of one; what is held for that has a bound."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Iterator

import pytest

from apiserver.handlers.shared_lists import ALL_SHARED_BYTES_MAX, SHARED_BYTES_MAX, SharedBody, SharedLists
from apiserver.registry.results import ObjectList
from apiserver.registry.stored_object import StoredObject


class Work:
    """Finds a list when told to, and counts what was done."""

    def __init__(self, size_bytes: int = 1_000) -> None:
        self.found = 0
        self.encoded = 0
        self.gate = asyncio.Event()
        self.fails: Exception | None = None
        self._tail = b"x" * size_bytes

    async def find(self) -> ObjectList:
        self.found += 1
        await self.gate.wait()
        if self.fails is not None:
            failure, self.fails = self.fails, None
            raise failure
        return ObjectList([StoredObject("k", b"{", self._tail)], 7)

    def encode(self, found: ObjectList) -> Iterator[bytes]:
        for part in (b"a", b"b", b"c"):
            self.encoded += 1
            yield part


async def test_a_crowd_costs_the_making_of_one() -> None:
    shared, work = SharedLists(), Work()
    crowd = [asyncio.create_task(shared.body("key", work.find, work.encode)) for _ in range(100)]
    await asyncio.sleep(0)
    work.gate.set()
    bodies = await asyncio.gather(*crowd)
    # Whoever is slower finds what the quicker ones have made.
    readers = [iter(body) for body in bodies]
    for part in (b"a", b"b", b"c"):
        assert {next(reader) for reader in readers} == {part}
    assert (work.found, work.encoded) == (1, 3)
    late = await shared.body("key", work.find, work.encode)
    assert b"".join(late) == b"abc"
    assert work.found == 1, "as long as somebody has it"


async def test_nothing_is_kept_that_nobody_sends() -> None:
    shared, work = SharedLists(), Work()
    work.gate.set()
    body: Iterable[bytes] | None = await shared.body("key", work.find, work.encode)
    assert isinstance(body, SharedBody)
    del body
    gc.collect()
    await shared.body("key", work.find, work.encode)
    assert work.found == 2


async def test_other_lists_are_others() -> None:
    shared, work = SharedLists(), Work()
    work.gate.set()
    first = await shared.body(("a", 7), work.find, work.encode)
    second = await shared.body(("a", 8), work.find, work.encode)
    assert first is not second


async def test_who_waits_is_not_let_down_by_the_first() -> None:
    """The first one's failure is its own, and so is its client's going away."""
    shared, work = SharedLists(), Work()
    work.fails = LookupError("of the first")
    first, second = (asyncio.create_task(shared.body("key", work.find, work.encode)) for _ in range(2))
    await asyncio.sleep(0)
    work.gate.set()
    with pytest.raises(LookupError):
        await first
    assert b"".join(await second) == b"abc"
    work.gate.clear()
    gone, stays = (asyncio.create_task(shared.body("other", work.find, work.encode)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    work.gate.set()
    assert b"".join(await stays) == b"abc"
    assert gone.cancelled()


async def test_who_goes_away_takes_nobody_along() -> None:
    shared, work = SharedLists(), Work()
    first, second = (asyncio.create_task(shared.body("key", work.find, work.encode)) for _ in range(2))
    await asyncio.sleep(0)
    second.cancel()
    work.gate.set()
    assert b"".join(await first) == b"abc"


async def test_a_body_that_cannot_be_made_fails_for_everybody() -> None:
    """Not for the first alone, while the others take a body that is cut off for a whole one."""
    shared, work = SharedLists(), Work()
    work.gate.set()

    def encode(found: ObjectList) -> Iterator[bytes]:
        yield b"a"
        raise LookupError("no more")

    body = await shared.body("key", work.find, encode)
    for reader in (iter(body), iter(body), iter(body)):
        assert next(reader) == b"a"
        with pytest.raises(LookupError):
            next(reader)


async def test_large_bodies_are_not_held() -> None:
    shared, work = SharedLists(), Work(SHARED_BYTES_MAX + 1)
    work.gate.set()
    body = await shared.body("key", work.find, work.encode)
    assert not isinstance(body, SharedBody)
    assert b"".join(body) == b"abc"


async def test_all_bodies_together_have_a_bound() -> None:
    shared, work = SharedLists(), Work(SHARED_BYTES_MAX)
    work.gate.set()
    count = ALL_SHARED_BYTES_MAX // SHARED_BYTES_MAX
    bodies = [await shared.body(n, work.find, work.encode) for n in range(count + 1)]
    assert [isinstance(body, SharedBody) for body in bodies] == [True] * count + [False]
    del bodies[0]
    gc.collect()
    assert isinstance(await shared.body("again", work.find, work.encode), SharedBody)
