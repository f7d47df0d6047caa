"""One request on its way through the chain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from aiohttp import web

from apiserver.endpoints.connection import Connection
from apiserver.endpoints.representation import StatusEncoder
from apiserver.endpoints.request_info import RequestInfo
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import Query, UserInfo


@dataclass(slots=True, eq=False)
class Call:
    """Who asks, for what, and what has been answered so far.

    received_at: seconds of the event loop's clock.
    resource: what the path leads to, once that is known.
    warnings: texts for Warning headers.
    status: of the answer; 0 until its first byte is written.
    closes: the connection must not be used again after the answer.
    has_read_body: what the client has to send has been asked for.
    is_late: the time for the request is up, and its task has been cancelled for that.
    statuses: writes what is told instead of objects; in JSON where there is none.
    """

    request: web.BaseRequest
    info: RequestInfo
    query: Query
    audit_id: str
    received_at: float
    user: UserInfo | None = None
    resource: ServedResource | None = None
    warnings: list[str] = field(default_factory=list)
    status: int = 0
    closes_connection: bool = False
    has_read_body: bool = False
    has_timed_out: bool = False
    statuses: StatusEncoder | None = None

    @property
    def connection(self) -> Connection:
        return cast(Connection, self.request.protocol)


Handler: TypeAlias = Callable[[Call], Awaitable[None]]
Middleware: TypeAlias = Callable[[Handler], Handler]
