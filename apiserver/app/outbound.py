"""Builds the clients of other servers: of webhooks, identity providers, backends and extension servers."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from apiserver import __version__
from apiserver.app.aggregation import Aggregation, build_aggregation
from apiserver.app.audit import Audit, build_audit
from apiserver.app.core import Core
from apiserver.app.serving.server_keys import ServerKeys
from apiserver.endpoints.reverse_proxy.backends import BackendConnector
from apiserver.endpoints.reverse_proxy.forwarder import Forwarder
from apiserver.endpoints.reverse_proxy.headers import IdentityHeaders
from apiserver.tracing.request_trace import Tracer
from apiserver.webhooks.cached_services import CachedServices
from apiserver.webhooks.caller import AdmissionCaller
from apiserver.webhooks.client import WebhookClient
from apiserver.webhooks.document_fetcher import DocumentFetcher
from apiserver.webhooks.review_server import CallerFactory

if TYPE_CHECKING:
    from apiserver.tracing.open_telemetry import OpenTelemetryTracer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Outbound:
    """The clients of other servers.

    fetcher: gets documents of identity providers. forwarder: forwards requests.
    audit: None if no request is recorded.
    """

    webhooks: WebhookClient
    fetcher: DocumentFetcher
    forwarder: Forwarder
    aggregation: Aggregation
    audit: Audit | None
    tracer: Tracer | None

    @property
    def caller_with(self) -> CallerFactory:
        """The factory of webhook clients."""
        return partial(AdmissionCaller, self.webhooks)


@asynccontextmanager
async def open_outbound(
    core: Core, keys: ServerKeys, require_pair: Callable[[bytes, bytes], None]
) -> AsyncIterator[Outbound]:
    """Opens the clients of other servers, and closes them at the end, the last first. require_pair: see
    `build_aggregation`. Raises CannotStart.
    """
    config = core.config
    async with AsyncExitStack() as stack:
        services = CachedServices(core.registry, core.served, core.brand)
        webhooks = WebhookClient(core.offload, services, config.admission.webhook_deny_cidrs)
        stack.push_async_callback(webhooks.close)
        fetcher = DocumentFetcher()
        stack.push_async_callback(fetcher.close)
        audit = build_audit(config, webhooks, core.metrics.audit, core.registry.clock.time_ns)
        if audit is not None:
            stack.push_async_callback(audit.backend.close)
        kubelets = core.hooks.kubelets(core)
        if kubelets is not None:
            stack.push_async_callback(kubelets.close)
        backends = BackendConnector(config.proxy.proxy_deny_cidrs, in_process=kubelets)
        stack.push_async_callback(backends.close)
        aggregation = build_aggregation(core, services, keys, require_pair)
        stack.push_async_callback(aggregation.client.close)
        tracer = _open_tracer(core)
        if tracer is not None:
            stack.push_async_callback(asyncio.to_thread, tracer.close)
        yield Outbound(
            webhooks=webhooks,
            fetcher=fetcher,
            forwarder=Forwarder(backends, IdentityHeaders.of(config.authentication.request_header_names)),
            aggregation=aggregation,
            audit=audit,
            tracer=tracer,
        )


def _open_tracer(core: Core) -> OpenTelemetryTracer | None:
    """Returns the tracer, which is to be closed; None if no request becomes a span."""
    tracing = core.config.logs.tracing
    if tracing is None:
        return None
    import apiserver.storage.grpc_library  # noqa: F401  before the exporter imports gRPC
    from apiserver.tracing.open_telemetry import OpenTelemetryTracer

    return OpenTelemetryTracer(
        tracing.endpoint,
        tracing.sampled_per_million,
        name="apiserver",
        version=__version__,
        instance=f"{socket.gethostname()}:{core.serving.port}/{os.getpid()}",
    )
