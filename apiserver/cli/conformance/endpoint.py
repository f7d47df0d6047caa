"""Connects the replayer to an endpoint: with a user's credentials, by HTTPS or HTTP, and with limits.

The endpoint may be any program. The time until a response begins and ends, and its size, have limits. After
several requests in a row without a response, no more are sent.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from apiserver.cli.limited_connection import (
    AnswerLimits,
    LimitedConnection,
    LimitedResponse,
    NoAnswer,
    port_of,
    reason_of,
)

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
                self.gone = f"the endpoint no longer responds: {error}"


class _Response(LimitedResponse):
    """An answer that also unpacks to no more than an answer may have."""

    def read(self, amt: int | None = None) -> bytes:
        content = super().read(amt)
        if amt is None and (self.getheader("content-encoding") or "").lower() == "gzip":
            _check_unpacked(content)
        return content


def _check_unpacked(content: bytes) -> None:
    """Raises NoAnswer if what is compressed is no gzip, or has too many bytes."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        unpacker.decompress(content, ANSWER_BYTES_MAX)
    except zlib.error as error:
        raise NoAnswer(f"the response is not gzip: {error}") from None
    if not unpacker.eof:
        too_long = NoAnswer(f"the response is longer than {ANSWER_BYTES_MAX} bytes")
        raise (
            too_long if unpacker.unconsumed_tail else NoAnswer("the gzip data in the response is incomplete")
        )


class EndpointConnection(LimitedConnection):
    """A connection to the endpoint. limits: a watch goes on for longer than other answers."""

    def __init__(self, access: Access, context: ssl.SSLContext | None, limits: AnswerLimits) -> None:
        super().__init__(access.url, context, access.server_name, limits)
        self.response_class = partial(_Response, limits=limits)  # type: ignore[assignment]

    def putheader(self, header: Any, *argument: Any) -> None:
        """Values may be lists of several headers, also those of watches."""
        for value in argument:
            for each in value if isinstance(value, list) else [value]:
                super().putheader(header, each)


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
            ends_within_s = timeout or limits.request_s
            opened = EndpointConnection(
                access, context, AnswerLimits(limits.request_s, ends_within_s, ANSWER_BYTES_MAX)
            )
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
                raise NoAnswer("the conversation took too long")
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
