"""Runs one server, from its start to its end."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

from apiserver import EMULATED_VERSION
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugin_names import AUTO_PROVISION
from apiserver.aggregation.namespaces import RemoteNamespaces
from apiserver.apiextensions import definitions
from apiserver.app.access import build_access
from apiserver.app.aggregation import Aggregation, build_aggregation, build_registration
from apiserver.app.cluster import (
    build_authentication_info,
    build_default_service_cidr,
    build_kubernetes_service,
    build_openid,
    build_replicas,
    build_service_allocations,
    build_service_networks,
)
from apiserver.app.connectors import build_connectors
from apiserver.app.controllers import build_controller_manager
from apiserver.app.core import Core
from apiserver.app.handlers import build_handlers
from apiserver.app.http_server import build_http_server, build_routes
from apiserver.app.memory_keeper import MemoryKeeper
from apiserver.app.stores import open_store, watch_cache
from apiserver.app.waiting_room import waiting_room
from apiserver.catalogue.builtins import builtin_resources
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.catalogue.rbac.roles import GROUP as RBAC_GROUP
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.cli.config import Config
from apiserver.controllers.api_service_registration import ApiServiceRegistration
from apiserver.controllers.authentication_info import AuthenticationInfo
from apiserver.controllers.bootstrap import BootstrapHook, bootstrap_hooks
from apiserver.controllers.controller_manager import ControllerManager
from apiserver.controllers.kubernetes_service import KubernetesServiceReconciler
from apiserver.controllers.rbac_bootstrap import RbacBootstrapHook, rbac_bootstrap_hooks
from apiserver.controllers.rbac_policy import RbacPolicyInformer
from apiserver.controllers.replicas import Replicas, ReplicasDisagree
from apiserver.controllers.service_allocations import ServiceAllocationRepair
from apiserver.controllers.service_cidrs import DefaultServiceCidr, ServiceNetworks
from apiserver.custom_resources.conversion_webhooks import ConversionWebhook
from apiserver.custom_resources.definition_controller import DefinitionController
from apiserver.custom_resources.resources import CustomResourceFactory
from apiserver.endpoints.body_limits import BodyLimits
from apiserver.endpoints.connection import Server
from apiserver.endpoints.cors import AllowedOrigins
from apiserver.endpoints.health import Health, PostStartHook, cache_check
from apiserver.endpoints.middleware import Deadlines
from apiserver.endpoints.representation import MetaV1Encoders
from apiserver.endpoints.representation.form_cache import FormCache
from apiserver.endpoints.routes import Elsewhere, version_document
from apiserver.endpoints.running_call import running_operation
from apiserver.endpoints.watch_stream import WatchStreams
from apiserver.handlers.extension_servers import forward_handler
from apiserver.metrics.admission import AdmissionMetrics
from apiserver.metrics.api_services import ApiServiceMetrics
from apiserver.metrics.build_info import BuildInfo
from apiserver.metrics.event_loop import EventLoopMonitor
from apiserver.metrics.exposition import Exposition
from apiserver.metrics.garbage_collector import GarbageCollectorMetrics
from apiserver.metrics.leader_election import LeaderElectionMetrics
from apiserver.metrics.memory import MemoryMetrics
from apiserver.metrics.offload import OffloadMetrics
from apiserver.metrics.refusals import RefusalMetrics
from apiserver.metrics.requests import RequestMetrics
from apiserver.metrics.resource_series import ServedNames, Standing
from apiserver.metrics.storage import ObservedStorage, StorageMetrics, resources_of_keys
from apiserver.metrics.storage_size import StorageSizeMetric
from apiserver.metrics.watch_cache import CacheMetrics
from apiserver.metrics.work_queues import WorkQueueMetrics
from apiserver.registry.memory_budget import MemoryBudget
from apiserver.registry.offload import Offload
from apiserver.registry.own_writes import OwnWrites
from apiserver.registry.served_resource import ResourceTable, ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.reverse_proxy.backends import Backends
from apiserver.reverse_proxy.forwarder import Forwarder
from apiserver.reverse_proxy.headers import IdentityHeaders
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.serving import endless_reads, pki, process_memory
from apiserver.serving.cluster_identity import UnusableStoredIdentity, fetch_identity
from apiserver.serving.listener import ConnectionLimits, Listener
from apiserver.serving.listening import (
    CannotStart,
    Sockets,
    bind,
    kubeconfig_path,
    listen_error,
    local_identity,
    make_certificates,
    tls_context,
    url,
    write_kubeconfig,
)
from apiserver.webhooks.cached_services import CachedServices
from apiserver.webhooks.caller import AdmissionCaller
from apiserver.webhooks.client import WebhookClient
from apiserver.workers.worker import SupervisorClient
from storage.auto_compaction import AutoCompactor
from storage.interface import Storage

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# For custom resources that are not stored as they are shown.
CONVERTED_BYTES_MAX: Final = 32 * 1024 * 1024
READY_POLL_S: Final = 0.01
# A server that stops is in a hurry; its record expires by itself, too.
LEAVE_WITHIN_S: Final = 1.0
# How long to wait for the store before probes are answered without it.
PATIENCE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of a server that are built for one run, beside its core.

    hooks: the post-start hooks that must be done before the server is ready, and what each runs.
    default_service_cidr, kubernetes_service, authentication_info: objects that are kept as they should be,
        each with its hook.
    service_allocations: repairs what Services have been given, with its hook.
    service_networks: tells of the networks that Services get addresses from, if these are objects.
    rbac_informer: keeps the policy of the RBAC authorizer up to date, if there is one.
    replicas: the other servers on the store, if it can have others.
    registration: keeps the APIServices of what is served here, if they are served.
    definitions_synced: marks the hook of definitions as done; called when all stored ones are served.
    """

    core: Core
    health: Health
    hooks: list[tuple[PostStartHook, BootstrapHook | RbacBootstrapHook]]
    default_service_cidr: tuple[PostStartHook, DefaultServiceCidr] | None
    kubernetes_service: tuple[PostStartHook, KubernetesServiceReconciler]
    authentication_info: tuple[PostStartHook, AuthenticationInfo]
    service_allocations: tuple[PostStartHook, ServiceAllocationRepair]
    service_networks: ServiceNetworks | None
    rbac_informer: RbacPolicyInformer | None
    replicas: Replicas | None
    registration: ApiServiceRegistration | None
    aggregation: Aggregation
    definitions: DefinitionController
    definitions_synced: Callable[[], None]
    controllers: ControllerManager
    deadlines: Deadlines
    body_limits: BodyLimits
    storage_size: StorageSizeMetric
    http_server: Server
    forwarder: Forwarder


