"""Builds every part once, wires them, and runs them until it is told to stop. Only this module sees all."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from apiserver import EMULATED_VERSION
from apiserver.admission.chain import AdmissionChain
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugins import builtin_plugins
from apiserver.admission.plugins.privilege_escalation import PrivilegeEscalationCheck
from apiserver.apiextensions import definitions
from apiserver.apiextensions.schema_rules.validator import evaluate_defaults
from apiserver.apiextensions.validation.schema_rules import check_rules
from apiserver.authn import client_cert
from apiserver.authn.chain import AuthenticationChain
from apiserver.authn.token_file import TokenFileAuthenticator, TokenFileError, read_token_file
from apiserver.authn.token_review import TokenReviewer
from apiserver.authz.authorizer_modes import Authorizers, authorization
from apiserver.catalogue.builtins import builtin_resources
from apiserver.catalogue.core.services.allocation import service_allocator
from apiserver.catalogue.rbac import GROUP as RBAC_GROUP
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.catalogue.subresources import BINDING, EVICTION, SCALE, TOKEN_REQUEST
from apiserver.cli.config import Config
from apiserver.controllers.bootstrap import BootstrapHook, bootstrap_hooks
from apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from apiserver.controllers.namespace_default_objects import (
    DefaultObject,
    NamespaceDefaultObjects,
    default_service_account,
    root_ca,
)
from apiserver.controllers.namespaces import NamespaceController
from apiserver.controllers.rbac_bootstrap import RbacBootstrapHook, rbac_bootstrap_hooks
from apiserver.controllers.rbac_policy import RbacPolicyInformer
from apiserver.controllers.resource_quotas import ResourceQuotaController
from apiserver.controllers.storage_protection import CLAIMS, VOLUMES, StorageProtection
from apiserver.custom_resources.conversion_webhooks import Webhook, WebhookClient
from apiserver.custom_resources.definition_controller import DefinitionController
from apiserver.custom_resources.resources import CustomResourceFactory
from apiserver.endpoints import middleware
from apiserver.endpoints.api_call import Handler
from apiserver.endpoints.connection import Server
from apiserver.endpoints.discovery import Discovery
from apiserver.endpoints.health import Health, PostStartHook, cache_check
from apiserver.endpoints.impersonation import impersonate
from apiserver.endpoints.openapi import OpenApi
from apiserver.endpoints.representation import MetaV1Encoders, StatusEncoder
from apiserver.endpoints.representation.form_cache import FormCache
from apiserver.endpoints.request_handler import entry_of
from apiserver.endpoints.routes import Routes, VerbHandlers
from apiserver.endpoints.watch_stream import WatchStreams
from apiserver.handlers.apply import Applier
from apiserver.handlers.apply_bodies import APPLY
from apiserver.handlers.create import create_handler
from apiserver.handlers.decoding import Decoder
from apiserver.handlers.delete import DeleteOptionsReader, delete_collection_handler, delete_handler
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.get import get_handler
from apiserver.handlers.list import list_handler
from apiserver.handlers.ownership import Ownership
from apiserver.handlers.patch import ACCEPTED as PATCH_TYPES
from apiserver.handlers.patch import patch_handler
from apiserver.handlers.reviews import all_reviews, review_handlers
from apiserver.handlers.subresources.binding import binding_handlers
from apiserver.handlers.subresources.connect import connect_handler
from apiserver.handlers.subresources.eviction import eviction_handlers
from apiserver.handlers.subresources.scale import scale_handlers
from apiserver.handlers.subresources.token import token_handlers
from apiserver.handlers.update import update_handler
from apiserver.handlers.virtual_kinds import VirtualKinds, spoken_types
from apiserver.handlers.watch import watch_handler
from apiserver.metrics.exposition import (
    Exposition,
    MetricsCollector,
    ObservedStorage,
    RequestMetrics,
    StorageMetrics,
    resources_of_keys,
)
from apiserver.registry.delegated import DelegatedVersions
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.serving import pki
from apiserver.serving.listening import (
    CannotStart,
    kubeconfig_path,
    listen_error,
    make_certificates,
    read_optional,
    tls_context,
    url,
    write_kubeconfig,
)
from apiserver.serving.service_account_tokens import ServiceAccountTokens, finder, service_accounts
from apiserver.vocabulary import UserInfo
from apiserver.wire.media_types import supported_media_types
from apiserver.workers.worker import SupervisorClient
from storage.auto_compaction import AutoCompactor
from storage.embedded import EmbeddedStore
from storage.errors import StorageError
from storage.interface import Storage
from storage.watch_cache import HistoryLimits, WatchCache
from storage.watch_cache.cache import CHECK_INTERVAL_S

log = logging.getLogger(__name__)

BACKLOG: Final = 1024
_DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# For custom resources that are not stored as they are shown.
CONVERTED_BYTES_MAX: Final = 32 * 1024 * 1024
READY_POLL_S: Final = 0.01
# A tail's own bytes, and the objects around it.
OBJECT_OVERHEAD_BYTES: Final = 300


class App:
    """One server. `run` does everything; `stop` may be called at any time.

    worker: if the server is one of several processes on one port.
    """

    def __init__(self, config: Config, worker: SupervisorClient | None = None) -> None:
        self._config = config
        self._worker = worker
        self._listeners: list[asyncio.Server] = []
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.metrics = RequestMetrics()
        self._resource_of = resources_of_keys(config.etcd_prefix)
        self._storage_metrics = StorageMetrics(self._resource_of)
        self.port = 0

    def stop(self) -> None:
        """Finish what is under way, and end."""
        self._stopping.set()

    async def run(self, on_ready: Callable[[str, Path], None]) -> None:
        """Serve until stopped. on_ready: called once with URL and kubeconfig when /readyz passes.

        A worker finds the kubeconfig written.

        Raises CannotStart.
        """
        config = self._config
        certificates = await asyncio.to_thread(make_certificates, config)
        async with AsyncExitStack() as stack:
            store = await self._open_store()
            stack.push_async_callback(store.close)
            observed = ObservedStorage(store, self._storage_metrics)
            cache = WatchCache(
                observed,
                prefix=config.etcd_prefix,
                decode=StoredObject.of,
                size_of=lambda found: len(found.tail) + OBJECT_OVERHEAD_BYTES,
                limits_of=self._history_limits,
                history_bytes_max=config.watch_cache_history_bytes,
                check_interval_s=CHECK_INTERVAL_S if config.detect_cache_inconsistency else 0,
                serve_snapshots=config.list_from_cache_snapshot,
            )
            registry = Registry(observed, cache, brand=config.brand, prefix=config.etcd_prefix)
            self._webhooks = WebhookClient()
            stack.push_async_callback(self._webhooks.close)
            self._build(registry, cache, observed, certificates)
            context = tls_context(config, certificates)
            stack.callback(self._close_listeners)
            if self._worker is None or not self._worker.listens_when_ready:
                await self._listen(context)
            if self._worker is None:
                write_kubeconfig(config, self.port, certificates)
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(cache.run(), name="watch-cache"),
                    tasks.create_task(self._begin(registry), name="beginnings"),
                    tasks.create_task(self._custom.run(self._custom_synced), name="custom-resources"),
                    tasks.create_task(self._deadlines.run(), name="deadlines"),
                    tasks.create_task(self._announce(on_ready, context), name="announce"),
                ]
                if self._roles is not None:
                    running.append(tasks.create_task(self._roles.run(), name="rbac-policy"))
                if config.etcd_compaction_interval_s:
                    compactor = AutoCompactor(
                        observed,
                        prefix=config.etcd_prefix,
                        interval_s=config.etcd_compaction_interval_s,
                    )
                    running.append(tasks.create_task(compactor.run(), name="compaction"))
                running += [
                    tasks.create_task(controller, name=name)
                    for name, controller in self._controllers(registry, certificates)
                ]
                await self._stopping.wait()
                await self._drain()
                for task in running:
                    task.cancel()

    # ---- building

    def _controllers(
        self, registry: Registry, certificates: pki.Pki
    ) -> Iterable[tuple[str, Coroutine[None, None, None]]]:
        """Those that are to run, by their names."""
        config = self._config

        def contents(*contents: DefaultObject) -> Coroutine[None, None, None]:
            check = self._lifecycle.check_create
            return NamespaceDefaultObjects(registry, lambda: self._table, check, contents).run()

        if config.runs_controller(name := "namespace-controller"):
            yield name, NamespaceController(registry, lambda: self._table).run()
        if config.runs_controller(name := "serviceaccount-controller"):
            yield name, contents(default_service_account())
        if config.runs_controller(name := "root-ca-certificate-publisher-controller"):
            yield name, contents(root_ca(certificates.ca_cert.read_text()))
        if config.runs_controller(name := "resourcequota-controller"):
            yield name, ResourceQuotaController(registry, lambda: self._table, config.brand).run()
        if config.runs_controller(name := "persistentvolumeclaim-protection-controller"):
            yield name, StorageProtection(registry, lambda: self._table, CLAIMS).run()
        if config.runs_controller(name := "persistentvolume-protection-controller"):
            yield name, StorageProtection(registry, lambda: self._table, VOLUMES).run()
        if config.runs_controller(name := "clusterrole-aggregation-controller"):
            yield name, ClusterRoleAggregation(registry, lambda: self._table, config.brand).run()

    def _build(
        self,
        registry: Registry,
        cache: WatchCache[StoredObject],
        store: Storage,
        certificates: pki.Pki,
    ) -> None:
        """Raises CannotStart."""
        config, brand = self._config, self._config.brand
        schemas = BuiltinSchemas(EMULATED_VERSION, brand.vendor)
        meta = MetaV1Encoders(schemas.get)
        self._table = builtin_resources(
            brand,
            schemas,
            event_ttl_s=config.event_ttl_s,
            pools=service_allocator(
                config.service_cluster_ip_range,
                config.service_node_port_range,
                random.SystemRandom().randint,
            ),
            runtime_config=RuntimeConfig(config.runtime_config),
            check_rules=partial(check_rules, vendor=brand.vendor),
            evaluate_rules=partial(evaluate_defaults, vendor=brand.vendor),
        )
        self._health = Health(
            storage=store.check_health,
            cache=cache_check(cache),
            live_grace_s=config.livez_grace_period_s,
            clock=self._loop.time,
        )
        hook = self._health.hook("crd-informer-synced")
        self._custom_synced = partial(setattr, hook, "is_done", True)
        self._custom = DefinitionController(
            registry,
            self._table,
            self._serve,
            CustomResourceFactory(
                brand,
                partial(schemas.get, _OBJECT_META),
                cache,
                FormCache(CONVERTED_BYTES_MAX, nullcontext()),
                partial(Webhook, self._webhooks, definitions.group_of(brand)),
            ),
        )
        made: list[BootstrapHook | RbacBootstrapHook] = [
            *bootstrap_hooks(self._table, brand),
            *rbac_bootstrap_hooks(self._table, brand),
        ]
        self._beginnings = [(self._health.hook(each.hook), each) for each in made]
        self._streams = WatchStreams(self.metrics)
        self._deadlines = middleware.Deadlines(config.request_timeout_s, self._loop)
        rbac_group = brand.group(RBAC_GROUP)
        rbac_hooks = [hook for hook, each in self._beginnings if isinstance(each, RbacBootstrapHook)]
        authorized = authorization(
            config.authorization_mode, rbac_group, lambda: all(hook.is_done for hook in rbac_hooks)
        )
        self._roles: RbacPolicyInformer | None = None
        if authorized.policy is not None:
            self._roles = RbacPolicyInformer(registry, self._table, rbac_group, authorized.policy)
        accounts = service_accounts(config, certificates, finder(registry, lambda: self._table), time.time)
        authentication = self._authentication(accounts)
        reviewer = TokenReviewer(authentication, accounts.authenticator, accounts.audiences)
        routes = self._routes(registry, schemas, meta, authorized, accounts, reviewer)
        # The chain that every request goes through, outermost first.
        chain = (
            middleware.measure(self.metrics),
            middleware.errors_to_status(),
            middleware.authenticate(authentication),
            middleware.limit_in_flight(
                self.metrics,
                read_only_max=config.max_requests_inflight,
                mutating_max=config.max_mutating_requests_inflight,
            ),
            self._deadlines.middleware,
            impersonate(authorized.chain, brand),
            middleware.authorize(authorized.chain),
        )
        handle: Handler = routes
        for wrap in reversed(chain):
            handle = wrap(handle)
        statuses = StatusEncoder(brand, meta, has_cbor=config.cbor)
        follows_item_watch = config.deviations.item_watch
        self._server = Server(
            entry_of(handle, self._loop.time, statuses, follows_item_watch=follows_item_watch)
        )

    def _serve(self, table: ResourceTable, gone: Collection[ServedResource]) -> None:
        """Replace what is served. gone: what is so no more, or otherwise."""
        self._table = table
        if gone:
            self._streams.end_all_of(frozenset(gone))

    def _routes(
        self,
        registry: Registry,
        schemas: BuiltinSchemas,
        meta: MetaV1Encoders,
        authorized: Authorizers,
        accounts: ServiceAccountTokens,
        reviewer: TokenReviewer,
    ) -> Routes:
        config, brand, deviations = self._config, self._config.brand, self._config.deviations
        encoders = Encoders(brand, time.time, meta, has_cbor=config.cbor)
        namespaces = self._table.find("", "v1", "namespaces")
        assert namespaces is not None
        lifecycle = self._lifecycle = NamespaceLifecycle(registry, namespaces)
        plugins = [
            *builtin_plugins(
                registry, lambda: self._table, brand, authorized.chain, config.runs_admission_plugin
            )
        ]
        if (policy := authorized.policy) is not None:  # asked after all that change what is written
            plugins.append(
                PrivilegeEscalationCheck(brand, policy, authorized.chain, registry, lambda: self._table)
            )
        admission = AdmissionChain(plugins)
        ownership = Ownership(lambda: self._table, deviations, time.time)
        decoder = Decoder(brand, has_cbor=config.cbor, before_schema=ownership.before_schema)
        applier = Applier(
            *(registry, brand, lifecycle, admission, authorized.chain, deviations, ownership),
            has_cbor=config.cbor,
        )
        virtual = VirtualKinds(decoder, encoders, admission, brand, deviations)
        options_reader = DeleteOptionsReader(
            brand, schemas.get(_DELETE_OPTIONS), deviations, has_cbor=config.cbor
        )
        verbs = VerbHandlers(
            get=get_handler(registry, encoders),
            list=list_handler(registry, encoders, brand),
            watch=watch_handler(
                registry,
                encoders,
                brand,
                self.metrics,
                self._streams,
                min_request_timeout_s=config.min_request_timeout_s,
                clock=self._loop.time,
            ),
            create=create_handler(
                registry, encoders, decoder, brand, lifecycle, admission, deviations, ownership
            ),
            update=update_handler(
                *(registry, encoders, decoder, brand, lifecycle, admission, authorized.chain, deviations),
                ownership,
            ),
            patch=patch_handler(registry, encoders, brand, admission, deviations, ownership, applier),
            delete=delete_handler(registry, encoders, options_reader, lifecycle, admission),
            deletecollection=delete_collection_handler(registry, encoders, options_reader, brand, admission),
        )
        return Routes(
            lambda: self._table,
            verbs,
            discovery=Discovery(brand, lambda: self._table, meta, has_cbor=config.cbor),
            openapi=OpenApi(
                brand,
                schemas,
                lambda: self._table,
                types=supported_media_types(brand, has_cbor=config.cbor),
                patch_types=(*PATCH_TYPES, APPLY),
            ),
            health=self._health,
            metrics=self._exposition(registry),
            delegated=DelegatedVersions(registry, lambda: self._table, brand.group("apiregistration")).has,
            spoken={
                **self._subresources(registry, schemas, virtual, lifecycle, accounts, ownership, applier),
                **review_handlers(
                    virtual, all_reviews(authorized.chain, authorized.rules, reviewer, time.time)
                ),
            },
            connect=connect_handler(registry),
        )

    def _subresources(
        self,
        registry: Registry,
        schemas: BuiltinSchemas,
        virtual: VirtualKinds,
        lifecycle: NamespaceLifecycle,
        accounts: ServiceAccountTokens,
        ownership: Ownership,
        applier: Applier,
    ) -> dict[str, Mapping[str, Handler]]:
        """What answers each verb on those that speak a kind of their own, by its definition."""
        spoken = spoken_types(schemas, virtual.brand)

        def table() -> ResourceTable:
            return self._table

        return {
            SCALE: scale_handlers(registry, virtual, spoken[SCALE], ownership, applier),
            BINDING: binding_handlers(registry, table, virtual, spoken[BINDING], lifecycle, time.time),
            EVICTION: eviction_handlers(registry, table, virtual, spoken[EVICTION], lifecycle, time.time),
            TOKEN_REQUEST: token_handlers(
                registry,
                table,
                virtual,
                spoken[TOKEN_REQUEST],
                lifecycle,
                accounts.issuer,
                time.time,
                audiences=accounts.audiences,
                expiration_max_s=self._config.service_account_max_token_expiration_s,
            ),
        }

    def _exposition(self, registry: Registry) -> Callable[[], Awaitable[bytes]]:
        exposition = Exposition(
            MetricsCollector(
                self.metrics,
                self._storage_metrics,
                registry.cache,
                self._resource_of,
            )
        )
        worker = self._worker
        if worker is not None:
            worker.report_metrics(exposition.text)
            return worker.all_metrics

        async def own() -> bytes:
            return exposition.text()

        return own

    def _authentication(self, accounts: ServiceAccountTokens) -> AuthenticationChain:
        users: Mapping[bytes, UserInfo] = {}
        if self._config.token_auth_file is not None:
            try:
                users = read_token_file(self._config.token_auth_file)
            except (OSError, TokenFileError) as error:
                raise CannotStart(f"--token-auth-file: {error}") from None
        # Who knows the fewest tokens is last, and refuses those that nobody knows.
        authenticators = (client_cert.authenticate, accounts.authenticator, TokenFileAuthenticator(users))
        return AuthenticationChain(authenticators, allows_anonymous=self._config.anonymous_auth)

    def _history_limits(self, resource_prefix: str) -> HistoryLimits:
        """How much of one resource's history is kept in memory."""
        config = self._config
        size = config.watch_cache_sizes.get(self._resource_of(resource_prefix))
        return HistoryLimits(events_max=config.default_watch_cache_size if size is None else size)

    async def _open_store(self) -> Storage:
        config = self._config
        if not config.etcd_servers:
            try:
                return await EmbeddedStore.open(config.data_dir / "store")
            except StorageError as error:
                raise CannotStart(str(error)) from None
        # gRPC takes a tenth of a second to import, and is not needed otherwise.
        from storage.etcd import EtcdClient, EtcdStore, Tls

        tls = Tls(
            ca=read_optional(config.etcd_cafile),
            certificate=read_optional(config.etcd_certfile),
            key=read_optional(config.etcd_keyfile),
        )
        return EtcdStore(EtcdClient(config.etcd_servers, tls), prefix=config.etcd_prefix)

    # ---- serving

    async def _listen(self, context: ssl.SSLContext) -> None:
        """Raises CannotStart."""
        config, serve = self._config, self._loop.create_server
        try:
            if self._worker is None:
                self._listeners = [
                    await serve(
                        self._server, config.bind_address, config.secure_port, ssl=context, backlog=BACKLOG
                    )
                ]
            else:
                for bound in self._worker.sockets:
                    self._listeners.append(
                        await serve(self._server, sock=bound, ssl=context, backlog=BACKLOG)
                    )
        except OSError as error:
            raise listen_error(config, error) from None
        self.port = self._listeners[0].sockets[0].getsockname()[1]

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    async def _announce(self, on_ready: Callable[[str, Path], None], context: ssl.SSLContext) -> None:
        while not await self._health.is_ready():  # noqa: ASYNC110  what checks look at has no event
            await asyncio.sleep(READY_POLL_S)
        # What was made so far stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        if not self._listeners:
            await self._listen(context)
        on_ready(url(self._config, self.port), kubeconfig_path(self._config))

    async def _begin(self, registry: Registry) -> None:
        async def make(hook: PostStartHook, beginning: BootstrapHook | RbacBootstrapHook) -> None:
            await beginning.make(registry)
            if self._roles is not None:
                await self._roles.wait_until_complete()
            hook.is_done = True

        async with asyncio.TaskGroup() as tasks:
            for hook, beginning in self._beginnings:
                tasks.create_task(make(hook, beginning), name=hook.name)

    async def _drain(self) -> None:
        """Fail readyz, go on for the delay, then take nothing new and finish what is under way."""
        self._health.is_shutting_down = True
        await asyncio.sleep(self._config.shutdown_delay_s)
        self._close_listeners()
        self._streams.end_all()
        await self._server.drain(self._config.request_timeout_s)
