"""A worker's end of the connection to its supervisor.

The connection is a pair of sockets, so each side notices the other's death at once: the supervisor starts
another worker, and the worker ends, as a single server would end by the `kill -9` that hit its supervisor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

from apiserver.app.serving import exit_codes, logs
from apiserver.app.serving.service_manager import show_stacks_of_stuck_process
from apiserver.app.workers.messages import MessageKind, MessageReader, encode_message
from apiserver.meta.errors import ServiceUnavailable

log = logging.getLogger(__name__)

# Longer than the supervisor waits for the workers (`apiserver.app.workers.scrapes.SCRAPE_TIMEOUT_S`).
METRICS_TIMEOUT_S: Final = 4.0
_READ_BYTES: Final = 65_536
_SLICE_BYTES: Final = 65_536


class SupervisorClient:
    """The connection of a worker process to its supervisor.

    sockets: the bound sockets that the worker listens on.
    listens_when_ready: other workers serve already, so that this one need not accept connections before its
        watch cache is filled.
    is_silent: another worker starts at the same time, and logs what keeps both waiting.
    watchdog_s: after how long without a message the supervisor ends a worker; 0 for never.
    """

    def __init__(
        self,
        connected: socket.socket,
        sockets: Sequence[socket.socket],
        *,
        listens_when_ready: bool,
        is_silent: bool = False,
        watchdog_s: float = 0.0,
    ) -> None:
        self.sockets, self.listens_when_ready = tuple(sockets), listens_when_ready
        self.is_silent, self._watchdog_s = is_silent, watchdog_s
        self._socket = connected
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._own_metrics: Callable[[], Awaitable[Iterable[bytes]]] | None = None
        self._reporting: asyncio.Task[None] | None = None

    async def connect(self) -> asyncio.StreamReader:
        """Open the connection, before anything is sent; returns the stream that `receive` reads."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._socket)
        self.send(MessageKind.HELLO)
        if self._watchdog_s:
            show_stacks_of_stuck_process()
            self._report_alive(asyncio.get_running_loop())
        return reader

    def _report_alive(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._writer is not None
        if not self._writer.is_closing():
            self.send(MessageKind.ALIVE)
            loop.call_later(self._watchdog_s / 2, self._report_alive, loop)

    def send(self, kind: MessageKind, text: bytes = b"") -> None:
        assert self._writer is not None
        self._writer.write(encode_message(kind, text))

    async def close(self) -> None:
        """Close the connection once everything that was sent has arrived."""
        assert self._writer is not None
        self._writer.close()
        await self._writer.wait_closed()

    async def receive(self, reader: asyncio.StreamReader, stop: Callable[[], None]) -> None:
        """Handles the messages of the supervisor until cancelled.

        Ends the process if the supervisor is gone.
        """
        messages = MessageReader()
        while data := await reader.read(_READ_BYTES):
            messages.feed(data)
            for kind, text in messages.messages():
                match kind:
                    case MessageKind.STOP:
                        stop()
                    case MessageKind.SET_VERBOSITY:
                        logs.set_verbosity(int(text))
                    case MessageKind.GET_OWN_METRICS:
                        self._reporting = asyncio.create_task(self._report_own_metrics(), name="metrics")
                    case MessageKind.ALL_METRICS:
                        waiting = self._waiting.popleft()
                        if not waiting.done():
                            waiting.set_result(text)
        log.error("the supervisor has died; this worker exits")
        os._exit(exit_codes.ORPHANED)

    def set_verbosity(self, verbosity: int) -> None:
        """Set the value of --v for all processes of the server."""
        self.send(MessageKind.SET_VERBOSITY, b"%d" % verbosity)

    def report_metrics(self, own_metrics: Callable[[], Awaitable[Iterable[bytes]]]) -> None:
        """Report these metrics to the supervisor from now on. own_metrics: makes their text in slices."""
        self._own_metrics = own_metrics

    async def _report_own_metrics(self) -> None:
        """Send the metrics, yielding to other tasks between slices of the text."""
        text = bytearray()
        if self._own_metrics is not None:
            for piece in await self._own_metrics():
                text += piece
                await asyncio.sleep(0)
        self.send(MessageKind.OWN_METRICS, bytes(text))

    async def all_metrics(self) -> Iterator[bytes]:
        """Returns the exposition of all workers together, in slices.

        Raises ServiceUnavailable: this worker's numbers alone would look like counters that fell.
        """
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(response)
        self.send(MessageKind.GET_ALL_METRICS)
        try:
            async with asyncio.timeout(METRICS_TIMEOUT_S):
                text = await response
        except TimeoutError:
            raise ServiceUnavailable("the supervisor of the workers does not respond") from None
        return (text[at : at + _SLICE_BYTES] for at in range(0, len(text), _SLICE_BYTES))
