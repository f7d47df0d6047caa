"""Reads and parses request bodies, within bounds, with the errors of Kubernetes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aiohttp import hdrs, web

from apiserver import wire
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.body_limits import SMALL_BODY_BYTES, BodyRoom
from apiserver.endpoints.connection import BODY_BYTES_MAX
from apiserver.endpoints.negotiation import base_type
from apiserver.golang.media_types import parse_media_type
from apiserver.load.size_class import LARGE_BYTES, SizeClass, size_class
from apiserver.meta.brand import Brand
from apiserver.meta.errors import ApiError, BadRequest, RequestEntityTooLarge, UnsupportedMediaType
from apiserver.meta.vocabulary import Document
from apiserver.schema.duplicates import duplicate_fields
from apiserver.tracing.request_trace import traced
from apiserver.wire import json_text
from apiserver.wire.media_types import APPLY_YAML, CBOR, JSON, YAML, supported_media_types
from apiserver.wire.protobuf import InvalidProtobuf, open_envelope

# To parse a value takes far longer than in JSON.
YAML_LARGE_BYTES: Final = 1024
# Objects in a small body, each of which may get defaults that are a hundred times as long, and errors. A Pod
# of 4 kB has fewer than a hundred.
MANY_OBJECTS: Final = 500
# Where there are anchors there may be aliases, with which the shortest text stands for a long document.
_YAML_ANCHOR: Final = b"&"

# How much of a body is read at a time, once it has room.
_READ_BYTES: Final = 256 * 1024


class Body(NamedTuple):
    """A request's body, unparsed.

    size: how much work it may be to parse it and process the document.
    media_type: the content type without its parameters, in lower case; JSON if it is empty.
    """

    data: bytes
    content_type: str
    size: SizeClass
    media_type: str


class BodyTooSlow(ApiError):
    """The body of a request arrives too slowly, or not at all."""

    code, reason = 408, "Timeout"

    def __init__(self) -> None:
        super().__init__("Timeout: the body of the request did not arrive in time")


async def read_body(call: ApiCall) -> Body:
    """Reads the whole body, and takes the slot, or the seats, of a request that has none yet.

    Raises RequestEntityTooLarge (row Q04), UnsupportedMediaType for a compressed body, BadRequest when it
    ends too early, BodyTooSlow, TooManyRequests.
    """
    request = call.request
    if (request.content_length or 0) > BODY_BYTES_MAX:
        call.closes_connection = True  # The body is on its way, and is not read.
        raise RequestEntityTooLarge(BODY_BYTES_MAX)
    if request.headers.get(hdrs.TRANSFER_ENCODING, "chunked").lower() != "chunked":
        call.closes_connection = True
        raise BadRequest("the only supported transfer coding is chunked")
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise UnsupportedMediaType("the body of the request is compressed, which is not supported")
    content = request.content
    try:
        if content.is_eof():
            # It came together with the head: `read_nowait` takes a tenth of the time.
            call.has_read_body = True
            body = content.read_nowait()
            if len(body) > SMALL_BODY_BYTES:
                await _room(call).take(len(body))
        else:
            body = await traced("request body", _receive(call))
    except web.RequestPayloadError as error:
        call.closes_connection = True
        raise BadRequest(f"the body of the request cannot be read: {error}") from None
    if len(body) > BODY_BYTES_MAX:
        raise RequestEntityTooLarge(BODY_BYTES_MAX)
    call.request_bytes = len(body)
    await call.take_slot()
    content_type = request.headers.get(hdrs.CONTENT_TYPE, "")
    media_type = JSON if content_type in ("", JSON) else base_type(content_type)
    size = size_class_of(body, media_type)
    resource = call.found_resource
    if resource is not None and resource.is_custom and size is not SizeClass.HUGE:
        size = max(size, resource.size_of_defaults(body))
    return Body(body, content_type, size, media_type)


def _room(call: ApiCall) -> BodyRoom:
    """Returns the room for the body of a call; none of it is taken yet."""
    assert call.body_limits is not None
    call.body_room = call.body_limits.room_for(call.user)
    return call.body_room


async def _receive(call: ApiCall) -> bytes:
    """Returns the whole body while it is being received.

    Raises RequestEntityTooLarge, BodyTooSlow, TooManyRequests, web.RequestPayloadError.
    """
    content, limits, room = call.request.content, call.body_limits, _room(call)
    assert limits is not None
    length = call.request.content_length
    if length is None:
        bytes_max = room.take_some()
    else:
        await room.take(length)
        bytes_max = BODY_BYTES_MAX
        content.set_read_chunk_size(_READ_BYTES)
    call.has_read_body = True
    send_continue(call.request)
    # Not a list of the pieces: they may be of one byte each.
    body = bytearray()
    arrival = limits.begin(content)
    try:
        while piece := await content.readany():
            if not body and content.at_eof() and len(piece) <= bytes_max:
                return piece
            body += piece
            if len(body) > BODY_BYTES_MAX:
                call.closes_connection = True
                raise RequestEntityTooLarge(BODY_BYTES_MAX)
            if len(body) > bytes_max:
                limits.end(arrival)  # While it waits for room it need not come.
                bytes_max = await room.take_most()
                content.set_read_chunk_size(_READ_BYTES)
                arrival = limits.begin(content)
    except asyncio.CancelledError:
        if not arrival.is_too_slow:
            raise
        asyncio.current_task().uncancel()  # type: ignore[union-attr]
        call.closes_connection = True
        raise BodyTooSlow from None
    finally:
        limits.end(arrival)
    return bytes(body)


def send_continue(request: web.BaseRequest) -> None:
    """Send 100 Continue to a client that waits for it (RFC 9110, 10.1.1)."""
    if (
        hdrs.EXPECT in request.headers
        and request.headers[hdrs.EXPECT].lower() == "100-continue"
        and request.version >= (1, 1)  # Clients of HTTP/1.0 do not know `Expect`.
        and request.transport is not None
    ):
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def discard_body(call: ApiCall, handle: Handler) -> None:
    """Respond to a request whose body is not needed, and discard the body meanwhile.

    Otherwise the connection holds the unread bytes, for as long as a watch lasts.
    """
    content = call.request.content

    async def discard() -> None:
        # aiohttp raises a RuntimeError if the connection is closed.
        with contextlib.suppress(web.RequestPayloadError, ConnectionError, RuntimeError):
            while content.total_bytes <= BODY_BYTES_MAX and await content.readany():
                pass

    call.discards_body = True
    discarding = asyncio.get_running_loop().create_task(discard())
    try:
        await handle(call)
    finally:
        # Then only aiohttp, which continues with the connection, reads from it.
        discarding.cancel()
        await asyncio.wait([discarding])


def _is_yaml(data: bytes, media_type: str) -> bool:
    return media_type == YAML or (media_type == APPLY_YAML and not looks_like_json(data))


def size_class_of(data: bytes, media_type: str) -> SizeClass:
    """Returns the work that a body may cause. media_type: see `Body`."""
    is_yaml = media_type != JSON and _is_yaml(data, media_type)
    if is_yaml and _YAML_ANCHOR in data:
        return SizeClass.LARGE
    if len(data) <= LARGE_BYTES and data.count(b"{") > MANY_OBJECTS:
        return SizeClass.LARGE
    size_bytes = len(data) * (LARGE_BYTES // YAML_LARGE_BYTES if is_yaml else 1)
    return SizeClass.SMALL if size_bytes <= LARGE_BYTES else size_class(size_bytes)


def looks_like_json(data: bytes) -> bool:
    """Whether a body looks like JSON, which is valid YAML but parsed much faster as JSON."""
    return data.lstrip()[:1] == b"{"


class MalformedBody(ValueError):
    """The body cannot be parsed as its media type; the message is for the client."""


class ParsedDocument(NamedTuple):
    """A parsed document, of which nothing has been validated.

    duplicates: returns what a field validation reports about duplicate fields; to be called before the
        document is changed.
    is_json: the body is JSON.
    """

    document: Any
    duplicates: Callable[[str], list[str]]
    is_json: bool = False


def _no_duplicates(_: str) -> list[str]:
    return []


class BodyParser:
    """Parses bodies of all media types that requests may have (rows D02-D05, D19, D22)."""

    def __init__(self, brand: Brand, *, has_cbor: bool = False) -> None:
        self._brand = brand
        self._has_cbor = has_cbor
        self.accepted = supported_media_types(brand, has_cbor=has_cbor)

    def parse(
        self, body: bytes, content_type: str, from_protobuf: Callable[[bytes], Document]
    ) -> ParsedDocument:
        """Parse a body of any accepted media type.

        from_protobuf: decodes a message; raises LookupError if the kind has no form in protobuf.

        Raises MalformedBody, UnsupportedMediaType, RequestEntityTooLarge.
        """
        media_type = self._media_type(content_type)
        try:
            if media_type == JSON:
                document = load_json(body)
                return ParsedDocument(document, lambda _: _duplicates_in_json(body, document), is_json=True)
            if media_type == YAML:
                document, lines = wire.yaml.load(body)
                return ParsedDocument(document, lambda validation: _duplicates_in_yaml(lines, validation))
            if media_type == CBOR:
                return ParsedDocument(_from_cbor(body), _no_duplicates)
            envelope = open_envelope(body)
            message = from_protobuf(envelope.raw)
            document = {"apiVersion": envelope.api_version, "kind": envelope.kind, **message}
            return ParsedDocument(document, _no_duplicates)
        except json_text.InvalidJson as error:
            raise MalformedBody(f"couldn't get version/kind; json parse error: {error}") from None
        except (wire.yaml.InvalidYaml, InvalidProtobuf) as error:
            raise MalformedBody(str(error)) from None
        except wire.cbor.InvalidCbor as error:
            raise MalformedBody(f"unable to determine group/version/kind: {error}") from None
        except LookupError:
            types = supported_media_types(self._brand, has_protobuf=False, has_cbor=self._has_cbor)
            raise UnsupportedMediaType.none_of(types) from None

    def _media_type(self, content_type: str) -> str:
        """Returns the media type of a body, JSON if nothing is said. Raises UnsupportedMediaType."""
        if content_type in ("", JSON):
            return JSON
        try:
            media_type = parse_media_type(content_type)
        except ValueError:
            media_type = ""
        if media_type not in self.accepted:
            raise UnsupportedMediaType.none_of(self.accepted)
        return media_type


def _from_cbor(body: bytes) -> Any:
    document = wire.cbor.load(body)
    if isinstance(document, list):
        raise wire.cbor.InvalidCbor(
            "cbor: cannot unmarshal array into Go value of type v1.TypeMeta "
            "(cannot decode CBOR array to struct without toarray option)"
        )
    return document


def _duplicates_in_json(body: bytes, document: Any) -> list[str]:
    paths = duplicate_fields(body, document)
    return [f'duplicate field "{path}"' for path in paths] if paths else []


def _duplicates_in_yaml(lines: list[str], field_validation: str) -> list[str]:
    """Returns Go's single error about all duplicates under Strict, otherwise a warning about each."""
    return [wire.yaml.strict_error(lines)] if lines and field_validation == "Strict" else lines


def load_json(body: bytes) -> Any:
    """Parse JSON. Raises InvalidJson; RequestEntityTooLarge if there are more values than the limit."""
    try:
        return json_text.load(body)
    except json_text.TooManyValues as error:
        raise RequestEntityTooLarge.because(str(error)) from None
