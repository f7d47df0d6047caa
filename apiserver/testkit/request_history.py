"""The last requests and their responses, for authors of clients.

Bodies, queries and headers other than User-Agent are not kept, as they may be secret.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import hdrs

from apiserver.endpoints.api_call import ApiCall, Handler

# More than a test sends; a few megabytes.
KEPT_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A record of a request without its body, query parameters or credentials.

    at: the Unix time at which the request arrived, in seconds.
    method, path: the HTTP method and the URL path.
    verb: the verb, as in RBAC rules. For non-resource URLs, the verb is the HTTP method in lowercase.
    resource: the resource with its group and subresource, for example `deployments.apps/status`. For
        non-resource URLs, the value is empty.
    namespace, name: the namespace and the object name in the URL path. If the path does not contain a
        namespace or a name, the value is an empty string.
    user: the user name. The value is empty until the server has authenticated the request.
    user_agent: the value of the `User-Agent` header.
    code: the status code of the response, or 0 if the server has not yet responded.
    warnings: the warning texts in the response's `Warning` headers.
    """

    at: float
    method: str
    path: str
    verb: str
    resource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    code: int
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        warnings = "".join(f"; warning: {text}" for text in self.warnings)
        return f"{self.user or 'nobody'} ({self.user_agent}): {self.method} {self.path} {self.code}{warnings}"


class RequestEntry:
    """A request that is under way, or its record."""

    __slots__ = ("_at", "_call", "_record")

    def __init__(self, call: ApiCall, at: float) -> None:
        self._call: ApiCall | None = call
        self._at = at
        self._record: RecordedRequest | None = None

    def record(self) -> RecordedRequest:
        """Returns the current record of the request; may be called in any thread."""
        call = self._call
        if call is not None:
            return _recorded(call, self._at)
        assert self._record is not None
        return self._record

    def finish(self) -> None:
        """Release the request, which has ended."""
        self._record = self.record()
        self._call = None


class RequestHistory:
    """Keeps the last requests of a server. clock: seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._entries: deque[RequestEntry] = deque(maxlen=KEPT_MAX)
        # By the task that answers it.
        self._under_way: dict[asyncio.Task[Any] | None, RequestEntry] = {}

    def middleware(self, handle: Handler) -> Handler:
        async def respond(call: ApiCall) -> None:
            entry, task = RequestEntry(call, self._clock()), asyncio.current_task()
            self._entries.append(entry)
            self._under_way[task] = entry
            try:
                await handle(call)
            finally:
                del self._under_way[task]
                entry.finish()

        return respond

    def answered_by(self, task: asyncio.Task[Any] | None) -> RequestEntry | None:
        """Returns the request that a task is answering, if any."""
        return self._under_way.get(task)

    def all(self) -> list[RecordedRequest]:
        """Returns the last requests, in the order of their arrival; may be called in any thread."""
        return [entry.record() for entry in list(self._entries)]


def _recorded(call: ApiCall, at: float) -> RecordedRequest:
    info = call.info
    resource = info.resource
    if resource:
        group = f".{info.group}" if info.group else ""
        resource = f"{resource}{group}{'/' if info.subresource else ''}{info.subresource}"
    return RecordedRequest(
        at,
        info.method,
        info.path,
        info.verb,
        resource,
        info.namespace,
        info.name,
        getattr(call.known_user, "name", ""),
        call.request.headers.get(hdrs.USER_AGENT, ""),
        call.status,
        tuple(call.warnings),
    )
