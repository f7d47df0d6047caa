"""Identical lists at the same time are read and encoded once; the memory for that is bounded."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator

import pytest

from apiserver.endpoints.compression import BodySlices
from apiserver.endpoints.handlers.shared_lists import (
    ALL_SHARED_BYTES_MAX,
    SHARED_BYTES_MAX,
    SharedBody,
    SharedLists,
)
from apiserver.endpoints.negotiation import ResponseForm
from apiserver.endpoints.representation import FormCaches, MetaV1Encoders, Slice, WorkAhead, encoder_for
from apiserver.endpoints.response_bodies import ResponseBody
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Expired, NotAcceptable
from apiserver.registry.results import ObjectList
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.errors import StorageUnavailable
from apiserver.wire.media_types import JSON
from tests.unit.endpoints.test_representation import WIDGETS


class Work:
    """Reads a list once its gate is open, and counts reads and encoded slices."""

    def __init__(self, size_bytes: int = 1_000) -> None:
        self.reads = 0
        self.encoded = 0
        self.gate = asyncio.Event()
        self.fails: Exception | None = None
        self._tail = b"x" * size_bytes

    async def find(self) -> ObjectList:
        self.reads += 1
        await self.gate.wait()
        if self.fails is not None:
            failure, self.fails = self.fails, None
            raise failure
        return ObjectList([StoredObject("k", b"{", self._tail)], 7)

    def encode(self, found: ObjectList) -> BodySlices:
        return BodySlices(self._encode())

    def _encode(self) -> Iterator[bytes]:
        for part in (b"a", b"b", b"c"):
            self.encoded += 1
            yield part


async def whole(body: ResponseBody, offload: Offload) -> bytes:
    reader, pieces = body.reader(offload), []
    while (piece := await reader()) is not None:
        pieces.append(piece)
    return b"".join(pieces)


async def until(is_so: Callable[[], bool]) -> None:
    """Let tasks run until the condition holds."""
    for _ in range(100):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition does not hold")


async def test_concurrent_calls_share_one_read_and_one_body(offload: Offload) -> None:
    shared, work = SharedLists(), Work()
    crowd = [asyncio.create_task(shared.body("key", work.find, work.encode)) for _ in range(100)]
    await asyncio.sleep(0)
    work.gate.set()
    bodies = await asyncio.gather(*crowd)
    # Slower readers get the slices that faster ones have encoded.
    readers = [body.reader(offload) for body in bodies]
    for part in (b"a", b"b", b"c", None):
        assert {await reader() for reader in readers} == {part}
    assert (work.reads, work.encoded) == (1, 3)
    late = await shared.body("key", work.find, work.encode)
    assert await whole(late, offload) == b"abc"
    assert work.reads == 1, "the body lives as long as somebody holds it"


async def test_a_body_is_dropped_when_nobody_sends_it() -> None:
    shared, work = SharedLists(), Work()
    work.gate.set()
    body: ResponseBody | None = await shared.body("key", work.find, work.encode)
    assert isinstance(body, SharedBody)
    del body
    gc.collect()
    await shared.body("key", work.find, work.encode)
    assert work.reads == 2


async def test_lists_with_other_keys_are_not_shared() -> None:
    shared, work = SharedLists(), Work()
    work.gate.set()
    first = await shared.body(("a", 7), work.find, work.encode)
    second = await shared.body(("a", 8), work.find, work.encode)
    assert first is not second


async def test_when_the_first_call_is_cancelled_another_one_reads_for_all() -> None:
    shared, work = SharedLists(), Work()
    gone, *stay = (asyncio.create_task(shared.body("key", work.find, work.encode)) for _ in range(100))
    await asyncio.sleep(0)
    gone.cancel()
    await until(lambda: work.reads == 2)
    work.gate.set()
    assert len(set(await asyncio.gather(*stay))) == 1
    assert gone.cancelled()
    assert work.reads == 2


FAILURES = {
    "the revision is compacted": Expired("too old"),
    "the store is unavailable": StorageUnavailable("etcd ended"),
    "a bug": LookupError("no such thing"),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_an_error_of_the_first_call_is_raised_to_all_that_wait(
    failure: Exception, offload: Offload
) -> None:
    """They want the same at the same revision: a thousand would get the same error one after another."""
    shared, work = SharedLists(), Work()
    work.fails = failure
    crowd = [asyncio.create_task(shared.body("key", work.find, work.encode)) for _ in range(100)]
    await asyncio.sleep(0)
    work.gate.set()
    assert set(await asyncio.gather(*crowd, return_exceptions=True)) == {failure}
    assert work.reads == 1
    # Later calls read anew.
    assert await whole(await shared.body("key", work.find, work.encode), offload) == b"abc"


async def test_an_error_that_nobody_waits_for_is_raised_once(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio would log it, too, as an exception that was never retrieved."""
    shared, work = SharedLists(), Work()
    work.fails = LookupError("no such thing")
    work.gate.set()
    with pytest.raises(LookupError):
        await shared.body("key", work.find, work.encode)
    gc.collect()
    assert not caplog.records


