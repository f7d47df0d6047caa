"""Forwards one request to a backend, and its response to the client."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, TypeAlias

import aiohttp
from aiohttp import hdrs

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import send_continue
from apiserver.endpoints.responses import TEXT, ForwardedAnswer, send
from apiserver.endpoints.reverse_proxy import headers
from apiserver.endpoints.reverse_proxy.backends import BackendConnector
from apiserver.endpoints.reverse_proxy.errors import (
    AmbiguousAnswer,
    BackendRequestFailed,
    BackendUnreachable,
    BadGateway,
)
from apiserver.endpoints.reverse_proxy.html import LinkRewriter
from apiserver.endpoints.reverse_proxy.links import ProxiedLinks, joined
from apiserver.endpoints.reverse_proxy.target import ProxyBackend, ProxyTarget
from apiserver.endpoints.reverse_proxy.upgrades import upgrade
from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.meta.errors import ApiError, BadRequest, Forbidden, TooManyRequests
from apiserver.storage.event_loop_turns import Turn
from apiserver.webhooks.addresses import AddressDenied, NotProxyable

# Requests that are forwarded at the same time. Each takes up to 300 KB while both sides are slow.
FORWARDED_MAX: Final = 1_000
# HTML is rewritten, and decompressed, so much at a time.
HTML_BYTES: Final = 16 * 1024
# Source: k8s.io/apimachinery, pkg/util/proxy/upgradeaware.go.
_REDIRECTED: Final = b"the backend attempted to redirect this request, which is not permitted"
_NO_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
# For zlib: gzip, or a deflated stream without the head of zlib, as browsers and Go take it.
_WINDOW_BITS: Final = {b"gzip": 31, b"deflate": -zlib.MAX_WBITS}


Upgrader: TypeAlias = Callable[[ApiCall, BackendConnector, ProxyTarget, headers.Headers], Awaitable[None]]


def _denial(error: AddressDenied) -> ApiError:
    return BadRequest(str(error)) if isinstance(error, NotProxyable) else Forbidden(str(error))


class Forwarder:
    """Forwards requests to backends. identity: the headers that only this server may read."""

    def __init__(
        self,
        backends: BackendConnector,
        identity: headers.IdentityHeaders,
        *,
        forwarded_max: int = FORWARDED_MAX,
    ) -> None:
        self.backends = backends
        self._identity = identity
        self._pool = SharedPool(forwarded_max)
        self._endless: set[asyncio.Task[object]] = set()

    async def forward(self, call: ApiCall, target: ProxyTarget, upgrader: Upgrader = upgrade) -> None:
        """Forwards a request, until its response has been passed on, or its connection has been closed.

        upgrader: relays the connection of a request that asks for an upgrade.
        Raises BackendUnreachable, ForwardingFailed, BadGateway, Forbidden (the address is denied),
        BadRequest, TooManyRequests.
        """
        request = call.request
        protocol = headers.upgrade_of(request.headers, request.headers.getall(hdrs.CONNECTION, ()))
        received = [*request.headers.items()]
        passed = headers.to_backend(received, _client_address(call), self._identity, upgrade=protocol)
        if target.prefix is not None:
            uri = joined(target.prefix, target.path)
            passed = headers.replaced(passed, [("X-Forwarded-Uri", uri)])
        passed = headers.replaced(passed, target.headers)
        headers.require_utf8(target.headers)
        with self.place(call):
            if protocol:
                if request.body_exists:
                    raise BadRequest("a request that asks for an upgrade must not have a body")
                await self._upgrade(call, target, passed, upgrader)
            elif target.upgrade_required:
                raise BadRequest("Upgrade request required")
            elif not target.path and request.method in (hdrs.METH_GET, hdrs.METH_HEAD):
                await _redirect_to_root(call)
            else:
                await self._pass_on(call, target, passed)

    @contextmanager
    def place(self, call: ApiCall) -> Iterator[None]:
        """Takes one of the places for forwarded requests. Raises TooManyRequests."""
        holder = holder_of(call.user)
        if not self._pool.take(holder):
            raise TooManyRequests
        try:
            yield
        finally:
            self._pool.give_back(holder)

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """Mark an endless response, as a followed log, which ends when the server stops."""
        task = asyncio.current_task()
        assert task is not None
        self._endless.add(task)
        try:
            yield
        finally:
            self._endless.discard(task)

    def stop(self) -> None:
        """End the endless responses."""
        for task in self._endless:
            task.cancel()

    async def _upgrade(
        self, call: ApiCall, target: ProxyTarget, passed: headers.Headers, upgrader: Upgrader
    ) -> None:
        try:
            with self.until_stopped():
                await upgrader(call, self.backends, target, passed)
        except AddressDenied as error:
            raise _denial(error) from None

    async def _pass_on(self, call: ApiCall, target: ProxyTarget, passed: headers.Headers) -> None:
        has_body = call.request.body_exists and not call.discards_body
        body = _body(call) if has_body else None
        if body is None:
            # A backend would take the next request on its connection for the body that this one announces.
            passed = [each for each in passed if each[0].lower() != "content-length"]
        try:
            response = await self.backends.request(call.request.method, target, passed, body)
        except AmbiguousAnswer as error:
            raise BadGateway(str(error)) from None
        except BackendRequestFailed as error:
            raise BackendUnreachable(str(error)) from None
        except AddressDenied as error:
            raise _denial(error) from None
        try:
            await self._answer(call, target, response)
        except BackendRequestFailed as error:
            raise BackendUnreachable(str(error)) from None  # The client sees an answer that is cut off.
        finally:
            response.close()

    async def _answer(self, call: ApiCall, target: ProxyTarget, response: aiohttp.ClientResponse) -> None:
        """Passes on a response. Raises RequestFailed."""
        if response.status < 200:
            raise BackendRequestFailed(f"unexpected status {response.status}")
        if target.rejects_redirects and 300 <= response.status < 400 and response.headers.get(hdrs.LOCATION):
            await send(call, HTTPStatus.BAD_GATEWAY, _REDIRECTED, TEXT)
            return
        lines = headers.to_client(response.raw_headers)
        rewriter = None
        if target.prefix is not None:
            host = call.request.headers.get(hdrs.HOST, "")
            links = ProxiedLinks(target.prefix, target.backend.authority, host)
            lines, redirects = _with_location(lines, links)
            rewriter = None if redirects else _html_rewriter(call, response, links)
        length = _content_length(response)
        if rewriter is not None:
            dropped = (b"content-encoding", b"content-length")
            lines = [each for each in lines if each[0].lower() not in dropped]
            length = None
        has_body = call.request.method != hdrs.METH_HEAD and response.status not in _NO_BODY
        answer = ForwardedAnswer(call, response.status, lines, length=length, has_body=has_body)
        if not has_body:
            return
        with call.connection.relaying():
            async for piece in self._pieces(response, target.backend, rewriter):
                call.body_bytes += len(piece)
                answer.write(piece)
                await answer.drain()
        answer.finish()

    async def _pieces(
        self, response: aiohttp.ClientResponse, backend: ProxyBackend, rewriter: _HtmlRewriter | None
    ) -> AsyncIterator[bytes]:
        """Yields the pieces of a response's body. Raises RequestFailed."""
        turn = Turn()
        async for piece in self.backends.pieces(response, backend):
            if rewriter is None:
                yield piece
                continue
            for each in rewriter.feed(piece):
                if each:
                    yield each
                if turn.is_over():
                    await turn.next()
        if rewriter is not None and (last := rewriter.finish()):
            yield last


