"""Questions to a worker which function runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from apiserver.extensions.frames import QUESTION_BYTES, answer_to
from apiserver.extensions.host.running_call import ANSWER_TIMEOUT_S, RunningCall


class Pair(NamedTuple):
    """Both ends: `asking` is the server's, and the test answers at `worker`."""

    asking: RunningCall
    worker: socket.socket


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    asking = RunningCall(ours)
    with theirs:
        yield Pair(asking, theirs)
    asking.close()


async def next_question(worker: socket.socket) -> bytes:
    return await asyncio.get_running_loop().sock_recv(worker, QUESTION_BYTES)


async def test_a_late_answer_is_none_to_the_next_question(pair: Pair) -> None:
    """A function that holds the interpreter's lock keeps the thread that answers waiting, too."""
    assert await pair.asking.number() == 0
    late = await next_question(pair.worker)
    second = asyncio.create_task(pair.asking.number())
    question = await next_question(pair.worker)
    pair.worker.sendall(answer_to(late, 7) + answer_to(question, 9))
    assert await second == 9


async def test_a_worker_may_answer_after_a_few_turns_of_a_busy_processor(pair: Pair) -> None:
    asking = asyncio.create_task(pair.asking.number())
    question = await next_question(pair.worker)
    asyncio.get_running_loop().call_later(0.2, pair.worker.sendall, answer_to(question, 7))
    assert await asking == 7


async def test_who_asks_at_the_same_time_shares_one_question(pair: Pair) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await asyncio.gather(*(pair.asking.number() for _ in range(30))) == [0] * 30
    assert loop.time() - began < 10 * ANSWER_TIMEOUT_S
    await next_question(pair.worker)
    with pytest.raises(BlockingIOError):
        pair.worker.recv(QUESTION_BYTES)


async def test_a_worker_that_is_gone_runs_nothing(pair: Pair) -> None:
    pair.worker.close()
    assert await pair.asking.number() == 0
