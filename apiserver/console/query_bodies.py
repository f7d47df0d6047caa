"""Reads the documents in which clients of the console ask something. They have no kind, and no schema."""

from __future__ import annotations

from typing import Any

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import Body, BodyParser, MalformedBody, read_body
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import BadRequest
from apiserver.meta.vocabulary import Document

# Characters of an error about repeated fields.
_SHOWN_MAX = 256


async def read_query(call: ApiCall, parser: BodyParser) -> Any:
    """Returns the document in the body of a request, of any type.

    Raises BadRequest, also for repeated fields, UnsupportedMediaType, and as `read_body`.
    """
    return (await read_sized_query(call, parser))[0]


async def read_sized_query(call: ApiCall, parser: BodyParser) -> tuple[Any, SizeClass]:
    """Returns the document as `read_query` does, and how much work it may cause."""
    body = await read_body(call)
    return await call.offload.run(body.size, _parsed, body, parser), body.size


def _parsed(body: Body, parser: BodyParser) -> Any:
    try:
        parsed = parser.parse(body.data, body.content_type, _no_message)
    except MalformedBody as error:
        raise BadRequest(str(error)) from None
    if repeated := parsed.duplicates("Strict"):
        raise BadRequest(f"strict decoding error: {', '.join(repeated)[:_SHOWN_MAX]}")
    return parsed.document


def _no_message(_: bytes) -> Document:
    """No such document has a form in protobuf. Raises LookupError."""
    raise LookupError
