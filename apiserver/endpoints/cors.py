"""Decides which web pages may use the API: Cross-Origin Resource Sharing, and the Origin of WebSockets.

A browser sends the origin of a page, and shows the response to the page only if its headers allow that
origin. WebSockets have no such headers: the server has to check the Origin, which matters where the browser
has a credential (a client certificate) that any page could use.

Source: k8s.io/apiserver, pkg/server/filters/cors.go. kube-apiserver accepts WebSockets of any origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import hdrs

from apiserver.endpoints.api_call import ApiCall, Handler, Middleware
from apiserver.endpoints.responses import send
from apiserver.golang.regex import compile_pattern

# What is allowed to a page of an allowed origin: as in kube-apiserver.
_ALLOWED: Final = (
    b"Access-Control-Allow-Methods: POST, GET, OPTIONS, PUT, DELETE, PATCH\r\n"
    b"Access-Control-Allow-Headers: Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, "
    b"Authorization, X-Requested-With, If-Modified-Since\r\n"
    b"Access-Control-Expose-Headers: Date\r\n"
    b"Access-Control-Allow-Credentials: true\r\n"
)
# Caches must not answer pages of one origin with what was meant for another.
_VARY: Final = b"Vary: Origin\r\n"


class AllowedOrigins:
    """The origins that `--cors-allowed-origins` allows.

    patterns: regular expressions, which match if they match anywhere in an origin. Raises InvalidPattern.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self._patterns = tuple(compile_pattern(each) for each in patterns)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def allows(self, origin: str) -> bool:
        return any(pattern.search(origin) for pattern in self._patterns)

    def allows_websocket(self, origin: str, host: str) -> bool:
        """Returns whether a page may open a WebSocket; pages of the server's own host and other clients may.

        origin, host: these headers of the handshake, or empty.
        """
        is_own = origin.partition("://")[2].lower() == host.lower()
        return not origin or is_own or self.allows(origin)


def cors(origins: AllowedOrigins) -> Middleware:
    """Adds CORS headers to responses, and answers preflight requests of browsers."""

    def middleware(handle: Handler) -> Handler:
        async def shared(call: ApiCall) -> None:
            origin = call.request.headers.get(hdrs.ORIGIN, "")
            call.head_lines += _VARY
            if not origin or not origins.allows(origin):
                await handle(call)
                return
            allowed = origin.encode("utf-8", "surrogateescape")
            call.head_lines += b"Access-Control-Allow-Origin: %b\r\n%b" % (allowed, _ALLOWED)
            if call.info.method == hdrs.METH_OPTIONS:
                await send(call, 204, b"", content_type="")
            else:
                await handle(call)

        return shared

    return middleware
