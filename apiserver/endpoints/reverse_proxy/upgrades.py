"""Upgrades connections: if the backend agrees with a response 101, bytes are relayed unchanged.

The protocol (WebSocket, SPDY or any other) is not interpreted. When one side closes, so does the other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import begin_response
from apiserver.endpoints.reverse_proxy.backends import (
    AnswerHead,
    BackendConnection,
    BackendConnector,
    read_head,
)
from apiserver.endpoints.reverse_proxy.errors import (
    AmbiguousAnswer,
    BackendRequestFailed,
    BadGateway,
    ForwardingFailed,
)
from apiserver.endpoints.reverse_proxy.exact_headers import encoded
from apiserver.endpoints.reverse_proxy.headers import Headers
from apiserver.endpoints.reverse_proxy.target import ProxyTarget

# How much one side may have sent that the other has not read; reading resumes below it.
UNSENT_BYTES_MAX: Final = 64 * 1024
# A refusal of the backend is read for so long, and as far as this.
REFUSAL_WITHIN_S: Final = 10.0
# A longer length is no bound, and Python refuses to read one of thousands of digits.
_LENGTH_DIGITS_MAX: Final = 18
REFUSAL_BYTES_MAX: Final = 64 * 1024


class UpgradedClientReader:
    """Reads from the client once its connection is upgraded, in place of aiohttp's parser of requests.

    Reading from the client pauses while more than `UNSENT_BYTES_MAX` waits for the backend.
    """

    def __init__(self, call: ApiCall) -> None:
        self._connection = call.connection
        # Not a list of what has come: that may be a byte each time.
        self._data = bytearray()
        self._arrived = asyncio.Event()
        self._has_ended = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._data += data
        self._arrived.set()
        transport = self._connection.transport
        if len(self._data) > UNSENT_BYTES_MAX and transport is not None:
            transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        self._has_ended = True
        self._arrived.set()

    async def read(self) -> bytes:
        """Returns received bytes; empty when the client has disconnected."""
        while not self._data and not self._has_ended:
            self._arrived.clear()
            await self._arrived.wait()
        data = bytes(self._data)
        self._data.clear()
        transport = self._connection.transport
        if transport is not None and not transport.is_reading():
            transport.resume_reading()
        return data


async def upgrade(call: ApiCall, backends: BackendConnector, target: ProxyTarget, headers: Headers) -> None:
    """Requests an upgrade from a backend, and relays the connection until one side ends it.

    headers: of the request. Raises ForwardingFailed, BadGateway, AddressDenied.
    """
    backend = await dial(backends, target)
    try:
        head = await ask(backend, call.request.method, target, headers)
        if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
            await _relay(call, backend, head)
        elif head.status < 400:
            raise ForwardingFailed(f"invalid upgrade response: status code {head.status}")
        else:
            await refuse(call, backend, head)
    finally:
        backend.writer.close()


async def dial(backends: BackendConnector, target: ProxyTarget) -> BackendConnection:
    try:
        return await backends.dial(target.backend)
    except BackendRequestFailed as error:
        raise ForwardingFailed(f"error dialing backend: {error}") from None


async def ask(backend: BackendConnection, method: str, target: ProxyTarget, headers: Headers) -> AnswerHead:
    """Sends the request, and returns the head of the response. Raises ForwardingFailed, BadGateway."""
    lines = [f"{method} {target.path_and_query} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    backend.writer.write(encoded("\r\n".join((*lines, "", ""))))
    try:
        await backend.writer.drain()
        return await read_head(backend.reader)
    except AmbiguousAnswer as error:
        raise BadGateway(str(error)) from None
    except (BackendRequestFailed, OSError) as error:
        raise ForwardingFailed(f"{error}") from None


async def _relay(call: ApiCall, backend: BackendConnection, head: AnswerHead) -> None:
    connection = call.connection
    begin_response(call, head.status)
    call.closes_connection = True
    call.is_answered = True
    client = UpgradedClientReader(call)
    connection.begin_relay(client)
    if connection.transport is None:
        raise ConnectionResetError("the client is gone")
    connection.transport.write(head.raw)
    backend.writer.transport.set_write_buffer_limits(UNSENT_BYTES_MAX)
    with connection.relaying():
        await first_of(_to_backend(client, backend.writer), _to_client(call, backend.reader))


async def first_of(*relays: Coroutine[Any, Any, None]) -> None:
    """Relay in both directions until one has ended, and raise the error of that one."""
    tasks = {asyncio.ensure_future(relay) for relay in relays}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    failures = [task.exception() for task in tasks if not task.cancelled()]
    for failure in filter(None, failures):
        raise failure


async def _to_backend(client: UpgradedClientReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await client.read():
            writer.write(data)
            await writer.drain()


async def _to_client(call: ApiCall, reader: asyncio.StreamReader) -> None:
    connection = call.connection
    with contextlib.suppress(OSError):
        while data := await reader.read(UNSENT_BYTES_MAX):
            if connection.transport is None:
                return
            connection.transport.write(data)
            await connection.drain()


async def refuse(call: ApiCall, backend: BackendConnection, head: AnswerHead) -> None:
    """Passes on a response that is no upgrade, up to a limit, and closes the connection."""
    fields = {name.lower(): value for name, value in head.headers}
    length = fields.get(b"content-length", b"")
    bytes_max = REFUSAL_BYTES_MAX
    if length.isdigit() and len(length) <= _LENGTH_DIGITS_MAX:
        bytes_max = min(bytes_max, int(length))
    is_chunked = b"transfer-encoding" in fields
    body = bytearray()
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(REFUSAL_WITHIN_S):
            while len(body) < bytes_max and (data := await backend.reader.read(bytes_max - len(body))):
                body += data
                if is_chunked and body.endswith(b"\r\n0\r\n\r\n"):
                    break
    begin_response(call, head.status)
    call.closes_connection = True
    call.body_bytes = len(body)
    if call.connection.transport is None:
        raise ConnectionResetError("the client is gone")
    call.connection.transport.write(head.raw + body)
    await call.connection.drain()
