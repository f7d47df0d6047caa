"""Calls admission webhooks: posts a review over HTTPS, and returns the document that comes back.

Failures are told in the words of Kubernetes' client.
Source: k8s.io/client-go, rest/request.go; k8s.io/apimachinery, pkg/api/errors, NewGenericServerResponse.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import orjson

from apiserver.registry.offload import Offload
from apiserver.registry.size_class import size_class
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.errors import CallFailed, ServiceUnreachable
from apiserver.webhooks.tls import UnusableBundle, client_context

# An AdmissionReview holds little but a patch; Kubernetes takes answers of 3 MiB.
ANSWER_BYTES_MAX: Final = 3 * 1024 * 1024
# Of how many CA bundles the contexts are kept: making one takes a millisecond for each certificate.
CONTEXTS_MAX: Final = 256
# A longer message of a webhook's failure is cut before it is passed on, in characters.
ERROR_LENGTH_MAX: Final = 8_192
_READ_BYTES: Final = 64 * 1024
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json"}
_MESSAGES: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the "
    "request",
}
_TOLD_BY_SERVER: Final = frozenset({403, 415})


class AdmissionCaller:
    """Makes the calls. session: returns the HTTP client whose connections all webhooks share."""

    def __init__(self, session: Callable[[], aiohttp.ClientSession], offload: Offload) -> None:
        self._session = session
        self._offload = offload
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()  # the one used last at the end

    async def post(self, client: ClientConfig, body: bytes, timeout_s: int) -> Any:
        """Returns the document that a webhook answers with. Raises CallFailed."""
        url = f"{client.url}{'&' if '?' in client.url else '?'}timeout={timeout_s}s"
        try:
            context = await self._context(client.ca_bundle)
            async with self._session().post(
                url,
                data=body,
                headers=_HEADERS,
                ssl=context,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                answer = await _read(response.content)
                if not 200 <= response.status < 300:
                    raise CallFailed(_failure(response.status, response.content_type, answer))
        except UnusableBundle as error:
            raise CallFailed(str(error)) from None
        except TimeoutError:
            raise CallFailed(f'Post "{url}": context deadline exceeded') from None
        except aiohttp.ServerDisconnectedError:
            raise CallFailed(f'Post "{url}": EOF') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallFailed(f'Post "{url}": {told(error)}') from None
        try:
            return await self._offload.run_begun(size_class(len(answer)), orjson.loads, answer)
        except orjson.JSONDecodeError as error:
            raise CallFailed(f"couldn't get version/kind; json parse error: {error}") from None

    async def _context(self, ca_bundle: str) -> ssl.SSLContext:
        """Raises UnusableBundle."""
        context = self._contexts.get(ca_bundle)
        if context is None:
            context = await asyncio.to_thread(client_context, ca_bundle)
            self._contexts[ca_bundle] = context
            if len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        else:
            self._contexts.move_to_end(ca_bundle)
        return context


async def _read(content: aiohttp.StreamReader) -> bytes:
    """Returns the body of a response. Raises CallFailed if it is too long."""
    pieces, size = [], 0
    async for piece in content.iter_chunked(_READ_BYTES):
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise CallFailed(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def told(error: Exception) -> str:
    """Returns what has gone wrong; of a host that is not found, what the resolver says about it."""
    if isinstance(error, aiohttp.ClientConnectorDNSError) and isinstance(error.os_error, ServiceUnreachable):
        return str(error.os_error)
    return f"{error}" or type(error).__name__


def _failure(status: int, content_type: str, body: bytes) -> str:
    """Returns the message of an answer that is no success."""
    server_message = "unknown"
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        if content_type.startswith("text/"):
            server_message = body.decode("utf-8", "replace").strip()
    else:
        is_status = isinstance(document, dict) and document.get("kind") == "Status"
        if is_status and isinstance(message := document.get("message"), str) and message:
            return message[:ERROR_LENGTH_MAX]
    if status in _TOLD_BY_SERVER:
        return server_message[:ERROR_LENGTH_MAX]
    if status in _MESSAGES:
        return _MESSAGES[status]
    if status >= 500:
        told = server_message[:ERROR_LENGTH_MAX]
        return f'an error on the server ("{told}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"
