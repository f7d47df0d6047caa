"""Waiting for a revision: which waiters are woken, which time out, and what is kept of them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest

from apiserver.load.tracked_objects import tracked_sizes
from apiserver.storage.resource_version import REVISION_MAX
from apiserver.storage.watch_cache.progress import DONE_KEPT_MAX, Progress

KINDS = {"it exists": True, "it may come one day": False}
SOON_S = 30.0  # A test that waits so long has failed.


def futures() -> int:
    """The number of futures that are alive in this process."""
    gc.collect()
    return sum(kind is asyncio.Future for kind, _ in tracked_sizes())


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("exists", KINDS.values(), ids=KINDS)
async def test_a_waiter_is_woken_by_its_revision_and_not_before(exists: bool) -> None:
    progress = Progress()
    waits = {n: asyncio.create_task(progress.wait_for(n, SOON_S, exists=exists)) for n in (7, 5, 6, 9)}
    await turns()
    progress.advance(6)
    assert all(await asyncio.gather(waits[5], waits[6]))
    progress.advance(4)  # changes nothing
    assert progress.revision == 6
    assert not waits[7].done()
    progress.restart(8)
    assert await waits[7]
    progress.advance(9)
    assert await waits[9]
    assert await progress.wait_for(9, 0, exists=exists), "what is reached needs no time"


async def test_progress_is_requested_only_for_revisions_that_exist() -> None:
    progress = Progress()
    wanted = asyncio.create_task(progress.wait_for_waiters())
    hoping = asyncio.create_task(progress.wait_for(REVISION_MAX, SOON_S, exists=False))
    await turns()
    assert not wanted.done()
    waiting = asyncio.create_task(progress.wait_for(5, SOON_S))
    await wanted
    assert progress.has_waiters
    waiting.cancel()
    hoping.cancel()
    await asyncio.gather(waiting, hoping, return_exceptions=True)
    assert not progress.has_waiters


GIVING_UP: dict[str, Callable[[asyncio.Task[bool]], object]] = {
    "timed out": lambda task: None,
    "cancelled": lambda task: task.cancel(),
}


@pytest.mark.parametrize("give_up", GIVING_UP.values(), ids=GIVING_UP)
@pytest.mark.parametrize("exists", KINDS.values(), ids=KINDS)
async def test_a_waiter_that_gave_up_is_freed(
    exists: bool, give_up: Callable[[asyncio.Task[bool]], object]
) -> None:
    """A client that asks again and again for a huge resourceVersion leaves nothing in memory."""
    progress = Progress()
    # Waiters for a lower revision come before them in the heap.
    staying = [asyncio.create_task(progress.wait_for(n, SOON_S, exists=exists)) for n in range(1, 21)]
    await turns()
    before = futures()
    for _ in range(100):
        batch = [asyncio.create_task(progress.wait_for(REVISION_MAX, 0, exists=exists)) for _ in range(100)]
        await asyncio.sleep(0)
        for task in batch:
            give_up(task)
        assert not any(result is True for result in await asyncio.gather(*batch, return_exceptions=True))
    del batch, task
    await turns()  # The last batch has results that the loop lets go of then.
    assert futures() - before <= len(staying) + DONE_KEPT_MAX
    progress.advance(20)
    assert all(await asyncio.gather(*staying)), "nobody who stays is forgotten"


@pytest.mark.parametrize("exists", KINDS.values(), ids=KINDS)
async def test_many_waiters_that_gave_up_together_are_freed(exists: bool) -> None:
    """No later waiter is needed to free them."""
    progress = Progress()
    before = futures()
    await asyncio.gather(*(progress.wait_for(REVISION_MAX - n, 0, exists=exists) for n in range(10_000)))
    assert futures() - before <= DONE_KEPT_MAX
