"""Modules that are imported in a thread at their first use."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from apiserver.load.late_import import LateImport

# Of the standard library, and used by nothing here.
RARE, AS_RARE = "colorsys", "nturl2path"


class CountingExecutor(ThreadPoolExecutor):
    """Counts its jobs."""

    def __init__(self) -> None:
        super().__init__(max_workers=2)
        self.jobs = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs += 1
        return super().submit(fn, *args, **kwargs)


@pytest.fixture
async def executor() -> CountingExecutor:
    """That of the event loop, which shuts it down."""
    made = CountingExecutor()
    asyncio.get_running_loop().set_default_executor(made)
    return made


async def test_callers_at_the_same_time_wait_for_one_import(executor: CountingExecutor) -> None:
    late = LateImport(RARE)
    await asyncio.gather(late.finish(), late.finish())
    assert late.is_done
    assert RARE in sys.modules
    assert executor.jobs == 1


async def test_an_import_goes_on_when_a_caller_gives_up(executor: CountingExecutor) -> None:
    late = LateImport(AS_RARE)
    assert AS_RARE not in sys.modules
    callers = [asyncio.create_task(late.finish()) for _ in range(2)]
    await asyncio.sleep(0)
    callers[0].cancel()
    await asyncio.wait(callers)
    assert callers[0].cancelled()
    assert callers[1].exception() is None
    assert late.is_done
    assert AS_RARE in sys.modules
    assert executor.jobs == 1


async def test_an_import_that_fails_is_tried_again(executor: CountingExecutor) -> None:
    late = LateImport("no_such_module")
    for _ in range(2):
        errors = await asyncio.gather(late.finish(), late.finish(), return_exceptions=True)
        assert all(isinstance(each, ModuleNotFoundError) for each in errors)
    assert not late.is_done
    assert executor.jobs == 2
