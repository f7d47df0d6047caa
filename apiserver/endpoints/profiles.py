"""Serves /debug/pprof: what the server's process does and holds, as text.

    GET /debug/pprof/           lists the profiles
    GET /debug/pprof/profile    CPU time by stack, over ?seconds=30, as collapsed stacks for flame graphs
    GET /debug/pprof/heap       objects by type
    GET /debug/pprof/tasks      asyncio tasks by coroutine, and where they wait
    GET /debug/pprof/stalls     the longest turns of the event loop

The paths are kube-apiserver's; the forms are Python's. One profile is made at a time. HEAD makes none.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.request_info import PROFILES_PREFIX
from apiserver.endpoints.responses import TEXT, send_text
from apiserver.load.switch_interval import compute_in_thread
from apiserver.meta.errors import BadRequest, MethodNotAllowed, NoSuchEndpoint, ServiceUnavailable
from apiserver.meta.options import first
from apiserver.metrics.event_loop import EventLoopMonitor
from apiserver.metrics.profiles import cpu_profile, object_counts, task_counts, turns_text

# As in Go.
SECONDS_DEFAULT: Final = 30
SECONDS_MAX: Final = 60


class Profiles:
    """Serves the profiles of a process. loop: the one that serves requests. turns: measures its turns.

    count_objects: returns the profile `heap`; it is called in a thread. A profile gets an event that is set
    once its client is gone.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        turns: EventLoopMonitor,
        count_objects: Callable[[], str] = object_counts,
    ) -> None:
        self._loop, self._turns, self._count_objects = loop, turns, count_objects
        # The last one may outlast its request, as a thread that computes cannot be cancelled.
        self._profiling: asyncio.Task[str] | None = None
        self._profiles: Mapping[str, Callable[[ApiCall, threading.Event], Coroutine[Any, Any, str]]] = {
            "profile": self._cpu,
            "heap": self._heap,
            "tasks": self._tasks,
            "stalls": self._stalls,
        }

    async def __call__(self, call: ApiCall, name: str) -> None:
        """Respond to a request. name: what follows /debug/pprof/. Raises ApiError."""
        await send_text(call, [(await self.text(call, name)).encode()], TEXT)

    async def text(self, call: ApiCall, name: str) -> str:
        """Returns the body of the response. Raises ApiError."""
        if call.info.method not in ("GET", "HEAD"):
            raise MethodNotAllowed
        if not name:
            return "".join(f"{PROFILES_PREFIX}{each}\n" for each in self._profiles)
        if (profile := self._profiles.get(name)) is None:
            raise NoSuchEndpoint
        if self._profiling is not None and not self._profiling.done():
            raise ServiceUnavailable("another profile is in progress")
        if call.info.method == "HEAD":
            return ""
        is_gone = threading.Event()
        self._profiling = asyncio.create_task(profile(call, is_gone))
        try:
            return await asyncio.shield(self._profiling)
        finally:
            is_gone.set()

    async def _cpu(self, call: ApiCall, is_gone: threading.Event) -> str:
        seconds = _seconds(first(call.query, "seconds") or str(SECONDS_DEFAULT))
        try:
            return await cpu_profile(seconds, is_gone)
        except OSError as error:
            raise ServiceUnavailable(f"the stacks of threads cannot be read: {error.strerror}") from error

    async def _heap(self, call: ApiCall, is_gone: threading.Event) -> str:
        return await compute_in_thread(self._count_objects)

    async def _tasks(self, call: ApiCall, is_gone: threading.Event) -> str:
        return await task_counts(self._loop)

    async def _stalls(self, call: ApiCall, is_gone: threading.Event) -> str:
        return turns_text(self._turns.longest_turns())


def _seconds(text: str) -> int:
    """Returns the duration of a profile. Raises BadRequest."""
    if text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= SECONDS_MAX:
        return int(text)
    raise BadRequest(f"invalid seconds: {text[:64]!r}: must be an integer from 1 to {SECONDS_MAX}")
