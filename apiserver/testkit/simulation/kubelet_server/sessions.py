"""Sessions of `exec` and `attach`: runs a program, and connects its input and output to a client."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, Protocol, TypeAlias

import orjson

from apiserver.endpoints.reverse_proxy.upgrades import first_of
from apiserver.meta.vocabulary import Document
from apiserver.storage.event_loop_turns import Turn
from apiserver.testkit.simulation.kubelet_server.terminals import LineDiscipline, shown
from apiserver.testkit.simulation.pod_status import KILLED
from apiserver.testkit.simulation.programs import (
    INTERRUPTED,
    STDOUT,
    Output,
    Pause,
    Program,
    ProgramInterrupted,
    Step,
)

# Input that the program has not read. Beyond that, nothing more is read from the client.
UNREAD_BYTES_MAX: Final = 256 * 1024
# Smaller pieces of input, which may be single bytes, are joined.
PIECE_BYTES: Final = 4_096
# A kubelet's idle timeout. While nothing is read from a client, its departure is not noticed.
SESSION_S_MAX: Final = 4 * 3_600.0
# How long the client may take for what it has not read when the program ends.
FINISH_WITHIN_S: Final = 10.0
SUCCESS: Final[Document] = {"metadata": {}, "status": "Success"}
# (stream, data): writes to stdout or stderr.
Write: TypeAlias = Callable[[int, bytes], Awaitable[None]]


class ClientGone(Exception):
    """The client has left the session."""


class ShellStreams(Protocol):
    """The streams of a session.

    read: returns input of the client; empty at its end. Raises ClientGone.
    write: writes to stdout or stderr, if requested. Raises ClientGone, OSError.
    finish: reports how the program has ended, and ends the session.
    """

    async def read(self) -> bytes: ...

    async def write(self, stream: int, data: bytes) -> None: ...

    async def finish(self, status: Document) -> None: ...


def exit_status(code: int) -> Document:
    """Returns the Status by which clients get an exit code.

    Source: k8s.io/cri-streaming, pkg/streaming/remotecommand/exec.go.
    """
    if not code:
        return SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def status_bytes(status: Document, *, is_json: bool) -> bytes:
    """Returns a status as it is sent. is_json: False for the first protocols, whose clients get only the
    message.
    """
    return orjson.dumps(status) if is_json else str(status.get("message", "")).encode()


class Session:
    """A client's session of `exec` or `attach`.

    tty: whether it has a terminal, which echoes keys and edits lines.
    """

    def __init__(self, streams: ShellStreams, *, tty: bool = False) -> None:
        self._streams = streams
        self._discipline = LineDiscipline() if tty else None
        self._inputs: deque[bytes] = deque()
        self._unread = 0
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._interrupted = asyncio.Event()

    async def run(self, program: Program, container: Callable[[], Coroutine[None, None, None]]) -> None:
        """Runs a program to its end, or until the client leaves. Raises TimeoutError.

        container: waits for the end of the program's container, with which the program ends.
        """
        await self._until_left(self._run(program, container))

    async def show(self, write_all: Callable[[Write], Awaitable[None]]) -> None:
        """Writes everything that `write_all` writes, until the client leaves.

        Input of the client is dropped. Raises TimeoutError.
        """

        async def write_and_finish() -> None:
            await write_all(self.write)
            await self._finish(SUCCESS)

        await self._until_left(write_and_finish(), drops_input=True)

    async def _until_left(self, work: Awaitable[None], *, drops_input: bool = False) -> None:
        working = asyncio.ensure_future(work)
        reading = asyncio.create_task(self._read_client(drops_input=drops_input))
        try:
            async with asyncio.timeout(SESSION_S_MAX):
                await asyncio.wait((working, reading), return_when=asyncio.FIRST_COMPLETED)
                if reading.done() and not reading.result():
                    working.cancel()
                await asyncio.wait((working,))
        finally:
            for task in (working, reading):
                task.cancel()
            await asyncio.wait((working, reading))
        if not working.cancelled():
            with contextlib.suppress(ClientGone, OSError):
                working.result()

    async def _run(self, program: Program, container: Callable[[], Coroutine[None, None, None]]) -> None:
        code = KILLED

        async def perform() -> None:
            nonlocal code
            try:
                code = await self._perform_all(program)
            finally:
                program.close()

        await first_of(perform(), container())
        await self._finish(exit_status(code))

    async def _finish(self, status: Document) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_WITHIN_S):
                await self._streams.finish(status)

    async def _perform_all(self, program: Program) -> int:
        """Performs all steps of a program, and returns the exit code."""
        turn = Turn()
        try:
            step = next(program)
            while True:
                if turn.is_over():
                    await turn.next()
                try:
                    received = await self._perform(step)
                except ProgramInterrupted as interrupt:
                    step = program.throw(interrupt)
                else:
                    step = program.send(received)
        except StopIteration as end:
            return int(end.value)
        except ProgramInterrupted:
            return INTERRUPTED

    async def _perform(self, step: Step) -> bytes:
        """Performs a step, and returns the read data. Raises Interrupted, ClientGone, OSError."""
        match step:
            case Output(stream, data):
                await self.write(stream, data)
                return b""
            case Pause(seconds):
                if not seconds:
                    return b""
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._interrupted.wait()
                self._raise_if_interrupted()
                return b""
            case _:
                return await self._next_input()

    async def write(self, stream: int, data: bytes) -> None:
        if self._discipline is not None:
            stream, data = STDOUT, shown(data)
        await self._streams.write(stream, data)

    async def _next_input(self) -> bytes:
        while not self._inputs:
            self._raise_if_interrupted()
            self._changed.clear()
            await self._changed.wait()
        data = self._inputs.popleft()
        self._unread -= _size(data)
        self._has_room.set()
        return data

    def _raise_if_interrupted(self) -> None:
        if self._interrupted.is_set():
            self._interrupted.clear()
            raise ProgramInterrupted

    async def _read_client(self, *, drops_input: bool) -> bool:
        """Reads the client's input; returns whether the client is still connected after its end."""
        try:
            while data := await self._streams.read():
                if drops_input:
                    continue
                inputs = [data] if self._discipline is None else await self._typed(data)
                for each in inputs:
                    await self._put(each)
            await self._put(b"")
        except (ClientGone, OSError):
            return False
        return True

    async def _typed(self, keys: bytes) -> list[bytes]:
        assert self._discipline is not None
        typed = self._discipline.feed(keys)
        if typed.echo:
            await self._streams.write(STDOUT, typed.echo)
        if typed.is_interrupted:
            self._inputs.clear()
            self._unread = 0
            self._interrupted.set()
            self._changed.set()
        return typed.inputs

    async def _put(self, data: bytes) -> None:
        while self._unread > UNREAD_BYTES_MAX:
            self._has_room.clear()
            await self._has_room.wait()
        if data and self._inputs and 0 < len(self._inputs[-1]) < PIECE_BYTES:
            self._inputs[-1] += data
            self._unread += len(data)
        else:
            self._inputs.append(data)
            self._unread += _size(data)
        self._changed.set()


def _size(data: bytes) -> int:
    """Returns the size of an input for the limit; the end of the input counts, too, as ^D may be repeated."""
    return max(1, len(data))
