"""The timer that ends late calls, and messages that arrive in one piece or in several."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from apiserver.extensions.frames import FrameReader, InvalidFrame, frame
from apiserver.extensions.hooks import Kind, Mode, OnError
from apiserver.extensions.host.pending_calls import CallTimer, PendingCall
from apiserver.extensions.host.runner import Failure, HookInfo

HOOK: Final = HookInfo(0, Kind.MUTATE, "f", "f:1", Mode.ALONE, frozenset(), 1.0, OnError.FAIL, False, {})


async def test_each_call_is_ended_when_it_is_late() -> None:
    loop = asyncio.get_running_loop()
    calls = [PendingCall(number, HOOK, b"{}", 1.0) for number in range(4)]
    slow, quick, over, slower = calls
    ended: list[tuple[PendingCall, float]] = []
    all_ended = asyncio.Event()

    def end(call: PendingCall) -> None:
        ended.append((call, loop.time()))
        call.future.cancel()
        if call is slower:
            all_ended.set()

    timer = CallTimer(lambda: calls, end)
    began = loop.time()
    for call, time_s in ((slow, 0.05), (quick, 0.01), (over, 0.02), (slower, 0.09)):
        timer.limit(call, time_s)
    over.fail("done", Failure.ERROR)
    await all_ended.wait()
    assert [call for call, _ in ended] == [quick, slow, slower]
    for (_, at), time_s in zip(ended, (0.01, 0.05, 0.09), strict=True):
        assert at >= began + time_s - 0.001
    with pytest.raises(Exception, match="done"):
        await over.future


MESSAGES: Final = [{"id": 1, "call": {"a": "ö"}}, {"id": 2}, {"id": 3, "call": {}}]


@pytest.mark.parametrize("piece_bytes", [1, 3, 5, 20, 1_000])
def test_messages_arrive_in_pieces_of_any_size(piece_bytes: int) -> None:
    sent, reader = b"".join(map(frame, MESSAGES)), FrameReader()
    pieces = [sent[at : at + piece_bytes] for at in range(0, len(sent), piece_bytes)]
    assert [message for piece in pieces for message in reader.feed(piece)] == MESSAGES


def test_messages_that_arrive_alone() -> None:
    reader = FrameReader()
    assert [message for each in MESSAGES for message in reader.feed(frame(each))] == MESSAGES


@pytest.mark.parametrize(
    ("sent", "why"),
    {
        "too large": (frame({"a": "x" * 100}), "a message of 108 bytes, more than 50"),
        "not JSON": (b"\0\0\0\1{", "a message that is not JSON"),
        "no object": (frame([1]), "a message that is no object"),
    }.values(),
    ids=["too large", "not JSON", "no object"],
)
@pytest.mark.parametrize("before", [b"", frame({"id": 1})], ids=["alone", "after another"])
def test_messages_that_are_refused(sent: bytes, why: str, before: bytes) -> None:
    with pytest.raises(InvalidFrame, match=why):
        list(FrameReader(50).feed(before + sent))
