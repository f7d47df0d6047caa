"""Makes an `ApiCall` of each HTTP request, and passes it to the middleware."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import HttpVersion11, web

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.representation import StatusEncoder
from apiserver.endpoints.request_info import MalformedRequest, parse_query, parse_target
from apiserver.endpoints.responses import sent
from apiserver.load.offload import Offload
from apiserver.meta.options import is_true


def request_handler(
    handle: Handler,
    clock: Callable[[], float],
    offload: Offload,
    status_encoder: StatusEncoder,
    *,
    follows_item_watch: bool,
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Returns the handler that aiohttp calls for each request.

    handle: the outermost middleware. clock: the event loop's.
    follows_item_watch: whether `?watch` on the path of a single object starts a watch.
    """
    new_audit_id = audit_id_source()

    async def handle_request(request: web.BaseRequest) -> web.StreamResponse:
        raw_path, _, raw_query = request.raw_path.partition("?")
        malformed = ""
        try:
            if not raw_path.startswith("/"):
                raw_path = _path_of(raw_path)
            if request.version is not HttpVersion11 and request.version > HttpVersion11:
                raise MalformedRequest("the version of HTTP is not supported")
            query = parse_query(raw_query)
            is_watch = "watch" in query and is_true(query, "watch")
            info = parse_target(request.method, raw_path, is_watch)
            if is_watch and info.name and not follows_item_watch:
                info = parse_target(request.method, raw_path, False)  # the verb that is authorized
        except MalformedRequest as error:
            query, malformed = parse_query(""), str(error)
            info = parse_target(request.method, "/", False)
        audit_id = request.headers.get("Audit-Id") or new_audit_id()
        call = ApiCall(request, info, query, audit_id, clock(), offload, status_encoder=status_encoder)
        if malformed:
            call.malformed, call.closes_connection = malformed, True
        await handle(call)
        return sent(call)

    return handle_request


def _path_of(url: str) -> str:
    """Returns the path of a URL. Raises MalformedRequest.

    Servers must accept `GET https://host/version`, as sent to a proxy (RFC 9112, 3.2.2).
    """
    try:
        return urlsplit(url).path or "/"
    except ValueError:
        raise MalformedRequest("the target is not a URL") from None


def audit_id_source() -> Callable[[], str]:
    """Returns a function that makes UUIDs by counting, without random numbers for each."""
    random = secrets.token_hex(9)
    prefix = f"{random[:8]}-{random[8:12]}-4{random[12:15]}-a{random[15:18]}-"
    counter = itertools.count()
    return lambda: f"{prefix}{next(counter):012x}"
