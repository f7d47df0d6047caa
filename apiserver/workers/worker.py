"""A worker's end of the line to its supervisor (`apiserver.workers.supervisor`), and what is said on it.

The line is a pair of connected sockets, so either side learns of the other's death at once: the supervisor
starts another worker, the worker ends as a lone server would by the `kill -9` that hit its supervisor.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from apiserver.errors import ServiceUnavailable

log = logging.getLogger(__name__)

EXIT_ORPHANED: Final = 3
# The supervisor waits for the workers less long (`apiserver.workers.supervisor.SCRAPE_WITHIN_S`).
METRICS_TIMEOUT_S: Final = 4.0
_READ_BYTES: Final = 65_536
_HEAD: Final = struct.Struct(">BI")


class Kind(enum.IntEnum):
    """What a message says."""

    # a worker's
    HELLO = 1  # it listens to the line
    READY = 2
    CANNOT_START = 3  # text: why
    GET_ALL_METRICS = 4  # for everybody's metrics
    OWN_METRICS = 5  # text: the exposition
    # the supervisor's
    STOP = 6
    GET_OWN_METRICS = 7  # asks for OWN_METRICS, once each
    ALL_METRICS = 8  # text: the exposition; answers one ASK


def message(kind: Kind, text: bytes = b"") -> bytes:
    return _HEAD.pack(kind, len(text)) + text


def take_messages(received: bytearray) -> Iterator[tuple[Kind, bytes]]:
    """Those that are whole, removed from `received`."""
    while len(received) >= _HEAD.size:
        kind, size = _HEAD.unpack_from(received)
        end = _HEAD.size + size
        if len(received) < end:
            return
        text = bytes(received[_HEAD.size : end])
        del received[:end]
        yield Kind(kind), text


class SupervisorClient:
    """What makes a server one of several processes on one port.

    sockets: bound; to listen on.
    listens_when_ready: others serve already, so that nobody need come here before the cache is filled.
    """

    def __init__(
        self, line: socket.socket, sockets: Sequence[socket.socket], *, listens_when_ready: bool
    ) -> None:
        self.sockets, self.listens_when_ready = tuple(sockets), listens_when_ready
        self._line = line
        self._writer: asyncio.StreamWriter | None = None
        self._asking: deque[asyncio.Future[bytes]] = deque()
        self._own_metrics: Callable[[], bytes] = bytes

    async def connect(self) -> asyncio.StreamReader:
        """Before anything is said."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._line)
        self.say(Kind.HELLO)
        return reader

    def say(self, kind: Kind, text: bytes = b"") -> None:
        assert self._writer is not None
        self._writer.write(message(kind, text))

    async def close(self) -> None:
        """What was said arrives."""
        assert self._writer is not None
        self._writer.close()
        await self._writer.wait_closed()

    async def follow(self, reader: asyncio.StreamReader, stop: Callable[[], None]) -> None:
        """Do as the supervisor says until cancelled. Ends the process if it is gone."""
        received = bytearray()
        while data := await reader.read(_READ_BYTES):
            received += data
            for kind, text in take_messages(received):
                match kind:
                    case Kind.STOP:
                        stop()
                    case Kind.GET_OWN_METRICS:
                        self.say(Kind.OWN_METRICS, self._own_metrics())
                    case Kind.ALL_METRICS:
                        asking = self._asking.popleft()
                        if not asking.done():
                            asking.set_result(text)
        log.error("the supervisor is gone; so is this worker")
        os._exit(EXIT_ORPHANED)

    def report_metrics(self, own: Callable[[], bytes]) -> None:
        self._own_metrics = own

    async def all_metrics(self) -> bytes:
        """The exposition of all workers together.

        Raises ServiceUnavailable: this worker's numbers alone would look like counters that fell.
        """
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asking.append(answer)
        self.say(Kind.GET_ALL_METRICS)
        try:
            async with asyncio.timeout(METRICS_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise ServiceUnavailable("the supervisor of the workers does not answer") from None
