"""The interpreter's switch interval while threads compute beside the event loop."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.load.switch_interval import SHORT_SWITCH_INTERVAL, SWITCH_INTERVAL_S, compute_in_thread


@pytest.fixture
def usual_s() -> Iterator[float]:
    usual_s = sys.getswitchinterval()
    yield usual_s
    assert sys.getswitchinterval() == usual_s


@pytest.mark.parametrize("size", [SizeClass.LARGE, SizeClass.HUGE])
async def test_lanes_hand_over_soon(usual_s: float, size: SizeClass) -> None:
    offload = Offload()
    assert await offload.run(size, sys.getswitchinterval) == pytest.approx(SWITCH_INTERVAL_S)
    assert sys.getswitchinterval() == usual_s
    offload.close()


async def test_other_threads_hand_over_soon(usual_s: float) -> None:
    assert await compute_in_thread(sys.getswitchinterval) == pytest.approx(SWITCH_INTERVAL_S)


async def test_work_that_fails_leaves_the_usual_interval(usual_s: float) -> None:
    with pytest.raises(ZeroDivisionError):
        await compute_in_thread(divmod, 1, 0)


def test_it_is_short_until_the_last_thread_has_ended(usual_s: float) -> None:
    with SHORT_SWITCH_INTERVAL:
        with SHORT_SWITCH_INTERVAL:
            pass
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
