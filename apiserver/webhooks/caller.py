"""Calls admission webhooks: posts a review over HTTPS, and returns the document of the response.

A webhook gets the configured credentials for its host, if any.

Errors have the texts of Kubernetes' client.
Source: k8s.io/client-go, rest/request.go; k8s.io/apimachinery, pkg/api/errors, NewGenericServerResponse.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from typing import Any, Final

from apiserver.webhooks.client import CallSecurity, WebhookClient, WebhookResponse
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.credential_files import CallCredentials, CredentialFiles
from apiserver.webhooks.credentials import HostCredentials
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.tls import UnusableBundle, UnusableCertificate, client_context

# Of how many CA bundles the contexts are kept: making one takes a millisecond for each certificate.
CONTEXTS_MAX: Final = 256
# A longer message of a webhook's failure is cut before it is passed on, in characters.
ERROR_LENGTH_MAX: Final = 8_192
# What a status means, by the code.
MESSAGES: Final = {
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
# As Kubernetes' client tries again, where it does.
_TRANSIENT: Final = frozenset({429, 500, 504})
_GATEWAY_TIMEOUT: Final = 504
_NOTHING: Final = CallCredentials()
_TOLD_BY_SERVER: Final = frozenset({403, 415})


class AdmissionCaller:
    """Calls webhooks with the credentials for their hosts."""

    def __init__(self, http: WebhookClient, credentials: HostCredentials) -> None:
        self._http = http
        self._credentials = None if credentials.are_none else credentials
        self._files = CredentialFiles()
        # By bundle and client certificate; the one used last at the end.
        self._contexts: OrderedDict[tuple[str, object], ssl.SSLContext] = OrderedDict()

    async def post(self, client: ClientConfig, body: bytes, timeout_s: int) -> Any:
        """Returns the document of a webhook's response. Raises CallFailed."""
        url = f"{client.url}{'&' if '?' in client.url else '?'}timeout={timeout_s}s"
        answer = await self._send(client, url, body, timeout_s)
        is_success = 200 <= answer.status < 300
        try:
            document = await self._http.parse(answer.body)
        except ValueError as error:
            if is_success:
                raise CallFailed(f"couldn't get version/kind; json parse error: {error}") from None
            document = None
        if not is_success:
            raise CallFailed(
                _failure(answer, document),
                is_transient=answer.status in _TRANSIENT,
                is_timeout=answer.status == _GATEWAY_TIMEOUT,
            )
        return document

    async def tell(self, client: ClientConfig, body: bytes, timeout_s: int) -> None:
        """Posts a body whose response is ignored. Raises CallFailed unless it is accepted."""
        # What was taken must not be sent again, whatever is wrong with the rest of the answer.
        answer = await self._send(client, client.url, body, timeout_s, needs_body=False)
        if not 200 <= answer.status < 300:
            raise CallFailed(_failure(answer, None), is_transient=answer.status in _TRANSIENT)

    async def _send(
        self, client: ClientConfig, url: str, body: bytes, timeout_s: int, *, needs_body: bool = True
    ) -> WebhookResponse:
        """Sends a request."""
        try:
            channel = await self._channel(client)
        except (UnusableBundle, UnusableCertificate) as error:
            raise CallFailed(str(error)) from None
        return await self._http.post(url, body, channel, timeout_s, needs_body=needs_body)

    async def _channel(self, client: ClientConfig) -> CallSecurity:
        """Returns the security of a call."""
        proof = _NOTHING
        if self._credentials is not None:
            proof = await self._files.proof(self._credentials.of(client.target))
        key = client.ca_bundle, proof.certificate
        context = self._contexts.get(key)
        if context is None:
            context = await asyncio.to_thread(client_context, *key)
            self._contexts[key] = context
            if len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        else:
            self._contexts.move_to_end(key)
        return CallSecurity(context, proof.headers, client.server_name)


def _failure(answer: WebhookResponse, document: Any) -> str:
    """Returns the message about an unsuccessful response. document: None if the response has none."""
    status, server_message = answer.status, "unknown"
    if document is None:
        if answer.content_type.startswith("text/"):
            server_message = answer.body.decode("utf-8", "replace").strip()
    elif (
        isinstance(document, dict)
        and document.get("kind") == "Status"
        and (message := document.get("message"))
    ):
        return str(message)[:ERROR_LENGTH_MAX]
    if status in _TOLD_BY_SERVER:
        return server_message[:ERROR_LENGTH_MAX]
    if status in MESSAGES:
        return MESSAGES[status]
    if status >= 500:
        told = server_message[:ERROR_LENGTH_MAX]
        return f'an error on the server ("{told}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"
