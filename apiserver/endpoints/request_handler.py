"""Makes an `ApiCall` of each HTTP request, and passes it to the middleware."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from aiohttp import HttpVersion11, hdrs, web

from apiserver.audit.event_fields import USER_AGENT_LENGTH_MAX
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.connection import SENT, SENT_LAST, Connection
from apiserver.endpoints.representation import StatusEncoder
from apiserver.endpoints.request_info import (
    NO_QUERY,
    MalformedRequest,
    accepted_types,
    is_pretty,
    parse_request,
    parse_target,
)
from apiserver.endpoints.request_log import RequestLog
from apiserver.load.offload import Offload
from apiserver.tracing.request_trace import CURRENT_TRACE, RequestTrace
from apiserver.wire.media_types import APPLY_YAML

_CHANCES = 1_000_000


class HandlerOptions(NamedTuple):
    """What a server makes of requests.

    follows_item_watch: whether `?watch` on the path of a single object starts a watch.
    serves_past: whether the server has a history.
    goaway_chance: with which probability a connection closes after a response.
    """

    follows_item_watch: bool
    serves_past: bool = False
    goaway_chance: float = 0.0


def request_handler(
    handle: Handler,
    clock: Callable[[], float],
    offload: Offload,
    status_encoder: StatusEncoder,
    request_log: RequestLog,
    options: HandlerOptions,
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Returns the handler that aiohttp calls for each request.

    handle: the outermost middleware. clock: the event loop's.
    """
    audit_ids = new_audit_ids()
    follows_item_watch, serves_past, goaway_chance = options

    async def handle_request(request: web.BaseRequest) -> web.StreamResponse:
        malformed = ""
        try:
            if request.version > HttpVersion11:
                raise MalformedRequest("the version of HTTP is not supported")
            info, query = parse_request(
                request.method,
                request.raw_path,
                follows_item_watch=follows_item_watch,
                serves_past=serves_past,
            )
        except MalformedRequest as error:
            query, malformed = NO_QUERY, str(error)
            info = parse_target(request.method, "/", False)
        connection, headers = request.protocol, request.headers
        assert isinstance(connection, Connection)
        user_agent = headers.get(hdrs.USER_AGENT, "")[:USER_AGENT_LENGTH_MAX]
        accept, indents = accepted_types(query, headers.get(hdrs.ACCEPT, "")), is_pretty(query, user_agent)
        audit_id = headers.get("Audit-Id") or next(audit_ids)
        trace = RequestTrace(audit_id, is_long_running=info.is_long_running)
        # aiohttp handles each request in a separate task, with a separate context.
        CURRENT_TRACE.set(trace)
        call = ApiCall(
            request,
            connection,
            info,
            query,
            audit_id,
            clock(),
            offload,
            trace,
            user_agent,
            status_encoder,
            accept,
            indents,
        )
        if info.method == hdrs.METH_PATCH:
            call.is_apply = headers.get(hdrs.CONTENT_TYPE) == APPLY_YAML
        if malformed:
            call.malformed, call.closes_connection = malformed, True
        if goaway_chance and secrets.randbelow(_CHANCES) < goaway_chance * _CHANCES:
            call.closes_connection = True
        try:
            await handle(call)
        finally:
            try:
                request_log.ended(call)
            finally:
                trace.is_ended = True
        return SENT_LAST if call.closes_connection or connection.is_last_answer else SENT

    return handle_request


def new_audit_ids() -> Iterator[str]:
    """Returns an iterator that makes UUIDs by counting, without random numbers for each."""
    digits = secrets.token_hex(9)
    form = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-a{digits[15:18]}-{{:012x}}"
    return map(form.format, itertools.count())
