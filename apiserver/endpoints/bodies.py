"""Request bodies: read within bounds, decoded, and told what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson
from aiohttp import hdrs, web

from apiserver.brand import Brand
from apiserver.endpoints.api_call import Call
from apiserver.endpoints.connection import BODY_BYTES_MAX
from apiserver.endpoints.negotiation import base_type
from apiserver.errors import BadRequest, RequestEntityTooLarge, UnsupportedMediaType
from apiserver.registry import offload
from apiserver.schema.duplicates import duplicate_fields
from apiserver.vocabulary import Document
from apiserver.wire import cbor, yaml
from apiserver.wire.media_types import CBOR, JSON, YAML, supported_media_types
from apiserver.wire.protobuf import InvalidProtobuf, open_envelope

# With aliases a short text stands for a long document, and every value of it takes far longer than in JSON.
YAML_LARGE_BYTES: Final = 1024


async def read_body(call: Call) -> bytes:
    """The whole body.

    Raises RequestEntityTooLarge (row Q04), UnsupportedMediaType for a compressed body, BadRequest when it
    ends too early.
    """
    request = call.request
    if (request.content_length or 0) > BODY_BYTES_MAX:
        call.closes_connection = True  # What is on its way is not worth reading.
        raise RequestEntityTooLarge(BODY_BYTES_MAX)
    if request.headers.get(hdrs.TRANSFER_ENCODING, "chunked").lower() != "chunked":
        call.closes_connection = True
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
        call.closes_connection = True
        raise RequestEntityTooLarge(BODY_BYTES_MAX) from None
    except web.RequestPayloadError as error:
        call.closes_connection = True
        raise BadRequest(f"the body of the request cannot be read: {error}") from None
    if len(body) > BODY_BYTES_MAX:
        raise RequestEntityTooLarge(BODY_BYTES_MAX)
    return body


def is_large(body: bytes, content_type: str) -> bool:
    """Whether it may take long to understand a body: others shall not wait for it."""
    bytes_max = YAML_LARGE_BYTES if base_type(content_type) == YAML else offload.LARGE_BYTES
    return len(body) > bytes_max


class MalformedBody(ValueError):
    """The body is not what its media type says; the message is the client's."""


class Parsed(NamedTuple):
    """A document as it came, nothing of it checked.

    repeated: finds what field validation has to say of members that are there more than once. To be called
        before the document is changed.
    """

    document: Any
    repeated: Callable[[], list[str]]


def _no_duplicates() -> list[str]:
    return []


class BodyParser:
    """Understands bodies in all media types that requests may have. Rows D02-D05, D19, D22."""

    def __init__(self, brand: Brand, *, has_cbor: bool = False) -> None:
        self._brand = brand
        self._has_cbor = has_cbor
        self.accepted = supported_media_types(brand, has_cbor=has_cbor)

    def parse(self, body: bytes, content_type: str, from_protobuf: Callable[[bytes], Document]) -> Parsed:
        """from_protobuf: decodes a message; raises LookupError if the kind has no form in protobuf.

        Raises MalformedBody, UnsupportedMediaType.
        """
        media_type = base_type(content_type) or JSON
        try:
            if media_type == JSON:
                document = orjson.loads(body)
                return Parsed(document, lambda: _duplicates_in_json(body, document))
            if media_type not in self.accepted:
                raise UnsupportedMediaType.none_of(self.accepted)
            if media_type == YAML:
                document, lines = yaml.load(body)
                return Parsed(document, lambda: _duplicates_in_yaml(lines))
            if media_type == CBOR:
                return Parsed(_from_cbor(body), _no_duplicates)
            envelope = open_envelope(body)
            message = from_protobuf(envelope.raw)
            document = {"apiVersion": envelope.api_version, "kind": envelope.kind, **message}
            return Parsed(document, _no_duplicates)
        except orjson.JSONDecodeError as error:
            raise MalformedBody(
                f"couldn't get version/kind; json parse error: {describe(error, body)}"
            ) from None
        except (yaml.InvalidYaml, InvalidProtobuf) as error:
            raise MalformedBody(str(error)) from None
        except cbor.InvalidCbor as error:
            raise MalformedBody(f"unable to determine group/version/kind: {error}") from None
        except LookupError:
            types = supported_media_types(self._brand, has_protobuf=False, has_cbor=self._has_cbor)
            raise UnsupportedMediaType.none_of(types) from None


def _from_cbor(body: bytes) -> Any:
    document = cbor.load(body)
    if isinstance(document, list):
        raise cbor.InvalidCbor(
            "cbor: cannot unmarshal array into Go value of type v1.TypeMeta "
            "(cannot decode CBOR array to struct without toarray option)"
        )
    return document


def _duplicates_in_json(body: bytes, document: Any) -> list[str]:
    return [f'duplicate field "{path}"' for path in duplicate_fields(body, document)]


def _duplicates_in_yaml(lines: list[str]) -> list[str]:
    """In the words of Go's reader, which tells of all in one."""
    return ["yaml: unmarshal errors:\n  " + "\n  ".join(lines)] if lines else []


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
