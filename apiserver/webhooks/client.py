"""Sends reviews to webhooks of all kinds, over HTTPS, and reads the responses within bounds."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from aiohttp import ThreadedResolver
from yarl import URL

from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.field_errors import truncated
from apiserver.meta.vocabulary import IPNetwork
from apiserver.tracing.request_trace import CallTrace
from apiserver.webhooks.addresses import AddressDenied, AddressRules, CheckedResolver, is_address
from apiserver.webhooks.connections import (
    ConnectFailed,
    ConnectionBroken,
    ConnectionPool,
    ConnectionTarget,
    ResolvedAddress,
)
from apiserver.webhooks.errors import CallFailed, ServiceUnreachable
from apiserver.webhooks.http_answers import AnswerReader, AnswerTooLong, MalformedHttpAnswer
from apiserver.webhooks.service_resolver import ServiceLookup, ServiceResolver
from apiserver.wire import json_text

# As long as the largest body of a request. With it goes the bound on values of `json_text`.
ANSWER_BYTES_MAX: Final = 3 * 1024 * 1024
# Of URLs that are taken apart once, if they are not longer than this.
DESTINATIONS_MAX: Final = 1_024
URL_LENGTH_MAX: Final = 2_048
# Of one call, if it is redirected. Go's client: 10.
REQUESTS_MAX: Final = 10
# The redirections that repeat a request as it is; others would make a GET of it.
_REPEATED: Final = frozenset({307, 308})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Of a compressed answer a few bytes may stand for gigabytes. The name is that of kube-apiserver.
_HEADERS: Final = (
    "User-Agent: kube-apiserver-admission\r\n"
    "Content-Type: application/json\r\n"
    "Accept: application/json\r\n"
    "Accept-Encoding: identity\r\n"
)
_TARGET: Final = re.compile(r"[a-z]+://[^/?#\\]+(/[!-\"$-\[\]-~]*)")
_HEADER_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_P = ParamSpec("_P")
_T = TypeVar("_T")


class WebhookResponse(NamedTuple):
    status: int
    content_type: str
    body: bytes


class CallSecurity(NamedTuple):
    """The TLS context and the headers of a call.

    context: the CAs that it trusts, and the certificate that it shows. headers: its credentials.
    server_name: the name in the webhook's certificate, if not the host of its URL.
    """

    context: ssl.SSLContext
    headers: Sequence[tuple[str, str]] = ()
    server_name: str = ""


class _Destination(NamedTuple):
    """The destination of a URL. head: that of requests to it, without length and credentials.

    name: the host and the path, without what may be secret.
    """

    host: str
    port: int
    is_secured: bool
    head: str
    name: str

    def place(self, channel: CallSecurity) -> ConnectionTarget:
        context = channel.context if self.is_secured else None
        return ConnectionTarget(self.host, self.port, context, channel.server_name or self.host)


def _destination(text: str) -> _Destination:
    """Returns the destination of a URL."""
    return _known_destination(text) if len(text) <= URL_LENGTH_MAX else _known_destination.__wrapped__(text)


@lru_cache(maxsize=DESTINATIONS_MAX)
def _known_destination(text: str) -> _Destination:
    url = URL(text)
    if url.scheme not in _DEFAULT_PORTS or not url.raw_host or not url.port:
        raise ValueError("unsupported URL")
    authority = f"[{url.raw_host}]" if ":" in url.raw_host else url.raw_host
    if url.port != _DEFAULT_PORTS[url.scheme]:
        authority += f":{url.port}"
    # As the text has it, where that is escaped: yarl takes escapes away that Go makes.
    target = _TARGET.fullmatch(text)
    path = url.raw_path_qs if target is None else target[1]
    head = f"POST {path} HTTP/1.1\r\nHost: {authority}\r\n{_HEADERS}"
    if url.user is not None:
        pair = f"{url.user}:{url.password or ''}".encode()
        head += f"Authorization: Basic {base64.b64encode(pair).decode()}\r\n"
    return _Destination(url.raw_host, url.port, url.scheme == "https", head, f"{authority}{url.raw_path}")


class _CheckedAddresses:
    """Resolves hosts to the addresses that requests may be sent to; see `connections.Resolver`."""

    def __init__(self, rules: AddressRules, services: ServiceLookup) -> None:
        self._rules = rules
        self._resolver = CheckedResolver(rules, ServiceResolver(services, ThreadedResolver()))

    async def addresses(self, host: str, port: int) -> Sequence[ResolvedAddress]:
        """Returns the addresses of a host.

        Raises ServiceUnreachable, AddressDenied, InvalidHost, OSError, ValueError.
        """
        self._rules.require_host(host)
        if is_address(host):
            return (ResolvedAddress(host, port),)
        found = await self._resolver.resolve(host, port, socket.AF_UNSPEC)
        return [ResolvedAddress(each["host"], each["port"]) for each in found]


class WebhookClient:
    """The HTTP client that all webhooks share, with its connections."""

    def __init__(self, offload: Offload, services: ServiceLookup, denied: Sequence[IPNetwork] = ()) -> None:
        """services: the Services of webhooks. denied: the addresses to which nothing is sent."""
        self._offload = offload
        self._connections = ConnectionPool(_CheckedAddresses(AddressRules(denied), services))

    async def close(self) -> None:
        await self._connections.close()

    async def post(
        self, url: str, review: bytes, channel: CallSecurity, timeout_s: float, *, needs_body: bool = True
    ) -> WebhookResponse:
        """Returns a webhook's response to a review, whatever its status.

        timeout_s: the limit for the whole response. Redirections that repeat the request are followed.
        needs_body: if False, an unreadable body of a successful response counts as empty.
        Raises CallFailed.
        """
        answer, asked = AnswerReader(ANSWER_BYTES_MAX), {url}
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(url, review, channel, answer)
                while answer.status in _REPEATED and answer.location:
                    url, channel = _redirected(url, answer.location, channel)
                    if url in asked or len(asked) == REQUESTS_MAX:
                        raise CallFailed(f'Post "{_shown(url)}": stopped after {len(asked)} redirects')
                    asked.add(url)
                    answer = AnswerReader(ANSWER_BYTES_MAX)
                    await self._send(url, review, channel, answer)
            if answer.encoding not in ("", "identity"):
                raise CallFailed("the response is compressed, which was not requested")
        except (CallFailed, AnswerTooLong, MalformedHttpAnswer, ConnectionBroken, TimeoutError) as error:
            if not needs_body and 200 <= answer.status < 300:
                return WebhookResponse(answer.status, answer.content_type, b"")
            raise _failure(url, error) from None
        except (ConnectFailed, OSError, ValueError) as error:
            raise _failure(url, error) from None
        return WebhookResponse(answer.status, answer.content_type, answer.body)

    async def _send(self, url: str, review: bytes, channel: CallSecurity, answer: AnswerReader) -> None:
        destination = _destination(url)
        trace = CallTrace("webhook", destination.name)
        try:
            lines = _lines((*channel.headers, *trace.headers))
            head = f"{destination.head}{lines}Content-Length: {len(review)}\r\n\r\n".encode()
            await self._connections.exchange(destination.place(channel), head, review, answer)
        except BaseException:
            trace.end(is_error=True)
            raise
        trace.end(is_error=not 200 <= answer.status < 300)

    async def parse(self, body: bytes) -> Any:
        """Returns the document of a response. Raises ValueError if it is not JSON, or has too many values."""
        return await self.work_on(body, json_text.load, body)

    async def work_on(self, body: bytes, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Returns the result of `work` for a response, in a thread if its body is large."""
        # What has been received is better read than refused.
        return await self._offload.run_begun(size_class(len(body)), work, *args, **kwargs)


