"""Sends header values as the bytes that were received, where aiohttp's client sends UTF-8 only.

Browsers and other clients may send any bytes but control characters (RFC 9110, 5.5), most often latin-1. In
Python strings such bytes are surrogates.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from multidict import CIMultiDict

from apiserver.endpoints.reverse_proxy.answer_heads import HeadCheck

# Of what stands for a value until the head is written: no client can guess it.
_STAND_IN_BYTES: Final = 16


def encoded(text: str) -> bytes:
    """Returns the bytes in which a header, or a part of it, was received."""
    return text.encode("utf-8", "surrogateescape")


def is_utf8(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class ExactRequest(aiohttp.ClientRequest):
    """A request of aiohttp's client whose header values need not be UTF-8, and whose response is checked."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        assert conn.protocol is not None
        HeadCheck.begin(conn.protocol)
        if not all(map(is_utf8, self.headers.values())):
            _HeadTransport.begin(conn.protocol, self._stand_ins())
        return await super().send(conn)

    def _stand_ins(self) -> dict[bytes, bytes]:
        """Replaces each value that is not UTF-8 with a placeholder, and returns the values by placeholder."""
        values: dict[bytes, bytes] = {}
        headers: CIMultiDict[str] = CIMultiDict()
        for name, value in self.headers.items():
            if is_utf8(value):
                headers.add(name, value)
            else:
                stand_in = secrets.token_hex(_STAND_IN_BYTES)
                values[stand_in.encode()] = encoded(value)
                headers.add(name, stand_in)
        self.headers = headers
        return values


class _HeadTransport:
    """The transport of a connection until the first bytes of a request, which contain its head, are
    written.
    """

    def __init__(
        self, protocol: ResponseHandler, transport: asyncio.Transport, values: Mapping[bytes, bytes]
    ) -> None:
        self._protocol, self._transport, self._values = protocol, transport, values

    @classmethod
    def begin(cls, protocol: ResponseHandler, values: Mapping[bytes, bytes]) -> None:
        """Replaces a connection's own transport until the next head is written.

        values: the bytes to write, by their placeholders.
        """
        if protocol.transport is not None:  # aiohttp reports a lost connection.
            protocol.transport = cast(asyncio.Transport, cls(protocol, protocol.transport, values))

    def write(self, data: bytes) -> None:
        self._protocol.transport = self._transport
        data = bytes(data)  # aiohttp may write other buffers.
        for stand_in, value in self._values.items():
            data = data.replace(stand_in, value, 1)
        self._transport.write(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.write(b"".join(pieces))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
