"""Request bodies: read within bounds, decoded, and told what is wrong with them."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import hdrs, web

from apiserver.endpoints.call import Call
from apiserver.endpoints.connection import BODY_BYTES_MAX
from apiserver.errors import BadRequest, RequestEntityTooLarge, UnsupportedMediaType


async def read_body(call: Call) -> bytes:
    """The whole body.

    Raises RequestEntityTooLarge (row Q04), UnsupportedMediaType for a compressed body, BadRequest when it
    ends too early.
    """
    request = call.request
    if (request.content_length or 0) > BODY_BYTES_MAX:
        call.closes = True  # What is on its way is not worth reading.
        raise RequestEntityTooLarge(BODY_BYTES_MAX)
    if request.headers.get(hdrs.TRANSFER_ENCODING, "chunked").lower() != "chunked":
        call.closes = True
        raise BadRequest("the only transfer coding that is supported is chunked")
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise UnsupportedMediaType("the body of the request is compressed, which is not supported")
    call.has_read_body = True
    # Who speaks HTTP/1.0 does not know of it (RFC 9110, 10.1.1).
    if (
        hdrs.EXPECT in request.headers
        and request.headers[hdrs.EXPECT].lower() == "100-continue"
        and request.version >= (1, 1)
        and request.transport is not None
    ):
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        # A body that came together with the head is there already; asking for it costs a tenth of waiting.
        body = request.content.read_nowait() if request.content.is_eof() else await request.read()
    except web.HTTPRequestEntityTooLarge:
        call.closes = True
        raise RequestEntityTooLarge(BODY_BYTES_MAX) from None
    except web.RequestPayloadError as error:
        call.closes = True
        raise BadRequest(f"the body of the request cannot be read: {error}") from None
    if len(body) > BODY_BYTES_MAX:
        raise RequestEntityTooLarge(BODY_BYTES_MAX)
    return body


def decode_json(body: bytes) -> Any:
    """Raises BadRequest with what Go's decoder says of such a body."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(describe(error, body)) from None


def describe(error: orjson.JSONDecodeError, body: bytes) -> str:
    """A syntax error as Go words it, as far as it can be known."""
    if error.pos >= len(body.decode("utf-8", "replace").rstrip()) or not body.strip():
        return "unexpected end of JSON input"
    if "UTF-8" in error.msg or "surrogate" in error.msg:
        return "invalid UTF-8 in JSON input"
    if "depth" in error.msg:
        return "exceeded max depth"
    character = body.decode("utf-8", "replace")[error.pos]
    return f"invalid character {_quoted(character)}: {error.msg} (byte {error.pos})"


def _quoted(character: str) -> str:
    return f"'{character}'" if character.isprintable() else repr(character)
