"""Asks conversion webhooks, over HTTPS and within bounds.

A service is found under the name that a cluster's DNS gives it, `<service>.<namespace>.svc`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import uuid
from collections.abc import Sequence
from typing import Any, Final

import aiohttp
import orjson

from apiserver.custom_resources import conversion_reviews
from apiserver.custom_resources.conversion_reviews import WebhookError
from apiserver.errors import ServiceUnavailable
from apiserver.registry import offload
from apiserver.vocabulary import Document

TIMEOUT_S: Final = 30
# Of one question and of one answer. More objects are asked about one after the other.
REQUEST_OBJECTS_MAX: Final = 500
QUESTION_BYTES_MAX: Final = 2 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
# To one webhook. How many there are to others is nothing to it.
CONNECTIONS_MAX: Final = 100
# Of what a webhook says of its failure, that much is passed on.
ERROR_LENGTH_MAX: Final = 8_192
_READ_BYTES: Final = 64 * 1024


class ConversionFailed(ServiceUnavailable):
    """A webhook cannot be reached, or says what it must not: neither the client's fault, nor ours.

    kube-apiserver answers 500 here, with the same text.
    """


class WebhookClient:
    """Whoever asks webhooks shares their connections."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=CONNECTIONS_MAX),
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                # No cookies, and nothing of the environment.
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class Webhook:
    """The conversion webhook of one definition. group: of definitions."""

    def __init__(self, webhooks: WebhookClient, group: str, described: Document) -> None:
        """described: as `spec.conversion.webhook` has it."""
        self._webhooks = webhooks
        self._group = group
        self._accepted = described.get("conversionReviewVersions") or ()
        client: Document = described.get("clientConfig") or {}
        self._ca_bundle: str = client.get("caBundle") or ""
        self.url = client.get("url") or _url_of(client.get("service") or {})
        self._context: ssl.SSLContext | None = None

    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
        """Documents in another version. Raises ConversionFailed."""
        version = conversion_reviews.review_version(self._accepted)
        if version is None:
            raise ConversionFailed("no supported conversion review versions")
        given: list[Document] = []
        try:
            batches = _batches(objects)
        except orjson.JSONEncodeError:
            raise ConversionFailed("an object is nested too deeply to be converted") from None
        for batch in batches:
            uid = str(uuid.uuid4())
            question = conversion_reviews.review(self._group, version, uid, batch, desired)
            try:
                answer = await self._ask(question)
            except WebhookError as error:
                raise ConversionFailed(
                    f"conversion webhook for {conversion_reviews.gvk(batch[0])} failed: {error}"
                ) from None
            try:
                given += conversion_reviews.converted(answer, self._group, version, uid, batch, desired)
            except WebhookError as error:
                raise ConversionFailed(str(error)) from None
        return given

    async def _ask(self, question: Document) -> Any:
        """Raises BadAnswer."""
        url = f"{self.url}{'&' if '?' in self.url else '?'}timeout={TIMEOUT_S}s"
        try:
            data = orjson.dumps(question)
        except orjson.JSONEncodeError:
            raise WebhookError("an object is nested too deeply to be sent") from None
        try:
            async with self._webhooks.session().post(
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
            raise WebhookError(f'Post "{url}": {error}') from None
        try:
            return await offload.run(len(body) > offload.LARGE_BYTES, orjson.loads, body)
        except orjson.JSONDecodeError as error:
            raise WebhookError(f"the answer is not JSON: {error}") from None

    def _tls(self) -> ssl.SSLContext:
        """Raises BadAnswer."""
        if self._context is None:
            try:
                authorities = base64.b64decode(self._ca_bundle).decode() if self._ca_bundle else None
                self._context = ssl.create_default_context(cadata=authorities)
            except (binascii.Error, ValueError, ssl.SSLError) as error:
                raise WebhookError(f"unable to load root certificates: {error}") from None
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
        is_full = len(batches[-1]) == REQUEST_OBJECTS_MAX or size + length > QUESTION_BYTES_MAX
        if batches[-1] and is_full:
            batches.append([])
            size = 0
        batches[-1].append(each)
        size += length
    return batches


async def _read(content: aiohttp.StreamReader) -> bytes:
    """All of an answer, if it is not too long. Raises BadAnswer."""
    pieces, size = [], 0
    async for piece in content.iter_chunked(_READ_BYTES):
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise WebhookError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        pieces.append(piece)
        await asyncio.sleep(0)
    return b"".join(pieces)


def _error_message(status: int, body: bytes) -> str:
    try:
        said = orjson.loads(body).get("message")
    except (orjson.JSONDecodeError, AttributeError):
        said = None
    if not said:
        return f"the server answered with the status code {status}"
    return str(said)[:ERROR_LENGTH_MAX]
