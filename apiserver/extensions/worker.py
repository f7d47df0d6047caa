"""The process in which the functions of one extension run.

`python -m apiserver.extensions.worker FD CONTROL_FD SPEC`: the two sockets to the server (see `frames`), and
the extension (see `loading`).

Functions that are not async run one after the other, as most are short, and so need no locks. Those that use
the client of the server wait for it, and run in threads; async functions run as tasks. The server ends this
process if a function does not let the others run.

An extension that has only functions of the first kind needs no event loop, which would take three times the
processor time of a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, cast

from apiserver.extensions.api import ApiAccess, ApiClient, import_client
from apiserver.extensions.event_streams import EventWindow, send_events
from apiserver.extensions.extension import Extension
from apiserver.extensions.frames import (
    FRAME_BYTES_MAX,
    QUESTION_BYTES,
    FrameReader,
    InvalidFrame,
    answer_to,
    frame,
    framed,
)
from apiserver.extensions.hooks import THREADS_MAX, Kind, Mode
from apiserver.extensions.invocation import Call, HookCall, Invocation
from apiserver.extensions.loading import files_of, load
from apiserver.extensions.outcomes import awaited_outcome, describe_error, outcome, too_many_threads

CANCELLED: Final = {"error": {"message": "was cancelled"}}
# The default of 8 MiB counts as allocated memory. With 1 MiB, deep recursion ends the process.
THREAD_STACK_BYTES: Final = 2 * 1024 * 1024
_PR_SET_PDEATHSIG: Final = 1
# Most calls come in one piece. More would be allocated and given back for each.
_RECEIVED_BYTES_MAX: Final = 64 * 1024


class _Worker(asyncio.Protocol):
    """Runs the calls that the server sends."""

    def __init__(self, extension: Extension) -> None:
        self._invocations = [Invocation(each, self._make_api) for each in extension.hooks]
        self._api: ApiAccess | None = None
        self._reader = FrameReader(0)
        self._transport: asyncio.Transport | None = None
        self._tasks: dict[int, asyncio.Task[dict[str, Any]]] = {}
        self._windows: dict[int, EventWindow] = {}
        self._threads_max = _threads_max(extension.memory_limit_bytes)
        self._threads = ThreadPoolExecutor(self._threads_max, "hook")
        self._waiting = 0
        # Reconciliations may take long, and must not hold up requests.
        workers = sum(each.options["workers"] for each in extension.hooks if each.kind is Kind.RECONCILE)
        self._reconcilers = ThreadPoolExecutor(max(workers, 1), "reconcile")
        self._loop = asyncio.get_running_loop()
        self.ended = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def data_received(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            self._receive(message)

    def running_call(self) -> int:
        """Returns the number of the call whose task runs; 0 if none does. Other threads may call it."""
        task = asyncio.current_task(self._loop)
        return next((number for number, each in list(self._tasks.items()) if each is task), 0)

    def _make_api(self, mode: Mode, ends_at: float) -> ApiClient:
        assert self._api is not None
        return self._api.client(mode, ends_at)

    def _receive(self, message: Mapping[str, Any]) -> None:
        if (access := message.get("api")) is not None:
            if self._api is None:
                self._api = ApiAccess(access)
            else:
                self._api.update(access)
            return
        if (read := message.get("read")) is not None:
            if (window := self._windows.get(read)) is not None:
                window.read(message["events"])
            return
        if (cancelled := message.get("cancel")) is not None:
            if (task := self._tasks.get(cancelled)) is not None:  # Otherwise it has been answered.
                task.cancel()
            return
        number, invocation = message["id"], self._invocations[message["hook"]]
        call = invocation.begin(message["call"], message["timeoutSeconds"])
        if isinstance(call, Call) and call.kind is Kind.WATCH:
            self._start_stream(number, call)
            return
        match invocation.mode:
            case Mode.TASK:
                self._start(number, awaited_outcome(call))
            case Mode.THREAD:
                self._start(number, self._waiting_for_server(call))
            case Mode.ALONE:
                self._answer(number, outcome(call))

    def _start(self, number: int, running: Coroutine[Any, Any, dict[str, Any]]) -> None:
        self._tasks[number] = task = self._loop.create_task(running)
        task.add_done_callback(partial(self._end, number))

    def _end(self, number: int, task: asyncio.Task[dict[str, Any]]) -> None:
        del self._tasks[number]
        # One that is cancelled before its first step has run nothing that could return an outcome.
        self._answer(number, CANCELLED if task.cancelled() else task.result())

    def _start_stream(self, number: int, call: Call) -> None:
        """Run a function for a watch. It is answered when the function waits for the first time, or ends."""
        window = self._windows[number] = EventWindow()
        running = send_events(call, window, partial(self._send_event, number))
        self._tasks[number] = task = self._loop.create_task(running)
        self._loop.call_soon(self._begin_stream, number, window)
        task.add_done_callback(partial(self._end_stream, number))

    def _begin_stream(self, number: int, window: EventWindow) -> None:
        self._answer(number, {"result": {}})
        window.open()

    def _send_event(self, number: int, encoded: bytes) -> None:
        self.write(framed(b'{"stream":%d,"event":%b}' % (number, encoded)))

    def _end_stream(self, number: int, task: asyncio.Task[dict[str, Any]]) -> None:
        del self._tasks[number], self._windows[number]
        self.write(frame({"stream": number, "end": {} if task.cancelled() else task.result()}))

    async def _waiting_for_server(self, call: HookCall) -> dict[str, Any]:
        """Run a function in a thread, if there is one for it."""
        if call.kind is Kind.RECONCILE:
            return await self._in_thread(self._reconcilers, call)
        if self._waiting >= self._threads_max:
            return too_many_threads(self._threads_max)
        self._waiting += 1
        try:
            return await self._in_thread(self._threads, call)
        finally:
            self._waiting -= 1

    async def _in_thread(self, threads: ThreadPoolExecutor, call: HookCall) -> dict[str, Any]:
        """Run a function in a thread. When it is cancelled, requests that it waits for end, too."""
        running = threads.submit(outcome, call)
        result = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            if running.cancel():
                return {"error": {"message": "has not begun"}}
            return await result

    def _answer(self, number: int, found: Mapping[str, Any]) -> None:
        self.write(_answer(number, found))

    def write(self, encoded: bytes) -> None:
        if self._transport is not None:
            self._transport.write(encoded)


def _answer(number: int, found: Mapping[str, Any]) -> bytes:
    """Returns the frame that answers a call. found: its outcome."""
    try:
        encoded = frame({"id": number, **found})
    except TypeError as error:
        text = f"has returned what JSON cannot express: {error}"
        encoded = frame({"id": number, "error": {"message": text}})
    if len(encoded) > FRAME_BYTES_MAX:  # The server would end this process.
        text = f"has returned {len(encoded)} bytes, more than {FRAME_BYTES_MAX}"
        encoded = frame({"id": number, "error": {"message": text}})
    return encoded


def _say_what_runs(control: socket.socket, worker: _Worker) -> None:
    """Answer the server whenever it asks which function runs, also if that blocks the event loop."""
    with contextlib.suppress(OSError):  # The server has ended.
        while asked := control.recv(QUESTION_BYTES):
            control.sendall(answer_to(asked, worker.running_call()))


async def _serve(
    connection: socket.socket, control: socket.socket, extension: Extension, ready: bytes
) -> None:
    loop = asyncio.get_running_loop()
    _, worker = await loop.create_unix_connection(lambda: _Worker(extension), sock=connection)
    threading.Thread(target=_say_what_runs, args=(control, worker), name="control", daemon=True).start()
    worker.write(ready)
    await worker.ended


def _serve_alone(connection: socket.socket, extension: Extension, ready: bytes) -> None:
    """Run functions of `Mode.ALONE` until the server ends the connection."""
    invocations = [Invocation(each, _no_api) for each in extension.hooks]
    reader = FrameReader(0)
    with contextlib.suppress(OSError):  # The server has ended.
        connection.sendall(ready)
        while data := connection.recv(_RECEIVED_BYTES_MAX):
            for message in reader.feed(data):
                # These functions use no client, and cannot be cancelled: they are over when others arrive.
                if "hook" not in message:
                    continue
                call = invocations[message["hook"]].begin(message["call"], message["timeoutSeconds"])
                connection.sendall(_answer(message["id"], outcome(call)))


def _no_api(_mode: Mode, _ends_at: float) -> None:
    """Functions of `Mode.ALONE` have no client, as they cannot wait."""


def _threads_max(memory_limit_bytes: int) -> int:
    """Returns how many threads wait for the server: their stacks take half of the memory at most."""
    if not memory_limit_bytes:
        return THREADS_MAX
    return max(1, min(THREADS_MAX, memory_limit_bytes // 2 // THREAD_STACK_BYTES))


def _end_with_parent() -> None:
    """Ask the kernel to end this process when the server ends, even if a function runs for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit_memory(limit_bytes: int) -> None:
    if limit_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(arguments: Sequence[str]) -> None:
    """Run the worker until the server ends the connection."""
    *descriptors, spec = arguments
    _end_with_parent()
    os.dup2(2, 1)  # The server's standard output is its own.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Of a terminal: the server ends this process.
    connection, control = (socket.socket(fileno=int(each)) for each in descriptors)
    try:
        extension = load(spec)
        ready = frame({"ready": extension.describe(), "files": files_of(extension)})
        for each in extension.hooks:
            if each.uses_api:
                import_client(each.mode)
    except BaseException as error:
        connection.sendall(frame({"failed": describe_error(error)["traceback"]}))
        sys.exit(1)
    threading.stack_size(THREAD_STACK_BYTES)
    _limit_memory(extension.memory_limit_bytes)
    if all(each.mode is Mode.ALONE for each in extension.hooks):
        _serve_alone(connection, extension, ready)
    else:
        asyncio.run(_serve(connection, control, extension, ready))
    os._exit(0)  # A thread of the extension may still run.


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InvalidFrame:
        os._exit(1)
