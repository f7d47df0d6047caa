"""Writes responses to the connection as bytes, past aiohttp's response objects.

These objects cost more than everything else in a get: here headers and body are one write, or chunks as they
come. aiohttp still reads requests and keeps connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time
from typing import Final

import orjson
from aiohttp import HttpVersion11, hdrs

from apiserver.audit.request_audit import RequestAudit
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.compression import CONTENT_ENCODING, GZIP_BODY_BYTES_MIN, BodySlices, accepts_gzip
from apiserver.endpoints.representation import Encoder
from apiserver.endpoints.response_bodies import ResponseBody, UnsharedBody
from apiserver.load.size_class import LARGE_BYTES, SizeClass
from apiserver.meta.errors import ApiError
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.event_loop_turns import Turn
from apiserver.wire.media_types import JSON

TEXT: Final = "text/plain; charset=utf-8"
# A body up to this size goes out in one piece with its length; a longer one in chunks.
WHOLE_BODY_BYTES_MAX: Final = 256 * 1024
# A longer body is not copied to go out with its head, but for its beginning.
COPIED_BYTES_MAX: Final = 32 * 1024
FIRST_BYTES: Final = 15 * 1024
# What a compressor takes for an answer.
GZIP_STATE_BYTES: Final = 270_000
# The one has no body; a length in the other would be that of what the client has.
_WITHOUT_LENGTH: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_LAST_CHUNK: Final = b"0\r\n\r\n"
_CHUNKED: Final = b"Transfer-Encoding: chunked\r\n\r\n"
# Intermediaries must not cache responses, except where headers allow it.
CACHING: Final = "no-cache, private"
_GZIP_HEADERS: Final = {**CONTENT_ENCODING, "Vary": "Accept-Encoding"}


def _connection(call: ApiCall) -> str:
    """Returns the head's line about the connection; empty for the defaults of HTTP/1.1."""
    request = call.request
    if call.connection.is_last_answer or not request.keep_alive:
        call.closes_connection = True
    elif hdrs.EXPECT in request.headers and request.body_exists and not call.has_read_body:
        # A client that was refused after asking whether to send a body may or may not send it: the next
        # bytes are ambiguous.
        call.closes_connection = True
    if call.closes_connection:
        return "close"
    return "" if request.version >= HttpVersion11 else "keep-alive"


async def send(
    call: ApiCall,
    status: int,
    body: bytes,
    content_type: str = JSON,
    headers: Mapping[str, str] | None = None,
    *,
    is_shared: bool = False,
) -> None:
    """Write a whole response. is_shared: whether the body is held for other responses, too, while it is
    sent.
    """
    head = _head(call, status, content_type, headers)
    call.body_bytes = len(body)
    connection = call.connection
    transport = connection.transport
    if transport is None:
        raise ConnectionResetError("the client is gone")
    if status in _WITHOUT_LENGTH:
        transport.write(b"%b\r\n" % head)
    elif call.info.method == hdrs.METH_HEAD:
        transport.write(b"%bContent-Length: %d\r\n\r\n" % (head, len(body)))
    elif len(body) <= COPIED_BYTES_MAX:
        transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
    else:
        await _send_long(call, b"%bContent-Length: %d\r\n\r\n" % (head, len(body)), body, is_shared=is_shared)
        return
    if connection.writing_paused:
        call.is_answered = True
        call.release_slot()
        await connection.drain()


async def _send_long(call: ApiCall, head: bytes, body: bytes, *, is_shared: bool) -> None:
    """Write a long body without copying it."""
    connection = call.connection
    connection.is_shared = is_shared
    call.is_answered = True
    transport = connection.transport
    assert transport is not None
    try:
        transport.write(head + body[:FIRST_BYTES])
        transport.write(memoryview(body)[FIRST_BYTES:])
        await connection.drain(call.release_slot)
    finally:
        connection.is_shared = False


async def send_document(
    call: ApiCall, document: Document, status: int = 200, headers: Mapping[str, str] | None = None
) -> None:
    await send(call, status, json_text(document, call.is_pretty), headers=headers)


