"""One worker process of an extension, from its start to its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from apiserver.extensions.frames import FrameReader, InvalidFrame
from apiserver.extensions.host.runner import CannotLoad, ExtensionInfo
from apiserver.extensions.host.running_call import RunningCall

log = logging.getLogger(__name__)

# How long a module may take to be imported, in seconds.
START_TIMEOUT_S: Final = 30.0


class WorkerProcess(asyncio.Protocol):
    """A process that runs `extensions.worker`, and the connection to it.

    received: gets each message of the worker after the first one. ended: called once when the process is
    gone, with the reason.
    """

    def __init__(
        self,
        spec: str,
        received: Callable[[WorkerProcess, Mapping[str, Any]], None],
        ended: Callable[[WorkerProcess, str], None],
    ) -> None:
        self._spec, self._received, self._ended = spec, received, ended
        # Before all times of files that are written while the process reads them.
        self.made_at_ns = time.time_ns()
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket
        self._process: subprocess.Popen[bytes] | None = None
        self._why = ""
        self._gone = asyncio.Event()
        self._running_call: RunningCall | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._first: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def message_bytes(self) -> int:
        """The size of the message that was received last."""
        return self._reader.message_bytes

    @property
    def is_connected(self) -> bool:
        """Whether the process receives what is sent to it: no longer, some time before `ended` is called."""
        return self._transport is not None and not self._transport.is_closing()

    async def start(self) -> Mapping[str, Any]:
        """Start the process. Returns its first message.

        Raises OSError, and TimeoutError if the module is not imported in time.
        """
        ours, theirs = socket.socketpair()
        self._socket = ours
        asking, control = socket.socketpair()
        asking.setblocking(False)
        self._running_call = RunningCall(asking)
        with theirs, control:
            descriptors = theirs.fileno(), control.fileno()
            try:
                self._process = subprocess.Popen(  # noqa: S603, ASYNC220  no shell; takes 2 ms
                    [sys.executable, "-m", "apiserver.extensions.worker", *map(str, descriptors), self._spec],
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                asking.close()
                raise
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=ours)
            async with asyncio.timeout(START_TIMEOUT_S):
                return await asyncio.shield(self._first)
        except (TimeoutError, asyncio.CancelledError):
            await self.close()
            raise

    def send(self, encoded: bytes) -> None:
        """Send a message: now, if possible. uvloop's transport would do it at the end of the loop's round."""
        transport = self._transport
        assert transport is not None
        sent = 0
        if not transport.get_write_buffer_size():
            try:
                sent = self._socket.send(encoded)
            except OSError:  # The process does not read, or has ended: the transport waits, or finds out.
                sent = 0
        if sent < len(encoded):
            transport.write(memoryview(encoded)[sent:])

    async def running_call(self) -> int:
        """Returns the number of the call whose function runs at the moment: see `RunningCall`."""
        assert self._running_call is not None
        return await self._running_call.number()

    def kill(self, why: str) -> None:
        """End the process, and all that it has started. The connection may be open in a process that has left
        its session.
        """
        self._why = self._why or why
        if self._transport is not None:
            self._transport.abort()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """End the process, and wait until it is gone."""
        self.kill("the server stops")
        if self._transport is not None:
            await self._gone.wait()
        elif self._process is not None:
            await asyncio.to_thread(self._process.wait)

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._reader.feed(data):
                if not self._first.done():
                    self._first.set_result(message)
                else:
                    self._received(self, message)
        except InvalidFrame as error:
            self.kill(f"it has sent {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._waiting = asyncio.get_running_loop().create_task(self._wait_for_end())

    async def _wait_for_end(self) -> None:
        process = self._process
        assert process is not None
        # A process that has closed the connection, but lives on, cannot be used.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        status = await asyncio.to_thread(process.wait)
        self._gone.set()
        if self._running_call is not None:
            self._running_call.close()
        why = self._why or _how_it_ended(status)
        if not self._first.done():
            self._first.set_result({"failed": why})
        self._ended(self, why)


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"it has exited with status {status}"
    with contextlib.suppress(ValueError):
        return f"it was ended by {signal.Signals(-status).name}"
    return f"it was ended by signal {-status}"


def described(first: Mapping[str, Any]) -> ExtensionInfo:
    """Returns the extension that the first message of a worker describes. Raises CannotLoad."""
    if not isinstance(description := first.get("ready"), dict):
        raise CannotLoad(str(first.get("failed") or "it has not started"))
    with readable_description():
        return ExtensionInfo.of(description)


@contextmanager
def readable_description() -> Iterator[None]:
    """Turns errors in what a worker says about its extension, while it is read, into CannotLoad."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CannotLoad(f"its description is wrong: {type(error).__name__}: {error}") from None