class _HtmlRewriter:
    """Rewrites the links of HTML, and decompresses it first where necessary. encoding: of the body."""

    def __init__(self, links: ProxiedLinks, encoding: bytes) -> None:
        self._rewriter = LinkRewriter(links.rewrite)
        self._inflate = zlib.decompressobj(_WINDOW_BITS[encoding]) if encoding else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the parts that can be passed on, a little at a time. Raises RequestFailed."""
        if self._inflate is None:
            for begin in range(0, len(data), HTML_BYTES):
                yield self._rewriter.feed(data[begin : begin + HTML_BYTES])
            return
        while data and not self._inflate.eof:
            try:
                text = self._inflate.decompress(data, HTML_BYTES)
            except zlib.error as error:
                raise BackendRequestFailed(f"{error}") from None
            data = self._inflate.unconsumed_tail
            yield self._rewriter.feed(text)

    def finish(self) -> bytes:
        rest = b"" if self._inflate is None else self._inflate.flush(HTML_BYTES)
        return self._rewriter.feed(rest, is_last=True)


def _html_rewriter(
    call: ApiCall, response: aiohttp.ClientResponse, links: ProxiedLinks
) -> _HtmlRewriter | None:
    """Returns the rewriter of a response's body; None if it is not HTML, or has an unknown encoding."""
    # A part of a document has a place in it that would be wrong.
    is_part = response.status == HTTPStatus.PARTIAL_CONTENT
    if call.request.method == hdrs.METH_HEAD or response.status in _NO_BODY or is_part:
        return None
    if response.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip() != "text/html":
        return None
    encoding = response.headers.get(hdrs.CONTENT_ENCODING, "").encode("utf-8", "replace")
    return _HtmlRewriter(links, encoding) if not encoding or encoding in _WINDOW_BITS else None


def _with_location(
    lines: list[tuple[bytes, bytes]], links: ProxiedLinks
) -> tuple[list[tuple[bytes, bytes]], bool]:
    """Returns the headers with a rewritten redirect, and whether there is one."""
    changed, redirects = [], False
    for name, value in lines:
        if name.lower() == b"location" and value:
            redirects = True
            rewritten = links.rewrite(value.decode("utf-8", "surrogateescape"))
            value = rewritten.encode("utf-8", "surrogateescape")
        changed.append((name, value))
    return changed, redirects


def _content_length(response: aiohttp.ClientResponse) -> int | None:
    if hdrs.TRANSFER_ENCODING in response.headers:
        return None
    text = response.headers.get(hdrs.CONTENT_LENGTH, "")
    return int(text) if text.isascii() and text.isdigit() else None


async def _redirect_to_root(call: ApiCall) -> None:
    """Redirects a request for the backend's root without a slash to the URL that relative links need."""
    path, mark, query = call.request.raw_path.partition("?")
    location = f"{path}/{mark}{query}"
    await send(call, HTTPStatus.MOVED_PERMANENTLY, b"", "", {hdrs.LOCATION: location})


async def _body(call: ApiCall) -> AsyncIterator[bytes]:
    """Yields the pieces of a request's body as they arrive."""
    call.has_read_body = True
    send_continue(call.request)
    content = call.request.content
    while piece := await content.readany():
        yield piece


def _client_address(call: ApiCall) -> str:
    transport = call.request.transport
    peer = transport.get_extra_info("peername") if transport is not None else None
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""
