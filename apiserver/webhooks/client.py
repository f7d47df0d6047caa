"""Sends reviews to webhooks of all kinds, over HTTPS, and reads the answers within bounds."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp import hdrs
from yarl import URL

from apiserver.registry.offload import Offload
from apiserver.registry.size_class import size_class
from apiserver.vocabulary import IPNetwork
from apiserver.webhooks.addresses import AddressDenied, AddressRules, CheckedResolver
from apiserver.webhooks.errors import CallFailed, ServiceUnreachable
from apiserver.webhooks.service_resolver import ServiceResolver, Services
from apiserver.wire import json_text

# As long as the largest body of a request. With it goes the bound on values of `json_text`.
ANSWER_BYTES_MAX: Final = 3 * 1024 * 1024
# To each host.
CONNECTIONS_MAX: Final = 100
# How long an address is taken to be right: endpoints of Services change.
DNS_TTL_S: Final = 1
_READ_BYTES: Final = 64 * 1024
_HEADERS: Final = {
    hdrs.CONTENT_TYPE: "application/json",
    hdrs.ACCEPT: "application/json",
    # Of a compressed answer a few bytes may stand for gigabytes.
    hdrs.ACCEPT_ENCODING: "identity",
}


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


class Channel(NamedTuple):
    """How a call is secured.

    context: whom it trusts, and the certificate that it shows. headers: what else it shows.
    server_name: that the webhook's certificate must have, if not the host of its URL.
    """

    context: ssl.SSLContext
    headers: Sequence[tuple[str, str]] = ()
    server_name: str = ""


class WebhookClient:
    """The HTTP client whose connections all webhooks share."""

    def __init__(self, offload: Offload, services: Services, denied: Sequence[IPNetwork] = ()) -> None:
        """services: those that webhooks may be behind. denied: addresses to which nothing is sent."""
        self._offload = offload
        self._services = services
        self._rules = AddressRules(denied)
        self._session: aiohttp.ClientSession | None = None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            resolver = ServiceResolver(self._services, aiohttp.ThreadedResolver())
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    limit_per_host=CONNECTIONS_MAX,
                    resolver=CheckedResolver(self._rules, resolver),
                    ttl_dns_cache=DNS_TTL_S,
                ),
                # No cookies, and nothing of the environment.
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(
        self, url: str, review: bytes, channel: Channel, timeout_s: float, *, needs_body: bool = True
    ) -> Answer:
        """Returns what a webhook answers to a review, whatever its status.

        timeout_s: until the whole answer is there. Redirections are not followed.
        needs_body: without it a body that cannot be read is taken as empty, if the status is of a success.
        Raises CallFailed.
        """
        try:
            self._rules.require_host(URL(url).host or "")
            async with self._open_session().post(
                url,
                data=review,
                headers=[*_HEADERS.items(), *channel.headers] if channel.headers else _HEADERS,
                ssl=channel.context,
                server_hostname=channel.server_name or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                try:
                    body = await _read(response)
                except (CallFailed, TimeoutError, aiohttp.ClientError):
                    if needs_body or not response.ok:
                        raise
                    body = b""
                return Answer(response.status, response.content_type, body)
        except TimeoutError:
            raise CallFailed(f'Post "{url}": context deadline exceeded', is_timeout=True) from None
        except aiohttp.ServerDisconnectedError:
            raise CallFailed(f'Post "{url}": EOF', is_transient=True) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            is_reset = isinstance(error, ConnectionResetError)
            raise CallFailed(f'Post "{url}": {_told(error)}', is_transient=is_reset) from None

    async def parse(self, body: bytes) -> Any:
        """Returns the document of an answer. Raises ValueError: it is no JSON, or has too many values."""
        # What has been received is better parsed than refused.
        return await self._offload.run_begun(size_class(len(body)), json_text.load, body)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Returns the body of a response. Raises CallFailed if it is too long, or compressed."""
    if response.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise CallFailed("the answer is compressed, which was not asked for")
    pieces, size = [], 0
    async for piece in response.content.iter_chunked(_READ_BYTES):
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise CallFailed(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        pieces.append(piece)
        await asyncio.sleep(0)
    return b"".join(pieces)


def _told(error: Exception) -> str:
    """Returns what has gone wrong; of a host without an address, what the resolver says about it."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ServiceUnreachable | AddressDenied
    ):
        return str(error.os_error)
    return f"{error}" or type(error).__name__
