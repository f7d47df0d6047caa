"""Sessions of `exec`: what is kept of a client that types more than its program reads."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.kubelet_server.sessions import UNREAD_BYTES_MAX, Session
from apiserver.testkit.simulation.programs import Pause, Program
from tests.support.eventually import WITHIN_S

KEYS_AT_ONCE: Final = UNREAD_BYTES_MAX // 4


class Typist:
    """The streams of a client that types the same key without end. typed: how many times."""

    def __init__(self, key: bytes) -> None:
        self._keys = key * KEYS_AT_ONCE
        self.typed = 0

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        self.typed += KEYS_AT_ONCE
        return self._keys

    async def write(self, stream: int, data: bytes) -> None:
        pass

    async def finish(self, status: Document) -> None:
        pass


def asleep() -> Program:
    yield Pause(2 * WITHIN_S)
    return 0


TYPED: Final = {"lines": b"\r", "the end of the input": b"\x04"}


@pytest.mark.parametrize("key", TYPED.values(), ids=TYPED)
async def test_input_that_no_program_reads_is_bounded(key: bytes) -> None:
    typist, container_ends = Typist(key), asyncio.Event()

    async def container() -> None:
        await container_ends.wait()

    session = asyncio.create_task(Session(typist, tty=True).run(asleep(), container))
    for _ in range(100):
        await asyncio.sleep(0)
    container_ends.set()
    async with asyncio.timeout(WITHIN_S):
        await session
    assert UNREAD_BYTES_MAX < typist.typed <= UNREAD_BYTES_MAX + 2 * KEYS_AT_ONCE
