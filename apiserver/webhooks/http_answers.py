"""Reads the response to one HTTP/1.1 request, within bounds. Pure.

It needs only the status, the body, and whether another request may follow on the same connection. Lines may
end without a carriage return, as RFC 9112 allows; everything else is strict, since ambiguous responses enable
smuggling.
Source: RFC 9112.
"""

from __future__ import annotations

import enum
import re
from typing import Final

# Of the status line and all headers, of interim answers too; and of the trailers.
HEAD_BYTES_MAX: Final = 64 * 1024
# What one chunk says of itself.
CHUNK_LINE_BYTES_MAX: Final = 1_024
# Each takes some microseconds, and may hold a single byte. Servers write kilobytes at a time.
CHUNKS_MAX: Final = 20_000
# A longer one is no length of what can be read.
_LENGTH_DIGITS_MAX: Final = 18
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
_HEADER: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\x00\r\n]*?)[ \t]*")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_DIGITS: Final = re.compile(rb"[0-9]{1,%d}" % _LENGTH_DIGITS_MAX)
# Those without a body, whatever their headers say.
_BODILESS: Final = frozenset({204, 304})
_SWITCHING_PROTOCOLS: Final = 101
# Until the connection is closed.
_UNTIL_CLOSE: Final = -1


class _Line(enum.Enum):
    """The type of the next line of a chunked body."""

    SIZE = enum.auto()
    END_OF_CHUNK = enum.auto()
    TRAILER = enum.auto()


class MalformedHttpAnswer(ValueError):
    """The received bytes are not an HTTP response; the message is that of Go's client."""