async def send_error(call: ApiCall, error: ApiError, recorded: ApiError | None = None) -> None:
    """Send the Status of an error. recorded: the error for audit events and the like, if it differs."""
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if error.code == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="kubernetes-master"'
    shown = recorded or error
    call.error = shown.reason, shown.message
    if call.audit is not None:
        call.audit.record_status(shown.status())
    await _send_status(call, error.status(), error.code, headers)


async def send_status(call: ApiCall, document: Document, status: int = 200) -> None:
    """Send a Status in the form that the client understands (row P04)."""
    if call.audit is not None:
        call.audit.record_status(document)
    await _send_status(call, document, status, None)


async def _send_status(
    call: ApiCall, document: Document, status: int, headers: Mapping[str, str] | None
) -> None:
    status_encoder = call.status_encoder
    media_type = status_encoder.media_type(call.accept) if status_encoder is not None else JSON
    if status_encoder is None or media_type == JSON:
        await send_document(call, document, status, headers)
    else:
        await send(call, status, status_encoder.encode(document, media_type), media_type, headers)


async def send_body(call: ApiCall, status: int, body: bytes, content_type: str) -> None:
    """Send a document as the whole response, compressed if it is long and the client accepts that."""
    if len(body) > GZIP_BODY_BYTES_MIN and accepts_gzip(call.request.headers.get(hdrs.ACCEPT_ENCODING)):
        await send_slices(call, UnsharedBody(BodySlices((body,), gzip=True)), content_type, status)
    else:
        await send(call, status, body, content_type)


async def send_text(call: ApiCall, pieces: Iterable[bytes], content_type: str) -> None:
    """Send text of any length, made while it is sent, and compressed if the client accepts that."""
    if call.request.method == hdrs.METH_HEAD:
        pieces = ()
    gzip = accepts_gzip(call.request.headers.get(hdrs.ACCEPT_ENCODING))
    await send_slices(call, UnsharedBody(BodySlices(pieces, gzip=gzip, bytes_min=0)), content_type)


async def send_object(call: ApiCall, encoder: Encoder, found: StoredObject, status: int = 200) -> None:
    """Send an object as the whole response."""
    if len(found.tail) <= LARGE_BYTES or (size := encoder.work(found)) is SizeClass.SMALL:
        body = encoder.object(found)
    else:  # It must not hold up other calls.
        body = await call.offload.run_begun(size, encoder.object, found)
    if call.audit is not None and call.audit.wants_response:
        await _record_object(call, call.audit, encoder, found, body)
    await send_body(call, status, body, encoder.media_type)


async def _record_object(
    call: ApiCall, audit: RequestAudit, encoder: Encoder, found: StoredObject, body: bytes
) -> None:
    """Record the object of a response for auditing. The body is recorded unchanged if
    it has the recorded form."""
    recorded = call.audit_encoder
    if recorded is None:
        return
    if recorded is not encoder:
        size = recorded.work(found)
        body = await call.offload.run_begun(size, recorded.object, found)
    audit.record_response((body,))


async def record_list(call: ApiCall, body: ResponseBody) -> None:
    """Record a list that is about to be sent, if the request is audited at that level.

    body: made by `call.audit_encoder`.
    """
    audit = call.audit
    if audit is None or not audit.wants_response:
        return
    turn = Turn()
    next_slice = body.reader(call.offload)
    while (piece := await next_slice()) is not None:
        if not audit.add_to_response(piece):
            return
        if turn.is_over():
            await turn.next()
    audit.end_response()