def _redirected(url: str, location: str, channel: CallSecurity) -> tuple[str, CallSecurity]:
    """Returns the destination of a redirection, and the security of its call. Raises CallFailed.

    Headers with credentials are not sent to another server. A client certificate is presented to it, as by
    Go's client. A redirection from https to http is refused.
    """
    before = URL(url)
    try:
        target = before.join(URL(location)).with_fragment(None)
        if target.scheme != "https" and target.scheme != before.scheme:
            raise ValueError(f'unsupported protocol scheme "{target.scheme}"')
        is_other = (target.scheme, target.host, target.port) != (before.scheme, before.host, before.port)
    except ValueError as error:
        raise CallFailed(f'Post "{truncated(location)}": {error}') from None
    return str(target), CallSecurity(channel.context) if is_other else channel


def _shown(url: str) -> str:
    """Returns a URL as Go's client shows it, without its password."""
    try:
        parsed = URL(url)
        return str(parsed.with_password("***")) if parsed.password is not None else url
    except ValueError:
        return url


def _lines(headers: Iterable[tuple[str, str]]) -> str:
    """Returns header lines."""
    lines = ""
    for name, value in headers:
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"invalid header field value for {name}")
        lines += f"{name}: {value}\r\n"
    return lines


def _failure(url: str, error: Exception) -> CallFailed:
    """Returns the text of an error, in the words of Go's client."""
    if isinstance(error, CallFailed):
        return error
    if isinstance(error, AnswerTooLong):
        return CallFailed(str(error))
    is_timeout = isinstance(error, TimeoutError) and not error.errno
    is_transient = isinstance(error, ConnectFailed | ConnectionBroken) and (
        error.cause is None or isinstance(error.cause, ConnectionResetError)
    )
    told = "context deadline exceeded" if is_timeout else _told(url, error)
    return CallFailed(f'Post "{_shown(url)}": {told}', is_transient=is_transient, is_timeout=is_timeout)


def _told(url: str, error: Exception) -> str:
    cause = error.cause if isinstance(error, ConnectFailed | ConnectionBroken) else error
    match cause:
        case None:
            return "EOF"
        case ServiceUnreachable() | AddressDenied():
            return str(cause)
        case MalformedHttpAnswer():
            return f"net/http: HTTP/1.x transport connection broken: {cause}"
        case ssl.SSLCertVerificationError():
            return f"tls: failed to verify certificate: {cause.verify_message}"
        case ssl.SSLError():
            return f"tls: {cause.reason or cause}"
        case socket.gaierror():
            return f"dial tcp: lookup {URL(url).host}: no such host"
        case OSError(errno=int(number)) if isinstance(error, ConnectFailed):
            host, port = _destination(url)[:2]
            authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            return f"dial tcp {authority}: connect: {os.strerror(number).lower()}"
        case OSError(errno=int(number)):
            return f"read tcp: {os.strerror(number).lower()}"
        case _:
            return f"{cause}" or type(cause).__name__
