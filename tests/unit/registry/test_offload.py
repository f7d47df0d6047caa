"""Where work runs: on the event loop or in the thread beside it, by its size and by what it finds out."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from apiserver.registry.findings import TakesLong
from apiserver.registry.offload import Offload
from apiserver.registry.size_class import LARGE_BYTES, SizeClass, size_class


@pytest.fixture
def offload() -> Iterator[Offload]:
    offload = Offload()
    yield offload
    offload.close()


SIZES = {
    "nothing": (0, SizeClass.SMALL),
    "the largest small one": (LARGE_BYTES, SizeClass.SMALL),
    "the smallest large one": (LARGE_BYTES + 1, SizeClass.LARGE),
}


@pytest.mark.parametrize(("size_bytes", "expected"), SIZES.values(), ids=SIZES)
def test_size_classes(size_bytes: int, expected: SizeClass) -> None:
    assert size_class(size_bytes) is expected


@pytest.mark.parametrize(
    ("size", "is_on_loop"), [(SizeClass.SMALL, True), (SizeClass.LARGE, False)], ids=["small", "large"]
)
async def test_large_work_runs_in_the_thread(offload: Offload, size: SizeClass, is_on_loop: bool) -> None:
    ran_in = await offload.run(size, threading.current_thread)
    assert (ran_in is threading.current_thread()) is is_on_loop


@pytest.mark.parametrize("size", SizeClass)
async def test_what_work_raises_reaches_the_caller(offload: Offload, size: SizeClass) -> None:
    with pytest.raises(ZeroDivisionError):
        await offload.run(size, divmod, 1, 0)


async def test_small_work_is_bounded_on_the_loop(offload: Offload) -> None:
    runs: list[tuple[bool, bool]] = []

    def work(is_bounded: bool) -> str:
        runs.append((is_bounded, threading.current_thread() is threading.main_thread()))
        return "done"

    assert await offload.run_bounded(SizeClass.SMALL, work) == "done"
    assert runs == [(True, True)]


async def test_bounded_work_that_takes_long_is_done_again_in_the_thread(offload: Offload) -> None:
    runs: list[tuple[bool, bool]] = []

    def work(is_bounded: bool) -> str:
        runs.append((is_bounded, threading.current_thread() is threading.main_thread()))
        if is_bounded:
            raise TakesLong
        return "done"

    assert await offload.run_bounded(SizeClass.SMALL, work) == "done"
    assert runs == [(True, True), (False, False)]


async def test_large_work_is_never_bounded(offload: Offload) -> None:
    assert await offload.run_bounded(SizeClass.LARGE, lambda is_bounded: is_bounded) is False
