"""An HTTP connection that limits the time until a response begins and ends, and its size.

A server may be any program: it may send nothing, one byte at a time, or more than fits into memory.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class NoAnswer(Exception):
    """A request got no answer, or none that can be used. The message says why."""


class AnswerLimits(NamedTuple):
    """Limits of an answer. ends_within_s: how long it may take after its head."""

    begins_within_s: float
    ends_within_s: float
    bytes_max: int

    @property
    def too_long(self) -> NoAnswer:
        return NoAnswer(f"the response is longer than {self.bytes_max} bytes")


class _LimitedReader(io.RawIOBase):
    """Reads a socket until a moment, however little comes at a time, and no more than an answer may have."""

    def __init__(self, sock: socket.socket, limits: AnswerLimits) -> None:
        self._socket, self._raw = sock, sock.makefile("rb", buffering=0)
        self._limits = limits
        self._bytes = 0
        self.restart(limits.begins_within_s)

    def restart(self, within_s: float) -> None:
        self._within_s, self._end = within_s, time.monotonic() + within_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._end - time.monotonic()
        try:
            if left_s <= 0:  # Also where there is always something to read.
                raise TimeoutError
            self._socket.settimeout(left_s)
            count: int = self._raw.readinto(buffer) or 0
        except TimeoutError:
            raise NoAnswer(f"no response within {self._within_s:g} s") from None
        self._bytes += count
        if self._bytes > self._limits.bytes_max:
            raise self._limits.too_long
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class LimitedResponse(http.client.HTTPResponse):
    """An answer that begins and ends in time."""

    def __init__(self, sock: socket.socket, *args: Any, limits: AnswerLimits, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self._reader = _LimitedReader(sock, limits)
        self.fp = io.BufferedReader(self._reader)
        self._limits = limits

    def begin(self) -> None:
        super().begin()
        self._reader.restart(self._limits.ends_within_s)
        if (self.length or 0) > self._limits.bytes_max:
            raise self._limits.too_long

    def read(self, amt: int | None = None) -> bytes:
        try:
            return super().read(amt)
        except MemoryError:  # A chunk has announced a length that no memory has room for.
            self.close()
            raise self._limits.too_long from None
        except BaseException:
            self.close()  # Its connection may have left it the socket.
            raise


class LimitedConnection(http.client.HTTPConnection):
    """A connection to the server of a URL, by HTTPS if there is a context. Paths are below that of the URL.

    server_name: in the server's certificate; the host of the URL if it is empty.
    """

    def __init__(
        self, url: str, context: ssl.SSLContext | None, server_name: str, limits: AnswerLimits
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        super().__init__(parts.hostname, port_of(url), timeout=limits.begins_within_s)
        self._context, self._name = context, server_name or parts.hostname
        self._prefix = parts.path.rstrip("/")
        self._limits = limits
        self.response_class = partial(LimitedResponse, limits=limits)  # type: ignore[assignment]

    def connect(self) -> None:
        super().connect()
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self._name)

    def putrequest(
        self, method: str, url: str, skip_host: bool = False, skip_accept_encoding: bool = False
    ) -> None:
        if self.sock is not None:
            self.sock.settimeout(self._limits.begins_within_s)  # A reader has left what remained of its time.
        super().putrequest(method, self._prefix + url, skip_host, skip_accept_encoding)


def port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def reason_of(error: Exception) -> str:
    """Returns why a server has not answered, in a few words."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the server's certificate is not trusted: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
        case TimeoutError():
            return "no response in time"
        case http.client.RemoteDisconnected():
            return "the server closed the connection without a response"
        case http.client.IncompleteRead():
            return "the response is incomplete"
        case OSError():
            return error.strerror or str(error)
        case http.client.BadStatusLine():
            return "the response is not valid HTTP"
        case _:
            return str(error) or type(error).__name__
