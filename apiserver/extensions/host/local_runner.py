"""Runs the functions of an extension in this process, as tests do that pass the extension as an object.

A debugger stops in the functions, and they see what the test has. But nothing can interrupt a function that
does not return, unless it is async.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from apiserver.extensions.api import ApiAccess, ApiClient
from apiserver.extensions.event_streams import EventWindow, send_events
from apiserver.extensions.extension import Extension
from apiserver.extensions.hooks import THREADS_MAX, Hook, Kind, Mode
from apiserver.extensions.host.daemon_threads import DaemonThreads
from apiserver.extensions.host.event_stream import EventStream
from apiserver.extensions.host.runner import ExtensionInfo, Failure, HookFailed, HookInfo
from apiserver.extensions.invocation import Call, HookCall, Invocation
from apiserver.extensions.outcomes import awaited_outcome, outcome, too_many_threads


class LocalRunner:
    """Runs the functions of an extension on the event loop, and those that use `api` in threads."""

    def __init__(self, extension: Extension, api: Callable[[str], Mapping[str, Any]]) -> None:
        """api: returns how an extension of a name reaches the server."""
        self._extension, self._api = extension, ApiAccess(api(extension.name))
        self._invocations = [Invocation(each, self._make_api) for each in extension.hooks]
        self._threads = DaemonThreads(THREADS_MAX)
        # Reconciliations may take long, and must not hold up requests.
        self._reconcilers = DaemonThreads(THREADS_MAX)
        self._streams: set[asyncio.Task[dict[str, Any]]] = set()
        # As the server of a worker gets it.
        self._info = ExtensionInfo.of(orjson.loads(orjson.dumps(extension.describe())))

    @property
    def info(self) -> ExtensionInfo:
        return self._info

    @property
    def functions(self) -> Sequence[Hook]:
        return self._extension.hooks

    async def start(self) -> None:
        """The extension is loaded."""

    async def close(self) -> None:
        """Close the connections to the server."""
        for task in self._streams:
            task.cancel()
        for threads in (self._threads, self._reconcilers):
            threads.close()
        await self._api.close()

    async def call(self, hook: HookInfo, call: bytes, timeout_s: float | None = None) -> Mapping[str, Any]:
        """Returns the result of a hook, as `Runner.call` says."""
        timeout_s = hook.timeout_s if timeout_s is None else min(timeout_s, hook.timeout_s)
        begun = self._invocations[hook.number].begin(orjson.loads(call), timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                found = await self._run(hook.mode, begun)
        except TimeoutError:
            raise HookFailed(f"{hook} has not returned within {timeout_s:g} s", Failure.TIMEOUT) from None
        if (error := found.get("error")) is not None:
            raise HookFailed.of(hook, error)
        try:
            result: Mapping[str, Any] = orjson.loads(orjson.dumps(found["result"]))
        except TypeError as error:
            raise HookFailed(
                f"{hook} has returned what JSON cannot express: {error}", Failure.ERROR
            ) from None
        return result

    @property
    def streams_open(self) -> int:
        return len(self._streams)

    async def watch(self, hook: HookInfo, call: bytes, timeout_s: float | None = None) -> EventStream:
        """Returns the events of a hook, as `Runner.watch` says."""
        begun = self._invocations[hook.number].begin(orjson.loads(call))
        assert isinstance(begun, Call)
        window = EventWindow()
        task: asyncio.Task[dict[str, Any]]

        def stop() -> None:
            task.cancel()

        stream = EventStream(window.read, stop)

        def send(encoded: bytes) -> None:
            stream.receive(orjson.loads(encoded), len(encoded))

        def end(task: asyncio.Task[dict[str, Any]]) -> None:
            self._streams.discard(task)
            result = {} if task.cancelled() else task.result()
            error = result.get("error")
            stream.end(None if error is None else HookFailed.of(hook, error), result)

        task = asyncio.create_task(send_events(begun, window, send))
        self._streams.add(task)
        task.add_done_callback(end)
        await asyncio.sleep(0)  # Until the function waits for the first time.
        window.open()
        return stream

    async def _run(self, mode: Mode, call: HookCall) -> dict[str, Any]:
        match mode:
            case Mode.TASK:
                return await _in_task(call)
            case Mode.THREAD:
                return await self._in_thread(call)
            case Mode.ALONE:
                return outcome(call)

    async def _in_thread(self, call: HookCall) -> dict[str, Any]:
        """Run a function in a thread, for which nothing waits when the server or the process ends."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[dict[str, Any]] = loop.create_future()

        def resolve(found: dict[str, Any]) -> None:
            if not result.done():
                result.set_result(found)

        def run() -> None:
            found = outcome(call)
            with contextlib.suppress(RuntimeError):  # The event loop has been closed.
                loop.call_soon_threadsafe(resolve, found)

        threads = self._reconcilers if call.kind is Kind.RECONCILE else self._threads
        return await result if threads.run(run) else too_many_threads(threads.most)

    def _make_api(self, mode: Mode, ends_at: float) -> ApiClient:
        return self._api.client(mode, ends_at)


async def _in_task(call: HookCall) -> dict[str, Any]:
    """Run an async function in a separate task, as the function may ignore that it is cancelled."""
    task = asyncio.create_task(awaited_outcome(call))
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
    return task.result()
