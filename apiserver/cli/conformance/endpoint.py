"""Connects the replayer to an endpoint: with a user's credentials, by HTTPS or HTTP, and with limits.

The endpoint may be any program. Each answer has to come, and to end, within a time and a size; once several
requests in a row have got no answer, no more are sent.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from apiserver.cli.api_client import reason_of

# The largest recorded answer has three megabytes; OpenAPI documents of other servers may be larger.
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
# Requests in a row that get no answer: the endpoint is gone then.
UNANSWERED_MAX: Final = 8
# Conversations wait for webhooks and policies to take effect up to 70 seconds.
CONVERSATION_WITHIN_S: Final = 300
CLEANUP_WITHIN_S: Final = 60
ADMIN, ALICE = "admin", "alice"
Headers = Mapping[str, str | list[str] | None]
_GZIP: Final = 16 + zlib.MAX_WBITS
# The second user of the recorded conversations.
_AS_ALICE: Final[Headers] = {
    "Impersonate-User": "alice",
    "Impersonate-Uid": "uid-alice",
    "Impersonate-Group": "dev",
}


class NoAnswer(Exception):
    """A request got no answer, or none that can be used. The message says why."""


class Access(NamedTuple):
    """How an endpoint is reached.

    headers: the credentials of the first user, who may do everything. admin_context: shows that user's
    certificate. context: for all others. Both are None without TLS.
    alice_token: of the second user; the first impersonates that user if it is empty.
    server_name: in the endpoint's certificate.
    """

    url: str
    headers: Headers
    admin_context: ssl.SSLContext | None
    context: ssl.SSLContext | None
    alice_token: str = ""
    server_name: str = ""


class Limits:
    """Limits of a run. request_s: in which an answer has to begin, and as long again to end.

    stopped: why no more requests are sent, but for those that clean up; empty if they are.
    gone: why none at all are sent.
    """

    def __init__(self, request_s: float) -> None:
        self.request_s = request_s
        self.stopped = self.gone = ""
        self._lock = threading.Lock()
        self._unanswered = 0

    def answered(self) -> None:
        with self._lock:
            self._unanswered = 0

    def unanswered(self, error: NoAnswer) -> None:
        with self._lock:
            self._unanswered += 1
            if self._unanswered >= UNANSWERED_MAX and not self.gone:
                self.gone = f"the endpoint no longer answers: {error}"


class _LimitedReader(io.RawIOBase):
    """Reads a socket until a moment, however little comes at a time, and no more than an answer may have."""

    def __init__(self, sock: socket.socket, within_s: float) -> None:
        self._socket, self._raw = sock, sock.makefile("rb", buffering=0)
        self._bytes = 0
        self.restart(within_s)

    def restart(self, within_s: float) -> None:
        self._within_s, self._end = within_s, time.monotonic() + within_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            self._socket.settimeout(max(0.001, self._end - time.monotonic()))
            count: int = self._raw.readinto(buffer) or 0
        except TimeoutError:
            raise NoAnswer(f"no answer within {self._within_s:g} s") from None
        self._bytes += count
        if self._bytes > ANSWER_BYTES_MAX:
            raise _too_long()
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _LimitedResponse(http.client.HTTPResponse):
    """An answer that begins and ends in time. begins_within_s, ends_within_s: the latter from its head on."""

    def __init__(
        self, sock: socket.socket, *args: Any, begins_within_s: float, ends_within_s: float, **kwargs: Any
    ) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self._reader = _LimitedReader(sock, begins_within_s)
        self.fp = io.BufferedReader(self._reader)
        self._ends_within_s = ends_within_s

    def begin(self) -> None:
        super().begin()
        self._reader.restart(self._ends_within_s)
        if (self.length or 0) > ANSWER_BYTES_MAX:
            raise _too_long()

    def read(self, amt: int | None = None) -> bytes:
        try:
            content = super().read(amt)
        except BaseException:
            self.close()  # Its connection may have left it the socket.
            raise
        if amt is None and (self.getheader("content-encoding") or "").lower() == "gzip":
            _check_unpacked(content)
        return content


def _check_unpacked(content: bytes) -> None:
    """Raises NoAnswer if what is compressed is no gzip, or has too many bytes."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        unpacker.decompress(content, ANSWER_BYTES_MAX)
    except zlib.error as error:
        raise NoAnswer(f"the answer is not gzip: {error}") from None
    if not unpacker.eof:
        raise _too_long() if unpacker.unconsumed_tail else NoAnswer("the answer is an incomplete gzip")


