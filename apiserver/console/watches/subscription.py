"""One subscription: the transport of a connection within the process, whose answer becomes messages."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final, Protocol

import orjson
from aiohttp import WSMsgType

from apiserver.endpoints.connection import Connection
from apiserver.endpoints.responses import without_framing
from apiserver.endpoints.reverse_proxy.backends import AnswerHead, parse_head
from apiserver.endpoints.reverse_proxy.errors import BackendRequestFailed, BadGateway
from apiserver.endpoints.websocket import message, message_head
from apiserver.meta.errors import ApiError, BadRequest, NoSuchEndpoint, NotAcceptable
from apiserver.meta.vocabulary import UserInfo
from apiserver.tracing.request_trace import no_request
from apiserver.wire.media_types import JSON

# Of an event of another server. Ours have their own bound.
FORWARDED_EVENT_BYTES_MAX: Final = 2 * 1024 * 1024
# A longer answer is not the Status of a refusal. Its head has at most so many bytes, too.
ANSWER_BYTES_MAX: Final = 128 * 1024
_TEXT: Final = WSMsgType.TEXT.value
_HEAD_END: Final = b"\r\n\r\n"
_ERROR: Final = b'{"type":"ERROR","object":'


class Outlet(Protocol):
    """The WebSocket of a subscription, as `Multiplexer` has it.

    transport: of its connection; None once that is lost.
    """

    @property
    def transport(self) -> asyncio.Transport | None: ...

    def send(self, subscription: Subscription, frames: bytes) -> None:
        """Write whole messages. It may pause the subscription."""
        ...

    def begun(self, subscription: Subscription) -> None:
        """Note that a subscription has been accepted."""
        ...

    def ended(self, subscription: Subscription) -> None:
        """Forget a subscription whose last message has been sent."""
        ...


class Subscription(asyncio.Transport):
    """One watch, from its request to its last message.

    What its connection writes is read here. Data comes in whole chunks, as `responses.Stream` writes it.
    """

    def __init__(self, number: int, connection: Connection, outlet: Outlet) -> None:
        """number: the client's, which identifies its messages. connection: a new one."""
        super().__init__()
        self.number = number
        self._connection, self._outlet = connection, outlet
        self._opening = b'{"id":%d,' % number
        self._event_opening = self._opening + b'"event":'
        self._is_streaming = self._is_closing = self._is_paused = False
        # What has come of the answer before the first event, or of an event of another server.
        self._partial = b""
        # The Status of an ERROR event, or of a refusal, in JSON.
        self._status: bytes | None = None

    @property
    def asker(self) -> UserInfo | None:
        """The user that its request was authenticated as; None before it was."""
        return self._connection.asker

    def begin(self, request: bytes) -> None:
        """Make the request."""
        no_request().run(self._begin, request)

    def _begin(self, request: bytes) -> None:
        self._connection.connection_made(self)
        self._connection.data_received(request)

    def end(self, error: ApiError | None = None) -> None:
        """End the watch. error: why it cannot continue; None if the client may resume it."""
        if not self._is_closing:
            self._status = None if error is None else orjson.dumps(error.status())
            self._end()

    def pause(self) -> bool:
        """Let events wait from now on. Returns whether they did not wait before."""
        if self._is_paused or self._is_closing:
            return False
        self._is_paused = True
        self._connection.pause_writing()
        return True

    def resume(self) -> None:
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            self._connection.resume_writing()

    # ---- the transport of the connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing:
            return
        received = bytes(data)
        if not self._is_streaming:
            self._read_answer(received)
        elif self._connection.may_stall:
            self._read_lines(without_framing(received))
        else:
            self._read_events(received)

    def close(self) -> None:
        if not self._is_closing:
            if not self._is_streaming:
                self._status = _status_of(self._partial)
            self._end()

    def abort(self) -> None:
        """Drop the watch: its queue is full, or its answer cannot be completed. The client may resume it."""
        self.end()

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        transport = self._outlet.transport
        # The options of the socket are not the subscription's.
        if transport is None or name == "socket":
            return default
        return transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """There is nothing to read after the request."""

    def resume_reading(self) -> None:
        """There is nothing to read after the request."""

    # ---- the answer

    def _read_answer(self, data: bytes) -> None:
        """Read what comes before the first event."""
        if len(self._partial) + len(data) > ANSWER_BYTES_MAX:
            self.end(BadGateway("the answer is too long"))
            return
        self._partial += data
        try:
            head = _head_of(self._partial)
            if head is None or head.status != HTTPStatus.OK:
                return  # The rest follows before the connection is closed.
            _require_events(head)
        except ApiError as refusal:
            self.end(refusal)
            return
        rest = self._partial.partition(_HEAD_END)[2]
        self._is_streaming, self._partial = True, b""
        self._send(b'"begun":%b}' % orjson.dumps({"warnings": _warnings(head)}))
        self._outlet.begun(self)
        if rest:
            self.write(rest)

    def _read_events(self, chunks: bytes) -> None:
        """Send each of the chunks that this server has written as an event."""
        opening = self._event_opening
        added = len(opening) + 1
        parts: list[bytes | memoryview] = []
        data, position = memoryview(chunks), 0
        while position < len(chunks):
            line_end = chunks.index(b"\r\n", position)
            size = int(chunks[position:line_end], 16)
            begin = line_end + 2
            position = begin + size + 2
            if chunks.startswith(_ERROR, begin):
                self._status = bytes(data[begin + len(_ERROR) : begin + size]).rstrip()[:-1]
            elif size:
                parts += (message_head(_TEXT, added + size), opening, data[begin : begin + size], b"}")
        if parts:
            self._outlet.send(self, b"".join(parts))

    def _read_lines(self, data: bytes) -> None:
        """Send each line that another server has written as an event."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > FORWARDED_EVENT_BYTES_MAX:
            self.end(BadGateway("an event is too long"))
            return
        for line in lines:
            if not line.strip():
                continue
            try:
                event = orjson.loads(line)
            except orjson.JSONDecodeError:
                event = None
            if not isinstance(event, dict):
                self.end(BadGateway("an event is not a JSON object"))
                return
            if event.get("type") == "ERROR":
                self._status = orjson.dumps(event.get("object"))
            else:
                self._send(b'"event":%b}' % line)

    def _send(self, rest: bytes) -> None:
        """Send a message. rest: what follows the number of the subscription."""
        self._outlet.send(self, message(_TEXT, self._opening + rest))

    def _end(self) -> None:
        self._is_closing = True
        self._partial = b""
        self._outlet.send(self, end_message(self.number, self._status))
        self._outlet.ended(self)
        # As transports do: not within a call of the protocol.
        asyncio.get_running_loop().call_soon(self._connection.connection_lost, None, context=no_request())


def end_message(number: int, status: bytes | None) -> bytes:
    """Returns the last message of a subscription. status: its Status in JSON; None if it may be resumed."""
    return message(_TEXT, b'{"id":%d,"end":{"status":%b}}' % (number, b"null" if status is None else status))


def _head_of(answer: bytes) -> AnswerHead | None:
    """Returns the head of an answer; None if it is not complete. Raises BadGateway."""
    head, end, _ = answer.partition(_HEAD_END)
    try:
        return parse_head(head + end) if end else None
    except BackendRequestFailed as error:
        raise BadGateway(str(error)) from None


def _require_events(head: AnswerHead) -> None:
    """Refuse an answer that is not a stream of events in JSON. Raises BadRequest, NotAcceptable."""
    if _header(head, b"transfer-encoding") != b"chunked":
        raise BadRequest("path: is not that of a watch")
    if _header(head, b"content-type").partition(b";")[0].strip().lower() != JSON.encode():
        raise NotAcceptable.none_of([JSON])


def _header(head: AnswerHead, name: bytes) -> bytes:
    return next((value for each, value in head.headers if each.lower() == name), b"")


def _warnings(head: AnswerHead) -> list[str]:
    """Returns the texts of the Warning headers, which `responses.warning_values` has made."""
    values = (value for name, value in head.headers if name.lower() == b"warning")
    texts = (value.partition(b'"')[2].rpartition(b'"')[0] for value in values)
    return [_unquoted(text.decode("utf-8", "replace")) for text in texts]


def _unquoted(text: str) -> str:
    pieces = text.split("\\\\")
    return "\\".join(each.replace('\\"', '"') for each in pieces)


def _status_of(answer: bytes) -> bytes | None:
    """Returns the Status of a refusal in JSON; None if there was no answer.

    A refusal with another body has one like that which Kubernetes' clients make of it.
    """
    try:
        head = _head_of(answer)
    except BadGateway as error:
        return orjson.dumps(error.status())
    if head is None:
        return None
    body = answer.partition(_HEAD_END)[2]
    if _header(head, b"transfer-encoding") == b"chunked":
        body = without_framing(body)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict) and document.get("kind") == "Status":
        return body
    return orjson.dumps(_error_of(head.status).status())


def _error_of(code: int) -> ApiError:
    if code == HTTPStatus.NOT_FOUND:
        return NoSuchEndpoint()
    error = ApiError(f"the server has answered with the status code {code}")
    error.code, error.reason = code, ""
    return error
