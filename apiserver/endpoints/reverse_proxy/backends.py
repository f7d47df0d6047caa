"""The HTTP client that forwards requests, and opens connections that are to be upgraded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict

from apiserver.endpoints.reverse_proxy.answer_heads import MalformedHead, is_malformed
from apiserver.endpoints.reverse_proxy.errors import AmbiguousAnswer, BackendRequestFailed
from apiserver.endpoints.reverse_proxy.exact_headers import ExactRequest
from apiserver.endpoints.reverse_proxy.headers import Headers
from apiserver.endpoints.reverse_proxy.in_process import InProcessConnector, InProcessKubelets
from apiserver.endpoints.reverse_proxy.target import ProxyBackend, ProxyTarget
from apiserver.meta.vocabulary import IPNetwork
from apiserver.schema.validation.checks import PORT_MAX
from apiserver.storage.event_loop_turns import Turn
from apiserver.webhooks.addresses import (
    PROXY_FLAG,
    AddressDenied,
    AddressRules,
    CheckedResolver,
    InvalidHost,
    is_address,
)

# To connect, with the TLS handshake. Go's default.
CONNECT_WITHIN_S: Final = 30.0
# To each of a backend's addresses, of which so many are tried: an equal part of that, but not less than this.
ADDRESS_WITHIN_S_MIN: Final = 2.0
ADDRESSES_MAX: Final = 8
# Of a backend's answer: those that requests may have.
HEADER_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 128
# How much of an answer is kept until the client takes it; up to twice as much is. A sixteenth as many
# chunks are parsed at once, in a millisecond or two.
UNREAD_BYTES_MAX: Final = 16 * 1024
# How long a connection is kept for the next request.
KEEP_ALIVE_S: Final = 30.0
# Too short for another request.
NOT_KEPT_S: Final = 0.001
# How long an address is taken to be right.
DNS_TTL_S: Final = 1
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: ([^\r\n]*))?")
# aiohttp adds none of these by itself: the client's are passed on, or none.
_NO_HEADERS_OF_ITS_OWN: Final = (hdrs.USER_AGENT, hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE)


class AnswerHead(NamedTuple):
    """The head of a response. raw: the received bytes, with the empty line at the end."""

    status: int
    headers: list[tuple[bytes, bytes]]
    raw: bytes


class BackendConnection(NamedTuple):
    """A connection to a backend."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class BackendConnector:
    """Connects to backends.

    denied: addresses that are never connected to. resolver: resolves names; None for the machine's own.
    in_process: the simulated kubelets in this process; None if there are none.

    Connections are kept for later requests only to backends of which there are few, as kubelets: connections
    to any number of pods would exhaust the open files. Requests with a body get a new connection: the client
    would notice that the backend has closed an old one only after the body was sent.
    """

    def __init__(
        self,
        denied: Sequence[IPNetwork] = (),
        resolver: AbstractResolver | None = None,
        in_process: InProcessKubelets | None = None,
    ) -> None:
        self.in_process = in_process
        # By whether only what is proxyable is allowed.
        self._rules = {each: AddressRules(denied, PROXY_FLAG, only_proxyable=each) for each in (False, True)}
        self._names = resolver
        self._resolvers: dict[bool, CheckedResolver] = {}
        # Also by whether connections are kept.
        self._sessions: dict[tuple[bool, bool], aiohttp.ClientSession] = {}
        self._session_in_process: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        for session in (*self._sessions.values(), self._session_in_process):
            if session is not None:
                await session.close()

    async def request(
        self, method: str, target: ProxyTarget, headers: Headers, body: AsyncIterator[bytes] | None
    ) -> aiohttp.ClientResponse:
        """Returns the response to a request, once its head has arrived. The caller closes it.

        body: None if there is none. Raises RequestFailed, AddressDenied.
        """
        try:
            self._require_allowed(target.backend)
            url = target.url()
            # Names are checked by the resolver; what the URL has for an address no resolver is asked about.
            self._rules[target.backend.only_proxyable].require_host(url.raw_host or "")
            return await self._session(target.backend, keeps=body is None).request(
                method,
                url,
                headers=CIMultiDict(headers),
                data=body,
                ssl=target.backend.tls if target.backend.tls is not None else True,
                server_hostname=target.backend.server_name or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise _failure(error, target.backend) from None

    async def pieces(self, response: aiohttp.ClientResponse, backend: ProxyBackend) -> AsyncIterator[bytes]:
        """Yields a response's body in pieces as they arrive. Raises RequestFailed."""
        turn = Turn()
        try:
            while piece := await response.content.readany():
                # A backend may send a byte at a time, and there may always be more: nothing waits then.
                if turn.is_over():
                    await turn.next()
                yield piece
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _failure(error, backend) from None

    async def dial(self, backend: ProxyBackend) -> BackendConnection:
        """Connects to a backend. Raises RequestFailed, AddressDenied."""
        try:
            if backend.is_in_process:
                assert self.in_process is not None
                end = await self.in_process.connect(backend.host)
                return BackendConnection(*await asyncio.open_connection(sock=end, limit=HEADER_BYTES_MAX))
            self._require_allowed(backend)
            async with asyncio.timeout(CONNECT_WITHIN_S):
                reader, writer = await self._dial_any(backend)
        except (OSError, ValueError, TimeoutError) as error:
            raise _failure(error, backend) from None
        plain = writer.get_extra_info("socket")
        if plain is not None:
            # Nothing may pass for hours: that the backend is gone is noticed by this.
            with contextlib.suppress(OSError):
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return BackendConnection(reader, writer)

    async def _dial_any(self, backend: ProxyBackend) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to the first address of a backend that answers. Raises OSError, ValueError."""
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + CONNECT_WITHIN_S
        addresses = (await self._resolve(backend))[:ADDRESSES_MAX]
        failure: Exception = OSError("no address")
        for index, address in enumerate(addresses):
            left_s = gives_up_at - loop.time()
            share_s = max(ADDRESS_WITHIN_S_MIN, left_s / (len(addresses) - index))
            try:
                async with asyncio.timeout(share_s):
                    return await asyncio.open_connection(
                        address,
                        backend.port,
                        limit=HEADER_BYTES_MAX,
                        ssl=backend.tls,
                        server_hostname=(backend.server_name or backend.host)
                        if backend.tls is not None
                        else None,
                    )
            except ssl.SSLError:
                raise  # The backend has answered.
            except OSError as error:
                failure = failure if index else error
        raise failure

    def _require_allowed(self, backend: ProxyBackend) -> None:
        """Require that an address may be connected to."""
        if not 0 < backend.port <= PORT_MAX:
            raise ValueError(f"dial tcp: address {backend.port}: invalid port")
        self._rules[backend.only_proxyable].require_host(backend.host)

    async def require_addresses(self, backend: ProxyBackend) -> None:
        """Require that a backend has an address that is allowed. Raises RequestFailed, AddressDenied.

        Its addresses may change a moment later, and are checked again then.
        """
        try:
            self._rules[backend.only_proxyable].require_host(backend.host)
            await self._resolve(backend)
        except (OSError, ValueError) as error:
            raise _failure(error, backend) from None

    async def _resolve(self, backend: ProxyBackend) -> list[str]:
        """Resolves a host name."""
        if is_address(backend.host):
            return [backend.host]
        resolver = self._resolver(only_proxyable=backend.only_proxyable)
        found = await resolver.resolve(backend.host, backend.port, socket.AF_UNSPEC)
        return [each["host"] for each in found]

    def _session(self, backend: ProxyBackend, *, keeps: bool) -> aiohttp.ClientSession:
        if backend.is_in_process:
            assert self.in_process is not None
            if self._session_in_process is None:
                self._session_in_process = self._new_session(InProcessConnector(self.in_process))
            return self._session_in_process
        keeps, only_proxyable = keeps and backend.keeps_connections, backend.only_proxyable
        session = self._sessions.get((keeps, only_proxyable))
        if session is None:
            connector = self._new_connector(keeps=keeps, only_proxyable=only_proxyable)
            session = self._sessions[keeps, only_proxyable] = self._new_session(connector)
        return session

    def _new_connector(self, *, keeps: bool, only_proxyable: bool) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=0,
            resolver=self._resolver(only_proxyable=only_proxyable),
            ttl_dns_cache=DNS_TTL_S,
            # Not `force_close`: when a backend closes a TLS connection, as it is asked to, while the client
            # takes its time, the end of a long answer is lost.
            keepalive_timeout=KEEP_ALIVE_S if keeps else NOT_KEPT_S,
        )

    def _new_session(self, connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            request_class=ExactRequest,
            # No cookies, and nothing of the environment.
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_NO_HEADERS_OF_ITS_OWN,
            # An answer may take as long as the client waits for it.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_WITHIN_S),
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            read_bufsize=UNREAD_BYTES_MAX,
        )

    def _resolver(self, *, only_proxyable: bool) -> CheckedResolver:
        resolver = self._resolvers.get(only_proxyable)
        if resolver is None:
            names = self._names or aiohttp.ThreadedResolver()
            resolver = CheckedResolver(self._rules[only_proxyable], names)
            self._resolvers[only_proxyable] = resolver
        return resolver


async def read_head(reader: asyncio.StreamReader) -> AnswerHead:
    """Reads the head of a response. Raises RequestFailed."""
    try:
        while True:
            raw = await reader.readuntil(b"\r\n\r\n")
            head = parse_head(raw)
            if head.status == 101 or head.status >= 200:
                return head
    except asyncio.LimitOverrunError:
        raise BackendRequestFailed(
            f"the head of the response is longer than {HEADER_BYTES_MAX} bytes"
        ) from None
    except asyncio.IncompleteReadError as error:
        raise BackendRequestFailed("unexpected EOF" if error.partial else "EOF") from None
    except OSError as error:
        raise BackendRequestFailed(_os_error(error)) from None


def parse_head(raw: bytes) -> AnswerHead:
    """Parses the head of a response, with the empty line at its end. Raises BackendRequestFailed."""
    if is_malformed(raw):
        raise AmbiguousAnswer(str(MalformedHead()))
    status, *lines = raw[:-4].split(b"\r\n")
    found = _STATUS_LINE.fullmatch(status)
    if found is None or len(lines) > HEADERS_MAX:
        raise BackendRequestFailed("malformed HTTP response")
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise BackendRequestFailed("malformed HTTP response")
        headers.append((name, value.strip()))
    return AnswerHead(int(found[1]), headers, raw)


def _failure(error: Exception, backend: ProxyBackend) -> BackendRequestFailed | AddressDenied:
    """Returns the text of an error, in the words of Go's client."""
    cause: Exception = error
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    elif isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
    dial = f"dial tcp {backend.authority}"
    match cause:
        case AddressDenied():
            return cause
        case MalformedHead():
            return AmbiguousAnswer(str(cause))
        case aiohttp.ServerDisconnectedError():
            return BackendRequestFailed("EOF")
        case ssl.SSLCertVerificationError():
            return BackendRequestFailed(f"tls: failed to verify certificate: {cause.verify_message}")
        case ssl.SSLError():
            return BackendRequestFailed(f"tls: {cause.reason or cause}")
        case TimeoutError() if not cause.args:
            return BackendRequestFailed(f"{dial}: i/o timeout")
        case socket.gaierror() | UnicodeError() | InvalidHost():
            return BackendRequestFailed(f"{dial}: lookup {backend.host}: no such host")
        case OSError(errno=int()):
            return BackendRequestFailed(f"{dial}: connect: {_os_error(cause)}")
        case _:
            return BackendRequestFailed(f"{cause}" or type(cause).__name__)


def _os_error(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else f"{error}" or type(error).__name__
