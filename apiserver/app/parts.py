"""Builds the parts of a server that are made for one run, beside its core, and connects them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugin_names import AUTO_PROVISION
from apiserver.app.access import build_access
from apiserver.app.aggregation import aggregation_tasks
from apiserver.app.authentication import ForeignTokens
from apiserver.app.authorization import authorization_tasks, build_authorizers
from apiserver.app.background import BackgroundTask
from apiserver.app.certificate_expiry import track_expiry
from apiserver.app.cluster import (
    authentication_info_task,
    build_kubernetes_service,
    build_openid,
    build_replicas,
    service_tasks,
)
from apiserver.app.connectors import build_connectors
from apiserver.app.controllers import ControllerContext, PublishedCa, build_controller_manager
from apiserver.app.core import Core
from apiserver.app.custom_resources import build_definitions, extension_definitions
from apiserver.app.exposition import build_exposition
from apiserver.app.flow_control import build_fairness, flow_control_tasks
from apiserver.app.handlers import build_admission, build_handlers
from apiserver.app.http_server import RequestLimits, build_endpoints, build_http_server, build_routes
from apiserver.app.outbound import Outbound
from apiserver.app.release_sharing import ReleaseSharing
from apiserver.app.serving.certificate_keeper import CertificateKeeper
from apiserver.app.serving.listening import AdminKubeconfig
from apiserver.app.serving.server_keys import CertificateRenewal, ServerKeys
from apiserver.app.serving.serving_tls import ServingTls
from apiserver.app.watch_balance import WatchBalance
from apiserver.auth.authz.authorizer_modes import Authorizers
from apiserver.catalogue.rbac.roles import GROUP as RBAC_GROUP
from apiserver.controllers.bootstrap import BootstrapHook, bootstrap_hooks
from apiserver.controllers.controller_manager import ControllerManager, ControllerSpec
from apiserver.controllers.kubernetes_service import KubernetesServiceReconciler
from apiserver.controllers.rbac_bootstrap import RbacBootstrapHook, rbac_bootstrap_hooks
from apiserver.controllers.rbac_policy import RbacPolicyInformer
from apiserver.controllers.replicas import Replicas
from apiserver.custom_resources.serving.definition_controller import DefinitionController
from apiserver.endpoints.connection import Server
from apiserver.endpoints.health import Health, PostStartHook
from apiserver.endpoints.reverse_proxy.forwarder import Forwarder
from apiserver.metrics.storage_state import StorageStateMetrics
from apiserver.metrics.watch_cache import CacheLag
from apiserver.storage.auto_compaction import AutoCompactor

if TYPE_CHECKING:
    from apiserver.app.encryption import EncryptionAtRest
    from apiserver.app.virtual_resources import VirtualResources


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Parts:
    """The parts of a server that are built for one run, beside its core.

    kubernetes_service: keeps the Service `kubernetes`, and its endpoint for this server.
    replicas: the other servers on the store, if it can have others.
    tasks: those that run beside requests.
    """

    core: Core
    health: Health
    http_server: Server
    forwarder: Forwarder
    certificate_keeper: CertificateKeeper
    kubeconfig: AdminKubeconfig
    kubernetes_service: KubernetesServiceReconciler
    controllers: ControllerManager
    replicas: Replicas | None
    tasks: Sequence[BackgroundTask]


def build_parts(
    core: Core,
    health: Health,
    outbound: Outbound,
    keys: ServerKeys,
    tls: ServingTls,
    encryption: EncryptionAtRest | None,
) -> Parts:
    """Build all parts of a server around its core. Raises CannotStart."""
    aggregation, caller_with = outbound.aggregation, outbound.caller_with
    virtual = _virtual_resources(core)
    bootstrap = _Bootstrap(core, health)
    authorizers = build_authorizers(core, bootstrap.has_default_roles, caller_with)
    foreign = ForeignTokens(outbound.fetcher, caller_with, core.metrics.authentication)
    access = build_access(core, keys, tls, foreign, authorizers)
    lifecycle = _namespace_lifecycle(core)
    admission = build_admission(core, authorizers, caller_with)
    definitions = build_definitions(core, outbound.webhooks)
    definitions_hook = health.add_post_start_hook("crd-informer-synced")
    balance = WatchBalance(core.streams)
    sharing = ReleaseSharing(core, definitions)
    replicas = build_replicas(core, access.accounts, tls, sharing.share, balance.note_join)
    connectors = build_connectors(core, outbound.forwarder, authorizers.chain)
    storage_state = _storage_state(core)
    cache_lag = CacheLag(core.store, core.registry.cache, core.loop_clock)
    fairness = build_fairness(core)
    limits = RequestLimits.of(core, fairness)
    handlers = build_handlers(core, access, lifecycle, admission, connectors.by_name, virtual)
    openid = build_openid(core, access.accounts)
    exposition = build_exposition(core, storage_state, cache_lag, aggregation.metrics, fairness)
    endpoints = build_endpoints(core, aggregation.remote, health, openid, exposition, fairness)
    routes = build_routes(
        core, handlers, endpoints, outbound, lambda: definitions_hook.is_done and aggregation.is_complete
    )
    kubeconfig = AdminKubeconfig(core.config, core.serving.port, keys.certificates)
    expiry = track_expiry(core.config)
    core.metrics.certificates.expirations = lambda: {
        **tls.known.expirations,
        **aggregation.expirations,
        **connectors.expirations,
        **expiry.expirations,
    }
    certificate_keeper = _certificate_keeper(core, kubeconfig, keys, tls)
    kubernetes_service = build_kubernetes_service(core, replicas)
    service_hook = health.add_post_start_hook("bootstrap-controller")
    controllers = build_controller_manager(
        ControllerContext(core, lifecycle, access, aggregation, PublishedCa(tls, keys.certificates)),
        [
            *core.hooks.controllers(core, lifecycle, admission),
            *_reconcilers(core, health),
        ],
    )
    roles, count_reload = _rbac_informer(core, authorizers), core.metrics.certificates.count_reload
    return Parts(
        core=core,
        health=health,
        http_server=build_http_server(core, access, routes, limits, outbound, encryption),
        forwarder=outbound.forwarder,
        certificate_keeper=certificate_keeper,
        kubeconfig=kubeconfig,
        kubernetes_service=kubernetes_service,
        controllers=controllers,
        replicas=replicas,
        tasks=(
            *_storage_tasks(core, health, storage_state, cache_lag),
            *bootstrap.tasks(roles),
            BackgroundTask.hooked(definitions_hook, definitions.run, definitions.queues),
            *_extension_tasks(core, health, lifecycle, definitions, virtual),
            *limits.tasks(),
            BackgroundTask("certificates", certificate_keeper.run),
            *(BackgroundTask("watched-files", each.run) for each in tls.watched(count_reload)),
            *(BackgroundTask("watched-files", each.run) for each in (*connectors.watched, *expiry.watched)),
            # Whose address is the server's own, in whatever was stored before.
            BackgroundTask.hooked(service_hook, kubernetes_service.run),
            *flow_control_tasks(core, health, fairness),
            *authorization_tasks(core, authorizers, caller_with, roles),
            *access.authentication.tasks,
            *(() if replicas is None else (BackgroundTask("replicas", replicas.run),)),
            *(() if replicas is None else (BackgroundTask("watch-balance", balance.run),)),
            *aggregation_tasks(core, aggregation),
            *(() if encryption is None else encryption.tasks(core.config, core.registry.cache.refill)),
            *service_tasks(core, health, lifecycle),
            *_history_tasks(core),
            authentication_info_task(core, health, keys, tls),
            BackgroundTask("controllers", controllers.run, is_upkeep=True),
        ),
    )


def _history_tasks(core: Core) -> Iterator[BackgroundTask]:
    if core.history is not None:
        yield from core.history.tasks(core.registry, core.clock)


def _storage_state(core: Core) -> StorageStateMetrics:
    storage = core.config.storage
    return StorageStateMetrics(
        "etcd-0" if storage.etcd_servers else "embedded",
        core.store,
        storage.etcd_db_metric_poll_interval_s,
    )


def _storage_tasks(
    core: Core, health: Health, state: StorageStateMetrics, lag: CacheLag
) -> Iterator[BackgroundTask]:
    """Yields the tasks that fill the watch cache, and compact and measure the store."""
    cache, storage = core.registry.cache, core.config.storage
    hook = health.add_post_start_hook("generic-apiserver-start-informers")

    async def wait_until_filled() -> None:
        await cache.wait_until_filled()
        hook.done()

    yield BackgroundTask("watch-cache", cache.run)
    yield BackgroundTask("watch-cache-lag", lag.run, is_upkeep=True)
    yield BackgroundTask(hook.name, wait_until_filled)
    if interval_s := storage.etcd_compaction_interval_s:
        compactor = AutoCompactor(core.store, prefix=storage.etcd_prefix, interval_s=interval_s)
        yield BackgroundTask("compaction", compactor.run)
    if storage.etcd_db_metric_poll_interval_s:
        yield BackgroundTask("storage-state", state.run, is_upkeep=True)


def _namespace_lifecycle(core: Core) -> NamespaceLifecycle:
    namespaces = core.served.find("", "v1", "namespaces")
    assert namespaces is not None
    provisions = core.config.admission.runs_admission_plugin(AUTO_PROVISION)
    return NamespaceLifecycle(core.registry, namespaces, provisions=provisions)


# Few servers have extensions. The modules that only these need take 1 MB, so they are imported late.


def _virtual_resources(core: Core) -> VirtualResources:
    if not core.extensions:
        return {}
    from apiserver.app.virtual_resources import add_virtual_resources

    return add_virtual_resources(core)


def _reconcilers(core: Core, health: Health) -> Iterator[ControllerSpec]:
    if core.extensions:
        from apiserver.controllers.extension_reconcilers import reconcilers

        yield from reconcilers(core.extensions, core.registry, core.served, health.wait_for_hooks)


def _extension_tasks(
    core: Core,
    health: Health,
    lifecycle: NamespaceLifecycle,
    definitions: DefinitionController,
    virtual: VirtualResources,
) -> Iterator[BackgroundTask]:
    if core.extensions:
        from apiserver.app.extensions import extension_tasks
        from apiserver.app.virtual_resources import virtual_resource_tasks

        yield from extension_definitions(core, health, definitions)
        yield from virtual_resource_tasks(virtual, health, definitions)
        yield from extension_tasks(core, lifecycle)


def _certificate_keeper(
    core: Core, kubeconfig: AdminKubeconfig, keys: ServerKeys, tls: ServingTls
) -> CertificateKeeper:
    renewal = CertificateRenewal(core.config, keys.own)

    def keep_own_files() -> bool:
        has_renewed = renewal.renew()
        kubeconfig.write(tls.known.trusted)
        return has_renewed

    return CertificateKeeper(keep_own_files, core.metrics.certificates.expirations)


def _rbac_informer(core: Core, authorizers: Authorizers) -> RbacPolicyInformer | None:
    if (policy := authorizers.rbac_policy) is None:
        return None
    return RbacPolicyInformer(core.registry, core.served.current, core.brand.group(RBAC_GROUP), policy)


class _Bootstrap:
    """The objects that every server has, with the post-start hooks that create them."""

    def __init__(self, core: Core, health: Health) -> None:
        table, brand = core.served.current, core.brand
        self._core = core
        every: list[BootstrapHook | RbacBootstrapHook] = [
            *bootstrap_hooks(table, brand, registers_api_services=not core.config.shares_with_kube_apiserver),
            *rbac_bootstrap_hooks(table, brand, core.config.gates.is_on),
        ]
        self._objects = [(health.add_post_start_hook(each.name), each) for each in every]

    def has_default_roles(self) -> bool:
        return all(hook.is_done for hook, each in self._objects if isinstance(each, RbacBootstrapHook))

    def tasks(self, roles: RbacPolicyInformer | None) -> Iterator[BackgroundTask]:
        """Yields the tasks that create the objects. roles: the informer that must know all roles before a
        hook is done, if there is one.
        """

        async def run(hook: PostStartHook, objects: BootstrapHook | RbacBootstrapHook) -> None:
            # What another server has created stays deleted if it was deleted since.
            if not self._core.has_initial_state:
                await objects.run(self._core.registry)
            if roles is not None:
                await roles.wait_until_complete()
            hook.done()

        for hook, objects in self._objects:
            yield BackgroundTask(hook.name, partial(run, hook, objects))
