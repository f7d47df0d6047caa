"""Serves /debug/clock and /debug/forks of a server in the process of tests, for people who use its console.

    GET     /debug/clock     {"now": "2026-11-30T10:00:00Z", "aheadSeconds": 0.0}
    POST    /debug/clock     {"seconds": 3600} advances the clock, and shows it
    GET     /debug/forks     {"forks": [{"id": "1", "url": "https://127.0.0.1:40000"}]}
    POST    /debug/forks     starts a fork, and shows it
    DELETE  /debug/forks/ID  stops it, and shows it

The forks are those that were started over HTTP; those of tests belong to these. All requests are only for
members of `system:masters` who are authorized.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from apiserver.app.core import Core
from apiserver.app.hooks import DebugPaths, Hooks
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import load_json, read_body
from apiserver.endpoints.responses import send_document
from apiserver.meta.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    NoSuchEndpoint,
    ServiceUnavailable,
    TooManyRequests,
)
from apiserver.meta.vocabulary import SYSTEM_MASTERS, Document
from apiserver.testing.clock import step_of
from apiserver.testing.errors import ClockNotAdvanced, ServerDidNotStart, ServerStopped, SnapshotMismatch
from apiserver.testing.server_time import ServerTime
from apiserver.wire.json_text import InvalidJson

log = logging.getLogger(__name__)

# Of one server. Each takes some megabytes, and a thread.
FORKS_MAX: Final = 16


class Server(Protocol):
    """The part of an `ApiServer` that a fork shows."""

    @property
    def url(self) -> str: ...

    def stop(self) -> None: ...


class NoSuchFork(ApiError):
    """No fork has this ID, or it was stopped."""

    code, reason = 404, "NotFound"

    def __init__(self, name: str) -> None:
        super().__init__(f'fork "{name}" not found', details={"name": name, "kind": "forks"})


def with_debug_paths(hooks: Hooks, further: DebugPaths) -> Hooks:
    """Returns hooks that serve further paths below /debug."""

    def debug_paths(core: Core) -> DebugPaths:
        return {**hooks.debug_paths(core), **further}

    return replace(hooks, debug_paths=debug_paths)


class ClockRequests:
    """Serves /debug/clock.

    time: the server's. require_movable: raises ClockNotAdvanced if the clock must not be advanced.
    """

    def __init__(self, time: ServerTime, require_movable: Callable[[], None]) -> None:
        self._time, self._require_movable = time, require_movable
        self._advancing: set[asyncio.Task[None]] = set()
        # By how much it will be advanced, as responses have said.
        self._promised_s = 0.0

    async def __call__(self, call: ApiCall, rest: str) -> None:
        """Responds to a request. Raises Forbidden, BadRequest, MethodNotAllowed, NoSuchEndpoint."""
        _require_masters(call)
        if rest:
            raise NoSuchEndpoint
        match call.info.method:
            case "GET" | "HEAD":
                await send_document(call, self._shown(self._time.ahead_s))
            case "POST":
                await self._advance(call)
            case _:
                raise MethodNotAllowed

    async def _advance(self, call: ApiCall) -> None:
        seconds = await _seconds(call)
        try:
            self._require_movable()
            step_s = step_of(self._time.ahead_s + self._promised_s, seconds=seconds)
        except ClockNotAdvanced as error:
            raise BadRequest(str(error)) from None
        self._promised_s += step_s
        try:
            # First the response: the time of this request is over afterwards, as that of all under way.
            await send_document(call, self._shown(self._time.ahead_s + self._promised_s))
        finally:
            self._advancing.add(task := asyncio.create_task(self._keep_promise(step_s)))
            task.add_done_callback(self._advancing.discard)

    async def _keep_promise(self, step_s: float) -> None:
        # Without the remainder that sums of fractions leave.
        self._promised_s = self._promised_s - step_s if len(self._advancing) > 1 else 0.0
        try:
            await self._time.advance(step_s)
        except Exception as error:  # Of a part of the server that follows the time; the response is sent.
            log.error("the clock could not be advanced by %g s", step_s, exc_info=error)

    def _shown(self, ahead_s: float) -> Document:
        now = datetime.fromtimestamp(self._time.clock.time() - self._time.ahead_s + ahead_s, UTC)
        return {"now": f"{now:%Y-%m-%dT%H:%M:%SZ}", "aheadSeconds": ahead_s}


class ForkRequests:
    """Serves /debug/forks. fork: starts one, in any thread; raises SnapshotMismatch if that is impossible."""

    def __init__(self, fork: Callable[[], Server]) -> None:
        self._fork = fork
        # By their IDs; None for those that start.
        self._forks: dict[str, Server | None] = {}
        self._numbers = itertools.count(1)
        # The dict may be used by the thread that stops the server.
        self._lock = threading.Lock()
        self._is_stopped = False

    async def __call__(self, call: ApiCall, name: str) -> None:
        """Responds to a request. name: the ID of a fork; empty for all.

        Raises Forbidden, BadRequest, NoSuchFork, TooManyRequests, ServiceUnavailable, MethodNotAllowed,
        NoSuchEndpoint.
        """
        _require_masters(call)
        match call.info.method, name:
            case "GET" | "HEAD", "":
                with self._lock:
                    forks = [_shown(id_, server) for id_, server in self._forks.items() if server is not None]
                await send_document(call, {"forks": forks})
            case "POST", "":
                await send_document(call, await _in_thread(self._start), 201)
            case "DELETE", _ if name:
                await send_document(call, await _in_thread(lambda: self._end(name)))
            case (("GET" | "HEAD" | "POST"), _):
                raise NoSuchEndpoint
            case _:
                raise MethodNotAllowed

    def stop(self) -> None:
        """Stop all forks, and those that start meanwhile."""
        with self._lock:
            self._is_stopped = True
            forks = dict(self._forks)
        for id_, each in forks.items():
            if each is not None:
                each.stop()
            # Not before: if this is interrupted, it is done again.
            self._forks.pop(id_, None)

    def _start(self) -> Document:
        with self._lock:
            if self._is_stopped:
                raise ServiceUnavailable("the server stops")
            if len(self._forks) >= FORKS_MAX:
                raise TooManyRequests(f"this server has {FORKS_MAX} forks already")
            id_ = str(next(self._numbers))
            self._forks[id_] = None
        server: Server | None = None
        try:
            server = self._fork()
        except SnapshotMismatch as error:
            raise BadRequest(str(error)) from None
        except (ServerDidNotStart, ServerStopped) as error:
            raise ServiceUnavailable(str(error)) from None
        finally:
            is_wanted = self._note_started(id_, server)
        if not is_wanted:
            server.stop()
            raise ServiceUnavailable("the server stops")
        return _shown(id_, server)

    def _note_started(self, id_: str, server: Server | None) -> bool:
        """Note a fork that has started, or that it has not; returns whether it is still wanted."""
        with self._lock:
            # `stop` does not see a fork that is noted after it has looked at all of them.
            is_wanted = not self._is_stopped
            if server is not None and is_wanted:
                self._forks[id_] = server
            else:
                self._forks.pop(id_, None)
        return is_wanted

    def _end(self, id_: str) -> Document:
        with self._lock:
            server = self._forks.get(id_)
            if server is None:  # Or it is still starting, and its ID is not known yet.
                raise NoSuchFork(id_)
            del self._forks[id_]
        shown = _shown(id_, server)
        server.stop()
        return shown


def _shown(id_: str, server: Server) -> Document:
    return {"id": id_, "url": server.url}


def _in_thread(work: Callable[[], Document]) -> Awaitable[Document]:
    """Does what waits for the event loop of a server. It goes on if the client has gone."""
    return asyncio.shield(asyncio.to_thread(work))


def _require_masters(call: ApiCall) -> None:
    if SYSTEM_MASTERS not in call.user.groups:
        raise Forbidden(f"{call.info.path} is forbidden: only members of {SYSTEM_MASTERS} may use it")


async def _seconds(call: ApiCall) -> float:
    """Returns by how much the body of a request asks to advance the clock. Raises BadRequest."""
    body = await read_body(call)
    try:
        document: Any = load_json(body.data)
    except InvalidJson as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
    seconds: Any = document.get("seconds") if isinstance(document, dict) else None
    if type(seconds) not in (int, float) or len(document) != 1:
        refused = BadRequest('seconds: must be a number, and the only field, as in {"seconds": 3600}')
        refused.details = {"causes": [{"reason": "FieldValueInvalid", "field": "seconds"}]}
        raise refused
    return float(seconds)