class AnswerTooLong(ValueError):
    """The body of a response exceeds the limit."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the response is longer than {bytes_max} bytes")


class AnswerReader:
    """Reads one HTTP response as it arrives.

    status: 0 until the head has arrived. content_type: without parameters. encoding: that of the body, in
        lower case.
    location: the target of a redirection, if it is one.
    keeps_open: whether the connection may be used for another request once the response is complete.
    """

    __slots__ = (
        "_body_bytes",
        "_bytes_max",
        "_chunks",
        "_head_bytes",
        "_is_chunked",
        "_left",
        "_line",
        "_pending",
        "_pieces",
        "content_type",
        "encoding",
        "is_complete",
        "keeps_open",
        "location",
        "status",
    )

    def __init__(self, body_bytes_max: int) -> None:
        self.status = 0
        self.content_type = ""
        self.encoding = ""
        self.location = ""
        self.keeps_open = True
        self.is_complete = False
        self._bytes_max = body_bytes_max
        # What is not understood yet: the beginning of a head, or of a line.
        self._pending = b""
        self._head_bytes = 0
        self._pieces: list[bytes] = []
        self._body_bytes = 0
        # Of the body, or of a chunk.
        self._left = 0
        self._is_chunked = False
        self._chunks = 0
        self._line = _Line.SIZE

    @property
    def body(self) -> bytes:
        """The part of the body that has arrived."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def feed(self, data: bytes) -> None:
        """Read received bytes. Raises MalformedAnswer, AnswerTooLong."""
        if self.is_complete:
            # An unsolicited response, which must not be taken for the next one.
            self.keeps_open = False
            return
        if not self.status:
            data = self._read_head(data)
            if not self.status:
                return
        if self._is_chunked:
            self._read_chunks(data)
        else:
            self._read_body(data)

    def feed_eof(self) -> None:
        """Note that the connection is closed, which may end the response."""
        self.keeps_open = False
        if self.status and self._left == _UNTIL_CLOSE and not self._is_chunked:
            self.is_complete = True

    # ---- the head

    def _read_head(self, data: bytes) -> bytes:
        """Read the head, if it is complete, and return the bytes after it."""
        # What has been looked at is not looked at again, but for an end that has come in pieces.
        begin = max(0, len(self._pending) - len(b"\r\n\r"))
        data = self._pending + data
        while True:
            end = _HEAD_END.search(data, begin)
            if end is None:
                if self._head_bytes + len(data) > HEAD_BYTES_MAX:
                    raise MalformedHttpAnswer(
                        f"server response headers exceeded {HEAD_BYTES_MAX} bytes; aborted"
                    )
                self._pending = data
                return b""
            self._head_bytes += end.end()
            if self._head_bytes > HEAD_BYTES_MAX:
                raise MalformedHttpAnswer(f"server response headers exceeded {HEAD_BYTES_MAX} bytes; aborted")
            head, data = data[: end.start()], data[end.end() :]
            self._pending, begin = b"", 0
            line, _, headers = head.partition(b"\n")
            found = _STATUS_LINE.fullmatch(line.rstrip(b"\r"))
            if found is None:
                raise MalformedHttpAnswer("malformed HTTP response")
            status = int(found[2])
            if status == _SWITCHING_PROTOCOLS:
                raise MalformedHttpAnswer("unexpected status code 101")
            if status >= 200:
                self.status, self.keeps_open = status, found[1] == b"1"
                self._begin_body(headers)
                return data
            # An interim answer, as 100 Continue: the real one follows.

    def _begin_body(self, headers: bytes) -> None:
        length: bytes | None = None
        for line in headers.split(b"\n") if headers else ():
            found = _HEADER.fullmatch(line.removesuffix(b"\r"))
            if found is None:
                raise MalformedHttpAnswer("malformed MIME header line")
            value = found[2]
            match found[1].lower():
                case b"content-length":
                    if not _DIGITS.fullmatch(value) or length not in (None, value):
                        raise MalformedHttpAnswer("bad Content-Length")
                    length = value
                case b"transfer-encoding":
                    if self._is_chunked or value.lower() != b"chunked":
                        raise MalformedHttpAnswer("unsupported transfer encoding")
                    self._is_chunked = True
                case b"content-type":
                    self.content_type = value.partition(b";")[0].strip().lower().decode("latin-1")
                case b"content-encoding":
                    self.encoding = value.lower().decode("latin-1")
                case b"location":
                    self.location = self.location or value.decode("utf-8", "replace")
                case b"connection":
                    if b"close" in (each.strip() for each in value.lower().split(b",")):
                        self.keeps_open = False
        if self.status in _BODILESS:
            self._is_chunked, self._left = False, 0
        elif self._is_chunked:
            # RFC 9112, 6.3: even with a length, another parser might take the rest for another response.
            self.keeps_open = self.keeps_open and length is None
        elif length is None:
            self._left, self.keeps_open = _UNTIL_CLOSE, False
        else:
            self._left = int(length)
            if self._left > self._bytes_max:
                raise AnswerTooLong(self._bytes_max)

    # ---- the body

    def _read_body(self, data: bytes) -> None:
        if self._left == _UNTIL_CLOSE:
            self._add(data)
            return
        if len(data) > self._left:
            data, self.keeps_open = data[: self._left], False
        self._add(data)
        self._left -= len(data)
        self.is_complete = not self._left

    def _add(self, data: bytes) -> None:
        if data:
            self._body_bytes += len(data)
            if self._body_bytes > self._bytes_max:
                raise AnswerTooLong(self._bytes_max)
            self._pieces.append(data)

    def _read_chunks(self, data: bytes) -> None:
        data, position = self._pending + data, 0
        self._pending = b""
        while not self.is_complete:
            if self._left:
                piece = data[position : position + self._left]
                if not piece:
                    return
                self._add(piece)
                position += len(piece)
                self._left -= len(piece)
                continue
            end = data.find(b"\n", position)
            line = data[position:end] if end >= 0 else data[position:]
            if len(line) > CHUNK_LINE_BYTES_MAX:
                raise MalformedHttpAnswer("header line too long")
            if end < 0:
                self._pending = line
                return
            position = end + 1
            self._read_line(line.removesuffix(b"\r"))
        if position < len(data):
            self.keeps_open = False

    def _read_line(self, line: bytes) -> None:
        """Read a line of the chunked framing: the end of a chunk, the size of the next one, a trailer."""
        match self._line:
            case _Line.SIZE:
                self._begin_chunk(line)
            case _Line.END_OF_CHUNK:
                if line:
                    raise MalformedHttpAnswer("malformed chunked encoding")
                self._line = _Line.SIZE
            case _Line.TRAILER if not line:
                self.is_complete = True
            case _Line.TRAILER:
                self._head_bytes += len(line)
                if self._head_bytes > HEAD_BYTES_MAX:
                    raise MalformedHttpAnswer("http: suspiciously long trailer after chunked body")

    def _begin_chunk(self, line: bytes) -> None:
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise MalformedHttpAnswer("invalid byte in chunk length")
        self._left = int(found[1], 16)
        self._line = _Line.END_OF_CHUNK if self._left else _Line.TRAILER
        self._chunks += 1
        if self._chunks > CHUNKS_MAX:
            raise MalformedHttpAnswer(f"more than {CHUNKS_MAX} chunks")
        if self._body_bytes + self._left > self._bytes_max:
            raise AnswerTooLong(self._bytes_max)
