"""Frames of SPDY/3.1, and kubelets that break its rules."""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

import pytest

from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed
from apiserver.endpoints.reverse_proxy.spdy import (
    FIN,
    FRAME_BYTES_MAX,
    HEADER_DICTIONARY,
    PING,
    Frame,
    control_frame,
    data_frame,
    header_block,
    read_frame,
)


def test_both_sides_have_the_same_dictionary() -> None:
    """The checksum stands in every connection's first block of headers."""
    assert (len(HEADER_DICTIONARY), zlib.adler32(HEADER_DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_a_block_of_headers() -> None:
    assert header_block({"a": "bc"}) == b"\0\0\0\1" + b"\0\0\0\1a" + b"\0\0\0\2bc"


async def read(data: bytes) -> Frame | None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await read_frame(reader)


async def test_frames_are_read_as_they_are_written() -> None:
    assert await read(data_frame(5, b"data", is_last=True)) == Frame(0, 5, FIN, b"data")
    assert await read(control_frame(PING, b"\0\0\0\1")) == Frame(PING, 0, 0, b"\0\0\0\1")


@pytest.mark.parametrize("data", [b"", b"\0\0", data_frame(1, b"data")[:-1]])
async def test_a_connection_that_ends(data: bytes) -> None:
    assert await read(data) is None


BROKEN: Final = {
    "a frame without end": (FRAME_BYTES_MAX + 1).to_bytes(8, "big"),
    "another version": b"\x80\x02\0\1\0\0\0\0",
    "no SPDY": b"\xffTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_frame(data: bytes) -> None:
    with pytest.raises(BackendRequestFailed):
        await read(data)
