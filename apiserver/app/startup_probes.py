"""Responds to probes while the server waits for the store that has the identity of its cluster.

So a probe of /livez does not restart a server that only waits, and one of /readyz reports that it is not
ready. The certificate is the one in the data directory, or a new one: probes do not verify it.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from apiserver.app.core import Core
from apiserver.app.secure_serving import SecureServing
from apiserver.app.serving.listener import ConnectionLimits, Listener
from apiserver.endpoints import health, middleware
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.connection import Server
from apiserver.endpoints.health import Health
from apiserver.endpoints.representation import StatusEncoder
from apiserver.endpoints.request_handler import HandlerOptions, request_handler
from apiserver.endpoints.request_log import RequestLog
from apiserver.meta.errors import ServiceUnavailable

DRAIN_S: Final = 1.0
_ENDPOINTS: Final = ("livez", "readyz", "healthz")


@asynccontextmanager
async def answering_probes(
    core: Core, checks: Health, serving: SecureServing, context: ssl.SSLContext
) -> AsyncIterator[None]:
    """Serves health endpoints on the sockets of `serving`, which stay open afterwards; other paths get
    503.
    """
    config = core.config
    server = Server(
        request_handler(
            middleware.errors_to_status()(_probes(checks)),
            core.loop_clock,
            core.offload,
            StatusEncoder(core.brand, core.meta_encoders, has_cbor=config.has_cbor),
            RequestLog(core.recent_requests),
            HandlerOptions(follows_item_watch=config.deviations.item_watch),
        )
    )
    limits = ConnectionLimits(config.serving.max_connections, config.serving.max_connections_per_client)
    listener = Listener(context, server, limits.within_open_files(), serving.taking)
    listener.listen([each.dup() for each in serving.sockets])
    try:
        yield
    finally:
        listener.close()
        await server.drain(DRAIN_S)


def _probes(checks: Health) -> Handler:
    async def handle(call: ApiCall) -> None:
        endpoint, _, name = call.info.path.removeprefix("/").partition("/")
        if call.info.method in ("GET", "HEAD") and endpoint in _ENDPOINTS:
            if not name:
                await health.respond_all(call, endpoint, checks)
                return
            if check := checks.checks(endpoint).get(name):
                await health.respond_one(call, check)
                return
        raise ServiceUnavailable("the server is waiting for its store")

    return handle
