"""A deletecollection deletes in the order of the list, up to the first object that may not be deleted.

What has been decided is committed together: only the store is not waited for. Rows A06, G16.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from apiserver.endpoints.handlers.delete_collection import CONCURRENT_DELETES, in_order

NAMES: Final = [f"o{number:02}" for number in range(3 * CONCURRENT_DELETES)]


class Refused(Exception):
    """An object may not be deleted, or could not be."""


class Deletions:
    """Deletes objects: decides at once, and commits when it is let.

    refused: the objects about which it is decided otherwise. lost: those whose commit fails.
    """

    def __init__(self, *, refused: str = "", lost: str = "", commits: bool = True) -> None:
        self.refused, self.lost = refused, lost
        self.decided: list[str] = []
        self.deleted: list[str] = []
        self.committing = self.committing_max = 0
        self.may_commit = asyncio.Event()
        if commits:
            self.may_commit.set()

    async def delete(self, name: str, on_decided: Callable[[], None]) -> None:
        await asyncio.sleep(0)  # as admission, and the cache, may be asked
        assert len(self.decided) == len(set(self.decided)), "one after the other"
        if name == self.refused:
            raise Refused(name)
        self.decided.append(name)
        on_decided()
        self.committing += 1
        self.committing_max = max(self.committing_max, self.committing)
        try:
            await self.may_commit.wait()
            await asyncio.sleep(0)
            if name == self.lost:
                raise Refused(name)
            self.deleted.append(name)
        finally:
            self.committing -= 1


async def test_all_are_deleted_in_order() -> None:
    deletions = Deletions()
    await in_order(deletions.delete, NAMES)
    assert deletions.deleted == deletions.decided == NAMES


@pytest.mark.parametrize("position", [0, 1, CONCURRENT_DELETES - 1, CONCURRENT_DELETES, len(NAMES) - 1])
async def test_what_comes_before_a_refused_one_is_deleted_and_nothing_after_it(position: int) -> None:
    deletions = Deletions(refused=NAMES[position])
    with pytest.raises(Refused, match=NAMES[position]):
        await in_order(deletions.delete, NAMES)
    assert deletions.deleted == NAMES[:position]


async def test_deletions_that_are_decided_are_committed_together() -> None:
    deletions = Deletions(commits=False)
    task = asyncio.ensure_future(in_order(deletions.delete, NAMES))
    while deletions.committing < CONCURRENT_DELETES:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert deletions.committing == CONCURRENT_DELETES
    deletions.may_commit.set()
    await task
    assert deletions.deleted == NAMES
    assert deletions.committing_max == CONCURRENT_DELETES


async def test_a_refusal_waits_for_what_was_decided_before_it() -> None:
    deletions = Deletions(refused=NAMES[3], commits=False)
    task = asyncio.ensure_future(in_order(deletions.delete, NAMES))
    while deletions.committing < 3:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    deletions.may_commit.set()
    with pytest.raises(Refused):
        await task
    assert deletions.deleted == NAMES[:3]


async def test_the_first_error_in_order_is_raised_and_others_are_carried_out() -> None:
    deletions = Deletions(lost=NAMES[1], refused=NAMES[4])
    with pytest.raises(Refused, match=NAMES[1]):
        await in_order(deletions.delete, NAMES)
    assert deletions.deleted == [NAMES[0], *deletions.decided[2:]]


async def test_a_client_that_is_gone_ends_what_has_not_been_committed() -> None:
    deletions = Deletions(commits=False)
    task = asyncio.ensure_future(in_order(deletions.delete, NAMES))
    while deletions.committing < CONCURRENT_DELETES:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (deletions.committing, deletions.deleted) == (0, [])
