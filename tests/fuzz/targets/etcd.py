"""What etcd sends: frames of HTTP/2. It is trusted, but a fault of it, or on the way, must break nothing."""

from __future__ import annotations

import asyncio
import struct
from typing import Final

from apiserver.storage.etcd.http2_calls import StreamCall, UnaryCall
from apiserver.storage.etcd.http2_connection import Connection
from apiserver.storage.etcd.http2_frames import frame, request_block
from apiserver.storage.etcd.rpc import RpcError
from tests.fuzz.target import fuzzer

_WINDOW: Final = 64 * 1024
_BLOCK: Final = request_block("/etcdserverpb.KV/Range", "etcd:2379", is_tls=True)


class _Nowhere(asyncio.Transport):
    is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True


_SETTINGS: Final = frame(4, 0, 0, b"")
_STARTED: Final = b"\x20\x88"  # a table of no size, :status: 200
_ENDED: Final = b"\x00\x0bgrpc-status\x010"


@fuzzer(
    frame(4, 0, 0, struct.pack(">HLHLHL", 3, 100, 4, 1 << 20, 5, 1 << 14)),
    frame(1, 4, 1, _STARTED) + frame(0, 0, 1, b"\0\0\0\0\2ok") + frame(1, 5, 1, _ENDED),
    frame(1, 0, 1, _STARTED[:1]) + frame(9, 4, 1, _STARTED[1:]) + frame(0, 8, 3, b"\1\0\0\0\0\0\0"),
    frame(6, 0, 0, bytes(8)) + frame(8, 0, 0, b"\0\0\xff\xff") + frame(3, 0, 3, b"\0\0\0\7"),
    frame(7, 0, 0, struct.pack(">LL", 1, 2) + b"too_many_pings"),
    frame(1, 5, 3, b"\x20\x48\x82\x64\x02" + _ENDED),
    words=b"\x20\x88 grpc-status \x00\x0bgrpc-status\x010 \x01\x04 \x01\x05 \x09\x04 \x00\x01",
)
def frames(data: bytes) -> None:
    """However they are cut, frames have the same result: the same calls end, or the connection does."""
    assert _outcome([data]) == _outcome([data[:half], data[half:]] if (half := len(data) // 2) else [data])


def _outcome(parts: list[bytes]) -> tuple[str, str, bool]:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_receive(parts))
    finally:
        loop.close()


async def _receive(parts: list[bytes]) -> tuple[str, str, bool]:
    loop = asyncio.get_running_loop()
    connection = Connection(loop, _WINDOW)
    transport = _Nowhere()
    connection.connection_made(transport)
    connection.data_received(_SETTINGS)
    answer: asyncio.Future[bytes] = loop.create_future()
    unary, stream = UnaryCall(connection, answer, loop.time() + 60), StreamCall(connection, None)
    for call in (unary, stream):
        await connection.open(call, _BLOCK, loop.time() + 60)
    connection.send(unary, b"request", is_last=True)
    for part in parts:
        connection.data_received(part)
        if transport.is_aborted:
            break
    is_usable = connection.is_usable
    connection.connection_lost(None)
    read = 0
    try:
        while (message := await stream.read()) is not None:
            read += 1 + len(message)
        end = "ended"
    except RpcError as error:
        end = error.code.name
    failure = answer.exception()
    assert failure is None or isinstance(failure, RpcError), failure
    return f"{read} {end}", failure.code.name if failure else "answered", is_usable