async def send_slices(call: ApiCall, body: ResponseBody, content_type: str = JSON, status: int = 200) -> None:
    """Write a body of any size with no more of it in memory than the connection takes.

    The source of the body must not change while it is sent: slices are made between awaits. An empty slice is
    not sent, but lets other tasks run.
    """
    pieces: list[bytes] = []
    size = 0
    turn = Turn()
    next_slice = body.reader(call.offload)
    while (piece := await next_slice()) is not None:
        if piece:
            pieces.append(piece)
            size += len(piece)
            if size > WHOLE_BODY_BYTES_MAX:
                break
        if turn.is_over():
            await turn.next()
    headers = _GZIP_HEADERS if body.is_gzipped else None
    if size <= WHOLE_BODY_BYTES_MAX:
        await send(call, status, b"".join(pieces), content_type, headers)
        return
    stream = Stream(call, content_type, status, headers)
    call.is_answered = True
    state_bytes = GZIP_STATE_BYTES if body.is_gzipped and not body.is_shared else 0
    pieces.reverse()
    while True:
        while pieces:
            piece = pieces.pop()
            call.body_bytes += len(piece)
            size -= len(piece)
            call.connection.held_bytes = state_bytes + (0 if body.is_shared else size)
            stream.write(piece)
            await stream.drain()
        if turn.is_over():
            await turn.next()
        piece = await next_slice()
        if piece is None:
            break
        if piece:
            pieces.append(piece)
            size = len(piece)
    call.connection.held_bytes = 0
    stream.finish()


def chunk(data: bytes) -> bytes:
    """Returns data in the chunked transfer coding of HTTP/1.1 (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Stream:
    """A response of unknown length: head first, then data, then `finish`.

    It is also how the events of a watch get to most clients: see `watch_stream.EventTransport`.

    For clients without chunks (HTTP/1.0) the end of the connection ends the response.
    """

    frame = staticmethod(chunk)

    def __init__(
        self, call: ApiCall, content_type: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self._call = call
        self._connection = call.connection
        self._is_chunked = call.request.version >= (1, 1)
        if not self._is_chunked:
            call.closes_connection = True
        self._write_raw(
            _head(call, status, content_type, headers) + (_CHUNKED if self._is_chunked else b"\r\n")
        )

    @property
    def can_write(self) -> bool:
        """Whether the client has read what was written before, and is connected."""
        connection = self._connection
        return not connection.writing_paused and connection.transport is not None

    def write(self, data: bytes) -> None:
        """Write some data as one chunk."""
        self._write_raw(chunk(data) if self._is_chunked else data)

    def write_frames(self, frames: bytes) -> None:
        """Write data that has been framed as chunks already."""
        self._write_raw(frames if self._is_chunked else without_framing(frames))

    async def drain(self) -> None:
        await self._call.connection.drain(self._call.release_slot)

    def abort(self) -> None:
        """Drop the connection with all unsent data."""
        if self._call.request.transport is not None:
            self._call.request.transport.abort()

    def finish(self) -> None:
        if self._is_chunked:
            self._write_raw(_LAST_CHUNK)

    async def close(self) -> None:
        self.finish()

    def _write_raw(self, data: bytes) -> None:
        transport = self._connection.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        transport.write(data)


class ForwardedAnswer(Stream):
    """The response of another server, framed for this client: head first, then data, then `finish`.

    The headers that all responses of this server have are added to it.
    """

    def __init__(
        self,
        call: ApiCall,
        status: int,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        length: int | None,
        has_body: bool,
    ) -> None:
        """headers: without those that frame the body. length: of the body, if it is known.

        has_body: False for a response to HEAD, or for a status without a body.
        """
        self._call = call
        self._connection = call.connection
        framing = b"\r\n"
        self._is_chunked = False
        if length is not None and status not in _WITHOUT_LENGTH:
            framing = b"Content-Length: %d\r\n\r\n" % length
        elif has_body and call.request.version >= (1, 1):
            self._is_chunked, framing = True, _CHUNKED
        elif has_body:
            call.closes_connection = True
        self._write_raw(_forwarded_head(call, status, list(headers)) + framing)


def without_framing(chunks: bytes) -> bytes:
    """Returns the data of chunks that `chunk` has made."""
    return b"".join(each[each.index(b"\r\n") + 2 :].removesuffix(b"\r\n") for each in split_chunks(chunks))


def split_chunks(chunks: bytes) -> Sequence[bytes]:
    """Returns each of the chunks that `chunk` has made; the last may be incomplete."""
    found, position = [], 0
    while position < len(chunks):
        line_end = chunks.index(b"\r\n", position)
        end = line_end + 2 + int(chunks[position:line_end], 16) + 2
        found.append(chunks[position:end])
        position = end
    return found


def json_text(document: Document, pretty: bool = False) -> bytes:
    """Returns JSON as kube-apiserver writes it: compact with a line feed at the end, or indented without."""
    if pretty:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2)
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


# ---- the head


@lru_cache(maxsize=256)
def _opening(status: int, content_type: str, connection: str, caching: str = CACHING) -> bytes:
    """Returns the part of a head that many responses share."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {status} {phrase}", f"Cache-Control: {caching}"]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    if connection:
        lines.append(f"Connection: {connection}")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return f"Date: {formatdate(second, usegmt=True)}\r\n".encode()


