"""Builds the HTTP server: the routes, and the middleware that every request passes before them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.app.access import Access
from apiserver.app.background import BackgroundTask
from apiserver.app.console import console_open_paths
from apiserver.app.core import Core
from apiserver.app.hooks import DebugPaths
from apiserver.app.outbound import Outbound
from apiserver.app.serving import logs
from apiserver.cli.flag_texts import flag_texts
from apiserver.endpoints import middleware
from apiserver.endpoints.aggregation.remote_versions import RemoteVersions
from apiserver.endpoints.api_call import Handler, Middleware
from apiserver.endpoints.body_limits import BodyLimits
from apiserver.endpoints.client_requests import CLIENTS_PATH, ClientRequests
from apiserver.endpoints.connection import Server
from apiserver.endpoints.cors import cors
from apiserver.endpoints.debug_flags import DebugFlags
from apiserver.endpoints.deprecated_requests import DeprecatedRequests
from apiserver.endpoints.discovery import Discovery
from apiserver.endpoints.handlers.extension_servers import forward_handler
from apiserver.endpoints.handlers.patch import ACCEPTED as PATCH_TYPES
from apiserver.endpoints.health import Health
from apiserver.endpoints.impersonation import ConstrainedImpersonation, LegacyImpersonation, impersonate
from apiserver.endpoints.load_shedding import LoadShedding
from apiserver.endpoints.openapi import OpenApi
from apiserver.endpoints.openapi.document_cache import DocumentCache
from apiserver.endpoints.openapi.operations import Operations
from apiserver.endpoints.openid import OpenId
from apiserver.endpoints.priority_and_fairness import Fairness
from apiserver.endpoints.profiles import Profiles
from apiserver.endpoints.recent_requests import REQUESTS_PATH, RecentRequestList
from apiserver.endpoints.removal_rehearsal import RemovalRehearsal
from apiserver.endpoints.representation import StatusEncoder
from apiserver.endpoints.request_handler import HandlerOptions, request_handler
from apiserver.endpoints.request_log import RequestLog, sample_traces
from apiserver.endpoints.request_slots import SlotLimits
from apiserver.endpoints.routes import AggregatedVersions, NonResourceEndpoints, ResourceHandlers, Routes
from apiserver.endpoints.version import version_document
from apiserver.endpoints.worker_identity import worker_identity
from apiserver.endpoints.zpages import FLAGZ, STATUSZ, ZPages, ZPagesServer
from apiserver.meta.vocabulary import GroupResource
from apiserver.registry.served_resource import ServedTable
from apiserver.wire.media_types import APPLY_YAML, supported_media_types

if TYPE_CHECKING:
    from apiserver.app.encryption import EncryptionAtRest

_SECRETS: Final = GroupResource("", "secrets")


class RequestLimits(NamedTuple):
    """The limits on time and concurrency of requests.

    fairness: queues requests; None if it is switched off.
    """

    deadlines: middleware.Deadlines
    bodies: BodyLimits
    fairness: Fairness | None

    @classmethod
    def of(cls, core: Core, fairness: Fairness | None) -> RequestLimits:
        timeout_s = core.config.serving.request_timeout_s
        deadlines = middleware.Deadlines(timeout_s, core.loop, core.metrics.calls)
        return cls(deadlines, BodyLimits(core.loop), fairness)

    def tasks(self) -> Iterator[BackgroundTask]:
        yield BackgroundTask("deadlines", self.deadlines.run)
        yield BackgroundTask("body-limits", self.bodies.run)


def build_endpoints(
    core: Core,
    remote: RemoteVersions,
    health: Health,
    openid: OpenId | None,
    metrics: Callable[[], Awaitable[Iterator[bytes]]],
    fairness: Fairness | None,
) -> NonResourceEndpoints:
    """Build the endpoints outside of resources: discovery, OpenAPI, health, metrics and the like.

    remote: the versions that extension servers serve. metrics: returns the text of /metrics in slices.
    """
    config = core.config
    worker = worker_identity(config.serving.workers)
    return NonResourceEndpoints(
        discovery=_discovery(core, core.served, remote),
        openapi=_openapi(core, core.served, remote),
        openid=openid,
        health=health,
        version=version_document(config.release),
        metrics=metrics,
        deprecated_requests=DeprecatedRequests(config.release, core.clock, worker),
        debugging={
            CLIENTS_PATH: ClientRequests(core.metrics.clients, core.streams, worker).respond,
            REQUESTS_PATH: RecentRequestList(core.recent_requests, worker).respond,
            **({} if fairness is None else fairness.dump_handlers),
        },
        zpages=_zpages(core),
        slis=health.metrics if config.gates.is_on("ComponentSLIs") else None,
        debug_paths={**core.hooks.debug_paths(core), **_debug_paths(core)},
    )


def _debug_paths(core: Core) -> DebugPaths:
    """Returns the handlers of profiles and of the log level, which concern the whole process."""
    if not (core.config.serving.profiling and core.has_own_process):
        return {}
    worker = core.serving.worker
    set_verbosity = logs.set_verbosity if worker is None else worker.set_verbosity
    return {"pprof": Profiles(core.loop, core.metrics.event_loop), "flags": DebugFlags(set_verbosity)}


def _zpages(core: Core) -> ZPages:
    config = core.config
    pages = {"ComponentStatusz": STATUSZ, "ComponentFlagz": FLAGZ}
    server = ZPagesServer(
        config.release,
        version_document(config.release)["goVersion"],
        core.clock(),
        core.clock,
        partial(flag_texts, config),
    )
    names = [page for gate, page in pages.items() if config.gates.is_on(gate)]
    return ZPages(server, core.brand, names, has_cbor=config.has_cbor)


def _discovery(core: Core, served: ServedTable, remote: RemoteVersions) -> Discovery:
    return Discovery(core.brand, served, core.meta_encoders, remote, has_cbor=core.config.has_cbor)


def _openapi(core: Core, served: ServedTable, remote: RemoteVersions) -> OpenApi:
    config = core.config
    operations = Operations(
        core.brand, supported_media_types(core.brand, has_cbor=config.has_cbor), (*PATCH_TYPES, APPLY_YAML)
    )
    shows_enums = config.gates.is_on("OpenAPIEnums")
    documents = DocumentCache(core.brand, core.schemas, operations, config.release, shows_enums=shows_enums)
    return OpenApi(documents, served, remote)


def build_routes(
    core: Core,
    handlers: ResourceHandlers,
    endpoints: NonResourceEndpoints,
    outbound: Outbound,
    knows_everything: Callable[[], bool],
) -> Handler:
    """Build the routes. knows_everything: whether all stored definitions are served and all APIServices are
    known.
    """
    aggregation = outbound.aggregation
    forward = forward_handler(aggregation.remote, aggregation.client, outbound.forwarder)
    aggregated = AggregatedVersions(aggregation.remote, forward)
    shedding = LoadShedding(core.memory_budget, core.registry.count)
    routes = Routes(core.served, handlers, endpoints, aggregated, knows_everything, shedding)
    if not core.config.api.emulate_removal_header:
        return routes

    def routes_of(served: ServedTable) -> Routes:
        documents = replace(
            endpoints,
            discovery=_discovery(core, served, aggregated.remote),
            openapi=_openapi(core, served, aggregated.remote),
        )
        return Routes(served, handlers, documents, aggregated, knows_everything, shedding)

    return RemovalRehearsal(routes, core.served, routes_of, core.config.release)


def _authorship(core: Core) -> Sequence[Middleware]:
    """Returns what makes the authors of writes known to the history, if there is one."""
    if core.history is None:
        return ()
    from apiserver.endpoints.authorship import note_author

    return (note_author,)


def build_http_server(
    core: Core,
    access: Access,
    routes: Handler,
    limits: RequestLimits,
    outbound: Outbound,
    encryption: EncryptionAtRest | None,
) -> Server:
    """Build the HTTP server. encryption: None if nothing is encrypted."""
    config, authorize, fairness = core.config, access.authorizers.chain, limits.fairness
    auditor, tracer = None if outbound.audit is None else outbound.audit.auditor, outbound.tracer
    slots = SlotLimits(
        core.metrics.requests.in_flight,
        read_only_max=config.serving.max_requests_inflight,
        mutating_max=config.serving.max_mutating_requests_inflight,
        lease_group=core.brand.group("coordination"),
    )
    console = console_open_paths(core, access, outbound)
    hooks, authentication = core.hooks, core.hooks.authentication(access.authentication.chain)
    directives = config.serving.strict_transport_security_directives
    # The middleware that every request passes, outermost first.
    chain = (
        *((hooks.request,) if hooks.request is not None else ()),
        auditor.record(core.metrics.requests) if auditor else middleware.measure(core.metrics.requests),
        *((middleware.strict_transport_security(directives),) if directives else ()),
        middleware.errors_to_status(partial(_is_confidential, encryption)),
        *((cors(core.origins),) if core.origins else ()),
        middleware.authenticate(
            authentication,
            access.certificates,
            core.metrics.authentication,
            None if console is None else console.open,
        ),
        *((auditor.begin,) if auditor is not None else ()),
        limits.deadlines.middleware,
        impersonate(
            ConstrainedImpersonation(authorize, core.brand, core.metrics.impersonation)
            if config.gates.is_on("ConstrainedImpersonation")
            else LegacyImpersonation(authorize, core.brand)
        ),
        *((fairness.classify(),) if fairness is not None else ()),
        middleware.authorize(
            authorize, core.metrics.authorization, None if console is None else console.of_users
        ),
        *((hooks.authorized_request,) if hooks.authorized_request is not None else ()),
        *_authorship(core),
        *((sample_traces(tracer),) if tracer is not None else ()),
        middleware.limit_in_flight(slots, limits.bodies, fairness),
    )
    handle: Handler = routes
    for wrap in reversed(chain):
        handle = wrap(handle)
    status_encoder = StatusEncoder(core.brand, core.meta_encoders, has_cbor=config.has_cbor)
    return Server(
        request_handler(
            handle,
            core.loop_clock,
            core.offload,
            status_encoder,
            RequestLog(core.recent_requests),
            HandlerOptions(
                follows_item_watch=config.deviations.item_watch,
                serves_past=core.history is not None,
                goaway_chance=config.serving.goaway_chance,
            ),
        ),
        loop_monitor=core.metrics.event_loop,
    )


def _is_confidential(encryption: EncryptionAtRest | None, resource: GroupResource) -> bool:
    return resource == _SECRETS or (encryption is not None and encryption.encrypts(resource))