class App:
    """One server. `run` serves until `stop` is called, which may be at any time.

    worker: the client of the supervisor, if the server is one of several processes on one port.
    """

    def __init__(self, config: Config, worker: SupervisorClient | None = None) -> None:
        self._config = config
        self._worker = worker
        self._sockets: Sockets = ()
        self._listener: Listener | None = None
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._offload = Offload()
        self._served_names = ServedNames()
        self._request_metrics = RequestMetrics(self._served_names)
        self._admission_metrics = AdmissionMetrics()
        self._loop_monitor = EventLoopMonitor(self._loop, running_operation, endless_reads.ending_of)
        self._memory_budget = MemoryBudget(_memory_limit_bytes(config, worker))
        self._resident_memory = process_memory.ResidentMemory()
        self._memory_keeper = MemoryKeeper(
            self._memory_budget, process_memory.Allocator(), self._resident_memory
        )
        self._work_queue_metrics = WorkQueueMetrics()
        self._leader_election_metrics = LeaderElectionMetrics()
        self._garbage_collector_metrics = GarbageCollectorMetrics()
        self._resource_of = resources_of_keys(config.etcd_prefix)
        self._storage_metrics = StorageMetrics(self._resource_of, self._served_names)
        self._origins = AllowedOrigins(config.cors_allowed_origins)
        self._streams = WatchStreams(
            self._request_metrics, self._loop.time, self._origins, watches_max=config.max_watches
        )
        self.port = 0

    def stop(self) -> None:
        """Let `run` finish the requests under way, and return."""
        self._stopping.set()

    async def run(self, on_ready: Callable[[str, Path], None]) -> None:
        """Serve until stopped. on_ready: called once with URL and kubeconfig when /readyz passes.

        Raises CannotStart.
        """
        config = self._config
        async with AsyncExitStack() as stack:
            stack.callback(self._offload.close)
            self._loop_monitor.start()
            stack.callback(self._loop_monitor.close)
            stack.callback(self._resident_memory.close)
            store = await open_store(config)
            stack.push_async_callback(store.close)
            stack.callback(self._stop_listening)
            self._bind()
            core = self._core(ObservedStorage(store, self._storage_metrics))
            health = Health(
                storage=core.store.check_health,
                cache=cache_check(core.registry.cache),
                live_without_store=config.deviations.live_without_store,
                live_grace_s=config.livez_grace_period_s,
                clock=self._loop.time,
            )
            identity = await self._cluster_identity(core, health) if config.etcd_servers else None
            if self._stopping.is_set():
                return
            certificates = await asyncio.to_thread(make_certificates, config, identity)
            services = CachedServices(core.registry, core.served, core.brand)
            webhooks = WebhookClient(self._offload, services, config.webhook_deny_cidrs)
            stack.push_async_callback(webhooks.close)
            backends = Backends(config.proxy_deny_cidrs)
            stack.push_async_callback(backends.close)
            forwarder = Forwarder(
                backends, IdentityHeaders.of(config.request_header_names), self._request_metrics
            )
            aggregation = build_aggregation(core, services, certificates)
            stack.push_async_callback(aggregation.client.close)
            parts = self._build(core, health, webhooks, forwarder, aggregation, certificates)
            if parts.replicas is not None and not await self._join(parts.replicas):
                return
            context = tls_context(config, certificates)
            if not self._listens_when_ready:
                self._listen(parts.http_server, context)
            write_kubeconfig(config, self.port, certificates)
            async with asyncio.TaskGroup() as tasks:
                running = self._start(tasks, parts)
                announcing = self._announce(parts, on_ready, context)
                running.append(tasks.create_task(announcing, name="announce"))
                await self._stopping.wait()
                parts.health.is_shutting_down = True
                await self._leave(parts)
                await self._drain(parts)
                for task in running:
                    task.cancel()

    # ---- before it can serve

    def _bind(self) -> None:
        """Raises CannotStart."""
        if self._worker is None:
            self._sockets = bind(self._config, self._config.secure_port, reuse_port=False)
        else:
            self._sockets = self._worker.sockets
        self.port = self._sockets[0].getsockname()[1]

    @property
    def _listens_when_ready(self) -> bool:
        return self._worker is not None and self._worker.listens_when_ready

    async def _cluster_identity(self, core: Core, health: Health) -> pki.ClusterIdentity | None:
        """Returns what the store has. While it does not answer, probes are answered, as they are later.

        None if the server is stopped before. Raises CannotStart.
        """
        config = self._config
        fetching = asyncio.create_task(
            fetch_identity(core.store, config.etcd_prefix, partial(local_identity, config))
        )
        try:
            await self._done_or_stopped(fetching, PATIENCE_S)
            if not (fetching.done() or self._stopping.is_set() or self._listens_when_ready):
                certificates = await asyncio.to_thread(make_certificates, config, None)
                write_kubeconfig(config, self.port, certificates)
                async with waiting_room(core, health, self._sockets, tls_context(config, certificates)):
                    await self._done_or_stopped(fetching)
            await self._done_or_stopped(fetching)
            return fetching.result() if fetching.done() else None
        except UnusableStoredIdentity as error:
            raise CannotStart(str(error)) from None
        finally:
            fetching.cancel()

    async def _join(self, replicas: Replicas) -> bool:
        """Join the other servers on the store. Returns False if the server is stopped before.

        Raises CannotStart.
        """
        joining = asyncio.create_task(replicas.join())
        try:
            await self._done_or_stopped(joining)
            if joining.done():
                joining.result()
            return joining.done()
        except ReplicasDisagree as error:
            raise CannotStart(str(error)) from None
        finally:
            joining.cancel()

    async def _done_or_stopped(self, task: asyncio.Task[Any], timeout_s: float | None = None) -> None:
        """Wait for a task, but only until the server is stopped."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((task, stopping), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    # ---- building

    def _build(
        self,
        core: Core,
        health: Health,
        webhooks: WebhookClient,
        forwarder: Forwarder,
        aggregation: Aggregation,
        certificates: pki.Pki,
    ) -> _Parts:
        """Raises CannotStart."""
        config, brand, registry, cache = self._config, core.brand, core.registry, core.registry.cache
        definitions_hook = health.add_post_start_hook("crd-informer-synced")
        table = core.served.current
        bootstrap: list[BootstrapHook | RbacBootstrapHook] = [
            *bootstrap_hooks(table, brand),
            *rbac_bootstrap_hooks(table, brand),
        ]
        hooks = [(health.add_post_start_hook(each.name), each) for each in bootstrap]
        service_cidr = None
        if (default_cidr := build_default_service_cidr(core)) is not None:
            cidr_hook = health.add_post_start_hook("start-kubernetes-service-cidr-controller")
            service_cidr = (cidr_hook, default_cidr)
        service_hook = health.add_post_start_hook("bootstrap-controller")
        authentication_hook = health.add_post_start_hook("start-cluster-authentication-info-controller")
        repair_hook = health.add_post_start_hook("start-service-ip-repair-controllers")
        rbac_hooks = [hook for hook, each in hooks if isinstance(each, RbacBootstrapHook)]
        access = build_access(core, certificates, lambda: all(hook.is_done for hook in rbac_hooks))
        rbac_informer = None
        if (policy := access.authorizers.rbac_policy) is not None:
            rbac_informer = RbacPolicyInformer(registry, table, brand.group(RBAC_GROUP), policy)
        namespaces = table.find("", "v1", "namespaces")
        assert namespaces is not None
        provisions = config.runs_admission_plugin(AUTO_PROVISION)
        lifecycle = NamespaceLifecycle(registry, namespaces, provisions=provisions)
        replicas = build_replicas(core, access.accounts, certificates, self.port)
        caller_with = partial(AdmissionCaller, webhooks)
        connectors = build_connectors(core, forwarder, self._origins)
        handlers = build_handlers(core, access, lifecycle, self._streams, caller_with, connectors)
        deadlines = Deadlines(config.request_timeout_s, self._loop)
        body_limits = BodyLimits(self._loop)
        storage_size = StorageSizeMetric(
            "etcd-0" if config.etcd_servers else "embedded",
            core.store.size_bytes,
            config.etcd_db_metric_poll_interval_s,
        )
        openid = build_openid(core, access.accounts, self.port)
        exposition = self._exposition(registry, storage_size, aggregation.metrics)
        elsewhere = Elsewhere(
            aggregation.remote, forward_handler(aggregation.remote, aggregation.client, forwarder)
        )
        routes = build_routes(
            core,
            handlers,
            health,
            openid,
            exposition,
            elsewhere,
            lambda: definitions_hook.is_done and aggregation.is_complete,
        )
        return _Parts(
            core=core,
            health=health,
            hooks=hooks,
            default_service_cidr=service_cidr,
            kubernetes_service=(service_hook, build_kubernetes_service(core, replicas, self.port)),
            authentication_info=(authentication_hook, build_authentication_info(core, certificates)),
            service_allocations=(repair_hook, build_service_allocations(core, lifecycle)),
            service_networks=build_service_networks(core),
            rbac_informer=rbac_informer,
            replicas=replicas,
            registration=build_registration(core),
            aggregation=aggregation,
            definitions=DefinitionController(
                registry,
                table,
                partial(self._replace_served, core),
                CustomResourceFactory(
                    brand=brand,
                    meta=partial(core.schemas.get, _OBJECT_META),
                    definitions=cache,
                    view_cache=FormCache(CONVERTED_BYTES_MAX, Lock()),
                    offload=self._offload,
                    webhook=partial(ConversionWebhook, webhooks, definitions.group_of(brand)),
                ),
            ),
            definitions_synced=partial(setattr, definitions_hook, "is_done", True),
            controllers=build_controller_manager(
                core,
                lifecycle,
                certificates,
                self._work_queue_metrics,
                self._leader_election_metrics,
                RemoteNamespaces(aggregation.remote, aggregation.client, self._offload),
            ),
            deadlines=deadlines,
            body_limits=body_limits,
            storage_size=storage_size,
            http_server=build_http_server(core, access, routes, deadlines, body_limits, self._origins),
            forwarder=forwarder,
        )

    def _core(self, store: Storage) -> Core:
        config, brand = self._config, self._config.brand
        schemas = BuiltinSchemas(EMULATED_VERSION, brand.vendor)
        table = builtin_resources(
            brand,
            schemas,
            event_ttl_s=config.event_ttl_s,
            service_allocator=ServiceAllocator.for_networks(
                config.service_cluster_ip_range,
                config.service_node_port_range,
                random.SystemRandom().randint,
                brand,
            ),
            runtime_config=RuntimeConfig(config.runtime_config),
        )
        own_writes = OwnWrites()
        registry = Registry(
            store,
            watch_cache(config, store, own_writes, self._resource_of),
            own_writes,
            brand=brand,
            prefix=config.etcd_prefix,
            offload=self._offload,
        )
        self._served_names.table = served = ServedTable(table)
        return Core(
            config=config,
            store=store,
            registry=registry,
            served=served,
            schemas=schemas,
            meta_encoders=MetaV1Encoders(schemas.get),
            offload=self._offload,
            request_metrics=self._request_metrics,
            admission_metrics=self._admission_metrics,
            garbage_collector_metrics=self._garbage_collector_metrics,
            loop_monitor=self._loop_monitor,
            memory_budget=self._memory_budget,
            loop=self._loop,
        )

    def _replace_served(self, core: Core, table: ResourceTable, gone: Collection[ServedResource]) -> None:
        """Replace the table of served resources. gone: those removed or changed, whose watches end."""
        core.served.replace(table)
        if gone:
            self._streams.end_all_of(frozenset(gone))
            self._forget_gone(gone, core.registry)

    def _forget_gone(self, gone: Collection[ServedResource], registry: Registry) -> None:
        """Drop series and cache of what is served no more under the same name."""
        names = self._served_names
        for each in gone:
            name = (each.group_version, each.resource)
            if names.of_version(name) is Standing.GONE:
                self._request_metrics.forget(name)
            if names.of_resource(each.stored_group_resource) is Standing.GONE:
                self._storage_metrics.forget(each.stored_group_resource)
                registry.cache.retire(registry.prefix_of(each))

    def _exposition(
        self, registry: Registry, storage_size: StorageSizeMetric, api_services: ApiServiceMetrics
    ) -> Callable[[], Awaitable[Iterator[bytes]]]:
        """Returns what makes the text of /metrics in slices, of all workers if there are several."""
        exposition = Exposition(
            (
                self._request_metrics,
                self._served_names,
                CacheMetrics(registry.cache, self._resource_of),
                self._storage_metrics,
                storage_size,
                self._admission_metrics,
                api_services,
                self._work_queue_metrics,
                self._garbage_collector_metrics,
                self._leader_election_metrics,
                OffloadMetrics(self._offload),
                self._loop_monitor,
                MemoryMetrics(self._memory_budget),
                RefusalMetrics(self._refused_connections, lambda: self._streams.refused_total),
                BuildInfo(version_document()),
            )
        )
        worker = self._worker
        if worker is not None:
            worker.report_metrics(exposition.slices)
            return worker.all_metrics

        async def own() -> Iterator[bytes]:
            return exposition.slices()

        return own

    # ---- running

    def _start(self, tasks: asyncio.TaskGroup, parts: _Parts) -> list[asyncio.Task[None]]:
        """Start the tasks that run beside requests."""
        config, core = self._config, parts.core
        running = [
            tasks.create_task(core.registry.cache.run(), name="watch-cache"),
            tasks.create_task(_bootstrap(parts), name="bootstrap-hooks"),
            tasks.create_task(parts.definitions.run(parts.definitions_synced), name="definitions"),
            tasks.create_task(parts.deadlines.run(), name="deadlines"),
            tasks.create_task(self._memory_keeper.run(), name="memory"),
            tasks.create_task(parts.body_limits.run(), name="body-limits"),
        ]
        if parts.default_service_cidr is not None:
            hook, service_cidr = parts.default_service_cidr
            running.append(tasks.create_task(service_cidr.run(hook.done), name=hook.name))
        for hook, kept in (parts.kubernetes_service, parts.authentication_info, parts.service_allocations):
            running.append(tasks.create_task(kept.run(hook.done), name=hook.name))
        if parts.service_networks is not None:
            running.append(tasks.create_task(parts.service_networks.run(), name="service-networks"))
        if parts.rbac_informer is not None:
            running.append(tasks.create_task(parts.rbac_informer.run(), name="rbac-policy"))
        if config.etcd_compaction_interval_s:
            compactor = AutoCompactor(
                core.store, prefix=config.etcd_prefix, interval_s=config.etcd_compaction_interval_s
            )
            running.append(tasks.create_task(compactor.run(), name="compaction"))
        if config.etcd_db_metric_poll_interval_s:
            running.append(tasks.create_task(parts.storage_size.run(), name="storage-size"))
        if parts.replicas is not None:
            running.append(tasks.create_task(parts.replicas.run(), name="replicas"))
        if parts.registration is not None:
            self._work_queue_metrics.add(parts.registration.queue)
            running.append(tasks.create_task(parts.registration.run(), name="autoregister"))
        for controller in parts.aggregation.controllers:
            self._work_queue_metrics.add(controller.queue)
            running.append(tasks.create_task(controller.run(), name="aggregation"))
        for queue in (*parts.definitions.queues, parts.service_allocations[1].queue):
            self._work_queue_metrics.add(queue)
        running.append(tasks.create_task(parts.controllers.run(), name="controllers"))
        return running

    def _listen(self, server: Server, context: ssl.SSLContext) -> None:
        """Raises CannotStart."""
        config = self._config
        limits = ConnectionLimits(config.max_connections, config.max_connections_per_client)
        self._listener = Listener(context, server, limits.within_open_files())
        try:
            self._listener.listen(self._sockets)
        except OSError as error:
            raise listen_error(self._config, error) from None

    def _refused_connections(self) -> int:
        return 0 if self._listener is None else self._listener.refused_total

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for bound in self._sockets:
            bound.close()

    async def _announce(
        self, parts: _Parts, on_ready: Callable[[str, Path], None], context: ssl.SSLContext
    ) -> None:
        while not await parts.health.is_ready():  # noqa: ASYNC110  checks have no event to wait for
            await asyncio.sleep(READY_POLL_S)
        # Objects that exist by now stay.
        self._memory_keeper.freeze()
        if self._listener is None:
            self._listen(parts.http_server, context)
        on_ready(url(self._config, self.port), kubeconfig_path(self._config))

    async def _leave(self, parts: _Parts) -> None:
        """Have others lead, and take this server out of what they are told, if the store answers soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await parts.controllers.leave()
        if parts.replicas is not None:
            _, service = parts.kubernetes_service
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_WITHIN_S):
                    await parts.replicas.leave()
                    await service.leave()

    async def _drain(self, parts: _Parts) -> None:
        """Fail /readyz, serve on for the delay, then accept no connections and finish requests under way."""
        parts.health.is_shutting_down = True
        await asyncio.sleep(self._config.shutdown_delay_s)
        self._stop_listening()
        self._streams.end_all()
        parts.forwarder.stop()
        await parts.http_server.drain(self._config.request_timeout_s)


def _memory_limit_bytes(config: Config, worker: SupervisorClient | None) -> int:
    """Returns what this process may have; 0 for no limit. Workers share the limit."""
    limit = config.memory_limit_bytes
    if limit is None:
        limit = process_memory.container_limit_bytes()
    return limit if worker is None else limit // config.workers


async def _bootstrap(parts: _Parts) -> None:
    """Run the post-start hooks."""

    async def run(hook: PostStartHook, bootstrap: BootstrapHook | RbacBootstrapHook) -> None:
        await bootstrap.run(parts.core.registry)
        if parts.rbac_informer is not None:
            await parts.rbac_informer.wait_until_complete()
        hook.is_done = True

    async with asyncio.TaskGroup() as tasks:
        for hook, bootstrap in parts.hooks:
            tasks.create_task(run(hook, bootstrap), name=hook.name)
