"""Objects that the server keeps: when it is ready, whatever is wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import pytest

from apiserver.controllers.kept_objects import keep_forever
from apiserver.registry.stored_object import CorruptObject
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageUnavailable
from tests.support.eventually import WITHIN_S
from tests.support.in_process import server

DAMAGED: Final = CorruptObject("/registry/x", "cut")
UNANSWERED: Final = StorageUnavailable("no leader")

# What happens, each time, and in which of them the server becomes ready.
ATTEMPTS: Final[dict[str, tuple[list[Exception | None], int]]] = {
    "all is as it should be": ([None], 1),
    "the store answers later": ([UNANSWERED, UNANSWERED, None], 3),
    "an object is damaged, which waiting does not mend": ([DAMAGED], 1),
    "an object is malformed": ([KeyError("spec")], 1),
    "an object is damaged, and the store answers later": ([UNANSWERED, DAMAGED], 2),
}


@pytest.mark.parametrize(("attempts", "ready_in"), ATTEMPTS.values(), ids=ATTEMPTS)
async def test_when_the_server_is_ready(
    store: EmbeddedStore, attempts: Iterable[Exception | None], ready_in: int
) -> None:
    left, count, is_ready = iter(attempts), 0, asyncio.Event()

    async def reconcile() -> None:
        nonlocal count
        count += 1
        if (problem := next(left)) is not None:
            raise problem

    async with server(store) as registry:
        keeping = asyncio.create_task(keep_forever(registry, reconcile, 3600.0, is_ready.set))
        async with asyncio.timeout(WITHIN_S):
            await is_ready.wait()
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
    assert count == ready_in