def _too_long() -> NoAnswer:
    return NoAnswer(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")


class EndpointConnection(http.client.HTTPConnection):
    """A connection to the endpoint, by HTTPS if there is a context. Paths are below that of its URL.

    ends_within_s: how long an answer may take after its head; a watch goes on for longer.
    """

    def __init__(
        self, access: Access, context: ssl.SSLContext | None, request_s: float, ends_within_s: float
    ) -> None:
        url = urlsplit(access.url)
        assert url.hostname is not None
        super().__init__(url.hostname, port_of(access.url), timeout=request_s)
        self._context, self._name = context, access.server_name or url.hostname
        self._prefix = url.path.rstrip("/")
        self._request_s = request_s
        self.response_class: Callable[..., http.client.HTTPResponse] = partial(  # type: ignore[assignment]
            _LimitedResponse, begins_within_s=request_s, ends_within_s=ends_within_s
        )

    def connect(self) -> None:
        super().connect()
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self._name)

    def putrequest(
        self, method: str, url: str, skip_host: bool = False, skip_accept_encoding: bool = False
    ) -> None:
        if self.sock is not None:
            self.sock.settimeout(self._request_s)  # A reader has left what remained of its time.
        super().putrequest(method, self._prefix + url, skip_host, skip_accept_encoding)

    def putheader(self, header: Any, *argument: Any) -> None:
        """Values may be lists of several headers, also those of watches."""
        for value in argument:
            for each in value if isinstance(value, list) else [value]:
                super().putheader(header, each)


def port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


class _Local(threading.local):
    """What a thread has: connections with the first user's certificate and without, and its time to end."""

    def __init__(self) -> None:
        self.opened: list[EndpointConnection] = []
        self.conn: EndpointConnection | None = None
        self.connections: dict[bool, EndpointConnection | None] = {}
        self.is_admin = self.is_cleaning = False
        self.end = float("inf")


def make_client(replayer: Any, arguments: Any, access: Access, limits: Limits) -> Any:
    """Returns the replayer's client of an endpoint. arguments: the replayer's."""

    class Client(replayer.Client):  # type: ignore[misc]  # the module is loaded when it is needed
        """Sends the requests of conversations as their users."""

        def __init__(self) -> None:
            super().__init__(arguments)
            self.port = port_of(access.url)
            self.local = _Local()

        def begin(self, within_s: float, *, is_cleaning: bool = False) -> None:
            """Give this thread's requests a time to end."""
            self.local.end, self.local.is_cleaning = time.monotonic() + within_s, is_cleaning

        def close(self) -> None:
            """Close this thread's connections."""
            for connection in self.local.opened:
                connection.close()
            self.local.opened.clear()
            self.local.connections.clear()

        def connect(self, timeout: float | None = None) -> EndpointConnection:
            """Returns a connection for the user of `headers`. timeout: of a watch; None for the others."""
            context = access.admin_context if self.local.is_admin else access.context
            opened = EndpointConnection(access, context, limits.request_s, timeout or limits.request_s)
            self.local.opened.append(opened)
            return opened

        def headers(self, who: str, extra: Headers | None) -> dict[str, Any]:
            """Returns the headers of a request, which the same thread sends next.

            Other credentials are not sent if it has its own, or none.
            """
            is_own = any(name.lower() == "authorization" for name in extra or ())
            self.local.is_admin = not is_own and (who == ADMIN or (who == ALICE and not access.alice_token))
            own: Headers = access.headers if self.local.is_admin else {}
            if self.local.is_admin and who == ALICE:
                own = {**own, **_AS_ALICE}
            shown: dict[str, Any] = super().headers(who, {**own, **(extra or {})})
            return shown

        def request(self, method: str, path: str, headers: Headers, body: bytes | None = None) -> Any:
            """Returns the reply to a request. Raises NoAnswer."""
            local = self.local
            if why := limits.gone or ("" if local.is_cleaning else limits.stopped):
                raise NoAnswer(why)
            if time.monotonic() > local.end:
                raise NoAnswer("the conversation takes too long")
            local.conn = local.connections.get(local.is_admin)
            try:
                reply = super().request(method, path, headers, body)
            # A length that no memory has room for is none that can be used, either.
            except (OSError, http.client.HTTPException, MemoryError, NoAnswer) as error:
                if local.conn is not None:
                    local.conn.close()
                    local.conn = None
                failure = error if isinstance(error, NoAnswer) else NoAnswer(reason_of(error))
                limits.unanswered(failure)
                raise failure from None
            finally:
                local.connections[local.is_admin] = local.conn
            limits.answered()
            return reply

    return Client()
