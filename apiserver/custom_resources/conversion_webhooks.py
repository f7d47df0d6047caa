"""Calls conversion webhooks, over HTTPS and within bounds.

A service is called by the name that a cluster's DNS gives it, `<service>.<namespace>.svc`.
"""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import Sequence
from typing import Any, Final

import aiohttp
import orjson

from apiserver.custom_resources import conversion_reviews
from apiserver.custom_resources.conversion_reviews import ConversionReview, WebhookError
from apiserver.errors import ServiceUnavailable
from apiserver.registry.offload import Offload
from apiserver.registry.size_class import size_class
from apiserver.vocabulary import Document
from apiserver.webhooks.caller import told
from apiserver.webhooks.service_resolver import ServiceResolver, Services
from apiserver.webhooks.tls import UnusableBundle, client_context

TIMEOUT_S: Final = 30
# More objects than fit in one request are sent in several requests, one after the other.
REQUEST_OBJECTS_MAX: Final = 500
REQUEST_BYTES_MAX: Final = 2 * 1024 * 1024
RESPONSE_BYTES_MAX: Final = 16 * 1024 * 1024
# To each host.
CONNECTIONS_MAX: Final = 100
# How long an address is taken to be right: endpoints of Services change.
DNS_TTL_S: Final = 1
# A longer message of a webhook's failure is cut before it is passed on, in characters.
ERROR_LENGTH_MAX: Final = 8_192
_READ_BYTES: Final = 64 * 1024


class ConversionFailed(ServiceUnavailable):
    """A webhook cannot be reached, or its response is invalid: neither the client's fault, nor ours.

    kube-apiserver answers 500 here, with the same text.
    """


class WebhookClient:
    """The HTTP client whose connections all webhooks share."""

    def __init__(self, offload: Offload, services: Services) -> None:
        self.offload = offload
        self._services = services
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    limit_per_host=CONNECTIONS_MAX,
                    resolver=ServiceResolver(self._services, aiohttp.ThreadedResolver()),
                    ttl_dns_cache=DNS_TTL_S,
                ),
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                # No cookies, and nothing of the environment.
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class ConversionWebhook:
    """The conversion webhook of one definition. group: of definitions."""

    def __init__(self, http: WebhookClient, group: str, described: Document) -> None:
        """described: `spec.conversion.webhook` of the definition."""
        self._http = http
        self._group = group
        self._accepted = described.get("conversionReviewVersions") or ()
        client: Document = described.get("clientConfig") or {}
        self._ca_bundle: str = client.get("caBundle") or ""
        self.url = client.get("url") or _url_of(client.get("service") or {})
        self._context: ssl.SSLContext | None = None

    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
        """Returns the documents converted to the apiVersion `desired`. Raises ConversionFailed."""
        version = conversion_reviews.review_version(self._accepted)
        if version is None:
            raise ConversionFailed("no supported conversion review versions")
        converted: list[Document] = []
        try:
            batches = _batches(objects)
        except orjson.JSONEncodeError:
            raise ConversionFailed("an object is nested too deeply to be converted") from None
        for batch in batches:
            uid = str(uuid.uuid4())
            review = ConversionReview(self._group, version, uid, batch, desired)
            try:
                response = await self._post(review.document())
            except WebhookError as error:
                raise ConversionFailed(
                    f"conversion webhook for {conversion_reviews.gvk(batch[0])} failed: {error}"
                ) from None
            try:
                converted += review.converted(response)
            except WebhookError as error:
                raise ConversionFailed(str(error)) from None
        return converted

    async def _post(self, review: Document) -> Any:
        """Raises WebhookError."""
        url = f"{self.url}{'&' if '?' in self.url else '?'}timeout={TIMEOUT_S}s"
        try:
            data = orjson.dumps(review)
        except orjson.JSONEncodeError:
            raise WebhookError("an object is nested too deeply to be sent") from None
        try:
            async with self._http.session().post(
                url,
                data=data,
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=self._tls(),
                allow_redirects=False,
            ) as response:
                body = await _read(response.content)
                if response.status >= 300:
                    raise WebhookError(_error_message(response.status, body))
        except TimeoutError:
            raise WebhookError(f'Post "{url}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WebhookError(f'Post "{url}": {told(error)}') from None
        try:
            return await self._http.offload.run_begun(size_class(len(body)), orjson.loads, body)
        except orjson.JSONDecodeError as error:
            raise WebhookError(f"the answer is not JSON: {error}") from None

    def _tls(self) -> ssl.SSLContext:
        """Raises WebhookError for a CA bundle that cannot be loaded."""
        if self._context is None:
            try:
                self._context = client_context(self._ca_bundle)
            except UnusableBundle as error:
                raise WebhookError(str(error)) from None
        return self._context


def _url_of(service: Document) -> str:
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
    path = service.get("path") or "/"
    return f"https://{host}:{service.get('port') or 443}{'' if path.startswith('/') else '/'}{path}"


def _batches(objects: Sequence[Document]) -> Sequence[Sequence[Document]]:
    batches: list[list[Document]] = [[]]
    size = 0
    for each in objects:
        length = len(orjson.dumps(each))
        is_full = len(batches[-1]) == REQUEST_OBJECTS_MAX or size + length > REQUEST_BYTES_MAX
        if batches[-1] and is_full:
            batches.append([])
            size = 0
        batches[-1].append(each)
        size += length
    return batches


async def _read(content: aiohttp.StreamReader) -> bytes:
    """Returns the body of a response. Raises WebhookError if it is too long."""
    pieces, size = [], 0
    async for piece in content.iter_chunked(_READ_BYTES):
        size += len(piece)
        if size > RESPONSE_BYTES_MAX:
            raise WebhookError(f"the answer is longer than {RESPONSE_BYTES_MAX} bytes")
        pieces.append(piece)
        await asyncio.sleep(0)
    return b"".join(pieces)


def _error_message(status: int, body: bytes) -> str:
    try:
        message = orjson.loads(body).get("message")
    except (orjson.JSONDecodeError, AttributeError):
        message = None
    if not message:
        return f"the server answered with the status code {status}"
    return str(message)[:ERROR_LENGTH_MAX]
