"""Calls conversion webhooks, with as many objects at once as bounds allow.

A service is called by the name that a cluster's DNS gives it, `<service>.<namespace>.svc`.
"""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

import orjson

from apiserver.custom_resources.serving import conversion_reviews
from apiserver.custom_resources.serving.conversion_reviews import ConversionReview, WebhookError
from apiserver.meta.errors import ServiceUnavailable
from apiserver.meta.vocabulary import Document
from apiserver.metrics.conversion_webhooks import ConversionWebhookMetrics
from apiserver.webhooks.client import CallSecurity, WebhookClient
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.tls import UnusableBundle, client_context
from apiserver.wire import json_text

TIMEOUT_S: Final = 30
# More objects than fit in one request are sent in several requests, one after the other. The answer, whose
# bounds are `RESPONSE_BYTES_MAX` and the `VALUES_MAX` of JSON, may be twice as large.
REQUEST_OBJECTS_MAX: Final = 500
REQUEST_BYTES_MAX: Final = 1024 * 1024
REQUEST_VALUES_MAX: Final = 125_000
# A longer message of a webhook's failure is cut before it is passed on, in characters.
ERROR_LENGTH_MAX: Final = 8_192


class ConversionFailed(ServiceUnavailable):
    """A webhook cannot be reached, or its response is invalid, which is not the client's fault.

    kube-apiserver responds with 500, too, with the same text.
    """


class ConversionWebhook:
    """The conversion webhook of one definition."""

    def __init__(
        self,
        http: WebhookClient,
        metrics: ConversionWebhookMetrics,
        group: str,
        definition: str,
        described: Document,
    ) -> None:
        """group: that of definitions. definition: its name. described: its `spec.conversion.webhook`."""
        self._http, self._metrics = http, metrics
        self._group, self._definition = group, definition
        self._accepted = described.get("conversionReviewVersions") or ()
        client = ClientConfig.of(described.get("clientConfig") or {})
        self._ca_bundle, self.url = client.ca_bundle, client.url
        self._context: ssl.SSLContext | None = None

    async def convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
        """Returns the documents converted to the apiVersion `desired`. Raises ConversionFailed."""
        with self._metrics.conversion(self._definition, objects[0]["apiVersion"], desired):
            return await self._convert(objects, desired)

    async def _convert(self, objects: Sequence[Document], desired: str) -> list[Document]:
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
            began = time.perf_counter()
            try:
                response, body = await self._post(review.document())
            except WebhookError as error:
                self._metrics.called(time.perf_counter() - began, error.failure)
                raise ConversionFailed(
                    f"conversion webhook for {conversion_reviews.gvk(batch[0])} failed: {error}"
                ) from None
            try:
                converted += await self._http.work_on(body, review.converted, response)
            except WebhookError as error:
                self._metrics.called(time.perf_counter() - began, error.failure)
                raise ConversionFailed(str(error)) from None
            self._metrics.called(time.perf_counter() - began)
        return converted

    async def _post(self, review: Document) -> tuple[Any, bytes]:
        """Returns the response, parsed and as received. Raises WebhookError."""
        url = f"{self.url}?timeout={TIMEOUT_S}s"
        try:
            data = orjson.dumps(review)
        except orjson.JSONEncodeError:
            raise WebhookError("an object is nested too deeply to be sent") from None
        try:
            answer = await self._http.post(url, data, CallSecurity(self._tls()), TIMEOUT_S)
        except CallFailed as error:
            raise WebhookError(str(error)) from None
        try:
            document = await self._http.parse(answer.body)
        except ValueError as error:
            if answer.status < 300:
                raise WebhookError(f"the response is not JSON: {error}") from None
            document = None
        if answer.status >= 300:
            raise WebhookError(_error_message(answer.status, document))
        return document, answer.body

    def _tls(self) -> ssl.SSLContext:
        """Returns the TLS context. Raises WebhookError if the CA bundle cannot be loaded."""
        if self._context is None:
            try:
                self._context = client_context(self._ca_bundle)
            except UnusableBundle as error:
                raise WebhookError(str(error)) from None
        return self._context


def _batches(objects: Sequence[Document]) -> Sequence[Sequence[Document]]:
    batches: list[list[Document]] = [[]]
    size = values = 0
    for each in objects:
        encoded = orjson.dumps(each)
        its_values = json_text.values_in(encoded)
        is_full = (
            len(batches[-1]) == REQUEST_OBJECTS_MAX
            or size + len(encoded) > REQUEST_BYTES_MAX
            or values + its_values > REQUEST_VALUES_MAX
        )
        if batches[-1] and is_full:
            batches.append([])
            size = values = 0
        batches[-1].append(each)
        size += len(encoded)
        values += its_values
    return batches


def _error_message(status: int, document: Any) -> str:
    message = document.get("message") if isinstance(document, dict) else None
    if not message:
        return f"the server responded with the status code {status}"
    return str(message)[:ERROR_LENGTH_MAX]
