"""Forwards requests for versions that extension servers have, with the user in request headers.

Responses are those of the extension server; this server's own errors are plain text, as in Kubernetes.
Source: k8s.io/kube-aggregator, pkg/apiserver/handler_proxy.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final, TypeAlias

from apiserver.endpoints.aggregation.extension_client import ExtensionClient
from apiserver.endpoints.aggregation.identity_headers import NotAHeader, identity_headers
from apiserver.endpoints.aggregation.remote_versions import RemoteVersion, RemoteVersions
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import TEXT, send
from apiserver.endpoints.reverse_proxy.errors import BackendUnreachable, ForwardingFailed
from apiserver.endpoints.reverse_proxy.forwarder import Forwarder
from apiserver.endpoints.reverse_proxy.links import escaped
from apiserver.endpoints.reverse_proxy.target import ProxyBackend, ProxyTarget
from apiserver.metrics.requests import RequestEnding
from apiserver.webhooks.errors import ServiceUnreachable
from apiserver.webhooks.tls import UnusableBundle

Forward: TypeAlias = Callable[[ApiCall, RemoteVersion], Awaitable[None]]
_UNAVAILABLE: Final = "service unavailable"
_NO_SNIFF: Final = {"X-Content-Type-Options": "nosniff"}


def forward_handler(remote: RemoteVersions, client: ExtensionClient, forwarder: Forwarder) -> Forward:
    """Returns the handler that forwards a request for a version to one of the servers that have it."""

    async def forward(call: ApiCall, version: RemoteVersion) -> None:
        if not remote.is_available(version):
            await _send_unavailable(call, 503, _UNAVAILABLE)
            return
        await call.take_slot()
        if call.info.is_long_running:
            call.release_slot()  # The other server is responsible for how the response begins and continues.
        try:
            target = await _target(call, version, client)
        except ServiceUnreachable:
            await _send_unavailable(call, 503, _UNAVAILABLE)
            return
        except (UnusableBundle, OSError) as error:
            await _send_unavailable(call, 500, str(error))
            return
        except NotAHeader as error:
            await _send_text(call, 503, str(error))
            return
        try:
            with forwarder.until_stopped() if call.info.is_long_running else nullcontext():
                await forwarder.forward(call, target)
        except (BackendUnreachable, ForwardingFailed) as error:
            if call.status:
                raise  # The answer has begun: it is cut off.
            await _send_text(call, 503, str(error))

    return forward


async def _target(call: ApiCall, version: RemoteVersion, client: ExtensionClient) -> ProxyTarget:
    """Returns the server that a request is forwarded to."""
    # Under one id a request is found in the audit logs of both.
    headers = [*identity_headers(call.user), ("Audit-Id", call.audit_id)]
    endpoint = await client.endpoint(version.service)
    context = await client.context(version)
    return ProxyTarget(
        ProxyBackend(
            endpoint.host, endpoint.port, context, server_name=version.service.host, keeps_connections=True
        ),
        # The path that was authorized, however the client has escaped it.
        escaped(call.info.path),
        call.request.raw_path.partition("?")[2],
        headers=headers,
        rejects_redirects=True,
    )


async def _send_unavailable(call: ApiCall, status: int, text: str) -> None:
    """Send the response for an extension server that cannot be reached."""
    call.ending = RequestEnding.UNAVAILABLE
    await _send_text(call, status, text)


async def _send_text(call: ApiCall, status: int, text: str) -> None:
    await send(call, status, f"{text}\n".encode("utf-8", "replace"), TEXT, _NO_SNIFF)
