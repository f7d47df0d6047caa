"""Calls identity providers over HTTPS, within bounds of size, time and redirections."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from typing import Final, TypeVar

import aiohttp
from aiohttp import hdrs
from yarl import URL

from apiserver.auth.authn.discovery_documents import ProviderFailed
from apiserver.webhooks.tls import UnusableBundle, client_context

T = TypeVar("T")

# Discovery documents and key sets have some kilobytes.
DOCUMENT_BYTES_MAX: Final = 1024 * 1024
# For one document, redirections and all.
TIMEOUT_S: Final = 10.0
REDIRECTIONS_MAX: Final = 3
CONNECTIONS_MAX: Final = 8
_READ_BYTES: Final = 64 * 1024
_CONTEXTS_MAX: Final = 64
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {
    hdrs.ACCEPT: "application/json",
    # Of a compressed answer a few bytes may stand for gigabytes.
    hdrs.ACCEPT_ENCODING: "identity",
}


class DocumentFetcher:
    """Fetches the documents of OIDC providers, which share an HTTP client."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None
        # By the authorities that are trusted.
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def __call__(self, url: str, authorities: str) -> bytes:
        """Returns the document at a URL. authorities: those in PEM; empty: the system's. Raises
        ProviderFailed.
        """
        return await self._in_time(self._document(url, authorities), f'Get "{url}"')

    async def post_form(
        self, url: str, authorities: str, form: Mapping[str, str], authorization: str
    ) -> tuple[int, bytes]:
        """Post a form, and return the status and the body of the response. Raises ProviderFailed.

        authorization: the header; empty for none. Redirections are not followed, as the form has secrets.
        """
        return await self._in_time(self._post(url, authorities, form, authorization), f'Post "{url}"')

    async def _in_time(self, exchange: Awaitable[T], what: str) -> T:
        """Raises ProviderFailed."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await exchange
        except TimeoutError:
            raise ProviderFailed(f"{what}: context deadline exceeded") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ProviderFailed(f"{what}: {error or type(error).__name__}") from None

    async def _post(
        self, url: str, authorities: str, form: Mapping[str, str], authorization: str
    ) -> tuple[int, bytes]:
        headers = {**_HEADERS, hdrs.AUTHORIZATION: authorization} if authorization else _HEADERS
        async with self._open_session().post(
            URL(url),
            data=dict(form),
            headers=headers,
            ssl=await self._context(authorities),
            allow_redirects=False,
        ) as response:
            return response.status, await _read(response, f'Post "{url}"')

    async def _document(self, url: str, authorities: str) -> bytes:
        target = URL(url)
        for _ in range(REDIRECTIONS_MAX + 1):
            if target.scheme != "https":
                raise ProviderFailed(f'Get "{url}": redirected to a URL without https')
            async with self._open_session().get(
                target, headers=_HEADERS, ssl=await self._context(authorities), allow_redirects=False
            ) as response:
                location = response.headers.get(hdrs.LOCATION)
                if response.status in _REDIRECTIONS and location:
                    target = target.join(URL(location))
                    continue
                if response.status != 200:
                    raise ProviderFailed(f'Get "{url}": unexpected status code {response.status}')
                return await _read(response, f'Get "{url}"')
        raise ProviderFailed(f'Get "{url}": stopped after {REDIRECTIONS_MAX} redirects')

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit_per_host=CONNECTIONS_MAX),
                # No cookies, and nothing of the environment.
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    async def _context(self, authorities: str) -> ssl.SSLContext:
        context = self._contexts.get(authorities)
        if context is None:
            bundle = base64.b64encode(authorities.encode()).decode()
            try:
                context = await asyncio.to_thread(client_context, bundle)
            except UnusableBundle as error:
                raise ProviderFailed(str(error)) from None
            self._contexts[authorities] = context
            if len(self._contexts) > _CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        return context


async def _read(response: aiohttp.ClientResponse, what: str) -> bytes:
    if response.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise ProviderFailed(f"{what}: the response is compressed, which was not requested")
    pieces, size = [], 0
    async for piece in response.content.iter_chunked(_READ_BYTES):
        size += len(piece)
        if size > DOCUMENT_BYTES_MAX:
            raise ProviderFailed(f"{what}: the response is longer than {DOCUMENT_BYTES_MAX} bytes")
        pieces.append(piece)
    return b"".join(pieces)
