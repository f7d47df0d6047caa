"""Builds the HTTP server: the routes, and the middleware that every request passes before them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from apiserver.app.access import Access
from apiserver.app.core import Core
from apiserver.endpoints import middleware
from apiserver.endpoints.api_call import Handler
from apiserver.endpoints.body_limits import BodyLimits
from apiserver.endpoints.connection import Server
from apiserver.endpoints.cors import AllowedOrigins, cors
from apiserver.endpoints.discovery import Discovery
from apiserver.endpoints.health import Health
from apiserver.endpoints.impersonation import impersonate
from apiserver.endpoints.load_shedding import LoadShedding
from apiserver.endpoints.openapi import OpenApi
from apiserver.endpoints.openid import OpenId
from apiserver.endpoints.representation import StatusEncoder
from apiserver.endpoints.request_handler import request_handler
from apiserver.endpoints.request_slots import SlotLimits
from apiserver.endpoints.routes import Elsewhere, NonResourceEndpoints, ResourceHandlers, Routes
from apiserver.handlers.patch import ACCEPTED as PATCH_TYPES
from apiserver.wire.media_types import APPLY_YAML, supported_media_types


def build_routes(
    core: Core,
    handlers: ResourceHandlers,
    health: Health,
    openid: OpenId | None,
    metrics: Callable[[], Awaitable[Iterator[bytes]]],
    elsewhere: Elsewhere,
    knows_everything: Callable[[], bool],
) -> Routes:
    """metrics: returns the text of /metrics in slices.

    knows_everything: whether all stored definitions are served, and all APIServices known.
    """
    config, brand, served = core.config, core.brand, core.served
    endpoints = NonResourceEndpoints(
        discovery=Discovery(brand, served, core.meta_encoders, elsewhere.remote, has_cbor=config.cbor),
        openapi=OpenApi(
            brand,
            core.schemas,
            served,
            elsewhere.remote,
            types=supported_media_types(brand, has_cbor=config.cbor),
            patch_types=(*PATCH_TYPES, APPLY_YAML),
        ),
        openid=openid,
        health=health,
        metrics=metrics,
    )
    shedding = LoadShedding(core.memory_budget, core.registry.count)
    return Routes(served, handlers, endpoints, elsewhere, knows_everything, shedding)


def build_http_server(
    core: Core,
    access: Access,
    routes: Routes,
    deadlines: middleware.Deadlines,
    body_limits: BodyLimits,
    origins: AllowedOrigins,
) -> Server:
    config, authorize = core.config, access.authorizers.chain
    slots = SlotLimits(
        core.request_metrics.in_flight,
        read_only_max=config.max_requests_inflight,
        mutating_max=config.max_mutating_requests_inflight,
        lease_group=core.brand.group("coordination"),
    )
    # The middleware that every request passes, outermost first.
    chain = (
        middleware.measure(core.request_metrics),
        middleware.errors_to_status(),
        *((cors(origins),) if origins else ()),
        middleware.authenticate(access.authentication, access.certificates),
        deadlines.middleware,
        impersonate(authorize, core.brand),
        middleware.authorize(authorize),
        middleware.limit_in_flight(slots, body_limits),
    )
    handle: Handler = routes
    for wrap in reversed(chain):
        handle = wrap(handle)
    status_encoder = StatusEncoder(core.brand, core.meta_encoders, has_cbor=config.cbor)
    return Server(
        request_handler(
            handle,
            core.loop_clock,
            core.offload,
            status_encoder,
            follows_item_watch=config.deviations.item_watch,
        ),
        loop_monitor=core.loop_monitor,
    )