class AnswerLost(Exception):
    """A request has been executed, but its response is dropped: see `testkit.faults`."""


def begin_response(call: ApiCall, status: int) -> None:
    """Note the status of a response whose first byte is about to be written. Raises AnswerLost."""
    if call.is_answer_lost:
        raise AnswerLost
    call.status = status
    if (audit := call.audit) is not None and audit.on_response_started is not None:
        audit.on_response_started(status)


def _head(call: ApiCall, status: int, content_type: str, headers: Mapping[str, str] | None) -> bytes:
    begin_response(call, status)
    caching = headers.get("Cache-Control", CACHING) if headers else CACHING
    head = b"%b%bAudit-Id: %b\r\n%b" % (
        _opening(status, content_type, _connection(call), caching),
        _date(int(time())),
        call.audit_id.encode("latin-1", "replace"),
        call.head_lines,
    )
    if call.warnings:
        head += b"".join(b"Warning: %b\r\n" % value for value in warning_values(call.warnings))
    if headers:
        lines = (f"{name}: {value}\r\n" for name, value in headers.items() if name != "Cache-Control")
        head += "".join(lines).encode("latin-1", "replace")
    return head


def _forwarded_head(call: ApiCall, status: int, lines: Sequence[tuple[bytes, bytes]]) -> bytes:
    begin_response(call, status)
    head = [
        _opening(status, "", _connection(call)),
        b"Audit-Id: ",
        call.audit_id.encode("latin-1", "replace"),
    ]
    head += [b"\r\n", call.head_lines]
    if not any(name.lower() == b"date" for name, _ in lines):
        head.append(_date(int(time())))
    head += [b"Warning: %b\r\n" % value for value in warning_values(call.warnings)]
    head += [b"%b: %b\r\n" % line for line in lines]
    return b"".join(head)


# All warnings of an answer have so much room: if they do not fit they are cut, then left out.
# Source: k8s.io/apiserver, pkg/endpoints/filters/warning.go.
WARNINGS_LENGTH_MAX: Final = 4 * 1024
WARNING_CUT_LENGTH: Final = 256
# Control characters, and what is not UTF-8.
_UNTOLD: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def warning_values(texts: Sequence[str]) -> Iterable[bytes]:
    """Yields the values of the Warning headers of a response.

    As in Kubernetes, empty texts and those with control characters, tabs and line ends included, are left
    out. If the others are too long in total, all of them are truncated.
    """
    if not texts:
        return ()
    different = [text for text in dict.fromkeys(texts) if text]  # each is sent once
    told = [text for text in different if not _UNTOLD.search(text)]
    if sum(map(len, told)) > WARNINGS_LENGTH_MAX:
        cut = (text[:WARNING_CUT_LENGTH] for text in different)
        told = _fitting(text for text in cut if not _UNTOLD.search(text))
    return map(_warning, told)


def _fitting(texts: Iterable[str]) -> list[str]:
    """Returns the texts that fit into the room, the last one truncated."""
    fitting, length = [], 0
    for text in texts:
        fitting.append(text)
        length += len(text)
        if length >= WARNINGS_LENGTH_MAX:
            break
    return fitting


def _warning(text: str) -> bytes:
    """Returns a warning's text as a quoted string (RFC 7234, 5.5)."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode()


def unicode_of(header: str) -> str:
    """Returns the value of a header of a request, whose bytes need not be UTF-8, as JSON can contain it."""
    return header.encode(errors="surrogateescape").decode(errors="replace")
