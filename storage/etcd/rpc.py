"""The transport of calls to etcd: a channel to one endpoint, and its streams.

Two modules implement `Channel`: `http2_channel`, which is made for this client, and `grpc_channel`, with
gRPC's own library. Messages are bytes; `client` encodes and decodes them.
"""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias
from urllib.parse import urlsplit

from apiserver.storage.errors import StorageUnavailable

DEFAULT_PORT = 2379
Metadata: TypeAlias = tuple[tuple[str, str], ...]


def without_credentials(url: str) -> str:
    """Returns a URL without user and password, for errors and logs."""
    return re.sub(r"//.*@", "//", url)


class Code(IntEnum):
    """gRPC's status codes. Source: https://grpc.io/docs/guides/status-codes/."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(Exception):
    """A call that failed at the server or on the way.

    is_unsent: whether no server has seen the call, so that any call can be repeated.
    """

    def __init__(self, code: Code, details: str, *, is_unsent: bool = False) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code, self.details, self.is_unsent = code, details, is_unsent


class CallEnded(Exception):
    """The call was ended on this side, by `Stream.cancel` or `Channel.close`."""


class ChannelClosed(StorageUnavailable):
    """The channel was closed before the call."""


class Endpoint(NamedTuple):
    """The address of an etcd server. host: a name or an address, without brackets."""

    host: str
    port: int
    is_tls: bool

    @property
    def authority(self) -> str:
        """The host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Parses a URL such as `https://etcd-1:2379`. Raises ValueError."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, DEFAULT_PORT if parts.port is None else parts.port
        except ValueError:  # Its text has parts of the URL, which may be those of a password.
            host = None
        if not host or parts.scheme not in ("http", "https") or not port:
            raise ValueError(
                f"etcd endpoint {without_credentials(url)!r} is not of the form http://HOST:PORT or "
                "https://HOST:PORT"
            )
        return cls(host, port, parts.scheme == "https")


class Tls(NamedTuple):
    """Files in PEM for connections to etcd. ca: None: the system's authorities are trusted."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class Stream(Protocol):
    """A call that receives many messages. One task reads, any task may write.

    silent_since: when a reader began to wait, or when bytes last came while it waits; None while nobody
        waits. Until the call is opened (gRPC's library: until the first read), when it was made. By the clock
        of the event loop. gRPC's library shows no part of a message: there only the beginning of the wait
        counts.
    """

    @property
    def silent_since(self) -> float | None: ...

    async def read(self) -> bytes | None:
        """Returns the next message; None after the last one. Raises RpcError, CallEnded."""
        ...

    async def write(self, message: bytes) -> None:
        """Sends a message. Raises RpcError if the server has ended the call, and CallEnded."""
        ...

    def cancel(self) -> None:
        """End the call. Waiting calls, and later ones of `read`, raise CallEnded."""
        ...


class Channel(Protocol):
    """Makes calls to one endpoint. It connects at the first use, and again after a failure.

    A call just after a failed attempt to connect fails like that attempt. Every method raises CallEnded if
    the channel is closed meanwhile.
    """

    async def unary(self, path: str, message: bytes, timeout_s: float) -> bytes:
        """Send a message and return the response. Raises RpcError.

        A call that the server refuses unseen, as when it closes the connection after a while, is sent again.
        path: as `/etcdserverpb.KV/Range`. Cancelling the task cancels the call at the server.
        """
        ...

    def server_stream(self, path: str, message: bytes, timeout_s: float | None = None) -> Stream:
        """Open a call that sends one message, again if the server refuses it unseen, and receives many."""
        ...

    def stream(self, path: str, metadata: Metadata = ()) -> Stream:
        """Open a call that sends and receives many messages."""
        ...

    def retire_connection(self) -> None:
        """Use another connection for later calls, because this one seems dead.

        gRPC's library allows no such choice: it replaces a connection when a keepalive ping has no response.
        """
        ...

    async def close(self) -> None: ...
