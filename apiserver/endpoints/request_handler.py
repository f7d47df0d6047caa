"""Where a request comes in: its record is made, and goes down the chain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import HttpVersion11, web

from apiserver.endpoints.api_call import Call, Handler
from apiserver.endpoints.middleware import new_audit_id
from apiserver.endpoints.representation import StatusEncoder
from apiserver.endpoints.request_info import MalformedRequest, parse_query, parse_target
from apiserver.endpoints.responses import send_error, sent
from apiserver.errors import BadRequest
from apiserver.meta.options import is_true


def entry_of(
    handle: Handler, clock: Callable[[], float], statuses: StatusEncoder, *, follows_item_watch: bool
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """The server's handler: makes the record of a request, and hands it down the chain.

    follows_item_watch: `?watch` on the path of one object is heeded.
    """

    async def entry(request: web.BaseRequest) -> web.StreamResponse:
        raw_path, _, raw_query = request.raw_path.partition("?")
        malformed = ""
        if not raw_path.startswith("/"):
            # `GET https://host/version`, as to a proxy, must be understood (RFC 9112, 3.2.2).
            raw_path = urlsplit(raw_path).path or "/"
        try:
            if request.version is not HttpVersion11 and request.version > HttpVersion11:
                raise MalformedRequest("the version of HTTP is not supported")
            query = parse_query(raw_query)
            is_watch = "watch" in query and is_true(query, "watch")
            info = parse_target(request.method, raw_path, is_watch)
            if is_watch and info.name and not follows_item_watch:
                info = parse_target(request.method, raw_path, False)  # before anybody is asked about it
        except MalformedRequest as error:
            query, malformed = parse_query(""), str(error)
            info = parse_target(request.method, "/", False)
        audit_id = request.headers.get("Audit-Id") or new_audit_id()
        call = Call(request, info, query, audit_id, clock(), statuses=statuses)
        if malformed:
            call.closes_connection = True
            await send_error(call, BadRequest(malformed))
        else:
            await handle(call)
        return sent(call)

    return entry
