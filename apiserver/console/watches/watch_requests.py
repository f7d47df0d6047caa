"""Makes the HTTP requests of subscriptions: the headers of the WebSocket's handshake, and another path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from apiserver.console.watches.client_messages import Subscribe
from apiserver.endpoints.request_info import MalformedRequest, parse_request
from apiserver.meta.errors import BadRequest, NotAcceptable

# Long selectors fit.
PATH_LENGTH_MAX: Final = 8 * 1024
ACCEPT_LENGTH_MAX: Final = 1_024
# Of a handshake, but for its token: each subscription has a copy while it lasts.
PASSED_BYTES_MAX: Final = 16 * 1024
_PATH: Final = re.compile(r"/[\x21\x22\x24-\x7e]*")
_ACCEPT: Final = re.compile(r"[\x20-\x7e]*")
# An event has to be a value in the JSON of a message.
_JSON: Final = frozenset({"application/json", "application/*", "*/*"})
# They are about the connection of the WebSocket or its handshake, or each subscription has its own.
_NOT_PASSED: Final = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"audit-id",
        b"authorization",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"expect",
        b"http2-settings",
        b"keep-alive",
        b"origin",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_ANY_WEBSOCKET: Final = b"sec-websocket-"
_BREAKS: Final = re.compile(rb"[\r\n\0]")


class PassedHeaders(NamedTuple):
    """The headers of a handshake that its subscriptions have, too: who asks, for whom, and by which proxies.

    lines: as they are sent.
    """

    lines: bytes

    @classmethod
    def of(cls, headers: Iterable[tuple[bytes, bytes]]) -> PassedHeaders:
        """Selects from the headers of a handshake. Raises BadRequest if they are too long."""
        passed = [
            b"%b: %b\r\n" % each
            for each in headers
            if (name := each[0].lower()) not in _NOT_PASSED and not name.startswith(_ANY_WEBSOCKET)
        ]
        lines = b"".join(passed)
        if len(lines) > PASSED_BYTES_MAX:
            raise BadRequest(f"the headers of the handshake are longer than {PASSED_BYTES_MAX} bytes")
        if any(_BREAKS.search(line, 0, len(line) - 2) for line in passed):
            raise BadRequest("the headers of the handshake are not valid")
        return cls(lines)


def watch_request(wanted: Subscribe, passed: PassedHeaders, authorization: str) -> bytes:
    """Returns the HTTP request for a subscription. authorization: the header, or empty for none.

    Raises BadRequest, NotAcceptable.
    """
    _require_watch(wanted.path)
    _require_json(wanted.accept)
    credentials = ""
    if authorization:
        credentials = f"Authorization: {authorization}\r\n"
    return b"GET %b HTTP/1.1\r\n%bAccept: %b\r\n%bConnection: close\r\n\r\n" % (
        wanted.path.encode(),
        passed.lines,
        wanted.accept.encode(),
        credentials.encode("utf-8", "surrogateescape"),
    )


def _require_watch(path: str) -> None:
    """Raises BadRequest for what is not the path of a watch."""
    if len(path) > PATH_LENGTH_MAX:
        raise BadRequest(f"path: must have at most {PATH_LENGTH_MAX} characters")
    if not _PATH.fullmatch(path):
        raise BadRequest("path: must begin with a slash, and be encoded as in a URL")
    try:
        # Whether the object's own path may be watched, or the past, is up to the request.
        info, _ = parse_request("GET", path, follows_item_watch=True, serves_past=True)
    except MalformedRequest as error:
        raise BadRequest(f"path: {error}") from None
    if info.verb != "watch":
        raise BadRequest("path: only watches can be subscribed to: a resource, with watch=true in the query")


def _require_json(accept: str) -> None:
    if len(accept) > ACCEPT_LENGTH_MAX or not _ACCEPT.fullmatch(accept):
        raise BadRequest(f"accept: must be a header of at most {ACCEPT_LENGTH_MAX} characters")
    for media_range in accept.split(","):
        if media_range.partition(";")[0].strip().lower() not in _JSON:
            raise NotAcceptable.none_of(["application/json"])
