"""Rejects responses with malformed line ends in the head, in which two parsers may see different headers.

aiohttp takes a bare line feed for the end of a header, as Go does, where RFC 9112 (2.2) has a carriage return
and a line feed. A proxy in front of the backend may take the next line as part of the value, while a client
of this server would get it as a header.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

_END: Final = b"\r\n\r\n"
# A line feed or a carriage return alone, or what ends texts in C.
_MALFORMED: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\0")
# How an answer begins that is not the last one: with any status 1xx but 101.
_INTERIM: Final = re.compile(rb"[^ ]* +1(?!01\b)")


class MalformedHead(aiohttp.ClientError):
    """The head of a response has a malformed line."""

    def __init__(self) -> None:
        super().__init__("net/http: HTTP/1.x transport connection broken: malformed MIME header line")


def is_malformed(head: bytes) -> bool:
    """Returns whether the head of a response has a malformed line end."""
    return _MALFORMED.search(head) is not None


class HeadCheck(asyncio.Protocol):
    """Checks the head of each response, between a connection of aiohttp's client and its protocol."""

    def __init__(self, protocol: ResponseHandler) -> None:
        self._protocol = protocol
        # What has come of the head; None once it is whole.
        self._head: bytearray | None = None

    @classmethod
    def begin(cls, protocol: ResponseHandler) -> None:
        """Checks the next bytes of a connection as the head of a response, because a request is about to be
        sent.
        """
        transport = protocol.transport
        if transport is None:
            return  # aiohttp reports a lost connection.
        check = transport.get_protocol()
        if not isinstance(check, HeadCheck):
            check = cls(protocol)
            transport.set_protocol(check)
        check._head = bytearray()

    def data_received(self, data: bytes) -> None:
        if self._head is not None and not self._is_sound(self._head, data):
            self._head = None
            transport = self._protocol.transport
            self._protocol.set_exception(MalformedHead())
            if transport is not None:
                transport.abort()
            return
        self._protocol.data_received(data)

    def _is_sound(self, head: bytearray, data: bytes) -> bool:
        """Records received bytes; returns whether the head may be valid, as far as it has arrived."""
        seen = len(head)
        head += data
        while True:
            if head.startswith(b"\r\n"):
                return False  # aiohttp would take what follows for the head.
            end = head.find(_END, max(0, seen - len(_END) + 1))
            # What follows a carriage return may not have come yet.
            until = end + len(_END) if end >= 0 else len(head) - head.endswith(b"\r")
            if _MALFORMED.search(head, max(0, seen - 1), until):
                return False
            if end < 0:
                return True
            if not _INTERIM.match(head):
                self._head = None
                return True
            del head[:until]
            seen = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