async def test_a_form_that_lists_do_not_have_is_refused_before_anything_is_sent() -> None:
    """Row D16: not by the first slice, when there is a body to share already."""
    form = ResponseForm(JSON, "PartialObjectMetadata")
    encoder = encoder_for(
        WIDGETS,
        form,
        Brand("example.com", "acme"),
        now=lambda: 0.0,
        caches=FormCaches(),
        meta=MetaV1Encoders(BuiltinSchemas((1, 34)).get),
    )
    shared, work = SharedLists(), Work()

    def encode(found: ObjectList) -> BodySlices:
        return BodySlices(encoder.list(found))

    crowd = [asyncio.create_task(shared.body("key", work.find, encode)) for _ in range(2)]
    await asyncio.sleep(0)
    work.gate.set()
    answers = await asyncio.gather(*crowd, return_exceptions=True)
    assert [type(each) for each in answers] == [NotAcceptable, NotAcceptable]


async def test_when_a_waiting_call_is_cancelled_the_first_goes_on(offload: Offload) -> None:
    shared, work = SharedLists(), Work()
    first, second = (asyncio.create_task(shared.body("key", work.find, work.encode)) for _ in range(2))
    await asyncio.sleep(0)
    second.cancel()
    work.gate.set()
    assert await whole(await first, offload) == b"abc"


async def test_an_error_of_encoding_is_raised_to_every_reader(offload: Offload) -> None:
    """Were it raised to the first one alone, the others would take a truncated body for a whole one."""
    shared, work = SharedLists(), Work()
    work.gate.set()

    def parts() -> Iterator[bytes]:
        yield b"a"
        raise LookupError("no more")

    body = await shared.body("key", work.find, lambda _: BodySlices(parts()))
    for reader in (body.reader(offload), body.reader(offload), body.reader(offload)):
        assert await reader() == b"a"
        with pytest.raises(LookupError):
            await reader()


async def test_a_large_slice_is_made_once_in_a_thread_though_its_first_reader_goes(offload: Offload) -> None:
    shared, work = SharedLists(), Work()
    work.gate.set()
    began, release, made_in = threading.Event(), threading.Event(), []

    def parts() -> Iterator[Slice]:
        yield WorkAhead(SizeClass.HUGE)
        began.set()
        release.wait()
        made_in.append(threading.current_thread())
        yield b"a"

    body = await shared.body("key", work.find, lambda _: BodySlices(parts()))
    first, second = (asyncio.create_task(whole(body, offload)) for _ in range(2))
    await asyncio.to_thread(began.wait)
    first.cancel()
    await asyncio.sleep(0)
    release.set()
    assert await second == b"a"
    assert await whole(body, offload) == b"a"
    assert len(made_in) == 1
    assert made_in[0] is not threading.main_thread()


async def test_large_bodies_are_not_shared(offload: Offload) -> None:
    shared, work = SharedLists(), Work(SHARED_BYTES_MAX + 1)
    work.gate.set()
    body = await shared.body("key", work.find, work.encode)
    assert not isinstance(body, SharedBody)
    assert await whole(body, offload) == b"abc"


async def test_calls_that_wait_for_a_body_that_is_too_large_wait_once(offload: Offload) -> None:
    """All of them read at the same time, not one after another."""
    shared, work = SharedLists(), Work(SHARED_BYTES_MAX + 1)
    crowd = [asyncio.create_task(shared.body("key", work.find, work.encode)) for _ in range(100)]
    await asyncio.sleep(0)
    assert work.reads == 1
    work.gate.set()
    await crowd[0]
    work.gate.clear()
    await until(lambda: work.reads == 100)
    work.gate.set()
    assert {await whole(body, offload) for body in await asyncio.gather(*crowd)} == {b"abc"}
    assert work.reads == 100


async def test_the_size_of_all_shared_bodies_is_bounded() -> None:
    shared, work = SharedLists(), Work(SHARED_BYTES_MAX)
    work.gate.set()
    count = ALL_SHARED_BYTES_MAX // SHARED_BYTES_MAX
    bodies = [await shared.body(n, work.find, work.encode) for n in range(count + 1)]
    assert [isinstance(body, SharedBody) for body in bodies] == [True] * count + [False]
    del bodies[0]
    gc.collect()
    assert isinstance(await shared.body("again", work.find, work.encode), SharedBody)
