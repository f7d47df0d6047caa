"""Reads and writes the small documents of the console, before anybody is authenticated."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import orjson
from aiohttp import hdrs, web

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import BodyTooSlow, load_json, send_continue
from apiserver.endpoints.negotiation import base_type
from apiserver.endpoints.responses import send
from apiserver.meta.errors import BadRequest, RequestEntityTooLarge, UnsupportedMediaType
from apiserver.meta.vocabulary import Document
from apiserver.schema.duplicates import duplicate_fields
from apiserver.wire.json_text import InvalidJson, values_in
from apiserver.wire.media_types import JSON

# A code that holds the longest token has 22 KB.
BODY_BYTES_MAX: Final = 32 * 1024
# The longest has four. To look for repeated fields among thousands of values takes 40 ms.
VALUES_MAX: Final = 16
# The page that sends it is at hand; a client that is slow holds a connection, as it could without a body.
ARRIVAL_S: Final = 10.0
# What it says is about one user, at one time.
_HEADERS: Final[Mapping[str, str]] = {hdrs.CACHE_CONTROL: "no-store"}


async def read_json_body(call: ApiCall) -> Document:
    """Returns the JSON object that is the body of a request.

    Raises UnsupportedMediaType, RequestEntityTooLarge, BodyTooSlow, and as `parse_json_body` does.
    """
    headers = call.request.headers
    if base_type(headers.get(hdrs.CONTENT_TYPE, "")) != JSON:
        raise UnsupportedMediaType.none_of((JSON,))
    if headers.get(hdrs.TRANSFER_ENCODING, "chunked").lower() != "chunked":
        call.closes_connection = True
        raise BadRequest("the only supported transfer coding is chunked")
    if headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise UnsupportedMediaType("the body of the request is compressed, which is not supported")
    return parse_json_body(await _read(call))


def parse_json_body(body: bytes) -> Document:
    """Returns the JSON object in a body. Raises BadRequest, also for repeated fields."""
    if values_in(body) > VALUES_MAX:
        raise BadRequest(f"the body has more than {VALUES_MAX} values")
    try:
        document = load_json(body)
    except InvalidJson as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadRequest("the body is not a JSON object")
    if repeated := duplicate_fields(body, document):
        raise BadRequest(f"the body has fields more than once: {', '.join(repeated)[:256]}")
    return document


async def _read(call: ApiCall) -> bytes:
    content, body = call.request.content, bytearray()
    if (call.request.content_length or 0) > BODY_BYTES_MAX:
        call.closes_connection = True  # The body is on its way, and is not read.
        raise RequestEntityTooLarge(BODY_BYTES_MAX)
    call.has_read_body = True
    send_continue(call.request)
    try:
        async with asyncio.timeout(ARRIVAL_S):
            while piece := await content.readany():
                body += piece
                if len(body) > BODY_BYTES_MAX:
                    call.closes_connection = True
                    raise RequestEntityTooLarge(BODY_BYTES_MAX)
    except TimeoutError:
        call.closes_connection = True
        raise BodyTooSlow from None
    except web.RequestPayloadError as error:
        call.closes_connection = True
        raise BadRequest(f"the body of the request cannot be read: {error}") from None
    return bytes(body)


async def send_json(
    call: ApiCall, document: Document, status: int = 200, headers: Mapping[str, str] | None = None
) -> None:
    """Send a JSON object, which nobody may keep."""
    await send(call, status, orjson.dumps(document), JSON, {**_HEADERS, **(headers or {})})
